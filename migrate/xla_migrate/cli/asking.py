"""``--interactive``: each change with its diff, and whether it is to be made."""

from __future__ import annotations

from collections.abc import Sequence

import click

from xla_migrate.choosing import REFUSED, leave_out
from xla_migrate.diff import text_diff
from xla_migrate.documents import Document
from xla_migrate.reports.terminal import shown
from xla_transforms.findings import Change
from xla_transforms.outcome import Outcome

HELP = """\
y  make this change, with those that it needs
n  leave it out, with those that need it
a  make this one and all that follow
q  leave this one out and all that follow
?  this help"""


def ask(documents: Sequence[Document]) -> None:
    """Ask for each change of a run, on standard error; leave out what is refused."""
    everything: bool | str | None = None  # what "a" and "q" said
    for document in documents:
        outcome = document.outcome
        if outcome is None or outcome.failed or not outcome.changes:
            continue
        kept: set[int] = set()
        gone: set[int] = set()
        for change in sorted(outcome.changes, key=lambda change: change.spans[0]):
            group = {one.id for one in outcome.narrow([change.id]).changes}
            if change.id in kept or not group.isdisjoint(gone):
                continue
            answer = everything
            if answer is None:
                answer = _answer(document, outcome, change, group - kept)
            if isinstance(answer, str):
                answer = everything = answer == "a"
            kept |= group if answer else set()
            gone |= set() if answer else {change.id}
        leave_out(document, dict.fromkeys(gone, REFUSED))


def _answer(document: Document, outcome: Outcome, change: Change, group: set[int]) -> bool | str:
    """True or False for one change, ``a`` or ``q`` for all that follow as well."""
    place = f"{shown(document.path)}:{change.spans[0].line}"
    more = f", with {len(group) - 1} that it needs" if len(group) > 1 else ""
    safety = f"{change.code} {change.name}, {change.safety.value}{more}"
    click.echo(f"\n{place}: {shown(change.message)} ({safety})", err=True)
    part = outcome.narrow([change.id])
    for line in text_diff(part.source, part.code, part.edits, document.path).split("\n")[2:-1]:
        click.echo(shown(line.removesuffix("\r")), err=True)
    while True:
        answer = click.prompt("Make this change [y,n,a,q,?]", default="", show_default=False, err=True)
        letter = answer.strip().lower()[:1]
        if letter in ("y", "n"):
            return letter == "y"
        if letter in ("a", "q"):
            return str(letter)
        click.echo(HELP, err=True)
