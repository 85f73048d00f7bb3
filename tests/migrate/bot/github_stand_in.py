"""A stand-in of GitHub over HTTP: it keeps state, knows permissions and refuses what GitHub refuses.

Its answers hold the fields that matter. Where it is given GitHub's own description (``description.py``) the
rest comes from the examples there, and each request and each answer is checked against it.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import jwt
from description import Description
from pull_requests import Repository
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

NAME = "acme/train"
BOT = "xla-migrate[bot]"
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_BODY, _SUMMARY = 65_536, 65_535


class Answer(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


@dataclass
class Fault:
    """What happens to the next ``times`` requests that fit; ``done`` says that they are carried out first."""

    method: str
    path: str
    status: int
    message: str = "Server Error"
    headers: dict[str, str] = field(default_factory=dict)
    done: bool = False
    times: int = 1


@dataclass
class Token:
    login: str
    writes: bool = True


class GitHub:
    """``forks`` are the numbers of pull requests from another repository, ``writers`` those who may push.

    ``awkward`` are lines on which no suggestion is accepted; ``budget`` is the number of things that may be
    made until the clock (``now``, seconds) has gone on by a minute.
    """

    def __init__(self, repository: Repository, description: Description | None = None) -> None:
        self.repository, self.description = repository, description
        self.tokens: dict[str, Token] = {}
        self.app_key = ""
        self.forks: set[int] = set()
        self.closed: set[int] = set()
        self.writers = {"owner"}
        self.reviews: list[dict[str, Any]] = []
        self.review_comments: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.check_runs: list[dict[str, Any]] = []
        self.companions: list[dict[str, Any]] = []
        self.reactions: list[tuple[int, str]] = []
        self.faults: list[Fault] = []
        self.awkward: set[tuple[str, int]] = set()
        self.budget, self.now, self._made = 10_000, 0.0, []
        self.requests: list[str] = []
        self.violations: list[str] = []
        self.slow: Callable[[str], None] = lambda request: None
        self._ids, self._lock = itertools.count(1000), threading.RLock()
        self._patched: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        self.address = ""
        self.app = Starlette(routes=[Route("/{path:path}", self._serve, methods=["GET", "POST", "PATCH"])])

    async def _serve(self, request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(self._answer, request, body)

    def _answer(self, request: Request, body: bytes) -> Response:
        path = unquote(_path(request))
        self.slow(f"{request.method} {path}")
        with self._lock:
            self.requests.append(f"{request.method} {path}")
            if self.description is not None:
                self.violations += self.description.wrong_request(request, body)
            try:
                status, content = self._handled(request, json.loads(body) if body else {})
                headers: dict[str, str] = {}
            except Answer as answer:
                status, headers = answer.status, answer.headers
                content = {"message": answer.message, "documentation_url": "https://docs.github.com/rest"}
            if self.description is not None:
                content = self.description.filled(request, status, content)
                self.violations += self.description.wrong_answer(request, body, status, content)
        return JSONResponse(
            content, status, {name.replace("_", "-"): value for name, value in headers.items()}
        )

    def _handled(self, request: Request, body: dict[str, Any]) -> tuple[int, Any]:
        token = self._authorized(request)
        fault = self._fault(request)
        if fault is not None and not fault.done:
            raise Answer(fault.status, fault.message, **fault.headers)
        for method, pattern, handler in _ROUTES:
            found = re.fullmatch(pattern, _path(request))
            if found and method == request.method:
                if method != "GET":
                    self._require(token.writes, 403, "Resource not accessible by integration")
                    self._spend()
                answer = handler(
                    self, *map(unquote, found.groups()), query=request.query_params, body=body, token=token
                )
                if fault is not None:
                    raise Answer(fault.status, fault.message, **fault.headers)
                return (200, answer) if not isinstance(answer, tuple) else answer
        raise Answer(404, "Not Found")

    def _fault(self, request: Request) -> Fault | None:
        for fault in self.faults:
            asked = unquote(_path(request))
            if fault.times and fault.method == request.method and re.search(fault.path, asked):
                fault.times -= 1
                return fault
        return None

    def _authorized(self, request: Request) -> Token:
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if request.url.path.startswith("/app"):
            try:
                jwt.decode(secret, self.app_key, algorithms=["RS256"], options={"verify_iat": False})
            except jwt.PyJWTError as error:
                raise Answer(401, "A JSON web token could not be decoded") from error
            return Token("app")
        self._require(kind.lower() in ("bearer", "token") and secret in self.tokens, 401, "Bad credentials")
        return self.tokens[secret]

    def _spend(self) -> None:
        self._made = [at for at in self._made if at > self.now - 60]
        if len(self._made) >= self.budget:
            raise Answer(403, "You have exceeded a secondary rate limit", retry_after="30")
        self._made.append(self.now)

    def _require(self, holds: object, status: int, message: str) -> None:
        if not holds:
            raise Answer(status, message)

    # The pull request and what it changes.

    def _pull(self, number: str) -> dict[str, Any]:
        self._require(int(number) in self.repository.pulls, 404, "Not Found")
        fork = int(number) in self.forks
        head = {
            "ref": self.repository.pulls[int(number)],
            "sha": self.repository.head(int(number)),
            "repo": {"full_name": "stranger/train" if fork else NAME},
            "user": {"login": "stranger" if fork else "acme"},
        }
        source = self.repository.folder.as_uri()
        base = {
            "ref": "main",
            "sha": self.repository.base(),
            "repo": {"full_name": NAME, "clone_url": source},
        }
        state = "closed" if int(number) in self.closed else "open"
        # GitHub's example of a requested team is not what GitHub describes.
        return {"number": int(number), "state": state, "head": head, "base": base, "requested_teams": []}

    def get_pull(self, number: str, **_: Any) -> Any:
        return self._pull(number)

    def list_pulls(self, query: Any, **_: Any) -> Any:
        pulls = [self._pull(str(number)) for number in self.repository.pulls]
        owner, _, branch = query["head"].partition(":")
        found = [p for p in pulls if p["head"]["ref"] == branch and p["head"]["user"]["login"] == owner]
        found += [one for one in self.companions if one["head"]["ref"] == branch]
        return [pull for pull in found if pull["state"] == query.get("state", "open")]

    def make_pull(self, body: dict[str, Any], **_: Any) -> Any:
        for side in ("head", "base"):
            known = self.repository.git("branch", "--list", body[side])
            self._require(known, 422, "Validation Failed")
        twice = any(one["head"]["ref"] == body["head"] for one in self.companions)
        self._require(not twice, 422, "A pull request already exists")
        number = 100 + len(self.companions)
        made = {
            "number": number,
            "state": "open",
            "requested_teams": [],
            "title": body["title"],
            "html_url": f"https://github.com/{NAME}/pull/{number}",
            "head": {"ref": body["head"], "sha": self.repository.git("rev-parse", body["head"])},
            "base": {"ref": body["base"]},
        }
        self.companions.append(made)
        return 201, made

    def _patches(self, number: int) -> dict[str, tuple[str, str]]:
        """Status and patch of each file that a pull request changes."""
        between = self.repository.base(), self.repository.head(number)
        if between not in self._patched:
            self._patched[between] = self._compared("...".join(between))
        return self._patched[between]

    def _compared(self, ends: str) -> dict[str, tuple[str, str]]:
        listed = self.repository.git("diff", "--no-renames", "--name-status", "-z", ends).split("\0")
        states = {"A": "added", "D": "removed", "M": "modified", "T": "changed"}
        found = {}
        for kind, path in zip(listed[0::2], listed[1::2], strict=False):
            patch = self.repository.git("diff", "--no-renames", "--no-color", ends, "--", path, strip=False)
            start = patch.find("\n@@")
            found[path] = states[kind], patch[start + 1 :].rstrip("\n") if start >= 0 else ""
        return found

    def list_files(self, number: str, query: Any, **_: Any) -> Any:
        files = [
            {"filename": path, "status": state, **({"patch": patch} if patch else {})}
            for path, (state, patch) in self._patches(int(number)).items()
        ]
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        return files[(page - 1) * size : page * size]

    def _hunks(self, number: int, path: str) -> list[range]:
        _state, patch = self._patches(number).get(path, ("", ""))
        found = [(int(m[1]), int(m[2] or 1)) for m in _HUNK.finditer(patch)]
        return [range(start, start + size) for start, size in found]

    # Reviews and comments.

    def make_review(self, number: str, body: dict[str, Any], token: Token, **_: Any) -> Any:
        self._require(
            body["commit_id"] == self.repository.head(int(number)), 422, "commit_id is not the head"
        )
        for one in body["comments"]:
            self._check_place(int(number), one)
        review = {
            "id": next(self._ids),
            "body": body["body"],
            "user": {"login": token.login},
            "state": "COMMENTED",
        }
        self.reviews.append({**review, "number": int(number), "comments": body["comments"]})
        for one in body["comments"]:
            kept = {"id": next(self._ids), "user": {"login": token.login}, "at": body["commit_id"], **one}
            self.review_comments.append({**kept, "number": int(number)})
        return review

    def _check_place(self, number: int, one: dict[str, Any]) -> None:
        first, last = one.get("start_line", one["line"]), one["line"]
        fits = any(first in lines and last in lines for lines in self._hunks(number, one["path"]))
        self._require(fits, 422, "pull_request_review_thread.line must be part of the diff")
        backwards = "start_line" in one and first >= last
        self._require(not backwards, 422, "start_line must precede the end line")
        self._require(one["side"] == "RIGHT" == one.get("start_side", "RIGHT"), 422, "side")
        self._require(len(one["body"]) <= _BODY, 422, "body is too long (maximum is 65536 characters)")
        self._require((one["path"], last) not in self.awkward, 422, "Unprocessable Entity")

    def list_review_comments(self, number: str, query: Any, **_: Any) -> Any:
        mine = [one for one in self.review_comments if one["number"] == int(number)]
        shown = [{**one, "line": one["line"] if self._stands(one) else None} for one in mine]
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        return [
            {key: value for key, value in one.items() if key not in ("at", "number")}
            for one in shown[(page - 1) * size : page * size]
        ]

    def _stands(self, one: dict[str, Any]) -> bool:
        then, now = (self._line(commit, one) for commit in (one["at"], f"refs/pull/{one['number']}/head"))
        return then == now

    def _line(self, commit: str, one: dict[str, Any]) -> str:
        lines = self.repository.git("show", f"{commit}:{one['path']}", check=False, strip=False).split("\n")
        return lines[one["line"] - 1] if one["line"] <= len(lines) else ""

    def list_comments(self, number: str, query: Any, **_: Any) -> Any:
        mine = [one for one in self.comments if one["number"] == int(number)]
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        return [
            {key: value for key, value in one.items() if key != "number"}
            for one in mine[(page - 1) * size : page * size]
        ]

    def make_comment(self, number: str, body: dict[str, Any], token: Token, **_: Any) -> Any:
        self._require(len(body["body"]) <= _BODY, 422, "Body is too long")
        made = {"id": next(self._ids), "body": body["body"], "user": {"login": token.login}}
        self.comments.append({**made, "number": int(number)})
        return 201, made

    def edit_comment(self, number: str, body: dict[str, Any], **_: Any) -> Any:
        self._require(len(body["body"]) <= _BODY, 422, "Body is too long")
        kept = next(one for one in self.comments if one["id"] == int(number))
        kept["body"] = body["body"]
        return {key: value for key, value in kept.items() if key != "number"}

    def react(self, number: str, body: dict[str, Any], **_: Any) -> Any:
        given = (int(number), body["content"])
        self.reactions += [] if given in self.reactions else [given]
        return 201, {"content": body["content"]}

    # Checks.

    def list_check_runs(self, commit: str, query: Any, **_: Any) -> Any:
        found = [
            run for run in self.check_runs if run["head_sha"] == commit and run["name"] == query["check_name"]
        ]
        return {"total_count": len(found), "check_runs": [self._shown(run) for run in found]}

    def make_check_run(self, body: dict[str, Any], **_: Any) -> Any:
        run = {"id": next(self._ids), "status": "queued", "conclusion": None, "all": [], "actions": []}
        run |= {key: body[key] for key in ("name", "head_sha", "external_id")}
        self._update(run, body)
        self.check_runs.append(run)
        return 201, self._shown(run)

    def edit_check_run(self, number: str, body: dict[str, Any], **_: Any) -> Any:
        run = next(one for one in self.check_runs if one["id"] == int(number))
        self._update(run, body)
        return self._shown(run)

    def _update(self, run: dict[str, Any], body: dict[str, Any]) -> None:
        output = body.get("output", {})
        self._require(len(output.get("annotations", ())) <= 50, 422, "annotations exceeds maximum length")
        self._require(len(output.get("summary", "")) <= _SUMMARY, 422, "summary is too long")
        for action in body.get("actions", ()):
            sizes = [len(action[key]) for key in ("label", "description", "identifier")]
            self._require(sizes[0] <= 20 >= sizes[2] and sizes[1] <= 40, 422, "actions")
        run["all"] += output.get("annotations", [])
        run |= {key: body[key] for key in ("status", "conclusion", "actions") if key in body}
        run["title"], run["summary"] = output.get("title"), output.get("summary")

    def _shown(self, run: dict[str, Any]) -> dict[str, Any]:
        kept = {key: run[key] for key in ("id", "name", "head_sha", "external_id", "status", "conclusion")}
        output = {"title": run["title"], "summary": run["summary"], "annotations_count": len(run["all"])}
        return {**kept, "output": output}

    # People, files and git's own data.

    def permission(self, user: str, **_: Any) -> Any:
        role = "write" if user in self.writers else "read"
        # GitHub's example lacks the role of the user, which GitHub's description wants.
        return {"permission": role, "role_name": role, "user": {"login": user, "role_name": role}}

    def contents(self, path: str, query: Any, **_: Any) -> Any:
        found = self.repository.git("cat-file", "-t", f"{query['ref']}:{path}", check=False)
        self._require(found == "blob", 404, "Not Found")
        text = self.repository.show(query["ref"], path).encode()
        return {
            "type": "file",
            "path": path,
            "encoding": "base64",
            "content": base64.b64encode(text).decode(),
        }

    def get_commit(self, commit: str, **_: Any) -> Any:
        tree = self.repository.git("rev-parse", f"{commit}^{{tree}}")
        message = self.repository.git("log", "-1", "--format=%B", commit)
        return {"sha": commit, "message": message, "tree": {"sha": tree}}

    def get_tree(self, tree: str, **_: Any) -> Any:
        entries = []
        for line in self.repository.git("ls-tree", "-z", tree).split("\0"):
            facts, _, path = line.partition("\t")
            if path:
                mode, kind, sha = facts.split()
                entries.append({"path": path, "mode": mode, "type": kind, "sha": sha})
        return {"sha": tree, "truncated": False, "tree": entries}

    def make_blob(self, body: dict[str, Any], **_: Any) -> Any:
        data = base64.b64decode(body["content"])
        return 201, {"sha": self.repository.git("hash-object", "-w", "--stdin", given=data)}

    def make_tree(self, body: dict[str, Any], **_: Any) -> Any:
        changed = {one["path"]: (one["mode"], one["sha"]) for one in body["tree"]}
        return 201, {"sha": self.repository.tree(body["base_tree"], changed)}

    def make_commit(self, body: dict[str, Any], **_: Any) -> Any:
        parents = [part for parent in body["parents"] for part in ("-p", parent)]
        sha = self.repository.git("commit-tree", body["tree"], *parents, given=body["message"].encode())
        return 201, {"sha": sha, "message": body["message"], "tree": {"sha": body["tree"]}}

    def get_ref(self, branch: str, **_: Any) -> Any:
        sha = self.repository.git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False)
        self._require(sha, 404, "Not Found")
        return {"ref": f"refs/heads/{branch}", "object": {"type": "commit", "sha": sha}}

    def make_ref(self, body: dict[str, Any], **_: Any) -> Any:
        known = self.repository.git("rev-parse", "--verify", "--quiet", body["ref"], check=False)
        self._require(not known, 422, "Reference already exists")
        self.repository.git("update-ref", body["ref"], body["sha"])
        return 201, {"ref": body["ref"], "object": {"type": "commit", "sha": body["sha"]}}

    def move_ref(self, branch: str, body: dict[str, Any], **_: Any) -> Any:
        now = self.repository.git("rev-parse", f"refs/heads/{branch}")
        base = self.repository.git("merge-base", now, body["sha"])
        self._require(base == now or body.get("force"), 422, "Update is not a fast forward")
        self.repository.git("update-ref", f"refs/heads/{branch}", body["sha"])
        for number, of in self.repository.pulls.items():
            if of == branch:
                self.repository.git("update-ref", f"refs/pull/{number}/head", body["sha"])
        return {"ref": f"refs/heads/{branch}", "object": {"type": "commit", "sha": body["sha"]}}

    # The App.

    def get_app(self, **_: Any) -> Any:
        return {"slug": "xla-migrate"}

    def make_token(self, installation: str, body: dict[str, Any], **_: Any) -> Any:
        token = f"ghs_{installation}{next(self._ids):032d}"
        only_reads = body.get("permissions") == {"contents": "read"}
        self.tokens[token] = Token(BOT, writes=not only_reads)
        return 201, {"token": token, "expires_at": "2099-01-01T00:00:00Z"}


def _path(request: Request) -> str:
    """As it was sent: a slash within a part of it is written %2F."""
    return str(request.scope["raw_path"].decode())


_R = f"/repos/{NAME}"
_ROUTES: list[tuple[str, str, Callable[..., Any]]] = [
    ("GET", rf"{_R}/pulls/(\d+)", GitHub.get_pull),
    ("GET", rf"{_R}/pulls", GitHub.list_pulls),
    ("POST", rf"{_R}/pulls", GitHub.make_pull),
    ("GET", rf"{_R}/pulls/(\d+)/files", GitHub.list_files),
    ("GET", rf"{_R}/pulls/(\d+)/comments", GitHub.list_review_comments),
    ("POST", rf"{_R}/pulls/(\d+)/reviews", GitHub.make_review),
    ("GET", rf"{_R}/issues/(\d+)/comments", GitHub.list_comments),
    ("POST", rf"{_R}/issues/(\d+)/comments", GitHub.make_comment),
    ("PATCH", rf"{_R}/issues/comments/(\d+)", GitHub.edit_comment),
    ("POST", rf"{_R}/issues/comments/(\d+)/reactions", GitHub.react),
    ("GET", rf"{_R}/commits/([0-9a-f]+)/check-runs", GitHub.list_check_runs),
    ("POST", rf"{_R}/check-runs", GitHub.make_check_run),
    ("PATCH", rf"{_R}/check-runs/(\d+)", GitHub.edit_check_run),
    ("GET", rf"{_R}/collaborators/([^/]+)/permission", GitHub.permission),
    ("GET", rf"{_R}/contents/(.+)", GitHub.contents),
    ("GET", rf"{_R}/git/commits/([0-9a-f]+)", GitHub.get_commit),
    ("POST", rf"{_R}/git/commits", GitHub.make_commit),
    ("GET", rf"{_R}/git/trees/([0-9a-f]+)", GitHub.get_tree),
    ("POST", rf"{_R}/git/trees", GitHub.make_tree),
    ("POST", rf"{_R}/git/blobs", GitHub.make_blob),
    ("GET", rf"{_R}/git/ref/heads%2F(.+)", GitHub.get_ref),
    ("POST", rf"{_R}/git/refs", GitHub.make_ref),
    ("PATCH", rf"{_R}/git/refs/heads%2F(.+)", GitHub.move_ref),
    ("GET", r"/app", GitHub.get_app),
    ("POST", r"/app/installations/(\d+)/access_tokens", GitHub.make_token),
]
