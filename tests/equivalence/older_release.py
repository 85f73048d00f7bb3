"""Records a run on torch 2.1 and torch_xla 2.1: run by that environment's interpreter.

    python older_release.py '{"script": "train.py", "side": "xla", ...}'

The recorder is written for torch 2.9: what it asks of torch that 2.1 has under another name, or not at all,
is put in its place first. Random operators have to keep their kernels (``rng`` is ``device``): a script must
not draw on the device.
For the SageMaker containers ``torch_xla.amp`` gets what 1.13 has there and 2.1 no longer: autocast with
CUDA's arguments (in bfloat16, as the native side's) and CUDA's ``custom_fwd``.
"""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import torch
from torch.cuda.amp.grad_scaler import GradScaler


def module(name: str, **names: Any) -> types.ModuleType:
    """A module that 2.1 lacks."""
    made = types.ModuleType(name)
    vars(made).update(names)
    sys.modules[name] = made
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, made)
    return made


def for_device(device: str = "cuda", *args: Any, **kwargs: Any) -> GradScaler:
    """``torch.amp.GradScaler``."""
    return GradScaler(*args, **kwargs)


def complete_torch() -> None:
    """Give torch the names of 2.9 that the recorder, the stand-in or a golden script uses."""
    module("torch.amp.grad_scaler", GradScaler=GradScaler)
    module("torch.nn.attention", sdpa_kernel=None)
    module("torch.accelerator")
    module("torch.accelerator.memory")
    torch.amp.GradScaler = for_device  # type: ignore[misc,assignment]
    for name in ("get_autocast_dtype", "set_autocast_dtype"):
        setattr(torch, name, lambda *args: None)


def complete_torch_xla() -> None:
    """Give ``torch_xla.amp`` what it had in 1.13."""
    import torch_xla.amp as amp

    module("torch_xla.torch_xla", launch=None)

    def autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> Any:
        lower = torch.bfloat16 if dtype in (None, torch.float16) else dtype
        return torch.autocast("xla", dtype=lower, enabled=enabled, cache_enabled=cache_enabled)

    amp.autocast = autocast
    amp.custom_fwd, amp.custom_bwd = torch.cuda.amp.custom_fwd, torch.cuda.amp.custom_bwd


def load_in_step() -> None:
    """Let device loaders fetch a batch when the script asks for it, see ``xla_side.load_in_step``."""
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.parallel_loader as loaders

    class InStep(loaders.ParallelLoader):  # type: ignore[misc]
        def __init__(self, cpu_loader: Any, devices: Any, **options: Any) -> None:
            self._batches_per_execution = options.get("batches_per_execution", 1)
            self._batches = iter(cpu_loader)

        def next_item(self, device: Any) -> Any:
            for batch in self._batches:
                return xm.send_cpu_data_to_device([batch], device)[0]
            return None

        def close(self) -> None:
            self._batches = iter(())

    loaders.ParallelLoader = InStep


def main(request: str) -> None:
    """Complete what is there, then record."""
    complete_torch()
    from xla_migrate.verify import record

    if json.loads(request)["side"] == "xla":
        from xla_migrate.verify import xla_side

        complete_torch_xla()
        xla_side.load_in_step = load_in_step
    record.main([request])


if __name__ == "__main__":
    main(sys.argv[1])
