"""An engine for tests of what stands around it: turns ``cuda`` into ``xla`` and finds ``note:``."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from xla_transforms.findings import Change, Edit, Finding, Rule, Safety, Severity, Span

RULES = (
    Rule(
        "XLA001", "syntax-error", "The file is no Python 3.", "It cannot be parsed.", Severity.ERROR
    ),
    Rule("XLA002", "undecodable", "The bytes do not fit.", "They cannot be read.", Severity.ERROR),
    Rule(
        "XLA101", "device-name", "The device is named xla.", "CUDA is not there.", Severity.WARNING
    ),
)


@dataclass(frozen=True)
class Settings:
    target: str = "2.9"
    syncfree: str = "amp"
    black: object = None
    distributed: object = "auto"


@dataclass(frozen=True)
class Outcome:
    path: str
    original: bytes
    data: bytes = b""
    source: str = ""
    code: str = ""
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    edits: tuple[Edit, ...] = ()
    failed: bool = False
    encoding: str = "utf-8"

    def narrow(self, ids: Collection[int]) -> Outcome:
        kept = [(c, e) for c, e in zip(self.changes, self.edits, strict=True) if c.id in ids]
        edits = tuple(edit for _, edit in kept)
        code = _apply(self.source, edits)
        changes = tuple(c for c, _ in kept)
        data = code.encode(self.encoding)
        return replace(self, edits=edits, code=code, data=data, changes=changes)

    def without(self, ids: Collection[int]) -> Outcome:
        return self.narrow({change.id for change in self.changes} - set(ids))


def all_rules() -> tuple[Rule, ...]:
    return RULES


def migrate_bytes(data: bytes, settings: Settings, path: str = "<unknown>") -> Outcome:
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0].removesuffix("-sig")
    except SyntaxError:
        encoding = "utf-8"
    try:
        source = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return _failure(path, data, "", "XLA002", f"byte is not {encoding}", line)
    if "def (" in source:
        return _failure(
            path, data, source, "XLA001", "not Python 3", _span(source, source.index("def (")).line
        )
    edits = tuple(Edit(m.start(), m.end(), "xla") for m in re.finditer("cuda", source))
    changes = tuple(
        Change(i, "XLA101", "device-name", "named", Safety.SAFE, (_span(source, e.start, e.end),))
        for i, e in enumerate(edits)
    )
    code = _apply(source, edits)
    found = tuple(_findings(source))
    return Outcome(path, data, code.encode(encoding), source, code, changes, found, edits, False, encoding)


def migrate_program(files: Mapping[str, bytes], settings: Settings) -> dict[str, Outcome]:
    return {path: migrate_bytes(data, settings, path) for path, data in files.items()}


def _failure(path: str, data: bytes, source: str, code: str, message: str, line: int) -> Outcome:
    rule = next(rule for rule in RULES if rule.code == code)
    span = Span(0, 0, line, 1, line, 1)
    found = Finding(rule.code, rule.name, Severity.ERROR, message, span)
    return Outcome(path, data, data, source, source, findings=(found,), failed=True)


def _findings(source: str) -> list[Finding]:
    pattern = r"note: (info|warning|error)( fixed)?"
    return [
        Finding(
            "XLA101", "device-name", Severity[m[1].upper()], "look here",
            _span(source, m.start(), m.end()), "do that", bool(m[2]),
        )
        for m in re.finditer(pattern, source)
    ]  # fmt: skip


def _apply(source: str, edits: Collection[Edit]) -> str:
    for edit in sorted(edits, key=lambda edit: -edit.start):
        source = source[: edit.start] + edit.text + source[edit.end :]
    return source


def _span(source: str, start: int, end: int | None = None) -> Span:
    end = start if end is None else end
    places = []
    for offset in (start, end):
        places += [source.count("\n", 0, offset) + 1, offset - source.rfind("\n", 0, offset)]
    return Span(start, end, *places)
