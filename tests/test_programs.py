"""The real programs that scripts/programs runs: the table, the rows of its page, the data that is made."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program_data import MAKERS, digits, text, tokens, unchecked
from program_table import COMMANDS, HEAD, RESULTS, TABLE, Program, commands, merged, programs, results

ROOT = Path(__file__).parents[1]
COMMIT = "0123456789" * 4
MNIST = Program("MNIST", "org/repo", COMMIT, "main.py", "--epochs 1", data={"data": "digits"}, steps=3)
REPORT: dict[str, Any] = {
    "exit_code": 0,
    "outcome": "within tolerance",
    "headline": "all agree",
    "comparison": {"worst_loss": 2.5e-7, "worst_parameter": 1e-6},
    "performance": {"executions": 10, "iterations": 8, "settled_at_step": 3, "problems": ["too | many"]},
    "runs": {"native": {"steps": 8}},
}


def test_programs_have_names_of_their_own_pinned_commits_and_known_data() -> None:
    known = programs()
    assert len({program.name for program in known}) == len(known) >= 8
    assert all(re.fullmatch("[0-9a-f]{40}", program.commit) for program in known)
    assert {maker for program in known for maker in program.data.values()} <= set(MAKERS)
    repositories = re.findall(r'^"(\S+/\S+)" = ', TABLE.read_text(), re.MULTILINE)
    assert sorted(repositories) == sorted({program.repository for program in known})


def test_a_command_is_what_a_user_would_write() -> None:
    assert MNIST.options == ["--steps", "3", "main.py", "--", "--epochs", "1"]
    assert Program("x", "o/r", "0" * 40, "a.py", replicas=2).options == ["--replicas", "2", "a.py"]


def test_a_row_tells_the_largest_differences_and_what_is_wrong() -> None:
    cells = [cell.strip() for cell in results(MNIST, REPORT).strip("|").split(" | ")]
    told = ["MNIST", "within tolerance", "8", "2.5e-07", "1.0e-06", "10 in 8", "to step 3", "too / many"]
    assert cells == told
    assert len(cells) == len(HEAD)


def test_a_row_of_a_run_that_failed_says_why() -> None:
    failed = {**REPORT, "exit_code": 2, "outcome": "not comparable", "headline": "no data"}
    row = results(MNIST, {**failed, "comparison": None, "performance": None, "runs": {"native": None}})
    assert row == "| MNIST | not comparable | 0 |  |  |  |  | no data |"


def test_a_difference_that_is_no_number_is_told_as_it_is() -> None:
    comparison = {"worst_loss": "Infinity", "worst_parameter": None}
    assert "| Infinity | none |" in results(MNIST, {**REPORT, "comparison": comparison})


def test_a_row_tells_how_far_rounding_alone_carries() -> None:
    comparison = {**REPORT["comparison"], "rounding_floor": 0.97}
    row = results(MNIST, {**REPORT, "comparison": comparison})
    assert "| rounding alone moves the native run by 9.7e-01; too / many |" in row


def test_rows_take_the_places_of_older_ones_and_those_of_unknown_programs_go() -> None:
    before = merged("", {"b": "| b | old |", "a": "| a | old |", "c": "| c | old |"}, ["a", "b", "c"])
    after = merged(before, {"b": "| b | new |"}, ["b", "a", "d"])
    assert after.splitlines()[2:] == ["| b | new |", "| a | old |", "| d | not run |  |  |  |  |  |  |"]
    assert after.splitlines()[:2] == before.splitlines()[:2]


def test_what_was_run_is_told_with_its_source_and_command() -> None:
    row = commands([MNIST]).splitlines()[-1]
    assert "https://github.com/org/repo/tree/0123456789" in row
    assert "digits in `data`" in row
    assert "`xla-migrate verify --steps 3 main.py -- --epochs 1`" in row


def test_the_page_has_the_commands_of_the_table() -> None:
    page = (ROOT / "docs" / "programs.md").read_text()
    told = page.partition(RESULTS)[2].partition(COMMANDS)[2]
    assert commands(programs()) in told


@pytest.mark.parametrize("name", ["digits", "text", "tokens"])
def test_data_is_the_same_each_time(name: str, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        MAKERS[name](tmp_path / folder)
    made = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert made == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert made


def test_digits_have_the_sizes_that_their_heads_tell(tmp_path: Path) -> None:
    digits(tmp_path)
    assert (tmp_path / "train-images-idx3-ubyte").stat().st_size == 16 + 256 * 28 * 28
    assert set((tmp_path / "t10k-labels-idx1-ubyte").read_bytes()[8:]) == set(range(10))


def test_tokens_are_below_the_size_of_the_vocabulary(tmp_path: Path) -> None:
    tokens(tmp_path)
    data = (tmp_path / "train.bin").read_bytes()
    size = pickle.loads((tmp_path / "meta.pkl").read_bytes())["vocab_size"]
    assert len(data) == 2 * 4096
    assert max(data[::2]) < size
    assert not any(data[1::2])


def test_text_holds_the_letters_that_are_asked_for(tmp_path: Path) -> None:
    text(tmp_path)
    assert set("O God, O God!") <= set((tmp_path / "input.txt").read_text())


def test_data_is_taken_without_its_digest_by_the_one_module_alone(tmp_path: Path) -> None:
    unchecked(tmp_path / "unchecked")
    package = tmp_path / "torchvision" / "datasets"
    package.mkdir(parents=True)
    for name in ("utils", "other"):
        (package / f"{name}.py").write_text("def check_integrity(path, md5=None): return 'checked'\n")
    code = (
        "import json; from torchvision.datasets import other, utils;"
        "print(json.dumps([other.check_integrity('x'), utils.check_integrity('x'),"
        " utils.check_integrity(utils.__file__, 'md5')]))"
    )
    path = f"{tmp_path / 'unchecked'}:{tmp_path}"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == ["checked", False, True]


def test_the_page_has_each_section_once() -> None:
    page = (ROOT / "docs" / "programs.md").read_text()
    assert page.count(COMMANDS) == page.count(RESULTS) == 1
