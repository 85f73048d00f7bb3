"""Whether migrated code can run in an environment: each fault is named, and decides the exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from running import Cli

from xla_migrate import doctor
from xla_migrate.doctor import Check, Environment, examine, worst
from xla_migrate.requirements import examine as examine_requirements

FITTING = {"torch": "2.9.1+cu128", "torch_xla": "2.9.0"}


@pytest.fixture(autouse=True)
def no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """The devices are asked for in tests of their own."""
    monkeypatch.setattr(doctor, "_devices", lambda environment: Check("devices", "ok", "4 TPU"))


def environment(
    variables: Mapping[str, str] | None = None,
    versions: Mapping[str, str] = FITTING,
    *,
    python: tuple[int, ...] = (3, 12, 1),
    has_gpu: bool = False,
) -> Environment:
    given = {"PJRT_DEVICE": "TPU"} if variables is None else dict(variables)
    return Environment(given, dict(versions).get, python, has_gpu)


def faults(made: Environment) -> list[tuple[str, str]]:
    """Name and status of what is not as it should be."""
    return [(check.name, check.status) for check in examine(made) if check.status != "ok"]


def test_an_environment_that_fits() -> None:
    assert faults(environment()) == []
    assert [c.name for c in examine(environment())] == [
        "python", "torch", "torch_xla", "versions", "PJRT_DEVICE", "devices",
    ]  # fmt: skip


@pytest.mark.parametrize("python", [(3, 9, 2), (3, 14, 0)])
def test_a_python_that_torch_xla_is_not_built_for(python: tuple[int, ...]) -> None:
    assert faults(environment(python=python)) == [("python", "error")]


def test_missing_packages() -> None:
    made = environment(versions={})
    assert faults(made) == [("torch", "error"), ("torch_xla", "error")]
    assert "devices" not in {check.name for check in examine(made)}


@pytest.mark.parametrize(("torch", "xla"), [("2.8.0", "2.9.0"), ("2.9.1", "2.8.1"), ("1.13.1", "2.0.0")])
def test_releases_that_do_not_fit(torch: str, xla: str) -> None:
    made = environment(versions={"torch": torch, "torch_xla": xla})
    assert ("versions", "error") in faults(made)


@pytest.mark.parametrize(
    ("transformers", "xla", "fits"),
    [
        ("4.51.3", "2.9.0", False),
        ("4.52.1", "2.9.0", True),
        ("5.0.0", "2.9.0", True),
        ("4.30.0", "2.6.0", True),
    ],
)
def test_a_transformers_that_is_too_old(transformers: str, xla: str, fits: bool) -> None:
    versions = {"torch": xla, "torch_xla": xla, "transformers": transformers}
    assert faults(environment(versions=versions)) == ([] if fits else [("transformers", "error")])


@pytest.mark.parametrize(
    ("variables", "xla", "expected"),
    [
        ({}, "2.9.0", [("PJRT_DEVICE", "info")]),
        ({"PJRT_DEVICE": "CPU"}, "2.9.0", []),
        ({"PJRT_DEVICE": "CUDA"}, "2.9.0", [("PJRT_DEVICE", "error")]),
        ({"PJRT_DEVICE": "CUDA"}, "2.8.0", []),
        ({"PJRT_DEVICE": "GPU"}, "2.5.0", [("PJRT_DEVICE", "error")]),
        ({"PJRT_DEVICE": "tpu"}, "2.9.0", [("PJRT_DEVICE", "warning")]),
        ({"PJRT_DEVICE": "TPU", "XRT_TPU_CONFIG": "x"}, "2.9.0", [("XRT_TPU_CONFIG", "warning")]),
        ({"PJRT_DEVICE": "TPU", "GPU_NUM_DEVICES": "4"}, "2.9.0", [("GPU_NUM_DEVICES", "warning")]),
        ({"PJRT_DEVICE": "TPU", "GPU_NUM_DEVICES": "4"}, "2.8.0", [("GPU_NUM_DEVICES", "warning")]),
        ({"PJRT_DEVICE": "CUDA", "GPU_NUM_DEVICES": "4"}, "2.8.0", []),
        ({"PJRT_DEVICE": "TPU", "XLA_USE_BF16": "1"}, "2.9.0", [("XLA_USE_BF16", "warning")]),
        ({"PJRT_DEVICE": "TPU", "XLA_USE_BF16": "0"}, "2.9.0", []),
        ({"PJRT_DEVICE": "TPU", "XLA_USE_FP16": "1"}, "2.9.0", [("XLA_USE_FP16", "warning")]),
        ({"PJRT_DEVICE": "TPU", "CUDA_VISIBLE_DEVICES": "0"}, "2.9.0", [("CUDA_VISIBLE_DEVICES", "info")]),
        ({}, "1.13.0", [("XRT", "error")]),
        ({"GPU_NUM_DEVICES": "4"}, "1.13.0", []),
        ({"XRT_TPU_CONFIG": "x"}, "1.13.0", []),
    ],
)
def test_variables(variables: dict[str, str], xla: str, expected: list[tuple[str, str]]) -> None:
    assert faults(environment(variables, {"torch": xla, "torch_xla": xla})) == expected


def test_a_gpu_that_is_not_used() -> None:
    assert faults(environment(has_gpu=True)) == [("gpu", "warning")]
    old = {"torch": "2.8.0", "torch_xla": "2.8.0"}
    assert faults(environment(versions=old, has_gpu=True)) == []


def test_only_errors_decide_the_exit_status() -> None:
    assert worst([Check("a", "ok", ""), Check("b", "warning", "")]) == 0
    assert worst([Check("a", "error", ""), Check("b", "ok", "")]) == 1


# ---- the child process


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Environment:
    """An environment whose Python finds a torch_xla that does what a test writes into it."""
    monkeypatch.undo()
    (tmp_path / "torch_xla").mkdir()
    return Environment({"PYTHONPATH": str(tmp_path)}, FITTING.get, (3, 12, 1), False, timeout=20)


def fake(tmp_path: Path, text: str, kind: str = "TPU") -> None:
    (tmp_path / "torch_xla" / "__init__.py").write_text(text)
    (tmp_path / "torch_xla" / "runtime.py").write_text(f"def device_type():\n    return '{kind}'\n")


@pytest.mark.parametrize(("kind", "status"), [("TPU", "ok"), ("CPU", "info")])
def test_devices_that_a_child_sees(child: Environment, tmp_path: Path, kind: str, status: str) -> None:
    fake(tmp_path, "print('noise')\ndef devices():\n    return [1, 2]\n", kind)
    seen = doctor._devices(child)
    assert (seen.status, seen.message[:5]) == (status, f"2 {kind}")
    assert "torch_xla" not in {name for name in sys.modules if sys.modules[name] is None}


def test_devices_that_cannot_be_opened(child: Environment, tmp_path: Path) -> None:
    fake(tmp_path, "def devices():\n    raise RuntimeError('No PjRtPlugin registered for: CUDA')\n")
    assert doctor._devices(child)[:3] == (
        "devices", "error", "RuntimeError: No PjRtPlugin registered for: CUDA",
    )  # fmt: skip


def test_devices_that_do_not_answer(child: Environment, tmp_path: Path) -> None:
    fake(tmp_path, "import time\ntime.sleep(60)\n")
    child.timeout = 1
    assert doctor._devices(child).status == "error"
    assert "1 seconds" in doctor._devices(child).message


# ---- a project's requirements


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("torch==2.9.1\ntorch_xla==2.9.0\n", "ok"),
        ("torch~=2.8.0\ntorch-xla[tpu]~=2.9.0  # XLA\n", "error"),
        ("torch==2.9.1+cpu\ntorch_xla==2.9.0\n-r other.txt\nhttps://x/y.whl\n", "ok"),
        ("torch>=2.0\n", "info"),
    ],
)
def test_what_a_project_asks_for(tmp_path: Path, text: str, status: str) -> None:
    (tmp_path / "requirements-train.txt").write_text(text)
    (tmp_path / "requirements.md").write_text("torch==1.0\ntorch_xla==2.0\n")
    assert [check.status for check in examine_requirements(str(tmp_path))] == [status]


# ---- the command


def test_the_command_prints_a_line_a_check(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xla_migrate.cli.doctor.examine", lambda made: [Check("a", "ok", "fine")])
    ran = cli("doctor")
    assert (ran.code, ran.text) == (0, "ok       a: fine\n")


def test_the_command_as_json(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Check("a", "error", "broken", "mend it")]
    monkeypatch.setattr("xla_migrate.cli.doctor.examine", lambda made: list(found))
    (here / "requirements.txt").write_text("torch_xla==2.9.0\n")
    ran = cli("doctor", ".", "--output-format", "json")
    report = json.loads(ran.text)
    assert ran.code == report["exit_code"] == 1
    assert report["checks"][0] == {"name": "a", "status": "error", "message": "broken", "advice": "mend it"}
    assert report["checks"][1]["status"] == "ok"


def test_a_folder_that_is_not_there_is_a_usage_error(cli: Cli) -> None:
    assert cli("doctor", "nowhere").code == 2
