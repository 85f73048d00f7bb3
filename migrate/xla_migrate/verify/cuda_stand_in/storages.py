"""Which tensors pretend to live on the CUDA device.

The mark sits on the storage, not on the tensor: views share it, ``parameter.data = moved`` hands it
over as ``Module.to`` does, and torch keeps the Python object of a storage for as long as the
storage lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.utils._device as default_device

CUDA = torch.device("cuda", 0)
MARK = "_pretends_to_be_on_cuda"
NUMBERS = frozenset((int, float, bool, type(None)))
_in_use = False  # whether anything was ever marked


def names_cuda(device: object) -> bool:
    """Whether a device argument, in any of its spellings, means the CUDA device."""
    if isinstance(device, bool) or device is None:
        return False
    if isinstance(device, int):
        return True
    return str(getattr(device, "type", device)).partition(":")[0] == "cuda"


def storage_of(tensor: torch.Tensor) -> Any:
    """The storage of a tensor, or None where it has none (sparse tensors, for one)."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


def is_placed(value: object) -> bool:
    """Whether ``value`` is a tensor that pretends to be on the CUDA device."""
    if not isinstance(value, torch.Tensor):
        return False
    try:
        return hasattr(value.untyped_storage(), MARK)
    except (NotImplementedError, RuntimeError):  # without a storage
        return False


def mark(tensor: torch.Tensor) -> torch.Tensor:
    """Let the storage of ``tensor``, and so every view of it, pretend to be on the CUDA device."""
    storage = storage_of(tensor)
    if storage is not None and tensor.is_cpu:
        mark_storage(storage)
    return tensor


def mark_storage(storage: Any) -> None:
    """Let an untyped storage pretend to be on the CUDA device."""
    global _in_use
    _in_use = True
    setattr(storage, MARK, True)


def share_memory(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors are views of one storage."""
    one, other = storage_of(first), storage_of(second)
    return one is not None and other is not None and one._cdata == other._cdata


def settle(result: torch.Tensor, source: torch.Tensor, on_cuda: bool) -> torch.Tensor:
    """``result`` of moving ``source``: a copy where the device changes, as on real hardware, and
    the same memory where not."""
    if is_placed(source) != on_cuda and share_memory(result, source):
        result = result.clone()
    return mark(result) if on_cuda else result


def is_idle() -> bool:
    """Whether nothing was ever placed on the CUDA device, nor is it the default: the script chose the CPU
    so far."""
    return not _in_use and default_device.CURRENT_DEVICE is None


def sort_out(values: Iterable[object], strangers: list[torch.Tensor]) -> bool:
    """Whether a tensor in nested containers pretends to be on the CUDA device; adds those to
    ``strangers`` that do not."""
    found = False
    for value in values:
        if type(value) in NUMBERS:
            continue
        if isinstance(value, torch.Tensor):
            if is_placed(value):
                found = True
            else:
                strangers.append(value)
        elif isinstance(value, (list, tuple)):
            found |= sort_out(value, strangers)
        elif isinstance(value, dict):
            found |= sort_out(value.values(), strangers)
    return found


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """The tensors in nested lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
