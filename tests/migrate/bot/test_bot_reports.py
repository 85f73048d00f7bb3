"""A report is read as a stranger's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from xla_migrate.bot.report import BadReport, Change, File, Finding, Report, Verdict, read, write

HEAD, BASE = "a" * 40, "b" * 40


def report(**more: Any) -> Report:
    change = Change("XLA101", "device-name", "the device", "safe", 3)
    finding = Finding("XLA290", "cuda", "warning", "look", "do", 4, 5)
    file = File("src/train.py", False, (change,), (finding,), "--- a\n+++ b\n")
    return Report(HEAD, BASE, "2.9", "xla-migrate .", 1, (file,), **more)


def test_what_is_written_is_read() -> None:
    whole = report(problems=("one",), verdict=Verdict("equal", "3 losses agree", "xla-migrate verify a.py"))
    assert read(write(whole)) == whole


@pytest.mark.parametrize(
    "path",
    [
        "../x.py",
        "/etc/passwd",
        "a/../../b",
        "a//b",
        ".git/config",
        "a/.GIT/b",
        "a\\b",
        "a\nb",
        "",
        "./a",
        "\udcff.py",
    ],
)
def test_a_path_that_leaves_the_repository_is_refused(path: str) -> None:
    content = json.loads(write(report()))
    content["files"][0]["path"] = path
    with pytest.raises(BadReport):
        read(json.dumps(content).encode())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("head", "main"),
        ("head", "a" * 39 + "\n"),
        ("version", 2),
        ("files", None),
        ("examined", "1"),
        ("examined", -1),
    ],
)
def test_a_value_of_another_kind_is_refused_and_not_quoted(key: str, value: object) -> None:
    content = {**json.loads(write(report())), key: value}
    with pytest.raises(BadReport) as told:
        read(json.dumps(content).encode())
    assert key in str(told.value)


def test_a_rule_that_is_none_is_refused() -> None:
    content = json.loads(write(report()))
    content["files"][0]["changes"][0]["code"] = "@everyone"
    with pytest.raises(BadReport):
        read(json.dumps(content).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(BadReport):
        read(data)


def test_a_report_of_too_many_bytes_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xla_migrate.bot.report.LARGEST", 10)
    with pytest.raises(BadReport, match="more than 10 bytes"):
        read(write(report()))
