"""Which tensors pretend to live on the CUDA device.

The mark sits on the storage, not on the tensor: views share it, ``parameter.data = moved`` hands it
over as ``Module.to`` does, and torch keeps the Python object of a storage for as long as the
storage lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

CUDA = torch.device("cuda", 0)
MARK = "_pretends_to_be_on_cuda"
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
    return isinstance(value, torch.Tensor) and hasattr(storage_of(value), MARK)


def mark(tensor: torch.Tensor) -> torch.Tensor:
    """Let the storage of ``tensor``, and so every view of it, pretend to be on the CUDA device."""
    storage = storage_of(tensor)
    if storage is not None and tensor.device.type == "cpu":
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


def is_unused() -> bool:
    """Whether nothing was ever placed on the CUDA device: the script chose the CPU so far."""
    return not _in_use


def any_placed(values: Iterable[object]) -> bool:
    """Whether a tensor in nested containers pretends to be on the CUDA device."""
    return _in_use and _holds_placed(values)


def _holds_placed(values: Iterable[object]) -> bool:
    for value in values:
        if isinstance(value, torch.Tensor):
            if is_placed(value):
                return True
        elif isinstance(value, (list, tuple)):
            if _holds_placed(value):
                return True
        elif isinstance(value, dict) and _holds_placed(value.values()):
            return True
    return False


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
