"""``xla-migrate rules``."""

from __future__ import annotations

import json

import click

from xla_migrate.known_rules import known_rules, rule_fields

_CONTEXT = {"help_option_names": ["-h", "--help"]}


@click.command(context_settings=_CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def rules(as_json: bool) -> None:
    """List every rule: its code, severity, safety, name and summary."""
    known = known_rules()
    if as_json:
        click.echo(json.dumps([rule_fields(rule) for rule in known], indent=2))
        return
    width = max(len(rule.name) for rule in known)
    for rule in known:
        kind = f"{rule.severity.label:<7}  {rule.safety.value:<7}"
        click.echo(f"{rule.code}  {kind}  {rule.name:<{width}}  {rule.summary}")
