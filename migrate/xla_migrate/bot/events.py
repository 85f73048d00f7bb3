"""What a webhook's delivery asks the bot to do. Pure, and distrustful of shapes.

Sources: "Webhook events and payloads" of GitHub and of GitLab.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

COMMAND = re.compile(r"\s*/xla-migrate[ \t]+apply[ \t]*(?:\r?\n.*)?", re.DOTALL)
_PUSHED = ("opened", "synchronize", "reopened")


@dataclass(frozen=True)
class Job:
    """``key`` is what makes a job another one: for a review the head that was pushed, for a command its
    comment. ``installation`` is that of the GitHub App, 0 without one; ``comment`` the one to answer, or 0.
    """

    forge: Literal["github", "gitlab"]
    repository: str
    number: int
    kind: Literal["review", "apply"]
    key: str
    installation: int = 0
    user: str = ""
    comment: int = 0


def of_github(event: str, payload: Mapping[str, Any]) -> Job | None:
    """The job in a delivery of GitHub; ``None`` for one that is none of the bot's business."""
    try:
        return _GITHUB[event](payload) if event in _GITHUB else None
    except (KeyError, TypeError, IndexError):
        return None  # not of a shape that GitHub describes


def of_gitlab(event: str, payload: Mapping[str, Any]) -> Job | None:
    """The job in a delivery of GitLab, by its ``X-Gitlab-Event``."""
    try:
        return _GITLAB[event](payload) if event in _GITLAB else None
    except (KeyError, TypeError):
        return None


def _pushed(payload: Mapping[str, Any]) -> Job | None:
    pull = payload["pull_request"]
    if payload["action"] not in _PUSHED:
        return None
    return _github(payload, int(pull["number"]), "review", str(pull["head"]["sha"]))


def _commented(payload: Mapping[str, Any]) -> Job | None:
    issue, comment = payload["issue"], payload["comment"]
    mine = payload["action"] == "created" and "pull_request" in issue and comment["user"]["type"] != "Bot"
    if not mine or not COMMAND.fullmatch(comment["body"]):
        return None
    number, written = int(issue["number"]), int(comment["id"])
    return _github(payload, number, "apply", f"comment-{written}", str(comment["user"]["login"]), written)


def _pressed(payload: Mapping[str, Any]) -> Job | None:
    """The button of a check; GitHub names no pull request where it comes from a fork."""
    run = payload["check_run"]
    if payload["action"] != "requested_action" or payload["requested_action"]["identifier"] != "apply":
        return None
    number = int(run["pull_requests"][0]["number"])
    return _github(payload, number, "apply", f"check-{int(run['id'])}", str(payload["sender"]["login"]))


def _github(
    payload: Mapping[str, Any],
    number: int,
    kind: Literal["review", "apply"],
    key: str,
    user: str = "",
    comment: int = 0,
) -> Job:
    installation = int((payload.get("installation") or {}).get("id", 0))
    return Job(
        "github", str(payload["repository"]["full_name"]), number, kind, key, installation, user, comment
    )


_GITHUB = {"pull_request": _pushed, "issue_comment": _commented, "check_run": _pressed}


def _merge_request(payload: Mapping[str, Any]) -> Job | None:
    request = payload["object_attributes"]
    pushed = request["action"] == "update" and "oldrev" in request
    if not pushed and request["action"] not in ("open", "reopen"):
        return None
    return _gitlab(payload, int(request["iid"]), "review", str(request["last_commit"]["id"]))


def _note(payload: Mapping[str, Any]) -> Job | None:
    note = payload["object_attributes"]
    if note["noteable_type"] != "MergeRequest" or not COMMAND.fullmatch(note["note"]):
        return None
    if note.get("action", "create") != "create":
        return None
    number, written = int(payload["merge_request"]["iid"]), int(note["id"])
    return _gitlab(payload, number, "apply", f"comment-{written}", str(note["author_id"]), written)


def _gitlab(
    payload: Mapping[str, Any],
    number: int,
    kind: Literal["review", "apply"],
    key: str,
    user: str = "",
    comment: int = 0,
) -> Job:
    return Job("gitlab", str(payload["project"]["id"]), number, kind, key, 0, user, comment)


_GITLAB = {"Merge Request Hook": _merge_request, "Note Hook": _note}
