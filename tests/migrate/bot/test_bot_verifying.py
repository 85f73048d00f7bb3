"""``verify`` in a job: only where the base branch asks for it and the job may run code."""

from __future__ import annotations

from pathlib import Path

import pytest
from pull_requests import TRAIN, Repository

from xla_migrate.bot import job
from xla_migrate.bot.examine import examine
from xla_migrate.bot.job import Conditions, Source, look
from xla_migrate.bot.report import Report

ASKS = "[tool.xla-migrate.bot.verify]\nscript = 'train.py'\nrun-code = true\nsteps = 2\n"


def looked(repository: Repository, conditions: Conditions, base: str, head: str = "") -> Report:
    repository.push("main", {"pyproject.toml": base})
    number = repository.pull({"train.py": TRAIN, **({"pyproject.toml": head} if head else {})})
    source = Source(str(repository.folder), repository.head(number), repository.base())
    return look(source, conditions)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The migration costs no child; what is asked of ``verify`` does."""

    def examined(folder: Path, source: Source, conditions: Conditions, contents: bool) -> Report:
        return examine(folder / job.TREE, source.head, source.base, contents=contents)

    monkeypatch.setattr(job, "_examined", examined)


@pytest.fixture
def never(in_this_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where code would be run."""

    def run(*_: object) -> None:
        raise AssertionError("code of the pull request would be run")

    monkeypatch.setattr(job, "_verdict", run)


@pytest.mark.usefixtures("never")
def test_code_is_not_run_where_the_base_branch_does_not_allow_it(repository: Repository) -> None:
    found = looked(repository, Conditions(sandbox=()), ASKS.replace("run-code = true\n", ""))
    assert found.verdict is None
    assert "run-code = true" in found.problems[0]


@pytest.mark.usefixtures("never")
def test_code_is_not_run_where_only_the_head_asks_for_it(repository: Repository) -> None:
    found = looked(repository, Conditions(sandbox=()), "[tool.xla-migrate.bot]\n", ASKS)
    assert (found.verdict, found.problems) == (None, ())


@pytest.mark.usefixtures("never")
def test_code_is_not_run_by_a_bot_without_a_place_for_it(repository: Repository) -> None:
    found = looked(repository, Conditions(), ASKS)
    assert "runs no code" in found.problems[0]


@pytest.mark.usefixtures("never")
def test_a_script_outside_of_the_repository_is_not_run(repository: Repository) -> None:
    found = looked(repository, Conditions(sandbox=()), ASKS.replace("train.py", "../train.py"))
    assert "outside of the repository" in found.problems[0]


@pytest.mark.usefixtures("in_this_process")
def test_runs_that_leave_no_answer_are_no_verdict_of_equality(repository: Repository) -> None:
    found = looked(repository, Conditions(sandbox=("true",)), ASKS)
    assert found.verdict is not None
    assert found.verdict.outcome == "not comparable"


@pytest.mark.slow
def test_the_verdict_of_real_runs_is_reported(repository: Repository) -> None:
    found = looked(repository, Conditions(sandbox=()), ASKS)
    assert found.verdict is not None
    assert found.verdict.outcome in ("equal", "within tolerance"), found.verdict.reason
    assert found.verdict.command.startswith("xla-migrate verify train.py --steps 2")
