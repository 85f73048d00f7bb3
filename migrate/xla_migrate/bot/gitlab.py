"""GitLab behind the bot's interface, by python-gitlab; the REST API version 4.

Differences: a suggestion is a discussion of its own (``suggestion:-before+after``), a check is a status of
the commit with a text of one line, and users are numbers.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gitlab
import requests
from gitlab.exceptions import GitlabCreateError, GitlabError, GitlabHttpError

from xla_migrate.bot.backoff import Backoff
from xla_migrate.bot.comment import NAME
from xla_migrate.bot.forge import (
    Check,
    Comment,
    Denied,
    ForgeError,
    Later,
    PullRequest,
    Ranges,
    Rejected,
    Suggestion,
    Unavailable,
)
from xla_migrate.bot.github import hunks

_DEVELOPER = 30
"""The lowest access level that may push."""
_STATES = {"success": "success", "neutral": "success", "failure": "failed"}


class GitLabForge:
    """One project by its number or path; ``address`` is that of the server."""

    body_limit = 65_000
    reviews = False

    def __init__(self, token: str, address: str, project: str, backoff: Backoff | None = None) -> None:
        self._backoff = backoff or Backoff()
        self._gitlab = gitlab.Gitlab(address, private_token=token, timeout=30.0, retry_transient_errors=False)
        self._project = self._gitlab.projects.get(project, lazy=True)
        self._own: int | None = None

    def pull_request(self, number: int) -> PullRequest:
        with self._told("merge request"):
            request = self._project.mergerequests.get(number)
            project = self._gitlab.projects.get(request.target_project_id)
        references = request.diff_refs or {}
        return PullRequest(
            number=number,
            head=request.sha,
            base=references.get("start_sha") or references.get("base_sha") or request.sha,
            branch=request.source_branch,
            into=request.target_branch,
            fork=request.source_project_id != request.target_project_id,
            open=request.state == "opened",
            source=project.http_url_to_repo,
            ref=f"merge-requests/{number}/head",
        )

    def file(self, commit: str, path: str) -> bytes | None:
        try:
            with self._told("file"):
                return base64.b64decode(self._project.files.get(path, ref=commit).content)
        except Denied:
            return None

    def named(self, owner: str, branch: str) -> Sequence[int]:
        with self._told("merge requests"):
            found = self._project.mergerequests.list(source_branch=branch, state="opened", get_all=True)
            return [request.iid for request in found]

    def ranges(self, number: int) -> Ranges:
        with self._told("changes"):
            request = self._project.mergerequests.get(number, lazy=True)
            found = request.diffs.list(get_all=False)  # the newest version comes first
            changed = request.diffs.get(found[0].id).diffs if found else []
        return {one["new_path"]: list(hunks(one["diff"])) for one in changed if not one["deleted_file"]}

    def suggestions(self, number: int) -> Sequence[str]:
        return [
            note["body"]
            for discussion in self._discussions(number)
            for note in discussion.attributes["notes"]
            if note.get("position") and not note.get("resolved") and self._is_own(note)
        ]

    def suggest(self, pull: PullRequest, body: str, suggestions: Mapping[str, Suggestion]) -> None:
        """One discussion each: those before a refused one stay."""
        with self._told("discussions"):
            request = self._project.mergerequests.get(pull.number)
        refused = 0
        for text, one in suggestions.items():
            place = {"new_path": one.path, "old_path": one.path, "new_line": one.end}
            position = {**request.diff_refs, "position_type": "text", **place}
            given = {"body": _ranged(text, one), "position": position}
            try:
                with self._told("discussion"):
                    request.discussions.create(given)
            except Rejected:
                refused += 1
        if refused:
            raise Rejected(f"{refused} of {len(suggestions)} suggestions were refused")

    def comments(self, number: int) -> Sequence[Comment]:
        with self._told("notes"):
            request = self._project.mergerequests.get(number, lazy=True)
            found = request.notes.list(get_all=True, sort="asc", order_by="created_at")
        notes = [note.attributes for note in found]
        return [Comment(n["id"], n["body"]) for n in notes if not n["system"] and self._is_own(n)]

    def comment(self, number: int, body: str) -> None:
        with self._told("note"):
            self._project.mergerequests.get(number, lazy=True).notes.create({"body": body})

    def edit(self, number: int, comment: Comment, body: str) -> None:
        with self._told("note"):
            request = self._project.mergerequests.get(number, lazy=True)
            request.notes.update(comment.id, {"body": body})

    def check(self, check: Check) -> None:
        """GitLab refuses a status that stands already, which is as good."""
        given = {"state": _STATES[check.conclusion], "name": NAME, "description": check.title[:255]}
        with self._told("status"):
            statuses = self._project.commits.get(check.head, lazy=True).statuses
            try:
                statuses.create(given)
            except GitlabCreateError as error:
                if "transition" not in str(error.error_message):
                    raise

    def may_write(self, user: str) -> bool:
        try:
            with self._told("member"):
                return bool(self._project.members_all.get(int(user)).access_level >= _DEVELOPER)
        except (Denied, ValueError):
            return False

    def message(self, commit: str) -> str:
        with self._told("commit"):
            return str(self._project.commits.get(commit).message)

    def commit(self, pull: PullRequest, branch: str, files: Mapping[str, bytes], message: str) -> str:
        actions = [_update(path, data, pull.head) for path, data in files.items()]
        given: dict[str, Any] = {"branch": branch, "commit_message": message, "actions": actions}
        if branch != pull.branch or pull.fork:
            given["start_sha"] = pull.head
        with self._told("commit"):
            return str(self._project.commits.create(given).id)

    def branch_head(self, branch: str) -> str | None:
        try:
            with self._told("branch"):
                return str(self._project.branches.get(branch).commit["id"])
        except Denied:
            return None

    def companion(self, pull: PullRequest, branch: str, title: str, body: str) -> str:
        into = pull.into if pull.fork else pull.branch
        given = {"source_branch": branch, "target_branch": into, "title": title, "description": body}
        with self._told("merge request"):
            found = self._project.mergerequests.list(source_branch=branch, state="opened", get_all=True)
            made = found[0] if found else self._project.mergerequests.create(given)
            return str(made.web_url)

    def react(self, number: int, comment: int, done: bool) -> None:
        with self._told("award"):
            note = self._project.mergerequests.get(number, lazy=True).notes.get(comment, lazy=True)
            try:
                note.awardemojis.create({"name": "thumbsup" if done else "confused"})
            except GitlabCreateError as error:
                if error.response_code != 404:  # it is there already
                    raise

    def _discussions(self, number: int) -> list[Any]:
        with self._told("discussions"):
            return list(self._project.mergerequests.get(number, lazy=True).discussions.list(get_all=True))

    def _is_own(self, said: Mapping[str, Any]) -> bool:
        if self._own is None:
            with self._told("user"):
                self._gitlab.auth()
            self._own = self._gitlab.user.id if self._gitlab.user else 0
        return bool(said["author"]["id"] == self._own)

    @contextmanager
    def _told(self, request: str) -> Iterator[None]:
        """python-gitlab's exceptions as those of the interface. It waits out rate limits itself, shortly."""
        try:
            yield
        except (GitlabError, GitlabHttpError) as error:
            status = error.response_code or 500
            if status >= 500:
                self._backoff.failed(0, False)
            raise _answered(status, f"{request}: {status} {str(error.error_message)[:300]}") from None
        except requests.RequestException:
            self._backoff.failed(0, False)
            raise Unavailable(f"{request}: no answer") from None


def _answered(status: int, message: str) -> ForgeError:
    if status == 429:
        return Later(message, 60.0)
    if status >= 500:
        return Unavailable(message)
    return Denied(message) if status in (401, 403, 404) else Rejected(message)


def _ranged(body: str, suggestion: Suggestion) -> str:
    """The same text with GitLab's spelling of a range: so many lines above the one it stands on."""
    fence = f"\\1suggestion:-{suggestion.end - suggestion.start}+0"
    return re.sub(r"^(```+)suggestion$", fence, body, count=1, flags=re.MULTILINE)


def _update(path: str, data: bytes, head: str) -> dict[str, str]:
    """GitLab refuses it where the file was changed since ``head``."""
    content = base64.b64encode(data).decode()
    return {
        "action": "update",
        "file_path": path,
        "content": content,
        "encoding": "base64",
        "last_commit_id": head,
    }
