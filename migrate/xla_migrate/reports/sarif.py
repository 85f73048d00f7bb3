"""SARIF 2.1.0 (OASIS), which code scanning takes: findings and pending changes, with fixes.

Places are those of the file as it now is; columns count characters.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from xla_migrate import __version__
from xla_migrate.reports.run import Place, Run, extent, fix, level
from xla_transforms.findings import Change, Finding, Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xla_migrate.documents import Document

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
ROOT = "%SRCROOT%"


def report(run: Run) -> str:
    """One log with one run: a result for each finding, and one with a fix for each change that is not
    written. A fix is complete: it holds what the change needs, imports among it."""
    results = [_finding(run, document, finding) for document, finding in run.findings]
    results += [_change(run, document, change) for document, change in run.pending]
    codes = sorted({result["ruleId"] for result in results})
    for result in results:
        result["ruleIndex"] = codes.index(result["ruleId"])
    rules = [_rule(run.rules[code]) for code in codes]
    one = {
        "tool": {"driver": {"name": "xla-migrate", "semanticVersion": __version__, "rules": rules}},
        "originalUriBaseIds": {ROOT: {"uri": Path(run.root).as_uri().rstrip("/") + "/"}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": run.exit_code != 2, "exitCode": run.exit_code}],
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [one]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": f"{rule.summary} {rule.why}"},
        "help": {"text": f"xla-migrate explain {rule.code}\n\n{rule.why}"},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
        "properties": {"safety": rule.safety.value},
    }


def _finding(run: Run, document: Document, finding: Finding) -> dict[str, Any]:
    text = f"{finding.message}\n{finding.advice}" if finding.advice else finding.message
    place = run.place(document, finding.span)
    return _result(run, document, place, finding.code, text, LEVELS[level(finding)])


def _change(run: Run, document: Document, change: Change) -> dict[str, Any]:
    assert document.outcome is not None
    source = document.outcome.source
    replacements = [
        {
            "deletedRegion": _region(extent(source, edit)),
            "insertedContent": {"text": edit.text},
        }
        for edit in fix(document, change)
    ]
    changes = [{"artifactLocation": _artifact(run, document), "replacements": replacements}]
    place = run.place(document, change.spans[0])
    found = _result(run, document, place, change.code, change.message, "note")
    found["properties"] = {"safety": change.safety.value}
    if replacements:
        found["fixes"] = [{"description": {"text": change.message}, "artifactChanges": changes}]
    return found


def _result(
    run: Run, document: Document, place: Place, code: str, text: str, level: str
) -> dict[str, Any]:
    line = run.line(document, place).strip()
    where = {"artifactLocation": _artifact(run, document), "region": _region(place)}
    return {
        "ruleId": code,
        "level": level,
        "message": {"text": text},
        "locations": [{"physicalLocation": where}],
        "partialFingerprints": {"lineAndMessage/v1": _hash((code, text, line))},
    }


def _artifact(run: Run, document: Document) -> dict[str, str]:
    path = run.path(document)
    if os.path.isabs(path):
        return {"uri": Path(path).as_uri()}
    return {"uri": quote(path.encode("utf-8", "surrogateescape")), "uriBaseId": ROOT}


def _region(place: Place) -> dict[str, int]:
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }


def _hash(parts: Iterable[str]) -> str:
    return sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()
