"""Scripts that are verified in scratch copies: those that train, and those that cannot run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from trees import digest, plant

from xla_migrate.verify import Options, Outcome, Runner, Verdict
from xla_migrate.verify.verifying import Runs

pytestmark = pytest.mark.slow

TRAINING = """
import torch
model = torch.nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    loss = model(torch.ones(2, 3).cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


class Project:
    """A project in the current directory, and the runs of its ``train.py``."""

    def __init__(self, runner: Runner, folder: Path) -> None:
        self.runner, self.folder, self.progress = runner, folder, []

    def verify(self, script: str, *argv: str, **options: object) -> Verdict:
        plant(self.folder, {"train.py": script})
        before = digest(self.folder)
        given = Options(**{"timeout": 100.0, **options})  # type: ignore[arg-type]
        runs = Runs(self.runner, self.folder / "train.py", list(argv), given, self.tell)
        verdict = runs.verdict()
        assert digest(self.folder) == before
        return verdict

    def tell(self, stage: str, steps: int) -> None:
        self.progress.append((stage, steps))


@pytest.fixture
def project(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    for side in ("native", "xla"):
        runner.start(side)  # its own temporary files are not those of a run
    folder, temporary = tmp_path / "project", tmp_path / "temporary"
    for place in (folder, temporary):
        place.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield Project(runner, folder)
    assert os.listdir(temporary) == []


def test_a_project_of_several_modules_that_writes_beside_its_data(project: Project):
    plant(project.folder, {
        "net/__init__.py": "from net.model import make\n",
        "net/model.py": "import torch\ndef make():\n    return torch.nn.Linear(3, 1).cuda()\n",
        "unrelated.py": "import nothing_of_the_kind\n",
        "data/x.txt": "0.5 1.0 2.0",
    })  # fmt: skip
    verdict = project.verify("""
        import os, sys, torch
        from net import make
        assert not os.path.exists("data/cache.pt"), "another run has been here"
        x = torch.tensor([[float(n) for n in open("data/x.txt").read().split()]]).cuda()
        torch.save(x.cpu(), "data/cache.pt")
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[1]))
        for _ in range(4):
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "done"), "w").close()
    """, "0.1")  # fmt: skip
    assert verdict.outcome in (Outcome.EQUAL, Outcome.WITHIN), verdict.reason
    assert verdict.native.files.keys() == {"data/cache.pt", "done"}
    names = {os.path.relpath(path) for path in verdict.results}
    assert names == {"train.py", "net/__init__.py", "net/model.py"}
    assert verdict.performance is not None
    assert verdict.notes == ()
    assert ("native", 4) in project.progress
    stages = list(dict.fromkeys(stage for stage, _ in project.progress))
    assert stages == ["native", "migration", "migrated", "counted"]


def test_a_file_that_is_written_anew_counts_though_its_size_stays(project: Project):
    plant(project.folder, {"old.txt": "1", "kept.txt": "1"})
    verdict = project.verify(TRAINING + 'open("old.txt", "w").write("1")\n')
    assert verdict.outcome in (Outcome.EQUAL, Outcome.WITHIN), verdict.reason
    assert verdict.native.files == verdict.migrated.files == {"old.txt": 1}


def test_a_run_ends_after_the_steps_that_were_asked_for(project: Project):
    verdict = project.verify(TRAINING + "raise SystemExit(1)\n", steps=2)
    assert verdict.outcome is not Outcome.NOT_COMPARABLE, verdict.reason
    assert len(verdict.native.steps) == 2


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("open('data/mnist.npz')", "FileNotFoundError"),
        ("import nothing_of_the_kind", "ModuleNotFoundError"),
        ("from urllib.request import urlopen; urlopen('http://127.0.0.1:9/x')", "URLError"),
        ("from torch.utils.cpp_extension import load; load('op', ['op.cu'])", "Error"),
        ("import sys; print('no good', file=sys.stderr); sys.exit(3)", "SystemExit"),
        ("import sys; sys.exit('no GPU for me')", "SystemExit: no GPU for me"),
        ("import argparse; argparse.ArgumentParser().parse_args()", "SystemExit"),
        ("x = = 1", "SyntaxError"),
        ("import os; os._exit(0)", "NoTrace"),
        ("import os; os.environ['LOCAL_RANK']", "'LOCAL_RANK'; it asks which of several processes it is"),
        ("import ctypes; ctypes.string_at(0)", "Killed: signal 11"),
        ("import os; os.kill(os.getpid(), 9)", "Killed: signal 9"),
    ],
)
def test_a_script_that_cannot_run_is_no_divergence(project: Project, script: str, reason: str):
    verdict = project.verify(f"import torch\n{script}\n", "--surprise")
    assert verdict.outcome is Outcome.NOT_COMPARABLE
    assert verdict.reason.startswith("could not run natively: ")
    assert reason in verdict.reason
    failure = verdict.native.failure
    assert failure is not None
    told = "\n".join([failure.message, *failure.frames])
    assert "xla-migrate-" not in told
    if "argparse" in script:
        assert "usage: train.py" in told
        assert "--surprise" in told
    if "mnist" in script or "string_at" in script:
        assert f"{project.folder / 'train.py'}:2 in <module>: {script}" in failure.frames
    if "mnist" in script:
        assert "--share" in verdict.notes[0]


def test_a_program_that_the_migration_leaves_is_not_compared_with_itself(project: Project):
    several = TRAINING.replace("for _", "torch.zeros(1).cuda(0), torch.zeros(1).cuda(1)\nfor _")
    verdict = project.verify(several)
    assert verdict.outcome is Outcome.NOT_COMPARABLE
    assert "left the program as it is: train.py:5: XLA191 one of several GPUs" in verdict.reason
    assert "migrated" not in [stage for stage, _ in project.progress]


def test_a_script_that_takes_no_step_has_nothing_to_compare(project: Project):
    verdict = project.verify("import torch\nprint(torch.ones(3).cuda().sum().item())\n")
    assert verdict.outcome is Outcome.NOT_COMPARABLE
    assert "no optimizer step was taken" in verdict.reason


def test_a_migrated_run_that_fails_is_a_divergence(project: Project):
    script = TRAINING + "if 'torch_xla' in __import__('sys').modules:\n    raise RuntimeError('here')\n"
    verdict = project.verify(script)
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.comparison is not None
    assert verdict.comparison.first is not None
    assert verdict.comparison.first.kind == "failure"
    failure = verdict.migrated.failure
    assert failure is not None
    assert failure.frames[-1].startswith(f"{project.folder / 'train.py'}:")
    assert failure.frames[-1].endswith("raise RuntimeError('here')")
    assert verdict.counted is None


def test_a_hang_ends_with_the_stack_of_every_thread(project: Project):
    verdict = project.verify(
        """
        import threading, time, torch
        def wait_for_ever():
            while True:
                time.sleep(0.1)
        threading.Thread(target=wait_for_ever, daemon=True).start()
        time.sleep(1000)
        """,
        timeout=3.0,
    )
    failure = verdict.native.failure
    assert failure is not None
    assert str(failure).startswith("Timeout: no end after 3 s\n  main thread:\n")
    assert any(frame.endswith("in <module>: time.sleep(1000)") for frame in failure.frames)
    assert any("in wait_for_ever:" in frame for frame in failure.frames)


@pytest.mark.parametrize("ending", ["", "time.sleep(1000)", "os._exit(3)"])
def test_what_a_run_started_ends_with_it(project: Project, tmp_path: Path, ending: str):
    note = tmp_path / "pid"
    project.verify(
        f"""
        import os, subprocess, time, torch
        child = subprocess.Popen(["sleep", "1000"])
        open({str(note)!r}, "w").write(str(child.pid))
        {ending}
        """,
        timeout=3.0,
    )
    assert_ended(int(note.read_text()))


def assert_ended(process: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":  # killed; its new parent has not looked yet
            return
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)
    pytest.fail(f"process {process} was left behind")


def test_an_absolute_path_into_the_project_is_that_of_the_copy_or_refused(project: Project):
    verdict = project.verify(
        "import sys, torch\nopen(sys.argv[1], 'w').close()\nopen(sys.argv[2][1:], 'w')\n",
        str(project.folder / "made.txt"), f"_{project.folder / 'refused.txt'}",
    )  # fmt: skip
    assert "PermissionError" in verdict.reason
    failure = verdict.native.failure
    assert failure is not None
    assert str(project.folder / "refused.txt") in failure.message
    assert "--share" in failure.message
    assert verdict.native.files.keys() == {"made.txt"}


def test_what_is_shared_is_read_and_not_written(project: Project):
    plant(project.folder, {"data/x.txt": "1"})
    script = "import torch\nprint(open('data/x.txt').read())\nopen('data/y.txt', 'w')\n"
    verdict = project.verify(script, share=(project.folder / "data",))
    assert "PermissionError" in verdict.reason
    assert verdict.native.stdout == "1\n"


def test_a_trace_that_cannot_be_written_is_no_divergence(project: Project):
    script = TRAINING + textwrap.dedent("""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    """)
    verdict = project.verify(script)
    assert verdict.outcome is Outcome.NOT_COMPARABLE
    assert "could not be written" in verdict.reason
    assert "File too large" in verdict.reason


def test_a_module_found_by_an_absolute_path_is_that_of_the_copy(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    plant(project.folder, {"src/mine.py": "import torch\nPLACE = __file__\n"})
    with Runner() as fresh:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(project.folder / "src"), *sys.path[1:]]))
        project.runner = fresh
        verdict = project.verify("import mine, os, torch\nprint(mine.PLACE, os.environ['PYTHONPATH'][:4])\n")
    assert verdict.native.stdout.split()[0] == str(project.folder / "src" / "mine.py")
    assert str(project.folder / "src/mine.py") in verdict.native.sources


def test_the_working_directory_is_no_place_for_modules(project: Project):
    plant(project.folder, {"app/run.py": "import torch, beside\n", "beside.py": "", "setup.py": ""})
    runs = Runs(project.runner, project.folder / "app/run.py", [], Options(), project.tell)
    assert "ModuleNotFoundError: No module named 'beside'" in runs.verdict().reason


def test_several_threads_may_record_at_once(project: Project):
    plant(project.folder, {"train.py": "import sys, torch\nprint(sys.argv[1])\n"})
    runs = [Runs(project.runner, project.folder / "train.py", [str(n)], Options(), project.tell)
            for n in range(4)]  # fmt: skip
    with ThreadPoolExecutor(4) as pool:
        traces = list(pool.map(lambda one: one.run("native", "native"), runs))
    assert [trace.stdout for trace in traces] == ["0\n", "1\n", "2\n", "3\n"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_verification_leaves_nothing_behind(
    project: Project, tmp_path: Path, number: signal.Signals
):
    note = tmp_path / "pid"
    plant(project.folder, {"train.py": f"""
        import os, time, torch
        open({str(note)!r}, "w").write(str(os.getpid()))
        time.sleep(1000)
    """})  # fmt: skip
    place = tmp_path / "others"
    place.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "xla_migrate", "record", "train.py", "--out", "x.trace"],
        env={**os.environ, "TMPDIR": str(place), "PYTHONPATH": os.pathsep.join(sys.path[1:])},
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background ignores it
        text=True,
    )
    deadline = time.monotonic() + 100
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, number)
    errors = process.communicate(timeout=60)[1]
    assert_ended(int(note.read_text()))
    assert not (project.folder / "x.trace").exists()
    if number is not signal.SIGKILL:
        assert process.returncode == 130, errors
        assert "interrupted" in errors
        assert os.listdir(place) == []
