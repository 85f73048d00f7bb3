"""Packages that only run on CUDA."""

from __future__ import annotations

import pytest
from transforms.helpers import findings

TAIL = "\nimport torch\n\nx = torch.zeros(1).cuda()\n"


@pytest.mark.parametrize(
    "line", ["import numpy", "from apexlib import x", "import tritonclient", "from . import apex"]
)
def test_other_packages_are_not_named(line: str) -> None:
    assert findings(line + TAIL, "packages") == []


@pytest.mark.parametrize(
    "line",
    [
        "import apex",
        "from apex.optimizers import FusedAdam, FusedLAMB",
        "from flash_attn import flash_attn_func",
        "import xformers.ops as xops",
        "import bitsandbytes as bnb",
        "from nvidia.dali import pipeline_def",
        "import triton",
        "from torch.utils.cpp_extension import load",
        "import cupy",
    ],
)
def test_packages_for_cuda_are_named_once(line: str) -> None:
    assert findings(line + TAIL, "packages") == [("XLA951", 1)]


def test_package_that_is_only_tried_is_told_mildly() -> None:
    code = "try:\n    import apex\nexcept ImportError:\n    apex = None" + TAIL
    assert findings(code, "packages") == [("XLA952", 2)]


def test_package_whose_absence_ends_the_script_is_an_error() -> None:
    code = "try:\n    import apex\nexcept ImportError:\n    raise SystemExit('install apex')" + TAIL
    assert findings(code, "packages") == [("XLA951", 2)]


def test_script_around_trainer_need_not_name_the_gpu() -> None:
    code = "import bitsandbytes\nfrom transformers import Trainer\n\ntrainer = Trainer(model)\n"
    assert findings(code, "packages") == [("XLA951", 1)]


def test_script_without_gpu_may_import_what_it_likes() -> None:
    assert findings("import triton\nimport torch\n", "packages") == []
