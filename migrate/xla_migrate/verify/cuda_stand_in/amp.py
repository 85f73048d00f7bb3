"""Mixed precision of a CUDA script on the CPU.

A scaler for CUDA needs no help: torch's own scales, unscales and checks CPU tensors too. Autocast
for CUDA becomes the CPU's, always in bfloat16: that is what a migrated script uses, whatever the
native one asked for.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.amp.autocast_mode import autocast

from xla_migrate.verify.cuda_stand_in.storages import names_cuda

DEVICE_QUERIES = (
    "get_autocast_dtype",
    "is_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
)


def install() -> None:
    """Map autocast and the functions that ask about it."""
    original: Any = autocast.__init__

    @functools.wraps(original)
    def begin(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if names_cuda(device_type):
            device_type = "cpu"
            dtype = torch.bfloat16 if dtype in (None, torch.float16) else dtype
        original(self, device_type, dtype, *args, **kwargs)

    setattr(autocast, "__init__", begin)  # noqa: B010  (mypy refuses the plain assignment)
    for name in DEVICE_QUERIES:
        setattr(torch, name, _for_cpu(getattr(torch, name)))
    setattr(torch, "get_autocast_gpu_dtype", lambda: torch.bfloat16)  # noqa: B010


def _for_cpu(query: Any) -> Any:
    @functools.wraps(query)
    def asked(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device_type") is not None and names_cuda(kwargs["device_type"]):
            kwargs["device_type"] = "cpu"
        if not args or isinstance(args[0], str):
            device = args[0] if args else "cuda"
            args = ("cpu" if names_cuda(device) else device, *args[1:])
        return query(*args, **kwargs)

    return asked
