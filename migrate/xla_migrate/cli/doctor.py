"""``xla-migrate doctor``: whether migrated code can run here."""

from __future__ import annotations

import json

import click

from xla_migrate import __version__
from xla_migrate.doctor import Check, Environment, examine, worst

_CONTEXT = {"help_option_names": ["-h", "--help"]}


@click.command(context_settings=_CONTEXT)
@click.argument("path", required=False, type=click.Path(exists=True, file_okay=False))
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text")
@click.option("--timeout", type=click.FloatRange(min=1), default=120, help="Seconds to wait for devices.")
def doctor(path: str | None, output_format: str, timeout: float) -> None:
    """Check whether migrated code can run in this environment.

    With PATH, a project's folder, also what its requirements*.txt ask for. The exit status is 0 where
    nothing is an error, else 1.
    """
    checks = examine(Environment(timeout=timeout))
    if path is not None:
        from xla_migrate.requirements import examine as examine_requirements

        checks += examine_requirements(path)
    click.echo(_json(checks) if output_format == "json" else "\n".join(map(_line, checks)))
    raise SystemExit(worst(checks))


def _line(check: Check) -> str:
    advice = f"\n         {check.advice}" if check.advice else ""
    return f"{check.status:<8} {check.name}: {check.message}{advice}"


def _json(checks: list[Check]) -> str:
    content = {
        "version": 1,
        "tool": {"name": "xla-migrate", "version": __version__},
        "checks": [check._asdict() for check in checks],
        "exit_code": worst(checks),
    }
    return json.dumps(content, indent=2)
