"""``xla-migrate rules`` and ``xla-migrate explain``."""

from __future__ import annotations

import click

from xla_migrate.files import FILE_RULE
from xla_transforms.findings import Rule
from xla_transforms.rules import all_rules

_CONTEXT = {"help_option_names": ["-h", "--help"]}


def known_rules() -> list[Rule]:
    """Every rule that a run can name, by code."""
    return sorted((*all_rules(), FILE_RULE), key=lambda rule: rule.code)


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


@click.command(context_settings=_CONTEXT)
@click.argument("rule")
def explain(rule: str) -> None:
    """Say what one rule does and why. RULE is its code or its name."""
    wanted = rule.lower()
    for known in known_rules():
        if wanted in (known.code.lower(), known.name.lower()):
            click.echo(f"{known.code} {known.name}")
            click.echo(f"severity {known.severity.label}, safety {known.safety.value}\n")
            click.echo(f"{known.summary}\n\n{known.why}")
            return
    raise click.UsageError(f"no rule {rule!r}{_suggestion(wanted)}")


def _suggestion(wanted: str) -> str:
    from difflib import get_close_matches

    codes = [rule.code for rule in known_rules()]
    alike = [code for code in codes if code.lower() == f"xla{wanted}"]
    if not alike and not wanted.startswith("xla"):  # of a wrong number no other one is the right one
        alike = get_close_matches(wanted, [rule.name for rule in known_rules()])
    return f"; did you mean {alike[0]}?" if alike else "; xla-migrate rules lists them"
