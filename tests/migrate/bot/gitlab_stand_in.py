"""A stand-in of GitLab over HTTP, with as much state as the bot asks for."""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from pull_requests import Repository
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xla_migrate.bot.github import hunks

TOKEN = "glpat-0123456789abcdefghij"
BOT = {"id": 9, "username": "xla-migrate"}


class Answer(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class GitLab:
    """Project 12; ``levels`` are those of its members, ``forks`` the merge requests from elsewhere."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.levels = {3: 30, 4: 20}
        self.forks: set[int] = set()
        self.notes: list[dict[str, Any]] = []
        self.discussions: list[dict[str, Any]] = []
        self.statuses: list[dict[str, Any]] = []
        self.companions: list[dict[str, Any]] = []
        self.emoji: list[tuple[int, str]] = []
        self.refused: set[int] = set()
        self._ids = itertools.count(1000)
        self.app = Starlette(routes=[Route("/{path:path}", self._serve, methods=["GET", "POST", "PUT"])])

    async def _serve(self, request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(self._answer, request, json.loads(body) if body else {})

    def _answer(self, request: Request, body: dict[str, Any]) -> Response:
        try:
            self._require(request.headers.get("private-token") == TOKEN, 401, "401 Unauthorized")
            path = request.scope["raw_path"].decode()
            for method, pattern, handler in _ROUTES:
                found = re.fullmatch("/api/v4" + pattern, path)
                if found and method == request.method:
                    made = handler(self, *map(unquote, found.groups()), body=body, query=request.query_params)
                    return JSONResponse(made, 201 if method == "POST" else 200)
            raise Answer(404, "404 Not Found")
        except Answer as answer:
            return JSONResponse({"message": answer.message}, answer.status)

    def _require(self, holds: object, status: int, message: str) -> None:
        if not holds:
            raise Answer(status, message)

    def _references(self, number: int) -> dict[str, str]:
        base = self.repository.git("merge-base", "refs/heads/main", f"refs/pull/{number}/head")
        return {
            "base_sha": base,
            "start_sha": self.repository.base(),
            "head_sha": self.repository.head(number),
        }

    def get_user(self, **_: Any) -> Any:
        return BOT

    def get_project(self, **_: Any) -> Any:
        return {"id": 12, "http_url_to_repo": self.repository.folder.as_uri()}

    def get_request(self, number: str, **_: Any) -> Any:
        self._require(int(number) in self.repository.pulls, 404, "404 Not found")
        return {
            "iid": int(number),
            "sha": self.repository.head(int(number)),
            "state": "opened",
            "source_branch": self.repository.pulls[int(number)],
            "target_branch": "main",
            "source_project_id": 99 if int(number) in self.forks else 12,
            "target_project_id": 12,
            "diff_refs": self._references(int(number)),
        }

    def list_requests(self, query: Any, **_: Any) -> Any:
        return [one for one in self.companions if one["source_branch"] == query["source_branch"]]

    def make_request(self, body: dict[str, Any], **_: Any) -> Any:
        number = 100 + len(self.companions)
        made = {
            **body,
            "iid": number,
            "web_url": f"https://gitlab.example/acme/train/-/merge_requests/{number}",
        }
        self.companions.append(made)
        return made

    def list_versions(self, number: str, **_: Any) -> Any:
        return [{"id": 1, "head_commit_sha": self.repository.head(int(number))}]

    def get_version(self, number: str, _version: str, **_: Any) -> Any:
        return {"id": 1, "diffs": self._diffs(int(number))}

    def _diffs(self, number: int) -> list[dict[str, Any]]:
        ends = f"refs/heads/main...refs/pull/{number}/head"
        found = []
        for path in self.repository.git("diff", "--name-only", "-z", ends).split("\0"):
            if path:
                patch = self.repository.git("diff", ends, "--", path, strip=False)
                start = patch.find("@@")
                diff = patch[start:] if start >= 0 else ""
                found.append({"new_path": path, "old_path": path, "diff": diff, "deleted_file": False})
        return found

    def list_discussions(self, number: str, **_: Any) -> Any:
        return [one for one in self.discussions if one["number"] == int(number)]

    def make_discussion(self, number: str, body: dict[str, Any], **_: Any) -> Any:
        position = body["position"]
        self._require(position["head_sha"] == self.repository.head(int(number)), 400, "position is outdated")
        lines = {d["new_path"]: list(hunks(d["diff"])) for d in self._diffs(int(number))}
        above = int(re.search(r"^`{3,}suggestion:-(\d+)\+0$", body["body"], re.MULTILINE)[1])  # type: ignore[index]
        first, last = position["new_line"] - above, position["new_line"]
        fits = any(first in hunk and last in hunk for hunk in lines.get(position["new_path"], ()))
        self._require(fits and last not in self.refused, 400, "line_code can't be blank")
        note = {
            "id": next(self._ids),
            "body": body["body"],
            "author": BOT,
            "position": position,
            "resolved": False,
        }
        self.discussions.append({"id": str(next(self._ids)), "number": int(number), "notes": [note]})
        return self.discussions[-1]

    def list_notes(self, number: str, **_: Any) -> Any:
        return [one for one in self.notes if one["number"] == int(number)]

    def make_note(self, number: str, body: dict[str, Any], **_: Any) -> Any:
        note = {"id": next(self._ids), "body": body["body"], "author": BOT, "system": False}
        self.notes.append({**note, "number": int(number)})
        return note

    def edit_note(self, _number: str, note: str, body: dict[str, Any], **_: Any) -> Any:
        kept = next(one for one in self.notes if one["id"] == int(note))
        kept["body"] = body["body"]
        return kept

    def award(self, _number: str, note: str, body: dict[str, Any], **_: Any) -> Any:
        self.emoji.append((int(note), body["name"]))
        return {"id": next(self._ids), "name": body["name"]}

    def set_status(self, commit: str, body: dict[str, Any], **_: Any) -> Any:
        same = [one for one in self.statuses if one["sha"] == commit and one["state"] == body["state"]]
        self._require(not same, 400, "Cannot transition status via :success")
        self.statuses.append({**body, "sha": commit})
        return self.statuses[-1]

    def member(self, user: str, **_: Any) -> Any:
        self._require(int(user) in self.levels, 404, "404 Not found")
        return {"id": int(user), "access_level": self.levels[int(user)]}

    def get_file(self, path: str, query: Any, **_: Any) -> Any:
        known = self.repository.git("cat-file", "-t", f"{query['ref']}:{path}", check=False)
        self._require(known == "blob", 404, "404 File Not Found")
        text = self.repository.show(query["ref"], path).encode()
        return {"file_path": path, "encoding": "base64", "content": base64.b64encode(text).decode()}

    def get_commit(self, commit: str, **_: Any) -> Any:
        return {"id": commit, "message": self.repository.git("log", "-1", "--format=%B", commit)}

    def make_commit(self, body: dict[str, Any], **_: Any) -> Any:
        start = body.get("start_sha") or self.repository.git("rev-parse", f"refs/heads/{body['branch']}")
        for action in body["actions"]:
            self._require(action["action"] == "update", 400, "only updates")
        files = {a["file_path"]: base64.b64decode(a["content"]) for a in body["actions"]}
        sha = self.repository.commit(start, files, body["commit_message"])
        self.repository.git("update-ref", f"refs/heads/{body['branch']}", sha)
        for number, of in self.repository.pulls.items():
            if of == body["branch"]:
                self.repository.git("update-ref", f"refs/pull/{number}/head", sha)
        return {"id": sha}

    def get_branch(self, branch: str, **_: Any) -> Any:
        sha = self.repository.git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False)
        self._require(sha, 404, "404 Branch Not Found")
        return {"name": branch, "commit": {"id": sha}}


_P, _M = "/projects/12", r"/projects/12/merge_requests/(\d+)"
_ROUTES: list[tuple[str, str, Callable[..., Any]]] = [
    ("GET", "/user", GitLab.get_user),
    ("GET", _P, GitLab.get_project),
    ("GET", _M, GitLab.get_request),
    ("GET", f"{_P}/merge_requests", GitLab.list_requests),
    ("POST", f"{_P}/merge_requests", GitLab.make_request),
    ("GET", f"{_M}/versions", GitLab.list_versions),
    ("GET", rf"{_M}/versions/(\d+)", GitLab.get_version),
    ("GET", f"{_M}/discussions", GitLab.list_discussions),
    ("POST", f"{_M}/discussions", GitLab.make_discussion),
    ("GET", f"{_M}/notes", GitLab.list_notes),
    ("POST", f"{_M}/notes", GitLab.make_note),
    ("PUT", rf"{_M}/notes/(\d+)", GitLab.edit_note),
    ("POST", rf"{_M}/notes/(\d+)/award_emoji", GitLab.award),
    ("POST", f"{_P}/statuses/([0-9a-f]+)", GitLab.set_status),
    ("GET", rf"{_P}/members/all/(\d+)", GitLab.member),
    ("GET", f"{_P}/repository/files/([^/]+)", GitLab.get_file),
    ("GET", f"{_P}/repository/commits/([0-9a-f]+)", GitLab.get_commit),
    ("POST", f"{_P}/repository/commits", GitLab.make_commit),
    ("GET", f"{_P}/repository/branches/([^/]+)", GitLab.get_branch),
]
