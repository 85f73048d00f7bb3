"""The bot as a service: credentials from the environment, a queue on the disk, a server and its workers."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import uvicorn

from xla_migrate.bot import redact
from xla_migrate.bot.access import GitHubApp, GitHubToken, GitLabToken
from xla_migrate.bot.github import PUBLIC
from xla_migrate.bot.job import Conditions
from xla_migrate.bot.queue import Queue
from xla_migrate.bot.server import application
from xla_migrate.bot.working import Access, Workers

KEPT = 90 * 86_400.0
"""Seconds for which deliveries are known."""


class BadEnvironment(ValueError):
    """A variable that the service needs is missing or wrong; the text holds no value."""


@dataclass(frozen=True)
class Options:
    """``database`` is the queue's file; ``port`` 0 takes any that is free."""

    forge: Literal["github", "gitlab"]
    host: str
    port: int
    database: Path
    workers: int


def serve(options: Options, conditions: Conditions, environment: Mapping[str, str]) -> None:
    """Serve until the process is told to end. Raises ``BadEnvironment`` and ``InUse``."""
    secret = _needed(environment, "XLA_MIGRATE_WEBHOOK_SECRET")
    access, secrets = _access(options, environment)
    redact.set_up([secret, *secrets])
    _clear(environment)
    queue = Queue(options.database)
    queue.forget(time.time() - KEPT)
    workers = Workers(queue, access, conditions, options.workers)
    try:
        app = application(queue, workers, secret, gitlab=options.forge == "gitlab")
    except ValueError as error:
        raise BadEnvironment(str(error)) from error
    # A log of its own would pass by the filter; requests are of no interest, what is done with them is.
    config = uvicorn.Config(app, options.host, options.port, log_config=None, access_log=False)
    try:
        uvicorn.Server(config).run()
    finally:
        queue.close()


def _access(options: Options, environment: Mapping[str, str]) -> tuple[Access, list[str]]:
    if options.forge == "gitlab":
        token, address = (
            _needed(environment, "XLA_MIGRATE_TOKEN"),
            environment.get("GITLAB_URL", "https://gitlab.com"),
        )
        return GitLabToken(token, address), [token]
    address = environment.get("GITHUB_API_URL", PUBLIC)
    if "XLA_MIGRATE_APP_ID" not in environment:
        token, login = _needed(environment, "XLA_MIGRATE_TOKEN"), _needed(environment, "XLA_MIGRATE_LOGIN")
        return GitHubToken(token, login, address), [token]
    try:
        key = Path(_needed(environment, "XLA_MIGRATE_APP_KEY_FILE")).read_text()
    except OSError as error:
        raise BadEnvironment(f"XLA_MIGRATE_APP_KEY_FILE: {error.strerror}") from error
    return GitHubApp(environment["XLA_MIGRATE_APP_ID"], key, address), [key]


def _needed(environment: Mapping[str, str], name: str) -> str:
    if not environment.get(name):
        raise BadEnvironment(f"{name} has to be set")
    return environment[name]


def _clear(environment: Mapping[str, str]) -> None:
    """No process that is started from here on can see a secret in what it inherits."""
    for name in ("XLA_MIGRATE_WEBHOOK_SECRET", "XLA_MIGRATE_TOKEN"):
        if name in environment:
            os.environ.pop(name, None)
