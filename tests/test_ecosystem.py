"""Real packages: what must hold for each of them, and the counts that are recorded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from counting import counts_of
from cuda_left import unnamed
from ecosystem_counts import PACKAGES, SMALL, compared, recorded, written
from sources import Missing, Package, default_cache, unpacked

from xla_transforms.engine import Outcome, migrate_bytes
from xla_transforms.findings import Finding, Severity, Span

CUDA = "import torch\nmodel = torch.nn.Linear(2, 2)\ntorch.cuda.nothing_known()\nmodel.cuda()\n"


def told(line: int, last: int | None = None) -> Finding:
    return Finding("XLA290", "cuda-use-left", Severity.ERROR, "left", Span(0, 1, line, 1, last or line, 2))


def left(code: str, *findings: Finding) -> Outcome:
    return Outcome("train.py", code.encode(), code, code, findings=findings)


def test_code_without_cuda_has_nothing_to_name() -> None:
    code = '"""Runs on cuda."""\nimport torch\nprint("CUDA", torch.cuda.is_available())\n'
    assert unnamed(left(code)) == []


def test_cuda_that_no_finding_names_is_silent() -> None:
    assert unnamed(left(CUDA)) == [3, 4]
    assert unnamed(left("from torch.cuda import Stream as S\nS()\n")) == [2]
    assert unnamed(left('import torch\ntorch.zeros(2).to("cuda:1")\n')) == [2]


def test_a_finding_names_what_stands_on_its_line() -> None:
    assert unnamed(left(CUDA, told(3))) == [4]
    assert unnamed(left(CUDA, told(3, 4))) == []


def test_a_finding_about_a_whole_function_names_its_head_alone() -> None:
    assert unnamed(left(CUDA, told(3, 60))) == [4]


def test_lines_of_the_output_are_found_in_the_input() -> None:
    outcome = migrate_bytes(CUDA.encode())
    assert outcome.edits
    assert unnamed(outcome) == []


def test_counts_that_differ_are_shown_by_file_and_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ecosystem_counts.FOLDER", tmp_path / "recorded")
    (tmp_path / "train.py").write_text(CUDA)
    counts = counts_of("mine", tmp_path)
    assert compared(counts) == ["mine: nothing is recorded of it"]
    written(counts)
    assert compared(counts) == []
    counts.findings_in["train.py"]["XLA290 cuda-use-left"] += 1
    assert [line for line in compared(counts) if line.startswith("+ ")] == ['+   "XLA290 cuda-use-left": 2']


def test_a_package_that_cannot_be_downloaded_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "no-index").as_uri())
    with pytest.raises(Missing, match=r"nowhere 1\.0"):
        unpacked(Package("nowhere", "1.0", "0" * 64), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_no_package_is_recorded_with_faults() -> None:
    told = recorded()
    assert set(SMALL) <= told.keys()
    assert {name: summary["faults"] for name, summary in told.items() if summary["faults"]} == {}


@pytest.mark.slow
@pytest.mark.parametrize("package", [p for p in PACKAGES if p.name in SMALL], ids=lambda p: p.name)
def test_a_real_package_migrates_as_recorded(package: Package) -> None:
    try:
        folder = unpacked(package, default_cache())
    except Missing as error:
        pytest.skip(str(error))
    counts = counts_of(package.name, folder)
    assert {name: places for name, places in counts.faults.items() if places} == {}
    print(*compared(counts), sep="\n", file=sys.stderr)
    assert compared(counts) == []
