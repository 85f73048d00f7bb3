"""Credentials of a service: a GitHub App, or a token of GitLab."""

from __future__ import annotations

from typing import Any

from githubkit import AppAuthStrategy, AppInstallationAuthStrategy

from xla_migrate.bot.backoff import Backoff
from xla_migrate.bot.events import Job
from xla_migrate.bot.forge import Forge
from xla_migrate.bot.github import PUBLIC, GitHubForge, connected, told


class GitHubApp:
    """Acts as the App's installation that a delivery names."""

    def __init__(self, app: str, key: str, address: str = PUBLIC, backoff: Backoff | None = None) -> None:
        self._app, self._key, self._address, self._backoff = app, key, address, backoff
        self._login = ""

    def forge(self, job: Job) -> Forge:
        strategy = AppInstallationAuthStrategy(self._app, self._key, job.installation)
        client = connected(strategy, self._address, self._backoff)
        return GitHubForge(client, job.repository, self._own_login())

    def token(self, job: Job) -> str:
        """A token that may read this one repository, for an hour."""
        wanted = {"repositories": [job.repository.partition("/")[2]], "permissions": {"contents": "read"}}
        made = self._as_app("POST", f"/app/installations/{job.installation}/access_tokens", json=wanted)
        return str(made["token"])

    def _own_login(self) -> str:
        if not self._login:
            self._login = f"{self._as_app('GET', '/app')['slug']}[bot]"
        return self._login

    def _as_app(self, method: str, path: str, **given: Any) -> Any:
        client = connected(AppAuthStrategy(self._app, self._key), self._address, self._backoff)
        with told(f"{method} {path}"):
            return client.request(method, path, **given).json()


class GitHubToken:
    """Acts as whoever a token belongs to; for an action and for a service without an App."""

    def __init__(self, token: str, login: str, address: str = PUBLIC, backoff: Backoff | None = None) -> None:
        self._token, self._login, self._address, self._backoff = token, login, address, backoff

    def forge(self, job: Job) -> Forge:
        return GitHubForge(connected(self._token, self._address, self._backoff), job.repository, self._login)

    def token(self, job: Job) -> str:
        return self._token


class GitLabToken:
    """Acts as the user of a token, on one server."""

    def __init__(self, token: str, address: str, backoff: Backoff | None = None) -> None:
        self._token, self._address, self._backoff = token, address, backoff

    def forge(self, job: Job) -> Forge:
        from xla_migrate.bot.gitlab import GitLabForge

        return GitLabForge(self._token, self._address, job.repository, self._backoff)

    def token(self, job: Job) -> str:
        return self._token
