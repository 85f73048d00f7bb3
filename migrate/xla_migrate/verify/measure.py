"""Numbers that describe tensors, computed where the tensors are and read when the run has ended.

A handle kept here adds an output to the next execution of an XLA device, and no execution.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import torch

CPU = torch.device("cpu")
PERIOD = 11
"""After so many elements the weights of a digest begin anew."""

BLOCK = 65_536
"""A norm is taken of so many elements at a time: added up one by one as float32, those of an embedding lose
three digits (``torch.linalg.vector_norm`` on a CPU)."""

SAMPLED = 65_536
"""At most about so many elements of a batch enter its digest."""


def untouched(function: Any) -> Any:
    """Run outside of autograd and of every function mode, the stand-in's among them."""

    def called(*args: Any, **kwargs: Any) -> Any:
        with unwatched(), torch.no_grad():
            return function(*args, **kwargs)

    return called


def unwatched() -> Any:
    """A context in which no function mode sees the calls, the stand-in's least of all."""
    switch: Any = torch._C.DisableTorchFunction
    return switch()


def norms(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The 2-norms of tensors. For ``untouched`` code."""
    return torch._foreach_norm([_in_blocks(_plain(tensor)) for tensor in tensors]) if tensors else ()


def _in_blocks(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same norm without more elements than ``BLOCK``, roughly: the norms of its parts."""
    while tensor.numel() > BLOCK:
        flat = tensor.reshape(-1)
        whole = flat.numel() - flat.numel() % BLOCK
        parts = torch.linalg.vector_norm(flat[:whole].reshape(-1, BLOCK), dim=1)
        tensor = torch.cat([parts, flat[whole:]])
    return tensor


def digests(tensors: Sequence[torch.Tensor], starts: Sequence[int] = ()) -> Sequence[torch.Tensor]:
    """The sums of tensors under fixed weights; ``starts`` are the places of parts in what they are parts
    of. For ``untouched`` code."""
    values = [_plain(tensor).reshape(-1) for tensor in tensors]
    if not any(starts):
        return [torch.dot(value, weights(value.numel(), value.device)) for value in values]
    return [
        torch.dot(value, weights(start % PERIOD + value.numel(), value.device)[start % PERIOD :])
        for value, start in zip(values, starts, strict=True)
    ]


@lru_cache(maxsize=512)
def weights(count: int, device: torch.device) -> torch.Tensor:
    """Whole numbers from -5 to 5 in a fixed order, as float32."""
    numbers = (torch.arange(count, dtype=torch.int64) * 37) % PERIOD - 5
    return numbers.to(torch.float32).to(device)


@untouched
def batch_digest(batch: object) -> float | None:
    """One number for the tensors of a batch on the host, None where it holds none."""
    parts = [_sampled(t) for t in _tensors(batch) if t.device.type == "cpu" and t.numel()]
    return sum(float(torch.dot(p, weights(p.numel(), CPU))) for p in parts) if parts else None


@untouched
def mean_square(output: object) -> tuple[torch.Tensor, int] | None:
    """The mean square of the first floating-point tensor in an output, and its size."""
    for tensor in _tensors(output):
        if tensor.is_floating_point() and tensor.numel():
            return _plain(tensor).square().mean(), tensor.numel()
    return None


@untouched
def perturb(parameter: torch.Tensor, size: float) -> None:
    """Change every element by a relative ``size`` or less, in a fixed pattern."""
    if parameter.is_floating_point():
        pattern = weights(parameter.numel(), parameter.device).reshape(parameter.shape) / 5
        parameter.mul_((1 + size * pattern).to(parameter.dtype))


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as float32: the values of a sparse one, both parts of a complex one."""
    if tensor.dtype == torch.float32 and tensor.layout == torch.strided:  # nearly every one
        return tensor
    value = tensor.detach()
    if value.layout != torch.strided:
        value = value.coalesce().values() if value.layout == torch.sparse_coo else value.values()
    if value.is_complex():
        value = torch.view_as_real(value)
    return value if value.dtype == torch.float32 else value.float()


def _sampled(tensor: torch.Tensor) -> torch.Tensor:
    value = _plain(tensor).reshape(-1)
    every = value.numel() // SAMPLED
    return value[::every] if every > 1 else value


def _tensors(value: object) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "__dict__") and type(value).__module__ != "builtins":  # a dataclass of outputs
        for item in vars(value).values():
            if isinstance(item, (torch.Tensor, list, tuple, dict)):
                yield from _tensors(item)
