"""What each way of calling ``xla-migrate`` prints, writes and returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from running import Cli

pytestmark = pytest.mark.usefixtures("stub")

CUDA = b'import torch\nd = "cuda"\n'
XLA = b'import torch\nd = "xla"\n'
CLEAN = b"x = 1\n"


@pytest.fixture
def train(here: Path) -> Path:
    path = here / "train.py"
    path.write_bytes(CUDA)
    return path


def test_a_clean_file_is_left_alone(cli: Cli, train: Path) -> None:
    train.write_bytes(CLEAN)
    ran = cli("train.py")
    assert (ran.code, ran.err) == (0, "")
    assert ran.text == "nothing to migrate in 1 file; no findings\n"


def test_the_preview_shows_a_diff_and_writes_nothing(cli: Cli, train: Path) -> None:
    ran = cli("train.py")
    assert ran.code == 1
    assert ran.text == (
        "--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n"
        ' import torch\n-d = "cuda"\n+d = "xla"\n'
        "1 of 1 file to migrate (1 change); no findings; nothing written (--inplace writes)\n"
    )
    assert train.read_bytes() == CUDA


def test_findings_are_listed_with_place_and_advice(cli: Cli, train: Path) -> None:
    train.write_bytes(b"x = 1\n  # note: warning\n# note: info fixed\n")
    ran = cli("train.py")
    assert ran.code == 0
    assert ran.text == (
        "train.py: 1 warning, 1 info\n"
        "  warning XLA101 device-name: look here\n"
        "    train.py:2:5  | # note: warning\n    do that\n"
        "  info XLA101 device-name: look here (done)\n"
        "    train.py:3:3  | # note: info fixed\n    do that\n"
        "nothing to migrate in 1 file; 2 findings (1 warning, 1 info)\n"
    )


def test_findings_that_say_the_same_stand_together_and_the_gravest_first(cli: Cli, train: Path) -> None:
    train.write_bytes(b"# note: info\n# note: error\n\nx = [\n    # note: info\n]\n")
    assert cli("train.py").text == (
        "train.py: 1 error, 2 info\n"
        "  error XLA101 device-name: look here\n"
        "    train.py:2:3  | # note: error\n    do that\n"
        "  info XLA101 device-name: look here\n"
        "    train.py:1:3  | # note: info\n"
        "    train.py:5:7  | # note: info\n    do that\n"
        "nothing to migrate in 1 file; 3 findings (1 error, 2 info)\n"
    )


def test_of_a_long_line_the_part_is_shown_that_is_meant(cli: Cli, train: Path) -> None:
    train.write_bytes(b"    " + b"a" * 500 + b"# note: info " + b"b" * 500 + b"\n")
    (line,) = [line for line in cli("train.py").text.split("\n") if " | " in line]
    assert "note: info" in line
    assert len(line) < 140


def test_the_concise_report_has_a_line_a_finding(cli: Cli, train: Path) -> None:
    train.write_bytes(CUDA + b"  # note: warning\n# note: info fixed\n")
    assert cli("train.py", "--output-format", "concise").text == (
        "train.py: to migrate (1 change)\n"
        "train.py:3:5: warning XLA101 look here\n"
        "train.py:4:3: info XLA101 look here (done)\n"
        "1 of 1 file to migrate (1 change); 2 findings (1 warning, 1 info);"
        " nothing written (--inplace writes)\n"
    )


def test_inplace_writes(cli: Cli, train: Path) -> None:
    ran = cli("train.py", "--inplace")
    assert (ran.code, train.read_bytes()) == (0, XLA)
    assert ran.text.startswith("train.py: migrated (1 change)\n1 of 1 file migrated (1 change);")


def test_findings_are_placed_in_the_file_that_was_written(cli: Cli, train: Path) -> None:
    train.write_bytes(b'd = "cuda"  # note: warning\n')
    assert "train.py:1:15: warning" in cli("train.py", "--check", "--output-format=concise").text
    assert "    train.py:1:14  | d = \"xla\"" in cli("train.py", "--inplace").text
    assert train.read_bytes().index(b"note") == 13


def test_inplace_does_not_touch_a_file_without_changes(cli: Cli, train: Path) -> None:
    train.write_bytes(CLEAN)
    os.utime(train, ns=(5, 5))
    assert cli("train.py", "--inplace").code == 0
    assert train.stat().st_mtime_ns == 5


def test_check_writes_nothing_and_shows_no_diff(cli: Cli, train: Path) -> None:
    ran = cli("--check", "train.py")
    assert (ran.code, train.read_bytes()) == (1, CUDA)
    assert ran.text.split("\n")[0] == "train.py: to migrate (1 change)"
    assert "---" not in ran.text


def test_check_of_a_migrated_file_is_content(cli: Cli, train: Path) -> None:
    cli("train.py", "--inplace")
    assert cli("train.py", "--check").code == 0


def test_output_writes_the_named_file_only(cli: Cli, train: Path, here: Path) -> None:
    train.chmod(0o755)
    assert cli("train.py", "-o", "out.py").code == 0
    assert train.read_bytes() == CUDA
    assert (here / "out.py").read_bytes() == XLA
    assert os.access(here / "out.py", os.X_OK)


def test_output_is_written_for_a_clean_file_too(cli: Cli, train: Path, here: Path) -> None:
    train.write_bytes(CLEAN)
    assert cli("train.py", "-o", "out.py").code == 0
    assert (here / "out.py").read_bytes() == CLEAN


def test_findings_are_placed_in_the_file_that_output_names(cli: Cli, train: Path) -> None:
    train.write_bytes(CUDA + b"# note: warning\n")
    assert "    out.py:3:3  | # note" in cli("train.py", "-o", "out.py").text


def test_output_to_standard_output(cli: Cli, train: Path) -> None:
    ran = cli("train.py", "-o", "-")
    assert (ran.code, ran.out) == (0, XLA)
    assert "1 of 1 file migrated" in ran.err


def test_output_that_cannot_be_written_is_a_failure(cli: Cli, train: Path) -> None:
    ran = cli("train.py", "-o", "no/out.py")
    assert ran.code == 2
    assert ran.err == "error: no/out.py: there is no such folder to write it to\n"


@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbfcuda\r\n\r", b"# coding: latin-1\n# \xe9 cuda", b"", b"x\x0c\n"]
)
def test_standard_input_comes_out_migrated_byte_for_byte(cli: Cli, data: bytes) -> None:
    ran = cli("-", stdin=data)
    assert (ran.code, ran.out) == (0, data.replace(b"cuda", b"xla"))


def test_standard_input_is_named_as_asked(cli: Cli) -> None:
    ran = cli("-", "--stdin-filename", "src/x.py", stdin=b"# note: error\n")
    assert ran.code == 1
    assert ran.err.startswith("src/x.py: 1 error\n  error XLA101 device-name: look here\n    src/x.py:1:3 ")
    assert ran.out == b"# note: error\n"


def test_standard_input_can_be_checked_and_diffed(cli: Cli) -> None:
    checked = cli("-", "--check", stdin=CUDA)
    assert (checked.code, checked.text.split(":")[0]) == (1, "<stdin>")
    diffed = cli("-", "--diff", "--stdin-filename", "no/x.py", stdin=CUDA)
    assert diffed.code == 1
    assert diffed.text.startswith("--- a/no/x.py\n")


def test_standard_input_that_is_no_python_gives_no_output(cli: Cli) -> None:
    ran = cli("-", stdin=b"def (\n")
    assert (ran.code, ran.out) == (2, b"")
    assert ran.err.startswith("error: <stdin>:1:1: not Python 3\n")


@pytest.mark.parametrize(
    ("severity", "limit", "code"),
    [
        ("error", "error", 1),
        ("warning", "error", 0),
        ("warning", "warning", 1),
        ("info", "warning", 0),
        ("info", "info", 1),
        ("error", "never", 0),
        ("error fixed", "info", 0),
    ],
)
@pytest.mark.parametrize("mode", ["--check", "--inplace", "--diff"])
def test_findings_left_count_from_the_limit_on(
    cli: Cli, train: Path, severity: str, limit: str, code: int, mode: str
) -> None:
    train.write_bytes(f"# note: {severity}\n".encode())
    assert cli("train.py", mode, "--fail-on", limit).code == code


def test_a_folder_is_migrated_but_for_what_git_ignores(cli: Cli, here: Path) -> None:
    (here / "src/out").mkdir(parents=True)
    for name in ("a.py", "b.py", "out/c.py"):
        (here / "src" / name).write_bytes(CUDA)
    (here / "src/.gitignore").write_text("out\n")
    assert cli("src", "--inplace").code == 0
    contents = [(here / "src" / name).read_bytes() for name in ("a.py", "b.py", "out/c.py")]
    assert contents == [XLA, XLA, CUDA]


def test_quiet_leaves_only_what_was_asked_for(cli: Cli, train: Path) -> None:
    train.write_bytes(CUDA + b"# note: error\n")
    assert cli("train.py", "--check", "-q").out == b""
    preview = cli("train.py", "--quiet")
    assert preview.text.endswith(" # note: error\n")
    diffed = cli("train.py", "--diff", "--quiet")
    assert (diffed.err, diffed.text) == ("", preview.text)
    assert cli("train.py", "--inplace", "-q").out == b""


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("train.py", "--no-such-option"),
        ("train.py", "--inplace", "--check"),
        ("train.py", "--inplace", "--diff"),
        ("train.py", "--inplace", "-o", "out.py"),
        ("train.py", "--check", "-o", "out.py"),
        ("train.py", "train.py", "-o", "out.py"),
        (".", "-o", "out.py"),
        ("-", "train.py"),
        ("-", "--inplace"),
        ("train.py", "--stdin-filename", "x.py"),
        ("train.py", "--diff", "--output-format", "json"),
        ("train.py", "--diff", "--output-format", "sarif"),
        ("train.py", "--output-format", "html", "--verified", "train.py"),
        ("train.py", "--output-format", "html", "--verified", "no.json"),
        ("train.py", "--fail-on", "sometimes"),
        ("train.py", "--target", "0.1"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_is_written(
    cli: Cli, train: Path, here: Path, arguments: tuple[str, ...]
) -> None:
    ran = cli(*arguments)
    assert ran.code == 2
    assert ran.out == b""
    assert "Error: " in ran.err
    assert (train.read_bytes(), os.listdir(here)) == (CUDA, ["train.py"])


def test_check_and_diff_together_are_diff(cli: Cli, train: Path) -> None:
    assert cli("train.py", "--check", "--diff").out == cli("train.py", "--diff").out


def test_colour_is_used_where_asked_for(
    cli: Cli, train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train.write_bytes(CUDA + b"# note: error\n")
    plain = cli("train.py").text
    assert "\x1b" not in plain
    coloured = cli("train.py", "--color", "always").text
    assert '\x1b[32m+d = "xla"\x1b[0m\n' in coloured
    assert '\x1b[31m-d = "cuda"\x1b[0m\n' in coloured
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colour_by_itself_is_for_terminals_that_want_it(
    cli: Cli,
    train: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    coloured: bool,
) -> None:
    monkeypatch.setattr("xla_migrate.cli.session.is_terminal", lambda stream: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b" in cli("train.py").text) is coloured
    assert "\x1b" not in cli("train.py", "--color", "never").text
    assert "\x1b" not in cli("train.py", "--diff").text


def test_long_lines_and_markup_are_shown_as_they_are(cli: Cli, train: Path) -> None:
    line = b"x = '[bold]cuda[/bold] :smile: " + b"a" * 300 + b"'\n"
    train.write_bytes(line)
    text = cli("train.py", "--color", "always").text
    assert "[bold]xla[/bold] :smile: " + "a" * 300 + "'" in text


def test_a_script_cannot_steer_the_terminal(cli: Cli, train: Path) -> None:
    train.write_bytes(b"# cuda \x1b]0;owned\x07 \xc2\x9b31m\r\n")
    text = cli("train.py").text
    assert "+# xla \\x1b]0;owned\\x07 \\x9b31m\n" in text


def test_json_tells_files_findings_changes_and_summary(cli: Cli, train: Path, here: Path) -> None:
    (here / "b.py").write_bytes(b"def (\n")
    train.write_bytes(b'import torch\nd = "cuda"  # note: warning\n')
    ran = cli("train.py", "b.py", "no.py", "--output-format", "json")
    report = json.loads(ran.text)
    assert ran.code == 2
    assert report["version"] == 1
    assert report["target"] == "2.9"
    assert report["files"] == [
        {"path": "train.py", "status": "pending"},
        {"path": "b.py", "status": "failed"},
        {"path": "no.py", "status": "failed"},
    ]
    assert report["findings"][0] == {
        "path": "train.py", "code": "XLA101", "name": "device-name", "severity": "warning",
        "line": 2, "column": 15, "end_line": 2, "end_column": 28,
        "message": "look here", "advice": "do that", "fixed": False,
    }  # fmt: skip
    assert [(f["path"], f["code"], f["line"]) for f in report["findings"][1:]] == [
        ("b.py", "XLA001", 1),
        ("no.py", "XLA005", 1),
    ]
    (change,) = report["changes"]
    assert change["spans"] == [{"line": 2, "column": 6, "end_line": 2, "end_column": 10}]
    assert (change["path"], change["code"], change["safety"]) == ("train.py", "XLA101", "safe")
    assert report["summary"] == {
        "files": 3, "unchanged": 0, "pending": 1, "written": 0, "failed": 2, "changes": 1,
        "findings": {"info": 0, "warning": 1, "error": 2}, "fixed": 0, "unsafe_waiting": 0, "exit_code": 2,
    }  # fmt: skip


def test_json_after_writing_says_so(cli: Cli, train: Path) -> None:
    report = json.loads(cli("train.py", "--inplace", "--output-format", "json").text)
    assert report["files"] == [{"path": "train.py", "status": "written"}]


def test_a_fault_of_the_program_is_not_taken_for_changes_pending(
    cli: Cli, train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("oh no")

    monkeypatch.setattr("xla_migrate.cli.session.migrate", fail)
    ran = cli("train.py")
    assert ran.code == 2
    assert "RuntimeError: oh no" in ran.err


def test_the_module_runs_as_the_command(here: Path) -> None:
    command = [sys.executable, "-m", "xla_migrate", "no.py"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "error: no.py: no such file or directory" in ran.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_patch_that_could_not_be_printed_is_a_failure(train: Path) -> None:
    command = [sys.executable, "-m", "xla_migrate", str(train), "--output-format", "json"]
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 2
    assert b"error: standard output: No space left on device" in ran.stderr
