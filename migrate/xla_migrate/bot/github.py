"""GitHub behind the bot's interface, by githubkit; the REST API version 2022-11-28.

Only what reads is repeated after a failure: GitHub may have done what a failed request asked for.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any, Literal
from urllib.parse import quote

from githubkit import GitHub
from githubkit.exception import GitHubException, RateLimitExceeded, RequestFailed
from githubkit.typing import RetryOption

from xla_migrate.bot.backoff import Backoff
from xla_migrate.bot.comment import NAME
from xla_migrate.bot.forge import (
    Annotation,
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

PUBLIC = "https://api.github.com"
BATCH = 50
"""Annotations of one request."""
_AT_ONCE = timedelta(microseconds=1)  # it was waited already; githubkit takes nothing for a minute
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_BUTTON = {
    "label": "Apply the migration",
    "description": "Commit it, as /xla-migrate apply",
    "identifier": "apply",
}


def connected(auth: Any, address: str = PUBLIC, backoff: Backoff | None = None) -> GitHub[Any]:
    """A client with credentials: a token, or one of githubkit's strategies."""
    waits = backoff or Backoff()

    def decide(error: GitHubException, count: int) -> RetryOption:
        if isinstance(error, RateLimitExceeded):
            return RetryOption(waits.limited(error.retry_after.total_seconds(), count), _AT_ONCE)
        if isinstance(error, RequestFailed) and error.response.status_code < 500:
            return RetryOption(False)
        method = getattr(getattr(error, "request", None), "method", "")
        return RetryOption(waits.failed(count, method == "GET"), _AT_ONCE)

    return GitHub(
        auth, base_url=address, auto_retry=decide, http_cache=False, timeout=30.0, follow_redirects=False
    )


class GitHubForge:
    """One repository, ``owner/name``; ``login`` is who the credentials act as."""

    body_limit = 65_000
    reviews = True

    def __init__(self, github: GitHub[Any], repository: str, login: str) -> None:
        self._github, self._repository, self._login = github, repository, login
        self._root = f"/repos/{quote(repository)}"

    def pull_request(self, number: int) -> PullRequest:
        found = self._get(f"/pulls/{number}")
        head = found["head"]
        return PullRequest(
            number=number,
            head=head["sha"],
            base=found["base"]["sha"],
            branch=head["ref"],
            into=found["base"]["ref"],
            fork=(head.get("repo") or {}).get("full_name") != self._repository,
            open=found["state"] == "open",
            source=found["base"]["repo"]["clone_url"],
            ref=f"pull/{number}/head",
        )

    def file(self, commit: str, path: str) -> bytes | None:
        try:
            found = self._get(f"/contents/{quote(path, safe='')}", ref=commit)
        except Denied:
            return None
        content = found.get("content") if isinstance(found, dict) else None
        return None if content is None else base64.b64decode(content)

    def named(self, owner: str, branch: str) -> Sequence[int]:
        return [pull["number"] for pull in self._all("/pulls", head=f"{owner}:{branch}", state="open")]

    def ranges(self, number: int) -> Ranges:
        return {
            file["filename"]: list(hunks(file.get("patch") or ""))
            for file in self._all(f"/pulls/{number}/files")
            if file["status"] != "removed"
        }

    def suggestions(self, number: int) -> Sequence[str]:
        found = self._all(f"/pulls/{number}/comments")
        return [one["body"] for one in found if self._is_own(one) and one.get("line") is not None]

    def suggest(self, pull: PullRequest, body: str, suggestions: Mapping[str, Suggestion]) -> None:
        comments = [_review_comment(text, one) for text, one in suggestions.items()]
        review = {"commit_id": pull.head, "event": "COMMENT", "body": body, "comments": comments}
        self._send("POST", f"/pulls/{pull.number}/reviews", review)

    def comments(self, number: int) -> Sequence[Comment]:
        found = self._all(f"/issues/{number}/comments")
        return [Comment(one["id"], one.get("body") or "") for one in found if self._is_own(one)]

    def comment(self, number: int, body: str) -> None:
        self._send("POST", f"/issues/{number}/comments", {"body": body})

    def edit(self, number: int, comment: Comment, body: str) -> None:
        self._send("PATCH", f"/issues/comments/{comment.id}", {"body": body})

    def check(self, check: Check) -> None:
        run = self._check_run(check)
        if run is None:
            opening = {"name": NAME, "head_sha": check.head, "external_id": check.key}
            run = self._send("POST", "/check-runs", {**opening, **_state(check, 0)})
        done = int(run["output"]["annotations_count"])
        while run["status"] != "completed":
            run = self._send("PATCH", f"/check-runs/{run['id']}", _state(check, done))
            done += BATCH

    def may_write(self, user: str) -> bool:
        try:
            found = self._get(f"/collaborators/{quote(user, safe='')}/permission")
        except Denied:
            return False
        return found.get("permission") in ("admin", "write")

    def message(self, commit: str) -> str:
        return str(self._get(f"/git/commits/{commit}")["message"])

    def commit(self, pull: PullRequest, branch: str, files: Mapping[str, bytes], message: str) -> str:
        tree = self._get(f"/git/commits/{pull.head}")["tree"]["sha"]
        modes = self._modes(tree, files)
        entries = []
        for path, data in files.items():
            blob = {"content": base64.b64encode(data).decode(), "encoding": "base64"}
            sha = self._send("POST", "/git/blobs", blob)["sha"]
            entries.append({"path": path, "mode": modes[path], "type": "blob", "sha": sha})
        made = self._send("POST", "/git/trees", {"base_tree": tree, "tree": entries})["sha"]
        commit = {"message": message, "tree": made, "parents": [pull.head]}
        sha = str(self._send("POST", "/git/commits", commit)["sha"])
        if branch == pull.branch and not pull.fork:
            self._send("PATCH", f"/git/refs/{_ref(branch)}", {"sha": sha, "force": False})
        else:
            self._send("POST", "/git/refs", {"ref": f"refs/heads/{branch}", "sha": sha})
        return sha

    def branch_head(self, branch: str) -> str | None:
        try:
            return str(self._get(f"/git/ref/{_ref(branch)}")["object"]["sha"])
        except Denied:
            return None

    def companion(self, pull: PullRequest, branch: str, title: str, body: str) -> str:
        owner = self._repository.partition("/")[0]
        found = self._all("/pulls", head=f"{owner}:{branch}", state="open")
        into = pull.into if pull.fork else pull.branch
        made = next(found, None) or self._send(
            "POST", "/pulls", {"title": title, "head": branch, "base": into, "body": body}
        )
        return str(made["html_url"])

    def react(self, number: int, comment: int, done: bool) -> None:
        content = {"content": "+1" if done else "confused"}
        self._send("POST", f"/issues/comments/{comment}/reactions", content)

    def _check_run(self, check: Check) -> dict[str, Any] | None:
        found = self._get(f"/commits/{check.head}/check-runs", check_name=NAME, filter="all", per_page=100)
        own = [run for run in found["check_runs"] if run.get("external_id") == check.key]
        return own[0] if own else None

    def _modes(self, tree: str, paths: Mapping[str, bytes]) -> dict[str, str]:
        """The mode of each file in git: a tree is written with them, and an executable stays one."""
        trees = {".": tree}
        modes: dict[str, str] = {}
        folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
        for folder in sorted(folders, key=len):
            for entry in self._get(f"/git/trees/{trees[folder]}")["tree"]:
                path = str(PurePosixPath(folder) / entry["path"])
                if entry["type"] == "tree":
                    trees[path] = entry["sha"]
                modes[path] = entry["mode"]
        return modes

    def _is_own(self, said: Mapping[str, Any]) -> bool:
        return (said.get("user") or {}).get("login") == self._login

    def _all(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        page = 1
        while True:
            found = self._get(path, per_page=100, page=page, **params)
            yield from found
            if len(found) < 100:
                return
            page += 1

    def _get(self, path: str, **params: Any) -> Any:
        return self._call("GET", path, params=params)

    def _send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        return self._call(method, path, json=body)

    def _call(self, method: str, path: str, **given: Any) -> Any:
        with told(f"{method} {path}"):
            return self._github.request(method, self._root + path, **given).json()


class told:
    """githubkit's exceptions as those of the interface."""

    def __init__(self, request: str) -> None:
        self._request = request

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> Literal[False]:
        if isinstance(error, RateLimitExceeded):
            raise Later(f"{self._request}: too many requests", error.retry_after.total_seconds()) from None
        if isinstance(error, RequestFailed):
            raise _answered(error.response.status_code)(f"{self._request}: {_said(error)}") from None
        if isinstance(error, GitHubException):
            raise Unavailable(f"{self._request}: no answer") from None
        return False


def _answered(status: int) -> type[ForgeError]:
    if status >= 500:
        return Unavailable
    return Denied if status in (401, 403, 404, 410, 451) else Rejected


def _said(error: RequestFailed) -> str:
    try:
        message = error.response.json().get("message", "")
    except (ValueError, AttributeError):
        message = ""
    return f"{error.response.status_code} {str(message)[:300]}".rstrip()


def hunks(patch: str) -> Iterator[range]:
    """The lines of the new file that each hunk of a patch shows, its context included."""
    for found in _HUNK.finditer(patch):
        start, size = int(found[1]), int(found[2] if found[2] is not None else 1)
        if size:
            yield range(start, start + size)


def _ref(branch: str) -> str:
    """As one part of a path, slashes and all: so GitHub describes it."""
    return quote(f"heads/{branch}", safe="")


def _review_comment(body: str, suggestion: Suggestion) -> dict[str, Any]:
    place: dict[str, Any] = {"path": suggestion.path, "body": body, "line": suggestion.end, "side": "RIGHT"}
    if suggestion.start < suggestion.end:
        place |= {"start_line": suggestion.start, "start_side": "RIGHT"}
    return place


def _state(check: Check, done: int) -> dict[str, Any]:
    """The next annotations of a check, which is complete with the last of them."""
    annotations = [_annotation(one) for one in check.annotations[done : done + BATCH]]
    output = {"title": check.title, "summary": check.summary, "annotations": annotations}
    if done + BATCH < len(check.annotations):
        return {"status": "in_progress", "output": output}
    actions = [_BUTTON] if check.offers_apply else []
    return {"status": "completed", "conclusion": check.conclusion, "output": output, "actions": actions}


def _annotation(annotation: Annotation) -> dict[str, Any]:
    given = asdict(annotation)
    names = {"start": "start_line", "end": "end_line", "level": "annotation_level"}
    return {names.get(key, key): value for key, value in given.items()}
