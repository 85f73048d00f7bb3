"""GitHub's own description of its API, cut to what the bot uses: what is asked and answered is held to it.

It comes from the npm package ``@octokit/openapi``, which the tests install into pytest's cache.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_core import OpenAPI
from openapi_core.contrib.starlette import StarletteOpenAPIRequest, StarletteOpenAPIResponse
from starlette.requests import Request
from starlette.responses import JSONResponse

REPOSITORY = "/repos/{owner}/{repo}"
USED = {
    "/app": ("get",),
    "/app/installations/{installation_id}/access_tokens": ("post",),
    f"{REPOSITORY}/pulls": ("get", "post"),
    f"{REPOSITORY}/pulls/{{pull_number}}": ("get",),
    f"{REPOSITORY}/pulls/{{pull_number}}/files": ("get",),
    f"{REPOSITORY}/pulls/{{pull_number}}/comments": ("get",),
    f"{REPOSITORY}/pulls/{{pull_number}}/reviews": ("post",),
    f"{REPOSITORY}/issues/{{issue_number}}/comments": ("get", "post"),
    f"{REPOSITORY}/issues/comments/{{comment_id}}": ("patch",),
    f"{REPOSITORY}/issues/comments/{{comment_id}}/reactions": ("post",),
    f"{REPOSITORY}/commits/{{ref}}/check-runs": ("get",),
    f"{REPOSITORY}/check-runs": ("post",),
    f"{REPOSITORY}/check-runs/{{check_run_id}}": ("patch",),
    f"{REPOSITORY}/collaborators/{{username}}/permission": ("get",),
    f"{REPOSITORY}/contents/{{path}}": ("get",),
    f"{REPOSITORY}/git/commits": ("post",),
    f"{REPOSITORY}/git/commits/{{commit_sha}}": ("get",),
    f"{REPOSITORY}/git/trees": ("post",),
    f"{REPOSITORY}/git/trees/{{tree_sha}}": ("get",),
    f"{REPOSITORY}/git/blobs": ("post",),
    f"{REPOSITORY}/git/refs": ("post",),
    f"{REPOSITORY}/git/ref/{{ref}}": ("get",),
    f"{REPOSITORY}/git/refs/{{ref}}": ("patch",),
}


def installed(cache: Path, package: str) -> Path:
    """The folder of an npm package, installed where it is not; skips the test where npm cannot."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    cache = cache / package.replace("/", "-")  # npm takes away what it was not asked for
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes that test side by side install it once
        folder = cache / "node_modules" / package
        if not (folder / "package.json").is_file():
            command = [
                npm,
                "install",
                "--no-audit",
                "--no-fund",
                "--no-save",
                "--prefix",
                str(cache),
                package,
            ]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            if ran.returncode:
                pytest.skip(f"npm cannot install {package}: {(ran.stderr.strip().splitlines() or [''])[-1]}")
    return folder


def cut(cache: Path) -> Path:
    """The file with the part of the description that the bot uses."""
    kept = cache / "used.json"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "cutting", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_file() or json.loads(kept.read_text()).get("x-used") != _listed():
            folder = installed(cache, "@octokit/openapi")
            whole = json.loads((folder / "generated/api.github.com.json").read_bytes())
            kept.write_text(json.dumps(_cut(whole)))
            shutil.rmtree(folder)  # several hundred MB
    return kept


def _listed() -> list[str]:
    return sorted(f"{method} {path}" for path, methods in USED.items() for method in methods)


def _cut(whole: dict[str, Any]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for path, methods in USED.items():
        item = whole["paths"][path]
        paths[path] = {key: item[key] for key in (*methods, "parameters") if key in item}
    components: dict[str, dict[str, Any]] = {}
    waiting = [paths]
    while waiting:
        for reference in _references(waiting.pop()):
            _, _, kind, name = reference.split("/", 3)
            if name not in components.setdefault(kind, {}):
                components[kind][name] = whole["components"][kind][name]
                waiting.append(components[kind][name])
    _allow_none(components)
    return {
        "openapi": whole["openapi"],
        "info": whole["info"],
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": components,
        "x-used": _listed(),
    }


def _allow_none(node: Any) -> None:
    """GitHub writes ``nullable`` beside a list of values that lacks null, and means that null is one."""
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _allow_none(value)
    if isinstance(node, dict) and node.get("nullable") is True and isinstance(node.get("enum"), list):
        node["enum"] = [*node["enum"], *([] if None in node["enum"] else [None])]


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


class _Asked(StarletteOpenAPIRequest):
    @property
    def path(self) -> str:
        """As it was sent: a slash within a part of it is written %2F."""
        return str(self.request.scope["raw_path"].decode())


class Description:
    """Checks requests and answers, and knows GitHub's examples of the latter."""

    def __init__(self, file: Path) -> None:
        self._content = json.loads(file.read_bytes())
        self._checks = OpenAPI.from_dict(self._content)

    def wrong_request(self, request: Request, body: bytes) -> list[str]:
        return self._wrong(request, body, None)

    def wrong_answer(self, request: Request, body: bytes, status: int, content: Any) -> list[str]:
        if status in (401, 403, 429) or status >= 500:
            return []  # these may come from any operation, and few descriptions say so
        return self._wrong(request, body, JSONResponse(content, status))

    def _wrong(self, request: Request, body: bytes, response: JSONResponse | None) -> list[str]:
        asked = _Asked(request, body)
        try:
            if response is None:
                self._checks.validate_request(asked)
            else:
                self._checks.validate_response(asked, StarletteOpenAPIResponse(response))
        except Exception as error:  # of openapi-core or of what it asks
            cause = error.__cause__ or error
            wrong = [_plain(one) for one in getattr(cause, "schema_errors", ())] or [str(cause)[:500]]
            return [f"{request.method} {request.url.path}: {'; '.join(wrong)}"]
        return []

    def filled(self, request: Request, status: int, content: Any) -> Any:
        """An answer with all that GitHub's example of it has besides."""
        example = self._example(request, status)
        if isinstance(content, list):
            first = example[0] if isinstance(example, list) and example else {}
            return [_merged(first, item) for item in content]
        return _merged(example, content)

    def _example(self, request: Request, status: int) -> Any:
        operation = self._operation(request)
        response = self._resolved(operation.get("responses", {}).get(str(status), {}))
        examples = response.get("content", {}).get("application/json", {}).get("examples", {})
        given = [self._resolved(example) for example in examples.values()]
        return given[0].get("value", {}) if given else {}

    def _operation(self, request: Request) -> dict[str, Any]:
        asked = _Asked(request, b"").path.split("/")
        for path, item in self._content["paths"].items():
            parts = path.split("/")
            known = all(p == a or p.startswith("{") for p, a in zip(parts, asked, strict=False))
            if known and len(parts) == len(asked) and request.method.lower() in item:
                return dict(item[request.method.lower()])
        return {}

    def _resolved(self, node: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in node:
            _, _, kind, name = node["$ref"].split("/", 3)
            node = self._content["components"][kind][name]
        return node


def _plain(error: Any) -> str:
    return f"{'.'.join(map(str, error.path))}: {error.message[:300]}"


def _merged(example: Any, own: Any) -> Any:
    if not isinstance(own, dict) or not isinstance(example, dict):
        if (
            isinstance(own, list)
            and isinstance(example, list)
            and example
            and all(isinstance(o, dict) for o in own)
        ):
            return [_merged(example[0], item) for item in own]
        return own
    return {**example, **{key: _merged(example.get(key), value) for key, value in own.items()}}
