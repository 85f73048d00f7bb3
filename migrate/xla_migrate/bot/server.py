"""The service's HTTP side: a delivery is checked, written to the queue, and answered; the work comes later.

Sources: "Validating webhook deliveries" (GitHub: HMAC-SHA256 of the body, compared in constant time) and
"Webhooks" (GitLab: the secret token as a header).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from xla_migrate.bot.events import Job, of_github, of_gitlab
from xla_migrate.bot.queue import Queue
from xla_migrate.bot.working import Workers

LARGEST = 25_000_000
"""Bytes of a delivery: GitHub sends none that is larger."""
_log = logging.getLogger(__name__)


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def signature(secret: str, body: bytes) -> str:
    """What GitHub writes into ``X-Hub-Signature-256``."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def application(
    queue: Queue,
    workers: Workers,
    secret: str,
    *,
    gitlab: bool = False,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """``POST /webhook`` and ``GET /health``. Raises ``ValueError`` for a secret that could be guessed."""
    if len(secret) < 16:
        raise ValueError("the secret of the webhook has fewer than 16 characters")
    hook = _GitLab(secret) if gitlab else _GitHub(secret)

    async def webhook(request: Request) -> JSONResponse:
        try:
            delivery, job = hook.read(request, await _body(request))
        except _Refused as refusal:
            _log.warning("a delivery was refused: %s", refusal)
            return JSONResponse({"refused": str(refusal)}, refusal.status)
        fresh = await run_in_threadpool(queue.accept, delivery, job, clock())
        if fresh and job is not None:
            workers.wake()
        state = "repeated" if not fresh else "ignored" if job is None else "accepted"
        return JSONResponse({"delivery": state}, 202 if state == "accepted" else 200)

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "jobs": await run_in_threadpool(queue.states)})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        workers.start()
        yield
        await run_in_threadpool(workers.stop)

    routes = [Route("/webhook", webhook, methods=["POST"]), Route("/health", health)]
    return Starlette(routes=routes, lifespan=lifespan)


async def _body(request: Request) -> bytes:
    """All of it, but never more than is allowed: a length that is announced need not be true."""
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > LARGEST:
                raise _Refused(413, "too large")
            parts.append(part)
    except ClientDisconnect:
        raise _Refused(400, "cut off") from None
    return b"".join(parts)


class _GitHub:
    def __init__(self, secret: str) -> None:
        self._secret = secret

    def read(self, request: Request, body: bytes) -> tuple[str, Job | None]:
        given = request.headers.get("x-hub-signature-256", "")
        if not hmac.compare_digest(signature(self._secret, body).encode(), given.encode("utf-8", "replace")):
            raise _Refused(401, "the signature is wrong")
        event = _header(request, "x-github-event")
        return _header(request, "x-github-delivery"), of_github(event, _payload(body))


class _GitLab:
    def __init__(self, secret: str) -> None:
        self._secret = hashlib.sha256(secret.encode()).digest()

    def read(self, request: Request, body: bytes) -> tuple[str, Job | None]:
        given = request.headers.get("x-gitlab-token", "").encode("utf-8", "replace")
        if not hmac.compare_digest(self._secret, hashlib.sha256(given).digest()):
            raise _Refused(401, "the token is wrong")
        event = _header(request, "x-gitlab-event")
        return _header(request, "x-gitlab-event-uuid"), of_gitlab(event, _payload(body))


def _header(request: Request, name: str) -> str:
    value = request.headers.get(name, "")
    if not 0 < len(value) <= 200:
        raise _Refused(400, f"no {name}")
    return value


def _payload(body: bytes) -> dict[str, Any]:
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        raise _Refused(400, "no JSON") from None
    if not isinstance(payload, dict):
        raise _Refused(400, "no JSON object")
    return payload
