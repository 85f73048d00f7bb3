"""Notebooks trained natively and migrated: the cells run in their order and print the same losses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from notebook_files import notebook

from xla_migrate import migrate_source
from xla_migrate.notebooks.programs import Program

pytestmark = pytest.mark.slow

CELLS = (
    "%matplotlib inline\nimport torch\nfrom torch import nn\n"
    "from torch.utils.data import DataLoader, TensorDataset",
    "device = 'cuda' if torch.cuda.is_available() else 'cpu'\ntorch.manual_seed(0)\n"
    "data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))",
    "%%time\nloader = DataLoader(data, batch_size=16, shuffle=False)",
    "model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)\n"
    "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)",
    "def epoch():\n    total = 0.0\n    for x, y in loader:\n        x, y = x.to(device), y.to(device)\n"
    "        optimizer.zero_grad()\n        loss = nn.functional.mse_loss(model(x), y)\n"
    "        loss.backward()\n        optimizer.step()\n        total += loss.item()\n    return total",
    "%time first = epoch()\nprint(first)",
    "for x, y in loader:\n    x, y = x.to(device), y.to(device)\n    optimizer.zero_grad()\n"
    "    loss = nn.functional.mse_loss(model(x), y)\n    loss.backward()\n    optimizer.step()\n"
    "    print(loss.item())",
)


def printed(text: str, folder: Path) -> list[float]:
    """What the cells of a notebook print, its magics doing nothing."""
    program = Program(text.encode())
    magics = [name for region in program.regions for name in region.masked.magics]
    nothing = "".join(f"{name} = contextlib.nullcontext\n" for name in magics)
    path = folder / "cells.py"
    path.write_text(f"import contextlib\n{nothing}{program.text}")
    environment = {**os.environ, "PJRT_DEVICE": "CPU"}
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True, env=environment)
    return [float(line) for line in ran.stdout.split()]


def test_losses_agree(tmp_path: Path) -> None:
    native = notebook(*CELLS)
    result = migrate_source(native, path="demo.ipynb")
    assert "MpDeviceLoader" in result.code
    losses = printed(native, tmp_path)
    assert len(losses) == 5
    assert printed(result.code, tmp_path) == pytest.approx(losses, rel=1e-5)
