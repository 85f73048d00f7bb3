"""The same on GitLab: discussions, one note, a status, and commits by those who may push."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gitlab_stand_in import TOKEN, GitLab
from pull_requests import PLAIN, TRAIN, Repository, examined
from serving import served

from xla_migrate import migrate_source
from xla_migrate.bot import working
from xla_migrate.bot.backoff import Backoff
from xla_migrate.bot.events import Job
from xla_migrate.bot.forge import Denied
from xla_migrate.bot.gitlab import GitLabForge
from xla_migrate.bot.job import Conditions
from xla_migrate.bot.publish import publish
from xla_migrate.bot.settings import Settings

COMMIT = "[tool.xla-migrate.bot]\napply = 'commit'\n"


@pytest.fixture
def gitlab(repository: Repository) -> GitLab:
    return GitLab(repository)


@pytest.fixture
def address(gitlab: GitLab) -> Iterator[str]:
    with served(gitlab.app) as at:
        yield at


@pytest.fixture
def forge(address: str) -> GitLabForge:
    return GitLabForge(TOKEN, address, "12", Backoff(lambda seconds: None))


def test_suggestions_a_note_and_a_status_are_made_once(
    repository: Repository, gitlab: GitLab, forge: GitLabForge
) -> None:
    number = repository.pull({"train.py": TRAIN})
    report = examined(repository, number)
    assert publish(forge, number, report, Settings())
    assert not publish(forge, number, report, Settings())
    blocks = sum(len(group.blocks) for file in report.files for group in file.groups)
    assert len(gitlab.discussions) == blocks
    assert len(gitlab.notes) == 1
    assert [one["state"] for one in gitlab.statuses] == ["success"]
    assert f"git fetch origin merge-requests/{number}/head" in gitlab.notes[0]["body"]


def test_a_push_updates_the_note_and_repeats_no_suggestion(
    repository: Repository, gitlab: GitLab, forge: GitLabForge
) -> None:
    number = repository.pull({"train.py": TRAIN})
    publish(forge, number, examined(repository, number), Settings())
    before = len(gitlab.discussions)
    head = repository.push("topic", {"a.py": PLAIN})
    publish(forge, number, examined(repository, number), Settings())
    assert len(gitlab.discussions) == before
    assert len(gitlab.notes) == 1
    assert head in gitlab.notes[0]["body"]


def test_a_group_of_which_one_suggestion_is_refused_stands_in_the_note_and_nothing_is_doubled(
    repository: Repository, gitlab: GitLab, forge: GitLabForge
) -> None:
    number = repository.pull({"train.py": TRAIN})
    gitlab.refused.add(3)
    publish(forge, number, examined(repository, number), Settings())
    bodies = [one["notes"][0]["body"] for one in gitlab.discussions]
    assert len(bodies) == len(set(bodies))
    assert "+device = torch_xla.device()" in gitlab.notes[0]["body"]


def test_a_wrong_token_is_told(address: str, repository: Repository) -> None:
    number = repository.pull({"a.py": PLAIN})
    with pytest.raises(Denied, match="401"):
        GitLabForge("another", address, "12").pull_request(number)


def asked(
    forge: GitLabForge, repository: Repository, number: int, user: str, monkeypatch: pytest.MonkeyPatch
) -> str:
    found = examined(repository, number, contents=True)
    monkeypatch.setattr(working, "look", lambda source, conditions, contents=False: found)
    job = Job("gitlab", "12", number, "apply", "comment-5", 0, user, 5)
    return working.do(job, forge, lambda: "", Conditions(), lambda: None)


@pytest.mark.parametrize("user", ["4", "77", "nobody"])
def test_who_may_not_push_is_refused(
    repository: Repository, gitlab: GitLab, forge: GitLabForge, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    repository.push("main", {"pyproject.toml": COMMIT})
    number = repository.pull({"train.py": TRAIN})
    head = repository.head(number)
    assert "only people who may push" in asked(forge, repository, number, user, monkeypatch)
    assert repository.head(number) == head
    assert gitlab.emoji == [(5, "confused")]


def test_a_developer_has_the_migration_committed_once(
    repository: Repository, gitlab: GitLab, forge: GitLabForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.push("main", {"pyproject.toml": COMMIT})
    number = repository.pull({"train.py": TRAIN})
    before = repository.head(number)
    assert "Applied to this branch" in asked(forge, repository, number, "3", monkeypatch)
    after = repository.head(number)
    assert repository.git("rev-parse", f"{after}^") == before
    assert repository.show(after, "train.py") == migrate_source(TRAIN).code
    assert asked(forge, repository, number, "3", monkeypatch) == "applied before"
    assert repository.head(number) == after


def test_a_fork_gets_a_companion_merge_request(
    repository: Repository, gitlab: GitLab, forge: GitLabForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = repository.pull({"train.py": TRAIN})
    gitlab.forks.add(number)
    for _ in range(2):
        assert "pull request of its own" in asked(forge, repository, number, "3", monkeypatch)
    [companion] = gitlab.companions
    assert companion["target_branch"] == "main"
