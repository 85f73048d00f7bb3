"""What torch's own code does without choosing a device runs outside of the mode, which every call of
the torch API has to pass otherwise.

Steps of optimizers, samples of a ``TensorDataset`` and the default collation make most of such calls.
What they return is marked where what they were given is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.utils.data import TensorDataset
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map

from xla_migrate.verify.cuda_stand_in.placement import CudaOnCpu
from xla_migrate.verify.cuda_stand_in.storages import is_idle, is_placed, mark


def install() -> None:
    """Wrap this code, for the rest of the process."""
    for kind in [kind for kind in vars(torch.optim).values() if isinstance(kind, type)]:
        if issubclass(kind, torch.optim.Optimizer):
            for name, wrapped in (("step", _stepped), ("zero_grad", outside)):
                if name in vars(kind):
                    setattr(kind, name, wrapped(getattr(kind, name)))
    for name in ("__enter__", "__exit__"):  # loaders and optimizers make one each time
        setattr(record_function, name, outside(getattr(record_function, name)))
    setattr(TensorDataset, "__getitem__", _sampled(TensorDataset.__getitem__))  # noqa: B010
    default_collate_fn_map[torch.Tensor] = _collated(collate_tensor_fn)


def outside(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which runs with the mode switched off. Where the script has put a mode of its own
    above it, or a default device below, nothing is switched."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        alone = torch._C._len_torch_function_stack() == 1
        if not alone or type(torch._C._get_function_stack_at(0)) is not CudaOnCpu:
            return function(*args, **kwargs)
        mode = torch._C._pop_torch_function_stack()
        try:
            return function(*args, **kwargs)
        finally:
            torch._C._push_on_torch_function_stack(mode)

    return called


def _stepped(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step in the mode where it makes state, which is to be where the parameters are, or runs a
    closure, which is the script's own."""
    plain = outside(step)

    @functools.wraps(step)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        ready = not args and not kwargs and (is_idle() or _makes_nothing(self))
        return (plain if ready else step)(self, *args, **kwargs)

    return called


@outside
def _makes_nothing(optimizer: torch.optim.Optimizer) -> bool:
    """Whether every parameter that has a gradient has its state, or needs none."""
    if isinstance(optimizer, torch.optim.SGD):
        groups = [group for group in optimizer.param_groups if group["momentum"]]
    else:
        groups = optimizer.param_groups
    state = optimizer.state
    return all(p in state and state[p] for group in groups for p in group["params"] if p.grad is not None)


def _sampled(original: Callable[..., Any]) -> Callable[..., Any]:
    @outside
    @functools.wraps(original)
    def sample(self: Any, index: Any) -> Any:
        parts = original(self, index)
        if not is_idle() and not isinstance(index, int):  # a number makes views
            for part, whole in zip(parts, self.tensors, strict=True):
                _follow(part, whole)
        return parts

    return sample


def _collated(original: Callable[..., Any]) -> Callable[..., Any]:
    @outside
    @functools.wraps(original)
    def collate(batch: Any, **options: Any) -> Any:
        return _follow(original(batch, **options), batch[0])

    return collate


def _follow(made: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return mark(made) if is_placed(source) else made
