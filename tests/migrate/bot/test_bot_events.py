"""Which deliveries are jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import npm_cache
from description import installed

from xla_migrate.bot.events import COMMAND, Job, of_github, of_gitlab

REPOSITORY = {"full_name": "acme/train"}


def pushed(action: str = "synchronize") -> dict[str, Any]:
    pull = {"number": 7, "head": {"sha": "a" * 40}}
    return {"action": action, "pull_request": pull, "repository": REPOSITORY, "installation": {"id": 5}}


def commented(body: str, action: str = "created", kind: str = "User") -> dict[str, Any]:
    comment = {"id": 9, "body": body, "user": {"login": "owner", "type": kind}}
    issue = {"number": 7, "pull_request": {}}
    return {"action": action, "issue": issue, "comment": comment, "repository": REPOSITORY}


@pytest.mark.parametrize("action", ["closed", "labeled", "edited", "assigned"])
def test_a_pull_request_whose_head_stays_is_no_job(action: str) -> None:
    assert of_github("pull_request", pushed(action)) is None


@pytest.mark.parametrize("event", ["ping", "push", "installation", "", "pull_request_review"])
def test_another_event_is_no_job(event: str) -> None:
    assert of_github(event, pushed()) is None


@pytest.mark.parametrize(
    "payload", [{}, {"action": "opened"}, {"action": "opened", "pull_request": 3}, {"action": []}]
)
def test_a_payload_of_another_shape_is_no_job(payload: dict[str, Any]) -> None:
    for event in ("pull_request", "issue_comment", "check_run"):
        assert of_github(event, payload) is None
    for event in ("Merge Request Hook", "Note Hook"):
        assert of_gitlab(event, payload) is None


@pytest.mark.parametrize(
    "body", ["/xla-migrate", "please /xla-migrate apply", "/xla-migrate applying", "> /xla-migrate apply"]
)
def test_a_comment_that_only_speaks_of_the_command_is_no_job(body: str) -> None:
    assert COMMAND.fullmatch(body) is None
    assert of_github("issue_comment", commented(body)) is None


def test_comments_of_bots_and_edited_ones_are_no_jobs() -> None:
    assert of_github("issue_comment", commented("/xla-migrate apply", kind="Bot")) is None
    assert of_github("issue_comment", commented("/xla-migrate apply", action="edited")) is None


def test_a_comment_on_an_issue_is_no_job() -> None:
    payload = commented("/xla-migrate apply")
    del payload["issue"]["pull_request"]
    assert of_github("issue_comment", payload) is None


@pytest.mark.parametrize("action", ["opened", "synchronize", "reopened"])
def test_a_push_is_a_review_of_its_head(action: str) -> None:
    assert of_github("pull_request", pushed(action)) == Job("github", "acme/train", 7, "review", "a" * 40, 5)


@pytest.mark.parametrize("body", ["/xla-migrate apply", "  /xla-migrate  apply \r\nthanks"])
def test_the_command_is_a_job_of_whoever_wrote_it(body: str) -> None:
    wanted = Job("github", "acme/train", 7, "apply", "comment-9", 0, "owner", 9)
    assert of_github("issue_comment", commented(body)) == wanted


def test_the_button_of_a_check_is_a_job_of_whoever_pressed_it() -> None:
    run = {"id": 3, "pull_requests": [{"number": 7}]}
    payload = {
        "action": "requested_action", "requested_action": {"identifier": "apply"}, "check_run": run,
        "sender": {"login": "owner"}, "repository": REPOSITORY,
    }  # fmt: skip
    assert of_github("check_run", payload) == Job("github", "acme/train", 7, "apply", "check-3", 0, "owner")
    assert of_github("check_run", {**payload, "check_run": {**run, "pull_requests": []}}) is None


def test_a_merge_request_of_gitlab_is_a_job_where_commits_came() -> None:
    request = {"iid": 4, "action": "update", "last_commit": {"id": "c" * 40}}
    payload = {"object_attributes": request, "project": {"id": 12}}
    assert of_gitlab("Merge Request Hook", payload) is None
    request["oldrev"] = "b" * 40
    assert of_gitlab("Merge Request Hook", payload) == Job("gitlab", "12", 4, "review", "c" * 40)


def test_a_note_of_gitlab_is_a_command() -> None:
    note = {"id": 8, "note": "/xla-migrate apply", "noteable_type": "MergeRequest", "author_id": 3}
    payload = {"object_attributes": note, "merge_request": {"iid": 4}, "project": {"id": 12}}
    assert of_gitlab("Note Hook", payload) == Job("gitlab", "12", 4, "apply", "comment-8", 0, "3", 8)
    assert (
        of_gitlab("Note Hook", {**payload, "object_attributes": {**note, "noteable_type": "Issue"}}) is None
    )


@pytest.mark.slow
def test_the_payloads_that_github_publishes_are_understood(request: pytest.FixtureRequest) -> None:
    folder = installed(npm_cache(request.config), "@octokit/webhooks-examples")
    events = json.loads((folder / "api.github.com/index.json").read_bytes())
    jobs = [(e["name"], p.get("action"), of_github(e["name"], p)) for e in events for p in e["examples"]]
    reviews = {action for name, action, job in jobs if job is not None and name == "pull_request"}
    assert reviews == {"opened", "reopened", "synchronize"}
    assert all(job is not None for name, action, job in jobs if name == "pull_request" and action in reviews)
    assert {name for name, _, job in jobs if job is not None} == {"pull_request"}
    [example] = [e["examples"] for e in events if e["name"] == "issue_comment"]
    created = [p for p in example if p["action"] == "created" and p["comment"]["user"]["type"] == "User"]
    for payload in created:
        payload["issue"]["pull_request"] = {}
        payload["comment"]["body"] = "/xla-migrate apply"
    assert len(created) > 2
    assert all(of_github("issue_comment", payload) is not None for payload in created)
