"""A report on its pull request: suggestions, check and comment, and none of them twice.

Every step looks at what the forge has before it adds to it, so a run that broke off anywhere is simply run
again. The comment comes last: where it names the head, all of it is done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from xla_migrate.bot import comment
from xla_migrate.bot.forge import Comment, Forge, PullRequest, Rejected, Suggestion, Unavailable
from xla_migrate.bot.report import Report
from xla_migrate.bot.review import Part, plan
from xla_migrate.bot.settings import Settings

LIMIT = 65_000
TRIES = 4
_log = logging.getLogger(__name__)


class Outdated(Exception):
    """The pull request has another head by now, or is closed: nothing is posted."""


def publish(
    forge: Forge,
    number: int,
    report: Report,
    settings: Settings,
    *,
    note: str = "",
    current: Callable[[], None] = lambda: None,
) -> bool:
    """Bring a report to its pull request; false where it is there already (a ``note`` is always brought).

    ``current`` is asked before each step, and raises where the work is not wanted any more. Raises
    ``Outdated`` where the report is not on the head, and ``ForgeError`` where the forge does not let it be.
    """
    pull = _current(forge, number, report, current)
    sticky = own_comment(forge, number)
    if sticky is not None and comment.head_of(sticky.body) == report.head and not note:
        return False
    apply = settings.apply != "never"
    parts = _reviewed(forge, pull, report, settings, current)
    _current(forge, number, report, current)
    limit = min(LIMIT, forge.body_limit)
    state = comment.check(report, parts, limit, ref=pull.ref, fail_on=settings.fail_on, apply=apply)
    insist(lambda: forge.check(state))
    current()
    say(forge, number, comment.body(report, parts, limit, ref=pull.ref, apply=apply, note=note))
    return True


def own_comment(forge: Forge, number: int) -> Comment | None:
    return next((one for one in forge.comments(number) if comment.is_ours(one.body)), None)


def say(forge: Forge, number: int, body: str) -> None:
    """The comment holds ``body``: edited where there is one, else new."""

    def attempt() -> None:
        sticky = own_comment(forge, number)
        if sticky is None:
            forge.comment(number, body)
        elif sticky.body.strip() != body.strip():
            forge.edit(number, sticky, body)

    insist(attempt)


def insist(attempt: Callable[[], None]) -> None:
    """Try again what looks first and may be half done; the forge waits between requests that it failed."""
    for left in reversed(range(TRIES)):
        try:
            return attempt()
        except Unavailable as error:
            if not left:
                raise
            _log.warning("%s; looking again", error)


def _current(forge: Forge, number: int, report: Report, current: Callable[[], None]) -> PullRequest:
    current()
    pull = forge.pull_request(number)
    if not pull.open or pull.head != report.head:
        raise Outdated(f"#{number} is closed or has another head than {report.head[:12]}")
    return pull


def _reviewed(
    forge: Forge, pull: PullRequest, report: Report, settings: Settings, current: Callable[[], None]
) -> list[Part]:
    """Post what is not posted; gives all parts that stand on the pull request then."""
    if not settings.suggestions or not report.changed:
        return []
    ranges = forge.ranges(pull.number)
    planned: list[Part] = []

    def attempt() -> None:
        planned[:] = plan(report, ranges, forge.suggestions(pull.number), settings.suggestions)
        fresh = [part for part in planned if part.suggestions]
        batches = [fresh] if forge.reviews else [[part] for part in fresh]
        refused = [part for batch in batches for part in _posted(forge, pull, batch, current)]
        planned[:] = [part for part in planned if part not in refused]

    insist(attempt)
    return planned


def _posted(
    forge: Forge, pull: PullRequest, parts: Sequence[Part], current: Callable[[], None]
) -> Iterator[Part]:
    """Post the parts as one review; where it is refused, as two of half the size, and so on. Gives what the
    forge will have in no way."""
    if not parts:
        return
    current()
    together: Mapping[str, Suggestion] = {
        body: one for part in parts for body, one in part.suggestions.items()
    }
    try:
        forge.suggest(pull, _HEAD, together)
    except Rejected as error:
        _log.warning("a review of %d suggestions was refused: %s", len(together), error)
        if len(parts) == 1:
            yield parts[0]
            return
        middle = len(parts) // 2
        yield from _posted(forge, pull, parts[:middle], current)
        yield from _posted(forge, pull, parts[middle:], current)


_HEAD = "Changes for PyTorch/XLA on the lines of this pull request; the comment of xla-migrate has the rest."
