"""What the bot asks of a forge: plain data, an interface, and the ways in which a forge says no."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Ranges = Mapping[str, Sequence[range]]
"""For each path, the lines (from 1, of the head) that each hunk of a pull request shows."""


class ForgeError(Exception):
    """A forge did not do what it was asked; the text is for people and holds no secret."""


class Rejected(ForgeError):
    """The request is wrong as it stands (GitHub's 422, GitLab's 400): the same again is refused again."""


class Denied(ForgeError):
    """The credentials do not allow it, or there is no such thing."""


class Unavailable(ForgeError):
    """The forge failed (5xx, a lost connection): what was asked may have been done all the same."""


class Later(ForgeError):
    """The forge wants no more requests for ``seconds``; nothing of this request was done."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True)
class PullRequest:
    """``head`` and ``base`` are commits; ``branch`` the head's branch, ``into`` the base's. ``fork`` says
    that the branch belongs to another repository. ``source`` is where git fetches from, ``ref`` the name that
    the head has there."""

    number: int
    head: str
    base: str
    branch: str
    into: str
    fork: bool
    open: bool
    source: str
    ref: str


@dataclass(frozen=True)
class Suggestion:
    """New text for the lines ``start`` to ``end`` (both included) of a file of the head.

    ``text`` ends without newline; ``None`` takes the lines away. ``note`` is escaped already.
    """

    path: str
    start: int
    end: int
    text: str | None
    note: str


@dataclass(frozen=True)
class Annotation:
    path: str
    start: int
    end: int
    level: Literal["notice", "warning", "failure"]
    title: str
    message: str


@dataclass(frozen=True)
class Check:
    """The state of a commit. ``key`` tells one report from another about the same commit."""

    head: str
    key: str
    conclusion: Literal["success", "neutral", "failure"]
    title: str
    summary: str
    annotations: tuple[Annotation, ...] = ()
    offers_apply: bool = False


@dataclass(frozen=True)
class Comment:
    id: int
    body: str


class Forge(Protocol):
    """One repository on a forge, with credentials.

    Any method may raise a ``ForgeError``. Those that create something do not repeat a request that may have
    been done: the caller looks first, and asks again.
    """

    body_limit: int
    """The most characters of a comment."""
    reviews: bool
    """Whether suggestions come as a review, all of it or nothing; else each stands for itself."""

    def file(self, commit: str, path: str) -> bytes | None:
        """A file of a commit; ``None`` where there is none."""

    def named(self, owner: str, branch: str) -> Sequence[int]:
        """The numbers of open pull requests from a branch of an owner's repository."""

    def pull_request(self, number: int) -> PullRequest: ...

    def ranges(self, number: int) -> Ranges:
        """The lines of the head that a review can be about."""

    def suggestions(self, number: int) -> Sequence[str]:
        """The bodies of all review comments of our own that still stand on a line."""

    def suggest(self, pull: PullRequest, body: str, suggestions: Mapping[str, Suggestion]) -> None:
        """Post suggestions; the keys are the bodies. With ``Rejected`` nothing of a review is posted."""

    def comments(self, number: int) -> Sequence[Comment]:
        """Comments of our own in the conversation of a pull request."""

    def comment(self, number: int, body: str) -> None: ...

    def edit(self, number: int, comment: Comment, body: str) -> None: ...

    def check(self, check: Check) -> None:
        """Say what a commit is like; once for each key, continued where an earlier call broke off."""

    def may_write(self, user: str) -> bool:
        """Whether a user may push to the repository."""

    def message(self, commit: str) -> str:
        """The message of a commit."""

    def commit(self, pull: PullRequest, branch: str, files: Mapping[str, bytes], message: str) -> str:
        """A commit on the pull request's head with these files, at the tip of ``branch``; gives its id.

        ``branch`` is the pull request's own, which must still stand at its head (else ``Rejected``), or a
        new one.
        """

    def branch_head(self, branch: str) -> str | None: ...

    def companion(self, pull: PullRequest, branch: str, title: str, body: str) -> str:
        """The address of the pull request from ``branch``: the one that is open, or a new one."""

    def react(self, number: int, comment: int, done: bool) -> None:
        """Answer a command by a sign at the comment that gave it."""
