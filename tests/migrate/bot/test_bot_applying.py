"""``/xla-migrate apply``: who may, what is written where, and only once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from github_stand_in import Fault, GitHub
from pull_requests import PLAIN, TRAIN, Repository, examined

from xla_migrate import migrate_source
from xla_migrate.bot import working
from xla_migrate.bot.events import Job
from xla_migrate.bot.github import GitHubForge
from xla_migrate.bot.job import Conditions, Source
from xla_migrate.bot.report import Report

COMMIT = "[tool.xla-migrate.bot]\napply = 'commit'\n"


@pytest.fixture
def ask(
    repository: Repository, github: GitHub, forge: GitHubForge, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Somebody writes the command; the tree is examined in this process."""

    def look(source: Source, conditions: Conditions, *, contents: bool = False) -> Report:
        [number] = [n for n in repository.pulls if repository.head(n) == source.head]
        return examined(repository, number, contents=contents)

    monkeypatch.setattr(working, "look", look)

    def command(number: int, user: str = "owner", comment: int = 5) -> str:
        job = Job("github", "acme/train", number, "apply", f"comment-{comment}", 0, user, comment)
        return working.do(job, forge, lambda: "", Conditions(), lambda: None)

    return command


def test_who_may_not_push_is_refused_and_nothing_is_examined(
    repository: Repository, github: GitHub, ask: Callable[..., str]
) -> None:
    repository.push("main", {"pyproject.toml": COMMIT})
    number = repository.pull({"train.py": TRAIN})
    head = repository.head(number)
    assert "only people who may push" in ask(number, user="stranger")
    assert repository.head(number) == head
    assert github.reactions == [(5, "confused")]
    assert github.comments == []


def test_a_repository_may_want_no_commands(
    repository: Repository, github: GitHub, ask: Callable[..., str]
) -> None:
    repository.push("main", {"pyproject.toml": "[tool.xla-migrate.bot]\napply = 'never'\n"})
    assert "never" in ask(repository.pull({"train.py": TRAIN}))
    assert github.companions == []


def test_the_configuration_of_the_head_does_not_count(
    repository: Repository, github: GitHub, ask: Callable[..., str]
) -> None:
    number = repository.pull({"train.py": TRAIN, "pyproject.toml": COMMIT})
    head = repository.head(number)
    assert "pull request of its own" in ask(number)
    assert repository.head(number) == head


def test_the_migration_is_committed_on_the_branch(
    repository: Repository, github: GitHub, ask: Callable[..., str]
) -> None:
    repository.push("main", {"pyproject.toml": COMMIT})
    number = repository.pull({"src/train.py": TRAIN, "a.py": PLAIN}, executable="src/train.py")
    before = repository.head(number)
    assert "Applied to this branch" in ask(number)
    after = repository.head(number)
    assert repository.git("rev-parse", f"{after}^") == before
    assert repository.show(after, "src/train.py") == migrate_source(TRAIN).code
    assert repository.git("diff", "--name-only", before, after) == "src/train.py"
    assert repository.git("ls-tree", after, "src/train.py").startswith("100755")
    assert github.reactions == [(5, "+1")]


def test_a_fork_gets_a_companion_pull_request(
    repository: Repository, github: GitHub, ask: Callable[..., str]
) -> None:
    repository.push("main", {"pyproject.toml": COMMIT})
    number = repository.pull({"train.py": TRAIN})
    github.forks.add(number)
    head = repository.head(number)
    assert "pull request of its own" in ask(number)
    [companion] = github.companions
    assert companion["base"]["ref"] == "main"
    assert repository.git("rev-parse", f"{companion['head']['ref']}^") == head
    assert repository.head(number) == head


def test_a_command_that_is_worked_on_again_is_done_once(
    repository: Repository, github: GitHub, ask: Callable[..., str]
) -> None:
    repository.push("main", {"pyproject.toml": COMMIT})
    number = repository.pull({"train.py": TRAIN})
    ask(number)
    head = repository.head(number)
    assert ask(number) == "applied before"
    assert repository.head(number) == head


def test_a_companion_is_made_once(repository: Repository, github: GitHub, ask: Callable[..., str]) -> None:
    number = repository.pull({"train.py": TRAIN})
    ask(number)
    ask(number)
    ask(number, comment=6)
    assert len(github.companions) == 1


@pytest.mark.parametrize("path", ["/git/refs/heads/topic$", "/git/commits$"])
def test_a_server_that_fails_after_it_did_it_leaves_one_commit(
    repository: Repository, github: GitHub, ask: Callable[..., str], path: str
) -> None:
    repository.push("main", {"pyproject.toml": COMMIT})
    number = repository.pull({"train.py": TRAIN})
    before = repository.head(number)
    github.faults.append(Fault("PATCH" if "heads" in path else "POST", path, 502, done=True))
    assert "Applied to this branch" in ask(number)
    assert repository.git("rev-parse", f"{repository.head(number)}^") == before


def test_a_branch_that_moved_on_is_left(
    repository: Repository, github: GitHub, ask: Callable[..., str], tmp_path: Path
) -> None:
    repository.push("main", {"pyproject.toml": COMMIT})
    number = repository.pull({"train.py": TRAIN})
    pushed: list[str] = []

    def push(request: str) -> None:
        if request.endswith("/git/trees") and not pushed:
            pushed.append(repository.push("topic", {"b.py": PLAIN}))

    github.slow = push
    assert "Not applied" in ask(number)
    assert repository.head(number) == pushed[0]


def test_where_nothing_is_to_be_migrated_nothing_is_committed(
    repository: Repository, github: GitHub, ask: Callable[..., str]
) -> None:
    assert "nothing to apply" in ask(repository.pull({"a.py": PLAIN}))
    assert github.companions == []


def test_the_comment_tells_what_became_of_the_command(
    repository: Repository, github: GitHub, ask: Callable[..., str]
) -> None:
    ask(repository.pull({"train.py": TRAIN}))
    [said] = github.comments
    assert "Applied in a pull request of its own" in said["body"]
