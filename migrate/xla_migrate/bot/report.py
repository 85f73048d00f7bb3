"""What a migration of a pull request's head came to, as a file that one job writes and another one publishes.

The job that publishes holds a token and the one that writes may be under the influence of the pull request:
``read`` takes nothing on trust, and all text in a report counts as a stranger's.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

LARGEST = 20_000_000
"""Bytes of a report."""


def is_within(path: str) -> bool:
    """Whether a path stays below the folder that it is relative to, out of git's own, and can be written."""
    parts = path.split("/")
    strange = any(char < " " or char == "\\" or "\ud800" <= char <= "\udfff" for char in path)
    return not strange and not any(part in ("", ".", "..") or part.lower() == ".git" for part in parts)


def _within(path: str) -> str:
    if not is_within(path):
        raise ValueError("not a path within the repository")
    return path


Line = Annotated[int, Field(ge=1, le=10_000_000)]
Text = Annotated[str, Field(max_length=20_000)]
Code = Annotated[str, Field(pattern=r"^XLA\d{3}$")]
Path = Annotated[str, Field(max_length=4096), AfterValidator(_within)]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]


@dataclass(frozen=True)
class Change:
    code: Code
    name: Text
    message: Text
    safety: Literal["safe", "unsafe", "display"]
    line: Line


@dataclass(frozen=True)
class Finding:
    code: Code
    name: Text
    severity: Literal["info", "warning", "error"]
    message: Text
    advice: Text
    line: Line
    end_line: Line


@dataclass(frozen=True)
class Block:
    """The lines ``start`` to ``end`` of the head's file become ``lines``."""

    start: Line
    end: Line
    lines: Annotated[tuple[str, ...], Field(max_length=10_000)]


@dataclass(frozen=True)
class Group:
    """Blocks that only together leave a script that works; ``changes`` counts from 0 in those of the file."""

    blocks: Annotated[tuple[Block, ...], Field(min_length=1, max_length=10_000)]
    changes: Annotated[tuple[int, ...], Field(max_length=10_000)]


@dataclass(frozen=True)
class File:
    """One file with something to say about it. ``content`` is the migrated file in Base64, where it was
    asked for."""

    path: Path
    failed: bool
    changes: Annotated[tuple[Change, ...], Field(max_length=100_000)]
    findings: Annotated[tuple[Finding, ...], Field(max_length=100_000)]
    diff: str = ""
    groups: Annotated[tuple[Group, ...], Field(max_length=10_000)] = ()
    content: str = ""


@dataclass(frozen=True)
class Verdict:
    """What ``verify`` said of ``command``."""

    outcome: Literal["equal", "within tolerance", "diverged", "not comparable"]
    reason: Text
    command: Text


@dataclass(frozen=True)
class Report:
    """``examined`` counts the files that were read; ``problems`` are what kept the bot from a part of its
    work."""

    head: Commit
    base: Commit
    target: Text
    command: Text
    examined: Annotated[int, Field(ge=0)]
    files: Annotated[tuple[File, ...], Field(max_length=100_000)] = ()
    problems: Annotated[tuple[Text, ...], Field(max_length=1000)] = ()
    verdict: Verdict | None = None
    version: Literal[1] = 1

    @property
    def changed(self) -> tuple[File, ...]:
        return tuple(file for file in self.files if file.diff)

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for file in self.files for finding in file.findings)


class BadReport(ValueError):
    """This is no report; the text says why without quoting it."""


def write(report: Report) -> bytes:
    return json.dumps(asdict(report), ensure_ascii=True).encode()


def read(data: bytes) -> Report:
    """Raises ``BadReport``."""
    if len(data) > LARGEST:
        raise BadReport(f"the report has more than {LARGEST:,} bytes")
    try:
        return TypeAdapter(Report).validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise BadReport(f"{where}: {first['msg']}") from None
