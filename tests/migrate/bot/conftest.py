"""What the tests of the bot share: a repository, a stand-in of GitHub on a port, and a client of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from description import Description, cut
from github_stand_in import BOT, NAME, GitHub, Token
from pull_requests import Repository
from serving import served

from xla_migrate.bot.backoff import Backoff
from xla_migrate.bot.github import GitHubForge, connected

TOKEN = "ghp_0123456789abcdefghij"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture(
    params=["plain", pytest.param("described", marks=pytest.mark.slow)],
)
def github(request: pytest.FixtureRequest, repository: Repository) -> Iterator[GitHub]:
    """The stand-in; as "described" it holds both sides to GitHub's description of its API."""
    described = request.param == "described"
    stand_in = GitHub(repository, Description(cut(npm_cache(request.config))) if described else None)
    stand_in.tokens[TOKEN] = Token(BOT)
    with served(stand_in.app) as address:
        stand_in.address = address
        yield stand_in
    assert stand_in.violations == []


@pytest.fixture
def naps(github: GitHub) -> list[float]:
    """The waits of clients; the stand-in's clock goes on by them."""
    return []


@pytest.fixture
def backoff(github: GitHub, naps: list[float]) -> Backoff:
    def sleep(seconds: float) -> None:
        naps.append(seconds)
        github.now += seconds

    return Backoff(sleep)


@pytest.fixture
def forge(github: GitHub, backoff: Backoff) -> GitHubForge:
    return GitHubForge(connected(TOKEN, github.address, backoff), NAME, BOT)


def npm_cache(config: pytest.Config) -> Path:
    """A folder for npm's packages that outlives the run."""
    cache = config.cache
    assert cache is not None
    return Path(cache.mkdir("npm-of-the-bot"))


Made = Callable[..., int]
