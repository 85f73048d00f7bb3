"""Makes a script that was written for CUDA run on a machine that has only a CPU.

Independent of the migrator: it knows torch, and no rule of ours. Use it once a process, before the
script starts. It is a stand-in, not an emulator: mixing devices does not raise, memory is not
counted, streams run in order, and CUDA graphs cannot be captured.
"""

from __future__ import annotations

import importlib
from typing import Any

from xla_migrate.verify.cuda_stand_in import amp, cuda_module, group_ends, outside, substitutes
from xla_migrate.verify.cuda_stand_in.placement import CudaOnCpu

__all__ = ["install"]


def install() -> Any:
    """Patch torch for the rest of the process and return the mode, switched on for this thread."""
    # Optimizers import it. It builds tables of torch's functions, which are to hold the originals.
    importlib.import_module("torch._dynamo")
    cuda_module.install()
    amp.install()
    substitutes.install()
    outside.install()
    group_ends.install()
    mode: Any = CudaOnCpu()
    mode.__enter__()
    return mode
