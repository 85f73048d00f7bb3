"""Scripts around transformers' Trainer, run natively and migrated with the transformers that is installed.

The native side hides torch_xla by the switch that transformers and accelerate have for it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from programs import program

from xla_migrate import migrate_source

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers"),
]

OWN_OPTIMIZER = (
    "    options = {}\n",
    "    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)\n",
    ", **options)",
    ", optimizers=(optimizer, None))",
)


def script(*, own_optimizer: bool = False) -> str:
    code = program("tiny_trainer")
    kept, made, old, new = OWN_OPTIMIZER
    return code.replace(kept, made if own_optimizer else "").replace(old, new if own_optimizer else ")")


def run(code: str, folder: Path, *, xla: bool) -> tuple[dict[str, Any], str]:
    folder.mkdir()
    (folder / "script.py").write_text(code)
    environment = {**os.environ, "USE_TORCH_XLA": str(int(xla)), "PJRT_DEVICE": "CPU"}
    command = [sys.executable, "script.py"]
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    lines = ran.stdout.splitlines()
    results = [line.removeprefix("RESULT ") for line in lines if line.startswith("RESULT ")]
    return (json.loads(results[0]) if results else {}), ran.stderr


@pytest.mark.parametrize("own_optimizer", [False, True])
def test_the_migrated_script_trains_to_the_same_losses(own_optimizer: bool, tmp_path: Path) -> None:
    code = script(own_optimizer=own_optimizer)
    migrated = migrate_source(code, unsafe_fixes=True).code
    assert migrated != code
    native, native_errors = run(code, tmp_path / "native", xla=False)
    result, errors = run(migrated, tmp_path / "migrated", xla=True)
    assert native, native_errors[-2000:]
    assert result, errors[-2000:]
    assert (native["device"], result["device"]) == ("cpu", "xla:0")
    assert len(native["losses"]) == 8
    assert result["losses"] == pytest.approx(native["losses"], abs=2e-4)
    assert (tmp_path / "migrated" / "out" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("own_optimizer", "error"), [(False, "fused=True"), (True, "not on the same device")]
)
def test_the_native_script_fails_on_xla(own_optimizer: bool, error: str, tmp_path: Path) -> None:
    result, errors = run(script(own_optimizer=own_optimizer), tmp_path / "native", xla=True)
    assert not result
    assert error in errors
