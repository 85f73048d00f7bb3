"""Real packages: what must hold for each of them, and the counts that are recorded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from counting import counts_of
from cuda_left import unnamed
from ecosystem_counts import PACKAGES, SMALL, compared, recorded, written
from pages import into_page
from shares import Share, page, share_of
from shares import told as told_of
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


TRAINS = """
from elsewhere import Lion
optimizer = Lion({})
for x in torch.utils.data.DataLoader(data):
    optimizer.zero_grad()
    model(x.cuda()).sum().backward()
    optimizer.step()
"""


def test_a_program_that_leaves_a_question_open_counts_as_one_that_does_not_resolve(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CUDA + TRAINS.format("model.parameters(), lr=0.1"))
    (tmp_path / "b.py").write_text(CUDA + TRAINS.format("made"))
    share = share_of("mine", tmp_path)
    assert (share.resolved, len(share.programs)) == (1, 2)
    assert list(share.programs["b.py (python b.py (top level))"]) == ["step"]
    assert "1 of 2 programs" in told_of(share)


def test_the_share_of_all_sources_is_told_with_a_reason_for_each_open_question() -> None:
    left = {"step": ["b.py:3: it | is unknown"]}
    sources = [Share("one", {"a.py (x)": {}}), Share("two", {"b.py (y)": left})]
    text = page(sources)
    assert text.startswith("All questions resolve in 1 of 2 programs: 50%.")
    assert "| all | 2 | 1 | 0 | 0 | 1 | 0 | 0 |" in text
    assert "| `two: b.py (y)` | step | b.py:3: it \\| is unknown |" in text


def test_what_is_written_into_a_page_ends_at_the_next_heading(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Head\n\n<!-- here -->\n\nold\n\n## Next\n\nkept\n")
    for _ in range(2):
        into_page(tmp_path / "page.md", "<!-- here -->", "new")
    assert (tmp_path / "page.md").read_text() == "# Head\n\n<!-- here -->\n\nnew\n\n## Next\n\nkept\n"


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
