"""Counts how often each gradient is reduced over the replicas before the optimizer uses it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

GRADIENT: Any = torch.Tensor.grad
"""The attribute as torch has it: what is read through it is no use that a script makes of a gradient."""


class Reductions:
    """``steps`` holds, for each optimizer step, the fewest and the most reductions among the
    gradients that it used; ``identity`` tells tensors apart (two objects can be one gradient).

    A gradient that the script uses once it is reduced (zeroes it, moves weights along it) begins
    anew with what a backward pass adds to it then: that is to be reduced as well.
    """

    def __init__(self, identity: Callable[[torch.Tensor], int]) -> None:
        self.identity = identity
        self.steps: list[list[int]] = []
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._counts: dict[int, int] = {}
        self._most: dict[int, int] = {}
        self._fresh: dict[int, torch.Tensor] = {}
        self._used: set[int] = set()

    def install(self) -> None:
        """Watch the optimizers, the gradients and the backward passes of this process."""
        optimizer: Any = torch.optim.Optimizer
        begin = optimizer.__init__

        def made(this: Any, *args: Any, **kwargs: Any) -> None:
            begin(this, *args, **kwargs)
            self._optimizers.add(this)

        optimizer.__init__ = made
        read = property(self._read, GRADIENT.__set__, GRADIENT.__delete__)
        setattr(torch.nn.Parameter, "grad", read)  # noqa: B010
        setattr(torch.autograd, "backward", self._watching(torch.autograd.backward))  # noqa: B010
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self._stepped(optimizer))

    def _read(self, parameter: torch.Tensor) -> torch.Tensor | None:
        if id(parameter) in self._fresh:
            self._used.update(self._fresh)
        return _gradient(parameter)

    def _watching(self, backward: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(backward)
        def watched(*args: Any, **kwargs: Any) -> None:
            before = [(parameter, *_state(parameter)) for parameter in self._fresh.values()]
            backward(*args, **kwargs)
            for parameter, gradient, version in before:
                now, latest = _state(parameter)
                if now is not gradient or latest != version:
                    self._add(id(parameter))

        return watched

    def _add(self, owner: int) -> None:
        """A backward pass has added to a gradient that was reduced."""
        self._fresh.pop(owner, None)
        if owner in self._used:
            self._used.discard(owner)
            self._counts.pop(owner, None)

    def reduced(self, tensors: Iterable[torch.Tensor]) -> None:
        """These tensors were reduced, gradients or not."""
        known = {self.identity(gradient): p for o in self._optimizers for p, gradient in _reached(o)}
        for tensor in tensors:
            owner = known.get(self.identity(tensor))
            if owner is not None:
                self._count(owner)

    def _count(self, parameter: torch.Tensor) -> None:
        owner = id(parameter)
        self._fresh[owner] = parameter
        self._counts[owner] = self._counts.get(owner, 0) + 1
        self._most[owner] = max(self._most.get(owner, 0), self._counts[owner])

    def _stepped(self, optimizer: Any) -> None:
        reached = [parameter for parameter, _ in _reached(optimizer)]
        fewest = [self._counts.pop(id(parameter), 0) for parameter in reached]
        most = [self._most.pop(id(parameter), 0) for parameter in reached]
        for parameter in reached:
            self._fresh.pop(id(parameter), None)
            self._used.discard(id(parameter))
        # a sharded model reduces its gradients itself, before they come to be the parameters'
        sharded = any(hasattr(parameter, "_is_sharded") for parameter in reached)
        self.steps.append([] if sharded or not reached else [min(fewest), max(most)])


def _gradient(parameter: torch.Tensor) -> torch.Tensor | None:
    gradient: torch.Tensor | None = GRADIENT.__get__(parameter)
    return gradient


def _state(parameter: torch.Tensor) -> tuple[torch.Tensor | None, int]:
    """The gradient, and how often it has been written to."""
    gradient = _gradient(parameter)
    return gradient, 0 if gradient is None else gradient._version


def _reached(optimizer: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        gradient = _gradient(parameter)
        if gradient is not None:
            yield parameter, gradient
