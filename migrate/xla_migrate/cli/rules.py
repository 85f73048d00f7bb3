"""``xla-migrate rules``."""

from __future__ import annotations

import click

from xla_migrate.files import FILE_RULE
from xla_migrate.launches import RULES as LAUNCH_RULES
from xla_migrate.notebooks.rules import RULES as NOTEBOOK_RULES
from xla_transforms.findings import Rule
from xla_transforms.rules import all_rules

_CONTEXT = {"help_option_names": ["-h", "--help"]}


def known_rules() -> list[Rule]:
    """Every rule that a run can name, by code."""
    return sorted((*all_rules(), FILE_RULE, *LAUNCH_RULES, *NOTEBOOK_RULES), key=lambda rule: rule.code)


@click.command(context_settings=_CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def rules(as_json: bool) -> None:
    """List every rule: its code, severity, safety, name and summary."""
    known = known_rules()
    if as_json:
        from xla_migrate.reports.json import rules_report

        click.echo(rules_report(known), nl=False)
        return
    width = max(len(rule.name) for rule in known)
    for rule in known:
        kind = f"{rule.severity.label:<7}  {rule.safety.value:<7}"
        click.echo(f"{rule.code}  {kind}  {rule.name:<{width}}  {rule.summary}")
