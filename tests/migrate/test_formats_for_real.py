"""Reports on the golden cases: they fit the schemas of those who read them, and their fixes work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import npm
import pytest
from jsonschema import Draft202012Validator
from running import Cli

from xla_migrate.reports.json import schema

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = ("mnist_no_cuda_flag", "ddp_torchrun", "bom_kfold_cross_validation", "hf_dynamic_padding")


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, here: Path) -> Path:
    path = here / "train.py"
    path.write_bytes((GOLDEN / request.param / "native.py").read_bytes())
    return path


def test_the_json_report_fits_its_schema(cli: Cli, case: Path) -> None:
    report = json.loads(cli("train.py", "--output-format", "json").text)
    assert report["changes"]
    Draft202012Validator(schema()).validate(report)


def replaced(text: str, replacements: list[dict[str, Any]]) -> str:
    """The text after SARIF's replacements."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for one in reversed(replacements):
        region = one["deletedRegion"]
        start = starts[region["startLine"] - 1] + region["startColumn"] - 1
        end = starts[region["endLine"] - 1] + region["endColumn"] - 1
        text = text[:start] + one["insertedContent"]["text"] + text[end:]
    return text


def test_each_fix_of_a_sarif_log_gives_a_sound_module(cli: Cli, case: Path) -> None:
    text = case.read_bytes().decode().removeprefix("\ufeff")
    (run,) = json.loads(cli("train.py", "--output-format", "sarif").text)["runs"]
    fixes = [fix for result in run["results"] for fix in result.get("fixes", ())]
    assert len(fixes) > 3
    for fix in fixes:
        (change,) = fix["artifactChanges"]
        result = replaced(text, change["replacements"])
        compile(result, "train.py", "exec")
        assert result != text


@pytest.mark.slow
def test_the_sarif_log_fits_the_published_schema(
    cli: Cli, case: Path, request: pytest.FixtureRequest
) -> None:
    folder = npm.package(request.config.cache, "@microsoft/sarif-multitool-linux", "^5.0.0")
    published = json.loads((folder / "sarif-2.1.0.json").read_bytes().decode("utf-8-sig"))
    for arguments in ((), ("--inplace",)):
        log = json.loads(cli("train.py", "--output-format", "sarif", *arguments).text)
        errors = list(Draft202012Validator(published).iter_errors(log))
        assert errors == []
