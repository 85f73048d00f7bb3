"""``verify``, ``record`` and ``compare``: what is refused, how an end is told, and the exit status."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from running import Cli
from trees import plant

from xla_migrate import migrate_project
from xla_migrate.cli.verify import _page
from xla_migrate.cli.verify import compare as compare_command
from xla_migrate.cli.verify import record as record_command
from xla_migrate.cli.verify import verify as verify_command
from xla_migrate.verify import Failure, Step, Trace, failures, judge, verifying
from xla_migrate.verify.failures import frames_of, unrecorded
from xla_migrate.verify.processes import STACKS, UNWRITTEN
from xla_migrate.verify.trace import Request, Sample
from xla_migrate.verify.trace_file import STDERR, save
from xla_migrate.verify.verifying import Options, Runs, migrated_files

COMMANDS = ("verify", "record", "compare")


def trace(side: str, last: float = 0.5, **other: object) -> Trace:
    made = Trace(side, "values", script="train.py", losses=[1.0, last], seconds=0.1, names=[["w"]])
    made.steps = [Step(0, number, [0.1], 1.0, [], [2.0], [3.0], ["backward"]) for number in (1, 2)]
    made.parameters = [[np.array([last], np.float32)]]
    for name, value in other.items():
        setattr(made, name, value)
    return made


def saved(folder: Path, **traces: Trace) -> None:
    for name, one in traces.items():
        save(one, folder / f"{name}.trace")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_costs_no_torch_and_no_numpy(command: str) -> None:
    code = "import sys; from xla_migrate.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code, command, "--help"], capture_output=True, text=True, check=True
    )
    assert f"Usage: xla-migrate {command} " in ran.stdout
    assert "Exit status: 0" in ran.stdout
    assert not {"torch", "numpy", "libcst", "rich"} & set(ran.stdout.split("\n")[-2].split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify"], "Missing argument"),
        (["verify", "missing.py"], "does not exist"),
        (["verify", "."], "is a directory"),
        (["verify", "train.py", "--epochs", "1"], "stand behind a --"),
        (["verify", "train.py", "--steps", "0"], "--steps"),
        (["verify", "train.py", "--timeout", "0"], "--timeout"),
        (["verify", "train.py", "--rng", "mine"], "--rng"),
        (["verify", "train.py", "--target", "0.1"], "0.1"),
        (["verify", "train.py", "--ignore", "XLA999"], "there is no rule 'XLA999'"),
        (["verify", "train.py", "--share", "missing"], "does not exist"),
        (["verify", "train.py", "--html", "missing/page.html"], "there is no folder 'missing'"),
        (["verify", "train.py", "--json", "missing/report.json"], "there is no folder 'missing'"),
        (["record", "train.py"], "--out"),
        (["record", "train.py", "--out", "missing/x"], "there is no folder 'missing'"),
        (["record", "train.py", "--out", "x", "--mode", "count"], "--side xla"),
        (["compare", "train.py"], "Missing argument"),
        (["compare", "a.trace", "b.trace"], "does not exist"),
    ],
)
def test_a_wrong_command_line_is_told_and_nothing_runs(
    cli: Cli, here: Path, arguments: list[str], message: str
) -> None:
    plant(here, {"train.py": "raise SystemExit('ran')\n"})
    ran = cli(*arguments)
    assert (ran.code, ran.out) == (2, b"")
    assert message in ran.err
    assert "fault of the program" not in ran.err


def asked(cli: Cli, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Options:
    """The options that a command line stands for; nothing is run."""
    seen: list[Options] = []

    def run(script: str, argv: object, options: Options, **more: object) -> object:
        seen.append(options)
        return judge(trace("native"), trace("xla"))

    monkeypatch.setattr(verifying, "verify", run)
    cli("verify", *arguments)
    return seen[0]


def test_it_migrates_as_the_project_asks(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = 'target = "2.1"\nignore = ["XLA221"]\nexclude = ["gen/", "train.py"]\n'
    script = "import torch, gen.c\nmodel = torch.nn.Linear(2, 1).cuda()\ntorch.cuda.manual_seed(1)\n"
    plant(here, {"pyproject.toml": f"[tool.xla-migrate]\n{settings}", "train.py": script, "gen/c.py": script})
    options = asked(cli, monkeypatch, "train.py")
    runs = Runs(None, here / "train.py", [], options, lambda stage, steps: None)  # type: ignore[arg-type]
    sources = [str(here / name) for name in ("train.py", "gen/c.py")]
    assert [runs.is_migrated(path) for path in sources] == [True, False]
    (result,) = migrated_files(sources[:1], options).values()
    assert "xm.xla_device()" in result.code
    assert [one.change.code for one in result.left_out] == ["XLA221"]


def test_options_come_before_the_projects_settings(
    cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = 'target = "2.5"\nignore = ["XLA221"]\ndistributed = false\n'
    plant(here, {"pyproject.toml": f"[tool.xla-migrate]\n{settings}", "train.py": ""})
    given = ("--target", "auto", "--ignore", "XLA301,XLA7", "--distributed")
    options = asked(cli, monkeypatch, "train.py", *given)
    assert (options.target, options.ignore, options.distributed) == ("auto", ("XLA301", "XLA7"), True)
    assert options.replicated
    assert not asked(cli, monkeypatch, "train.py").replicated


def test_settings_without_meaning_are_told_before_anything_runs(cli: Cli, here: Path) -> None:
    plant(here, {"pyproject.toml": "[tool.xla-migrate]\ntarget = '0.1'\n", "train.py": ""})
    ran = cli("verify", "train.py")
    assert (ran.code, ran.out) == (2, b"")
    assert "unknown target '0.1'" in " ".join(ran.err.split())


def test_too_large_a_project_is_told(cli: Cli, here: Path) -> None:
    plant(here, {"train.py": "", "data/big.bin": "x" * 2000})
    ran = cli("verify", "train.py", "--copy-limit", "0.000001")
    assert ran.code == 2
    assert f"--share {here / 'data'}" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("option", "side"), [("--native-python", "native"), ("--xla-python", "xla")]
)
def test_an_interpreter_without_the_packages_is_told_how_to_get_them(
    cli: Cli, here: Path, option: str, side: str
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "bare"], check=True)
    plant(here, {"train.py": ""})
    ran = cli("record", "train.py", "--out", "x", "--side", side, option, "bare/bin/python")
    assert ran.code == 2
    assert "is not installed for bare/bin/python: pip install 'xla-migrate[run]' there" in ran.err
    assert option in ran.err
    assert not (here / "x").exists()


def test_an_interpreter_that_does_not_exist_is_told(cli: Cli, here: Path) -> None:
    plant(here, {"train.py": ""})
    ran = cli("verify", "train.py", "--native-python", "missing")
    assert ran.code == 2
    assert "missing cannot be started: No such file" in ran.err


def test_a_missing_numpy_is_told_how_to_get_it(
    cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("xla_migrate.verify")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)
    plant(here, {"a.trace": "", "b.trace": ""})
    ran = cli("compare", "a.trace", "b.trace")
    assert ran.code == 2
    assert "numpy is not installed: pip install 'xla-migrate[run]'" in ran.err


def test_the_same_numbers_are_equal(cli: Cli, here: Path) -> None:
    saved(here, native=trace("native"), xla=trace("xla"))
    ran = cli("compare", "native.trace", "xla.trace")
    assert ran.code == 0
    assert ran.text.startswith("equal")


def test_other_numbers_are_a_divergence(cli: Cli, here: Path) -> None:
    saved(here, native=trace("native"), xla=trace("xla", 0.6))
    ran = cli("compare", "native.trace", "xla.trace", "--json", "report.json")
    assert ran.code == 1
    assert ran.text.startswith("diverged")
    report = json.loads((here / "report.json").read_text())
    assert (report["outcome"], report["exit_code"]) == ("diverged", 1)


@pytest.mark.parametrize(("executions", "code"), [(2, 0), (9, 1)])
def test_what_costs_too_much_counts_where_it_is_asked_for(
    cli: Cli, here: Path, executions: int, code: int
) -> None:
    samples = [Sample("step", 1, 1, 1), Sample("step", 1, executions, 2), Sample("end", 1, executions, 2)]
    counted = trace("xla", mode="count", samples=samples)
    saved(here, native=trace("native"), xla=trace("xla"), counted=counted)
    command = ("compare", "native.trace", "xla.trace", "--counted", "counted.trace")
    assert cli(*command).code == 0
    assert cli(*command, "--strict").code == code


def test_the_page_is_written_beside_the_answer(cli: Cli, here: Path) -> None:
    saved(here, native=trace("native"), xla=trace("xla"))
    ran = cli("compare", "native.trace", "xla.trace", "--html", "report.html")
    assert ran.code == 0
    assert ran.text.startswith("equal")
    assert (here / "report.html").read_text().startswith("<!doctype html>")


def test_findings_of_the_page_name_the_file_that_they_are_about(tmp_path: Path) -> None:
    helper = "import torch\ngraph = torch.cuda.CUDAGraph()\n"
    plant(tmp_path, {"train.py": "import helper\n", "helper.py": helper})
    results = migrate_project([tmp_path / "train.py", tmp_path / "helper.py"])
    verdict = replace(judge(trace("native"), trace("xla")), results=results)
    found = re.findall(r"[\w./-]*helper\.py:\d+", _page(verdict))
    assert found


def test_the_page_about_verify_names_options_that_exist() -> None:
    page = (Path(__file__).parents[2] / "docs" / "verify.md").read_text()
    text = re.sub(r"-- --.*| -- .*", "", page)
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))
    commands = (verify_command, record_command, compare_command)
    known = {name for command in commands for param in command.params for name in param.opts}
    assert named - {"--epochs"} <= known
    assert {"--share", "--keep", "--copy-limit", "--timeout", "--steps"} <= named


def test_a_migrated_run_that_failed_is_a_divergence(cli: Cli, here: Path) -> None:
    failure = Failure("RuntimeError", "no such device", ["train.py:3 in <module>: f()"])
    saved(here, native=trace("native"), xla=trace("xla", failure=failure))
    ran = cli("compare", "native.trace", "xla.trace")
    assert ran.code == 1
    assert "RuntimeError: no such device" in ran.text


def test_a_native_run_that_failed_cannot_be_compared(cli: Cli, here: Path) -> None:
    failure = Failure("FileNotFoundError", "data/mnist.npz", ["train.py:3 in <module>: f()"])
    saved(here, native=trace("native", failure=failure), xla=trace("xla"))
    ran = cli("compare", "native.trace", "xla.trace", "--output-format", "json")
    assert ran.code == 2
    report = json.loads(ran.out)
    assert report["reason"] == "could not run natively: FileNotFoundError: data/mnist.npz"


def test_runs_with_other_arguments_cannot_be_compared(cli: Cli, here: Path) -> None:
    saved(here, native=trace("native", argv=["--lr", "1"]), xla=trace("xla"))
    ran = cli("compare", "native.trace", "xla.trace")
    assert ran.code == 2
    assert "argv" in ran.text


def test_a_trace_that_was_cut_off_is_told(cli: Cli, here: Path) -> None:
    saved(here, native=trace("native"), xla=trace("xla"))
    data = (here / "xla.trace").read_bytes()
    for size in (0, 10, len(data) // 2, len(data) - 1):
        (here / "xla.trace").write_bytes(data[:size])
        ran = cli("compare", "native.trace", "xla.trace")
        assert (ran.code, ran.out) == (2, b"")
        assert "xla.trace is no trace, or was cut off" in ran.err


def test_a_file_that_is_no_trace_is_told(cli: Cli, here: Path) -> None:
    saved(here, native=trace("native"))
    plant(here, {"train.py": "import torch\n"})
    with zipfile.ZipFile(here / "other.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    for name in ("train.py", "other.zip"):
        ran = cli("compare", "native.trace", name)
        assert ran.code == 2
        assert f"{name} is no trace" in ran.err
        assert "Traceback" not in ran.err


def test_a_trace_of_another_version_is_told(cli: Cli, here: Path) -> None:
    saved(here, native=trace("native"))
    with zipfile.ZipFile(here / "native.trace") as archive:
        summary = json.loads(archive.read("trace.json"))
    with zipfile.ZipFile(here / "new.trace", "w") as archive:
        archive.writestr("trace.json", json.dumps({**summary, "version": 99}))
    ran = cli("compare", "native.trace", "new.trace")
    assert ran.code == 2
    assert "another version" in ran.err


def test_a_report_that_cannot_be_written_is_told_and_costs_no_answer(cli: Cli, here: Path) -> None:
    saved(here, native=trace("native"), xla=trace("xla"))
    ran = cli("compare", "native.trace", "xla.trace", "--json", "x" * 300)
    assert ran.code == 2
    assert "File name too long" in ran.err
    assert ran.text.startswith("equal: ")


DUMP = """\
Timeout (0:00:04)!
Thread 0x00007f01 (most recent call first):
  File "helper.py", line 3 in work
  File "pool.py", line 982 in run
Thread 0x00007f02 (most recent call first):
  File "train.py", line 9 in step
  File "train.py", line 12 in <module>
"""


def test_the_stacks_of_a_hang_name_each_thread_the_main_one_first() -> None:
    assert [frame.removesuffix(" ") for frame in frames_of(DUMP)] == [
        "main thread:", "train.py:12 in <module>:", "train.py:9 in step:",
        "thread 2:", "pool.py:982 in run:", "helper.py:3 in work:",
    ]  # fmt: skip
    assert frames_of("nothing of the kind") == []


@pytest.mark.parametrize("place", ["hooks.py", "cuda_stand_in/placement.py"])
def test_the_stacks_of_a_hang_leave_out_the_frames_of_what_records(place: str) -> None:
    own = Path(failures.__file__).parent / place
    line = '  File "train.py", line 9'
    dump = DUMP.replace(line, f'  File "{own}", line 4 in hooked\n{line}')
    assert frames_of(dump) == frames_of(DUMP)


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (None, "Timeout", "no end after 5 s"),
        (-9, "Killed", "signal 9 (SIGKILL: memory may have run out)"),
        (-15, "Killed", "signal 15 (SIGTERM)"),
        (-64, "Killed", "signal 64"),
        (0, "NoTrace", "exit status 0 before its trace was written"),
        (UNWRITTEN, "Unwritten", "could not be written: last words"),
    ],
)
def test_a_run_without_a_trace_is_told_by_what_it_left(
    tmp_path: Path, status: int | None, kind: str, message: str
) -> None:
    plant(tmp_path, {STDERR: "first\nlast words\n", STACKS: ""})
    request = Request("train.py", "native", ".", str(tmp_path), timeout=5)
    failure = unrecorded(request, tmp_path, status)
    assert failure.kind == kind
    assert message in failure.message
    assert failure.frames == ["first", "last words"]
