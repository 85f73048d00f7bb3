"""Watches a training script from inside: losses, optimizer steps, batches, final parameters.

Nothing is read from a device while the script runs. What a value needs is kept as a detached
handle, and read when the script has ended, so that an XLA run executes what it would execute
unwatched.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from xla_migrate.verify.trace import Array, Step, Trace

UNSCALED = "_loss_before_scaling"


class Recorder:
    """Hooks into torch; ``observe`` is called with the name of each event: ``backward``, ``step``,
    ``batch``.

    With ``values=False`` only the events and their order are kept, and no handle on a tensor.
    """

    def __init__(self, values: bool = True, observe: Callable[[str], None] | None = None) -> None:
        self.values = values
        self.observe = observe or (lambda event: None)
        self.backwards = 0
        self.batches = 0
        self.losses: list[torch.Tensor | None] = []
        self.steps: list[Step] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.modules: list[torch.nn.Module] = []
        self._all_modules: list[weakref.ref[torch.nn.Module]] = []

    def install(self) -> None:
        """Hook into torch for the rest of the process, once."""
        _after(torch.nn.Module, "__init__", self._module_made)
        _after(torch.optim.Optimizer, "__init__", self._optimizer_made)
        _after(GradScaler, "scale", _remember_unscaled)
        _after(_BaseDataLoaderIter, "__next__", self._batch_made)
        register_optimizer_step_post_hook(self._stepped)
        backward = torch.autograd.backward

        @functools.wraps(backward)
        def watched(tensors: Any, *args: Any, **kwargs: Any) -> None:
            self._loss_given(tensors)
            backward(tensors, *args, **kwargs)
            self.observe("backward")

        setattr(torch.autograd, "backward", watched)  # noqa: B010

    def _loss_given(self, tensors: torch.Tensor | Sequence[torch.Tensor]) -> None:
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        self.backwards += len(roots)
        if self.values:
            self.losses += [_handle(root) for root in roots]

    def _module_made(self, module: Any, result: Any, args: Any) -> None:
        self._all_modules.append(weakref.ref(module))

    def _optimizer_made(self, optimizer: Any, result: Any, args: Any) -> None:
        self.optimizers.append(optimizer)
        wanted = {id(parameter) for parameter in _parameters_of(optimizer)}
        alive = [module for module in (ref() for ref in self._all_modules) if module is not None]
        owners = [m for m in alive if any(id(parameter) in wanted for parameter in m.parameters())]
        inner = {id(child) for owner in owners for child in owner.modules() if child is not owner}
        known = {id(module) for module in self.modules}
        self.modules += [m for m in owners if id(m) not in inner | known]

    def _batch_made(self, iterator: Any, result: Any, args: Any) -> None:
        self.batches += 1

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        numbers = [i for i, known in enumerate(self.optimizers) if known is optimizer]
        self.steps.append(Step(numbers[0] if numbers else -1, self.backwards))
        self.observe("step")

    def write_into(self, trace: Trace, materialise: Callable[[list[torch.Tensor]], None]) -> None:
        """Read all values, at the end; ``materialise`` computes pending tensors in one go."""
        trace.steps, trace.batches = self.steps, self.batches
        if not self.values:
            return
        groups = [list(_parameters_of(optimizer)) for optimizer in self.optimizers]
        states = [dict(_state_of(module)) for module in self.modules]
        pending = [tensor for tensor in self.losses if tensor is not None]
        pending += [tensor for group in groups for tensor in group]
        pending += [tensor for state in states for tensor in state.values()]
        materialise(pending)
        trace.losses = [None if t is None else float(to_array(t)) for t in self.losses]
        trace.parameters = [[to_array(tensor) for tensor in group] for group in groups]
        trace.modules = [{n: to_array(tensor) for n, tensor in state.items()} for state in states]


def to_array(tensor: torch.Tensor) -> Array:
    """A copy of the tensor on the host; bfloat16, which numpy lacks, becomes float32."""
    host = tensor.detach().cpu()
    array: Array = (host.float() if host.dtype == torch.bfloat16 else host).numpy().copy()
    return array


def _handle(loss: torch.Tensor) -> torch.Tensor | None:
    loss = getattr(loss, UNSCALED, loss)
    return loss.detach().clone() if loss.numel() == 1 else None


def _remember_unscaled(scaler: Any, result: Any, args: Any) -> None:
    loss = args[0] if args else None
    if isinstance(result, torch.Tensor) and result is not loss:
        setattr(result, UNSCALED, loss)


def _parameters_of(optimizer: torch.optim.Optimizer) -> Iterable[torch.Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _state_of(module: torch.nn.Module) -> Iterable[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _after(owner: Any, name: str, hook: Callable[[Any, Any, Any], None]) -> None:
    """Call ``hook(self, result, args)`` whenever the method has returned."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        hook(self, result, args or tuple(kwargs.values()))
        return result

    setattr(owner, name, hooked)
