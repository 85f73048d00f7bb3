"""``xla-migrate explain``: a rule, or a topic with the causes that are seen in the user's code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import fill

import click

from xla_migrate.cli.offers import explanations
from xla_migrate.known_rules import known_rules
from xla_migrate.rule_examples import explained
from xla_migrate.topics import TOPICS, Topic, places, topic
from xla_transforms.findings import Change, Finding, Rule

_CONTEXT = {"help_option_names": ["-h", "--help"]}
Seen = Mapping[str, tuple[Sequence[Finding], Sequence[Change]]]


@click.command(context_settings=_CONTEXT)
@click.argument("what", required=False, shell_complete=explanations)
@click.argument("paths", nargs=-1, type=click.Path(exists=True))
def explain(what: str | None, paths: tuple[str, ...]) -> None:
    """Say what a rule does and why, or why training fails, learns badly or is slow.

    WHAT is a rule's code or name, or a topic; without it the topics are listed. With PATHS, a topic also
    says which of its causes are seen there, by the findings and changes of a migration.
    """
    if what is None:
        width = max(len(t.name) for t in TOPICS)
        click.echo("\n".join(f"{t.name:<{width}}  {t.title}" for t in TOPICS))
        return
    known = topic(what)
    if known is not None:
        click.echo("\n".join(_topic(known, _seen(paths))))
        return
    rule = _rule(what)
    if rule is None:
        raise click.UsageError(f"no rule {what!r}{_suggestion(what.lower())}")
    if paths:
        raise click.UsageError("paths are for topics, not for rules")
    click.echo("\n".join(explained(rule)))


def _rule(name: str) -> Rule | None:
    wanted = name.lower()
    return next((r for r in known_rules() if wanted in (r.code.lower(), r.name.lower())), None)


def _seen(paths: tuple[str, ...]) -> Seen | None:
    if not paths:
        return None
    from xla_migrate.api import migrate_project
    from xla_migrate.project import project_settings

    try:  # what a project hides from the reports may be the cause
        settings = replace(project_settings(paths), select=(), ignore=(), per_file_ignores=())
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    results = migrate_project(paths, settings=settings, unsafe_fixes=True)
    for result in results.values():
        if result.failed:
            reason = result.findings[0].message if result.findings else "it could not be read"
            raise click.ClickException(f"{result.path}: {reason}")
    return {path: (result.findings, result.changes) for path, result in results.items()}


def _topic(known: Topic, seen: Seen | None) -> Iterator[str]:
    yield f"{known.title}\n"
    yield fill(known.begin, 100)
    for where, causes in known.causes.items():
        yield f"\n{where[:1].upper()}{where[1:]}:"
        for cause in causes:
            rules = f" [{', '.join(cause.rules)}]" if cause.rules else ""
            yield fill(cause.what + rules, 100, initial_indent="- ", subsequent_indent="  ")
            yield fill(cause.remedy, 100, initial_indent="    ", subsequent_indent="    ")
            for path, line, message in places(cause, seen) if seen else ():
                yield f"    > {path}:{line}: {message}"
    if seen is not None and not any(places(cause, seen) for cause in known.all):
        yield f"\nNone of these causes is seen in {', '.join(seen)}."


def _suggestion(wanted: str) -> str:
    from difflib import get_close_matches

    rules = known_rules()
    alike = [rule.code for rule in rules if rule.code.lower() == f"xla{wanted}"]
    if not alike and not wanted.startswith("xla"):  # of a wrong number no other one is the right one
        alike = get_close_matches(wanted, [*(rule.name for rule in rules), *(t.name for t in TOPICS)])
    return f"; did you mean {alike[0]}?" if alike else "; xla-migrate rules lists them"
