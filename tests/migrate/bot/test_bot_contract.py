"""Stoplight Prism between the bot and the stand-in: it knows only GitHub's own description."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from conftest import TOKEN, npm_cache
from description import Description, cut, installed
from github_stand_in import BOT, NAME, GitHub, Token
from pull_requests import TRAIN, Repository, examined
from serving import served

from xla_migrate.bot.applying import apply
from xla_migrate.bot.backoff import Backoff
from xla_migrate.bot.github import GitHubForge, connected
from xla_migrate.bot.publish import publish
from xla_migrate.bot.settings import Settings

pytestmark = pytest.mark.slow


@pytest.fixture
def github(request: pytest.FixtureRequest, repository: Repository) -> GitHub:
    stand_in = GitHub(repository, Description(cut(npm_cache(request.config))))
    stand_in.tokens[TOKEN] = Token(BOT)
    return stand_in


@pytest.fixture
def prism(request: pytest.FixtureRequest, github: GitHub, tmp_path: Path) -> Iterator[str]:
    """The address at which Prism passes on what fits the description, and refuses the rest."""
    cache = npm_cache(request.config)
    program = installed(cache, "@stoplight/prism-cli") / "dist" / "index.js"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with served(github.app) as address, open(tmp_path / "prism.log", "wb") as log:
        command = ["node", str(program), "proxy", str(cut(cache)), address, "--errors", "--port", str(port)]
        process = subprocess.Popen([*command, "--host", "127.0.0.1"], stdout=log, stderr=log)
        try:
            _wait(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "Prism did not start"
        try:
            httpx.get(f"http://127.0.0.1:{port}/app", timeout=5)
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise AssertionError("Prism does not answer")


@pytest.fixture
def forge(prism: str) -> GitHubForge:
    return GitHubForge(connected(TOKEN, prism, Backoff(lambda seconds: None)), NAME, BOT)


def test_prism_refuses_what_github_does_not_describe(prism: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = httpx.post(
        f"{prism}/repos/{NAME}/check-runs", json={"status": "sometime"}, headers=headers, timeout=60
    )
    assert answer.status_code >= 400
    assert "prism" in answer.text or "stoplight" in answer.text


def test_all_that_is_published_fits_the_description(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    number = repository.pull({"train.py": TRAIN + "g = torch.cuda.CUDAGraph()\n" * 60})
    assert publish(forge, number, examined(repository, number), Settings())
    assert len(github.reviews) == len(github.check_runs) == len(github.comments) == 1
    assert len(github.check_runs[0]["all"]) > 50


@pytest.mark.parametrize("how", ["commit", "pull-request"])
def test_all_that_is_applied_fits_the_description(
    repository: Repository, github: GitHub, forge: GitHubForge, how: str
) -> None:
    number = repository.pull({"src/train.py": TRAIN})
    pull, report = forge.pull_request(number), examined(repository, number, contents=True)
    assert forge.may_write("owner")
    assert "Applied" in apply(forge, pull, report, Settings(apply=how), "comment-1")  # type: ignore[arg-type]
    forge.react(number, 5, True)
    assert github.reactions == [(5, "+1")]
