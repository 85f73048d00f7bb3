"""Counts how often each gradient is reduced over the replicas before the optimizer uses it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


class Reductions:
    """``steps`` holds, for each optimizer step, the fewest and the most reductions among the
    gradients that it used; ``identity`` tells tensors apart (two objects can be one gradient)."""

    def __init__(self, identity: Callable[[torch.Tensor], int]) -> None:
        self.identity = identity
        self.steps: list[list[int]] = []
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._counts: dict[int, int] = {}
        self._wrapped: list[tuple[list[torch.Tensor], int]] = []

    def install(self) -> None:
        """Watch the optimizers of this process."""
        optimizer: Any = torch.optim.Optimizer
        begin = optimizer.__init__

        def made(this: Any, *args: Any, **kwargs: Any) -> None:
            begin(this, *args, **kwargs)
            self._optimizers.add(this)

        optimizer.__init__ = made
        optimizer.zero_grad = self._forgetting(optimizer.zero_grad)
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self._stepped(optimizer))

    def _forgetting(self, zero_grad: Callable[..., None]) -> Callable[..., None]:
        """Gradients that are zeroed begin anew: those of the next backward pass are others."""

        @functools.wraps(zero_grad)
        def zeroed(this: Any, *args: Any, **kwargs: Any) -> None:
            for parameter in (p for group in this.param_groups for p in group["params"]):
                self._counts.pop(id(parameter), None)
            zero_grad(this, *args, **kwargs)

        return zeroed

    def reduced(self, tensors: Iterable[torch.Tensor]) -> None:
        """These tensors were reduced, gradients or not."""
        known = {self.identity(p.grad): id(p) for o in self._optimizers for p in _reached(o)}
        for tensor in tensors:
            owner = known.get(self.identity(tensor))
            if owner is not None:
                self._counts[owner] = self._counts.get(owner, 0) + 1

    def wrapped(self, parameters: Iterable[torch.Tensor]) -> None:
        """DistributedDataParallel reduces the gradients of these, in buckets of its own."""
        self._wrapped.append(([p for p in parameters if p.requires_grad], 0))

    def bucket(self, elements: int) -> None:
        """It has reduced a bucket of so many elements."""
        for i, (parameters, before) in enumerate(self._wrapped):
            total = sum(parameter.numel() for parameter in parameters)
            now = before + elements
            if now >= total:
                now -= total
                for parameter in parameters:
                    self._counts[id(parameter)] = self._counts.get(id(parameter), 0) + 1
            self._wrapped[i] = (parameters, now)

    def _stepped(self, optimizer: Any) -> None:
        counts = [self._counts.pop(id(parameter), 0) for parameter in _reached(optimizer)]
        if any(hasattr(parameter, "_is_sharded") for parameter in _reached(optimizer)):
            counts = []  # the model reduces its gradients itself, before they come to be the parameters'
        self.steps.append([min(counts), max(counts)] if counts else [])


def _reached(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
