"""``/xla-migrate apply``: the migration as a commit, on the pull request's branch or as a companion."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping

from xla_migrate import escape
from xla_migrate.bot.forge import Forge, PullRequest, Rejected
from xla_migrate.bot.publish import insist
from xla_migrate.bot.report import Report
from xla_migrate.bot.settings import Settings

TRAILER = "Xla-Migrate-Request"


class Refused(Exception):
    """What was asked is not done; the text, Markdown of our own, says why."""


def allowed(forge: Forge, user: str, settings: Settings) -> None:
    """Raises ``Refused`` for a user who may not push, and where the repository does not want it."""
    if settings.apply == "never":
        raise Refused('the repository\'s configuration says `apply = "never"`')
    if not forge.may_write(user):
        raise Refused("only people who may push to this repository can have the migration applied")


def apply(forge: Forge, pull: PullRequest, report: Report, settings: Settings, request: str) -> str:
    """Commit the migrated files of a report with contents; gives a line of Markdown about it.

    ``request`` tells one command from another: what was done for it is not done again. Raises ``Refused``.
    """
    files = contents(report)
    if not files:
        raise Refused("there is nothing to apply at this commit")
    if settings.apply == "commit" and not pull.fork:
        return _commit(forge, pull, files, request)
    return _companion(forge, pull, files, request)


def contents(report: Report) -> Mapping[str, bytes]:
    try:
        return {f.path: base64.b64decode(f.content, validate=True) for f in report.files if f.content}
    except binascii.Error as error:
        raise Refused("the report cannot be read") from error


def done_already(forge: Forge, pull: PullRequest, request: str) -> bool:
    """Whether the head is the commit that this command asked for."""
    return f"{TRAILER}: {request}" in forge.message(pull.head).splitlines()


def _message(request: str) -> str:
    return f"Migrate to PyTorch/XLA\n\nMade by xla-migrate.\n\n{TRAILER}: {request}"


def _commit(forge: Forge, pull: PullRequest, files: Mapping[str, bytes], request: str) -> str:
    made: list[str] = []

    def attempt() -> None:
        now = forge.pull_request(pull.number)
        if done_already(forge, now, request):
            made[:] = [now.head]
        elif now.head != pull.head:
            raise Refused("the branch moved on meanwhile: ask again")
        else:
            made[:] = [forge.commit(pull, pull.branch, files, _message(request))]

    _insist(attempt)
    return f"Applied to this branch in {made[0]}."


def _companion(forge: Forge, pull: PullRequest, files: Mapping[str, bytes], request: str) -> str:
    branch = f"xla-migrate/{pull.number}-{pull.head[:12]}"

    def attempt() -> None:
        if forge.branch_head(branch) is None:
            forge.commit(pull, branch, files, _message(request))

    _insist(attempt)
    title = f"Migrate #{pull.number} to PyTorch/XLA"
    text = f"The migration of #{pull.number} at {pull.head}, made by xla-migrate."
    address: list[str] = []
    _insist(lambda: address.append(forge.companion(pull, branch, title, text)))
    return f"Applied in a pull request of its own: {escape.inline(address[-1])}"


def _insist(attempt: Callable[[], None]) -> None:
    try:
        insist(attempt)
    except Rejected as error:
        raise Refused(f"the forge refused it: {escape.inline(str(error))}") from error
