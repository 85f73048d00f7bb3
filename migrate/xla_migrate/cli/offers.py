"""What the shell may offer for the values of options and arguments."""

from __future__ import annotations

import click

from xla_migrate.releases import AUTO
from xla_transforms.targets import TARGETS


def targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names of targets."""
    return [name for name in (*TARGETS, AUTO) if name.startswith(incomplete)]


def explanations(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What ``explain`` knows: topics, codes and names of rules."""
    from xla_migrate.known_rules import known_rules
    from xla_migrate.topics import TOPICS

    rules = known_rules()
    known = [*(one.name for one in TOPICS), *(rule.code for rule in rules), *(rule.name for rule in rules)]
    return [one for one in known if one.lower().startswith(incomplete.lower())]


def rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Codes and names of rules."""
    from xla_migrate.known_rules import known_rules

    known = [word for rule in known_rules() for word in (rule.code, rule.name)]
    return [one for one in known if one.lower().startswith(incomplete.lower())]
