"""The bot within a workflow of GitHub Actions: a job that examines, and one that publishes.

The first may run on anybody's pull request and needs no token. The second holds one, takes the report as a
stranger's text, and finds out by itself which pull request it belongs to and what the base branch wants.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xla_migrate import escape
from xla_migrate.bot import comment, report
from xla_migrate.bot.access import GitHubToken
from xla_migrate.bot.backoff import Backoff
from xla_migrate.bot.events import Job, of_github
from xla_migrate.bot.forge import Forge
from xla_migrate.bot.github import PUBLIC
from xla_migrate.bot.job import CannotExamine, Conditions, Source, look
from xla_migrate.bot.publish import Outdated, publish
from xla_migrate.bot.report import Report
from xla_migrate.bot.working import do, settings_of
from xla_migrate.reports.github import Properties, command
from xla_transforms.targets import DEFAULT

LOGIN = "github-actions[bot]"
SECRETS = ("GITHUB_TOKEN", "GH_TOKEN", "XLA_MIGRATE_TOKEN")
_SHOWN = 10
"""Annotations of one level that a step may show."""


class WrongUse(Exception):
    """The event or the environment is not one that the command can work with."""


def examine(event: Path, repository: str, conditions: Conditions) -> Report:
    """The report on the pull request of an event, from a local repository that has both its commits.

    Raises ``WrongUse``, also where code would be run beside a token.
    """
    pull = _event(event).get("pull_request")
    try:
        head, base = str(pull["head"]["sha"]), str(pull["base"]["sha"])  # type: ignore[index]
    except (KeyError, TypeError):
        raise WrongUse("this is no event of a pull request") from None
    at_hand = [name for name in SECRETS if os.environ.get(name)]
    if conditions.sandbox is not None and at_hand:
        raise WrongUse(f"no code of a pull request is run where {at_hand[0]} is at hand")
    try:
        return look(Source(os.path.abspath(repository), head, base), conditions)
    except CannotExamine as error:
        return Report(head, base, DEFAULT, "xla-migrate .", 0, problems=(str(error),))


def told(found: Report) -> Iterator[str]:
    """Workflow commands that show the findings on the files, as many as a step may show."""
    counts: dict[str, int] = {}
    state = comment.check(found, (), 65_000, ref="", fail_on="never", apply=False)
    for one in state.annotations:
        level = {"failure": "error"}.get(one.level, one.level)
        counts[level] = counts.get(level, 0) + 1
        if counts[level] <= _SHOWN:
            place: Properties = {"file": one.path, "line": one.start, "endLine": one.end, "title": one.title}
            yield command(level, place, one.message)
    yield escape.visible(comment.headline(found))


def bring(
    event: Path, found: bytes | None, environment: Mapping[str, str], backoff: Backoff | None = None
) -> str:
    """Publish a report or, without one, do what the event asks for; gives a few words about it.

    Raises ``WrongUse``, ``BadReport`` and ``ForgeError``.
    """
    token, repository = environment.get("GITHUB_TOKEN", ""), environment.get("GITHUB_REPOSITORY", "")
    if not token or not repository:
        raise WrongUse("GITHUB_TOKEN and GITHUB_REPOSITORY have to be set")
    login = environment.get("XLA_MIGRATE_LOGIN", LOGIN)
    access = GitHubToken(token, login, environment.get("GITHUB_API_URL", PUBLIC), backoff)
    payload, name = _event(event), environment.get("GITHUB_EVENT_NAME", "")
    job = of_github(name.replace("pull_request_target", "pull_request"), payload)
    if found is None:
        return "nothing to do" if job is None else _done(job, access)
    forge = access.forge(Job("github", repository, 0, "review", ""))
    return _published(forge, _number(forge, payload, job), report.read(found))


def _done(job: Job, access: GitHubToken) -> str:
    return do(job, access.forge(job), lambda: access.token(job), Conditions(), lambda: None)


def _published(forge: Forge, number: int, found: Report) -> str:
    try:
        pull = forge.pull_request(number)
        done = publish(forge, number, found, settings_of(forge, pull))
    except Outdated as error:
        return str(error)
    return "posted" if done else "posted before"


def _number(forge: Forge, payload: Mapping[str, Any], job: Job | None) -> int:
    """The pull request by what GitHub says of the run: the report could name another one."""
    if job is not None:
        return job.number
    try:
        run = payload["workflow_run"]
        owner, branch, head = run["head_repository"]["owner"]["login"], run["head_branch"], run["head_sha"]
    except (KeyError, TypeError):
        raise WrongUse("neither an event of a pull request nor of a workflow run on one") from None
    for number in forge.named(str(owner), str(branch)):
        if forge.pull_request(number).head == head:
            return number
    raise WrongUse("no open pull request has the head of this run")


def _event(path: Path) -> dict[str, Any]:
    try:
        payload = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise WrongUse(f"the event cannot be read: {error}") from error
    if not isinstance(payload, dict):
        raise WrongUse("the event is no JSON object")
    return payload
