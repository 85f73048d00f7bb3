"""The steps of torch's own optimizers outside of the mode, while nothing is on the CUDA device.

Such a step makes tensors like its parameters and names no device. A script that chose the CPU then
runs nearly as fast as without the stand-in.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device as default_device

from xla_migrate.verify.cuda_stand_in.storages import is_unused
from xla_migrate.verify.measure import unwatched


def is_idle() -> bool:
    """Whether neither a tensor nor the default device is on CUDA."""
    return is_unused() and default_device.CURRENT_DEVICE is None


def install() -> None:
    """Wrap the optimizers of torch, for the rest of the process."""
    kinds = [kind for kind in vars(torch.optim).values() if isinstance(kind, type)]
    for kind in kinds:
        if issubclass(kind, torch.optim.Optimizer):
            for name in {"step", "zero_grad"} & vars(kind).keys():
                setattr(kind, name, _outside(getattr(kind, name)))


def _outside(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs or not is_idle():  # a closure is the script's own
            return method(self, *args, **kwargs)
        with unwatched():
            return method(self)

    return called
