"""The comment and the check: what they say, and that they always fit."""

from __future__ import annotations

import pytest

from xla_migrate.bot import comment
from xla_migrate.bot.report import Change, File, Finding, Report, Verdict
from xla_migrate.bot.review import Part

HEAD, BASE = "a" * 40, "b" * 40
REF = "pull/1/head"


def file(number: int, *, path: str = "", lines: int = 3, findings: int = 1) -> File:
    changes = (Change("XLA101", "device-name", "the device", "safe", 3),)
    found = tuple(
        Finding("XLA290", "left", "error", "look @here", "do", n + 1, n + 1) for n in range(findings)
    )
    return File(path or f"src/train{number}.py", False, changes, found, "--- a\n+++ b\n" + "+ä\n" * lines)


def report(files: int, *, lines: int = 3, findings: int = 1, path: str = "") -> Report:
    made = tuple(file(n, lines=lines, findings=findings, path=path) for n in range(files))
    return Report(HEAD, BASE, "2.9", "xla-migrate . --target 2.9", 9, made)


@pytest.mark.parametrize(
    ("files", "lines", "findings"),
    [
        (0, 0, 0),
        (1, 3, 1),
        (1, 40_000, 0),
        (60, 30, 60),
        (400, 0, 1),
        (400, 30, 0),
        (3, 30_000, 400),
        (60, 900, 9),
    ],
)
def test_every_size_stays_below_the_limit_and_keeps_what_matters(
    files: int, lines: int, findings: int
) -> None:
    text = comment.body(report(files, lines=lines, findings=findings), (), 65_000, ref=REF, apply=True)
    assert len(text.encode()) <= 65_000
    assert comment.head_of(text) == HEAD
    assert "xla-migrate . --target 2.9" in text
    assert text.count("<details>") == text.count("</details>")
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize("limit", [2_000, 5_000, 20_000])
def test_a_diff_is_shown_whole_or_not_at_all_and_what_is_left_out_is_said(limit: int) -> None:
    whole = report(20, lines=200)
    text = comment.body(whole, (), limit, ref=REF, apply=True)
    shown = text.count(whole.files[0].diff)
    assert len(text.encode()) <= limit
    assert f"The diff of {20 - shown} file" in text


def test_paths_as_long_as_a_file_system_takes_them_fit() -> None:
    text = comment.body(report(100, path="/".join(["d" * 200] * 20)), (), 65_000, ref=REF, apply=True)
    assert len(text.encode()) <= 65_000


def test_counts_by_rule_and_safety_files_and_findings_are_told() -> None:
    text = comment.body(report(2), (), 65_000, ref=REF, apply=False)
    assert "2 changes in 2 files" in text
    assert "Changes by rule: 2 changes safe" in text
    assert "| XLA101 device\\-name | safe | 2 |" in text
    assert "Findings: 2" in text
    assert "9 files examined; 2 errors" in text
    assert "@here" not in text


def test_the_verdict_is_told_with_its_command() -> None:
    verdict = Verdict("diverged", "loss differs <b>", "xla-migrate verify train.py")
    text = comment.body(Report(HEAD, BASE, "2.9", "x", 1, verdict=verdict), (), 65_000, ref=REF, apply=False)
    assert "migrated run: diverged" in text
    assert "<b>" not in text
    assert "xla-migrate verify train.py" in text


def test_the_diff_of_a_file_that_suggestions_cover_is_left_out() -> None:
    part = Part("src/train0.py", frozenset({0}), {})
    text = comment.body(report(2, lines=1), [part], 65_000, ref=REF, apply=False)
    assert text.count("```diff") == 1
    assert "<code>src/train0.py</code> | 1 | 1 of 1 |" in text


def test_the_offer_stands_only_where_something_can_be_applied() -> None:
    assert "/xla-migrate apply" in comment.body(report(1), (), 65_000, ref=REF, apply=True)
    assert "/xla-migrate apply" not in comment.body(report(1), (), 65_000, ref=REF, apply=False)
    assert "/xla-migrate apply" not in comment.body(report(0), (), 65_000, ref=REF, apply=True)


def test_a_note_replaces_the_one_before_and_keeps_the_mark() -> None:
    text = comment.body(report(1), (), 65_000, ref=REF, apply=True)
    once = comment.with_note(text, "First.", 65_000)
    twice = comment.with_note(once, "Second.", 65_000)
    assert "First." in once
    assert "First." not in twice
    assert comment.with_note(text, "Second.", 65_000) == twice
    assert comment.head_of(twice) == HEAD


@pytest.mark.parametrize(
    ("fail_on", "files", "findings", "wanted"),
    [
        ("never", 0, 0, "success"),
        ("never", 1, 1, "neutral"),
        ("error", 1, 1, "failure"),
        ("error", 1, 0, "neutral"),
        ("changes", 1, 0, "failure"),
        ("changes", 0, 0, "success"),
    ],
)
def test_the_conclusion_follows_the_configuration(
    fail_on: str, files: int, findings: int, wanted: str
) -> None:
    state = comment.check(
        report(files, findings=findings),
        (),
        65_000,
        ref=REF,
        fail_on=fail_on,
        apply=True,  # type: ignore[arg-type]
    )
    assert state.conclusion == wanted
    assert len(state.summary.encode()) <= 65_000


def test_a_failure_is_told_without_markup_of_its_reason() -> None:
    text = comment.failure(HEAD, "git: <b>@you</b>")
    assert comment.head_of(text) == HEAD
    assert "<b>" not in text
