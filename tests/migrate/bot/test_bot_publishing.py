"""A report reaches its pull request over HTTP: suggestions, check and comment, each once."""

from __future__ import annotations

import pytest
from github_stand_in import Fault, GitHub
from pull_requests import PLAIN, TRAIN, Repository, examined

from xla_migrate.bot import comment
from xla_migrate.bot.forge import Denied, Later
from xla_migrate.bot.github import GitHubForge
from xla_migrate.bot.publish import Outdated, publish
from xla_migrate.bot.settings import Settings


def test_a_pull_request_without_gpus_gets_a_comment_that_says_so(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    number = repository.pull({"a.py": PLAIN})
    assert publish(forge, number, examined(repository, number), Settings())
    assert "nothing to migrate" in github.comments[0]["body"]
    assert github.reviews == []
    assert [run["conclusion"] for run in github.check_runs] == ["success"]


def test_what_lies_in_the_hunks_becomes_suggestions_that_apply(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    number = repository.pull({"train.py": TRAIN})
    report = examined(repository, number)
    publish(forge, number, report, Settings())
    assert applied(TRAIN, github) == migrated(TRAIN)
    assert len(github.reviews) == 1
    assert "```diff" not in github.comments[0]["body"]


def test_what_lies_outside_of_the_hunks_stands_in_the_comment(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    repository.push("main", {"train.py": TRAIN})
    number = repository.pull({"a.py": PLAIN})
    publish(forge, number, examined(repository, number), Settings())
    assert github.reviews == []
    assert "+import torch_xla\n" in github.comments[0]["body"]
    assert [run["conclusion"] for run in github.check_runs] == ["neutral"]


def test_the_same_head_is_posted_once(repository: Repository, github: GitHub, forge: GitHubForge) -> None:
    number = repository.pull({"train.py": TRAIN})
    report = examined(repository, number)
    assert publish(forge, number, report, Settings())
    made = [request for request in github.requests if not request.startswith("GET")]
    assert not publish(forge, number, report, Settings())
    assert [request for request in github.requests if not request.startswith("GET")] == made


def test_a_push_updates_the_comment_and_repeats_no_suggestion(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    number = repository.pull({"train.py": TRAIN})
    publish(forge, number, examined(repository, number), Settings())
    before = len(github.review_comments)
    head = repository.push("topic", {"a.py": PLAIN})
    publish(forge, number, examined(repository, number), Settings())
    assert len(github.review_comments) == before
    assert [comment.head_of(one["body"]) for one in github.comments] == [head]
    assert len(github.check_runs) == 2


def test_comments_of_strangers_that_look_like_ours_stay(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    number = repository.pull({"train.py": TRAIN})
    theirs = {"id": 1, "number": number, "user": {"login": "stranger"}}
    github.comments.append({**theirs, "body": f"<!-- xla-migrate:comment {repository.head(number)} -->"})
    publish(forge, number, examined(repository, number), Settings())
    assert len(github.comments) == 2
    assert comment.head_of(github.comments[0]["body"])


def test_a_refused_review_is_halved_until_the_refused_part_is_alone(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    scripts = {f"train{number}.py": TRAIN for number in range(3)}
    number = repository.pull(scripts)
    report = examined(repository, number)
    refused = report.files[1].groups[0].blocks[0]
    github.awkward.add((report.files[1].path, refused.end))
    publish(forge, number, report, Settings())
    paths = {one["path"] for one in github.review_comments}
    assert paths == {"train0.py", "train2.py"}
    assert len(github.review_comments) == len({one["body"] for one in github.review_comments})
    assert "+++ b/train1.py" in github.comments[0]["body"]
    assert "+++ b/train0.py" not in github.comments[0]["body"]


def test_a_review_that_was_made_though_the_server_failed_is_not_made_again(
    repository: Repository, github: GitHub, forge: GitHubForge, naps: list[float]
) -> None:
    number = repository.pull({"train.py": TRAIN})
    for path in ("/reviews$", "/check-runs$", "/issues/1/comments$"):
        github.faults.append(Fault("POST", path, 502, done=True))
    publish(forge, number, examined(repository, number), Settings())
    assert len(github.reviews) == len(github.check_runs) == len(github.comments) == 1
    assert len(naps) == 3


def test_a_server_that_fails_is_asked_again_after_growing_waits(
    repository: Repository, github: GitHub, forge: GitHubForge, naps: list[float]
) -> None:
    number = repository.pull({"a.py": PLAIN})
    github.faults.append(Fault("GET", r"/pulls/1$", 503, times=2))
    publish(forge, number, examined(repository, number), Settings())
    assert naps == [1.0, 2.0]


def test_a_secondary_rate_limit_is_waited_out(
    repository: Repository, github: GitHub, forge: GitHubForge, naps: list[float]
) -> None:
    number = repository.pull({"train.py": TRAIN})
    github.budget = 1
    publish(forge, number, examined(repository, number), Settings())
    assert set(naps) == {30.0}
    assert len(github.reviews) == len(github.check_runs) == len(github.comments) == 1


def test_a_rate_limit_of_an_hour_puts_the_work_off(
    repository: Repository, github: GitHub, forge: GitHubForge, naps: list[float]
) -> None:
    number = repository.pull({"a.py": PLAIN})
    github.faults.append(
        Fault(
            "GET",
            r"/pulls/1$",
            403,
            "API rate limit exceeded",
            {"retry_after": "3600", "x_ratelimit_remaining": "0"},
        )
    )
    with pytest.raises(Later) as told:
        publish(forge, number, examined(repository, number), Settings())
    assert told.value.seconds == 3600
    assert naps == []


def test_a_token_that_may_not_write_is_said_and_not_insisted_on(
    repository: Repository, github: GitHub, forge: GitHubForge, naps: list[float]
) -> None:
    number = repository.pull({"train.py": TRAIN})
    for token in github.tokens.values():
        token.writes = False
    with pytest.raises(Denied, match="not accessible"):
        publish(forge, number, examined(repository, number), Settings())
    assert naps == []


def test_a_report_on_another_head_is_not_posted(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    number = repository.pull({"train.py": TRAIN})
    report = examined(repository, number)
    repository.push("topic", {"a.py": PLAIN})
    with pytest.raises(Outdated):
        publish(forge, number, report, Settings())
    assert [request for request in github.requests if not request.startswith("GET")] == []


def test_a_closed_pull_request_gets_nothing(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    number = repository.pull({"train.py": TRAIN})
    github.closed.add(number)
    with pytest.raises(Outdated):
        publish(forge, number, examined(repository, number), Settings())


def test_annotations_come_in_batches_and_go_on_where_they_broke_off(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    lines = "".join(f"g{n} = torch.cuda.CUDAGraph()\n" for n in range(130))
    number = repository.pull({"train.py": TRAIN + lines})
    report = examined(repository, number)
    wanted = sum(len(file.findings) for file in report.files)
    assert wanted > 100
    github.faults.append(Fault("PATCH", "/check-runs/", 502, done=True))
    publish(forge, number, report, Settings())
    [run] = github.check_runs
    assert len(run["all"]) == wanted
    assert run["status"] == "completed"


def test_a_suggestion_never_comes_alone_where_it_needs_another(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    """The import lies outside of the hunks: a suggestion of its use would not run."""
    long = TRAIN.replace("for step", "# a comment\n" * 20 + "for step")
    repository.push("main", {"train.py": long})
    number = repository.pull({"train.py": long.replace("range(3)", "range(4)")})
    report = examined(repository, number)
    publish(forge, number, report, Settings())
    assert all("xm." not in one["body"] for one in github.review_comments)


def test_at_most_thirty_suggestions_are_made(
    repository: Repository, github: GitHub, forge: GitHubForge
) -> None:
    number = repository.pull({f"train{n:02}.py": TRAIN for n in range(9)})
    publish(forge, number, examined(repository, number), Settings())
    assert 20 < len(github.review_comments) <= 30


def test_suggestions_can_be_turned_off(repository: Repository, github: GitHub, forge: GitHubForge) -> None:
    number = repository.pull({"train.py": TRAIN})
    publish(forge, number, examined(repository, number), Settings(suggestions=0))
    assert github.reviews == []
    assert "```diff" in github.comments[0]["body"]


def migrated(text: str) -> str:
    from xla_migrate import migrate_source

    return migrate_source(text).code


def applied(text: str, github: GitHub) -> str:
    """The text with all suggestions committed, as GitHub does it."""
    lines = text.split("\n")
    for one in sorted(github.review_comments, key=lambda one: -int(one["line"])):
        block = one["body"].split("```suggestion\n")[1].split("```")[0]
        start = one.get("start_line", one["line"])
        lines[start - 1 : one["line"]] = block.split("\n")[:-1]
    return "\n".join(lines)
