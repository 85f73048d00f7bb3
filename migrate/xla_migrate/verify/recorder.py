"""Watches a training script from inside: losses, optimizer steps, evaluations, final parameters.

Nothing is read from a device while the script runs. What a value needs is kept as a detached
handle, and read when the script has ended, so that an XLA run executes what it would execute
unwatched.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.amp.autocast_mode import autocast
from torch.amp.grad_scaler import GradScaler
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.utils import clip_grad
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from xla_migrate.verify import measure
from xla_migrate.verify.hooks import after, before
from xla_migrate.verify.loading import Loading
from xla_migrate.verify.models import Models, parameters_of
from xla_migrate.verify.trace import Array, Evaluation, Shard, Step, Trace

UNSCALED = "_loss_before_scaling"
HALVES = {torch.bfloat16: "bfloat16", torch.float16: "bfloat16"}  # the CPU's autocast has one half


class EnoughSteps(BaseException):
    """Ends a script after the number of optimizer steps that were asked for."""


class Recorder:
    """Hooks into torch; ``observe`` is called with the name of each event: ``backward``, ``step``.

    With ``values=False`` only the events and their order are kept, and no handle on a tensor.
    ``draws`` counts the random operators so far; ``progress`` is called with the number of steps;
    ``limit`` steps end the script; ``perturb`` is the relative change of initial parameters.
    """

    def __init__(
        self,
        values: bool = True,
        observe: Callable[[str], None] | None = None,
        draws: Callable[[], int] = lambda: 0,
        progress: Callable[[int], None] | None = None,
        limit: int | None = None,
        perturb: float = 0.0,
    ) -> None:
        self.values, self.limit, self.draws = values, limit, draws
        self.observe = observe or (lambda event: None)
        self.progress = progress or (lambda steps: None)
        self.backwards = 0
        self._in_backward = False
        self._tracing = False
        self.dtype = "float32"
        self.losses: list[torch.Tensor | None] = []
        self.steps: list[Step] = []
        self.models = Models(perturb)
        self.loading = Loading(lambda: self.backwards, values)
        self.order: list[str] = []
        self._handles: list[tuple[list[int], torch.Tensor | None]] = []
        self._gradients: tuple[list[int], Sequence[torch.Tensor]] | None = None
        self._shards: dict[int, list[Shard | None]] = {}
        self._evaluations: list[tuple[Evaluation, torch.Tensor]] = []
        self._start = time.perf_counter()
        self._last_inputs: tuple[weakref.ref[Any], Any, Any] | None = None

    def install(self) -> None:
        """Hook into torch for the rest of the process, once."""
        self.models.install()
        self.loading.install()
        after(torch.nn.Module, "__call__", self._called)
        for scaler in (GradScaler, ShardedGradScaler):
            after(scaler, "scale", _remember_unscaled)
            after(scaler, "unscale_", lambda scaler, result, args: self.order.append("unscale"))
        after(autocast, "__enter__", self._casting)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            before([torch.nn.utils, clip_grad], name, lambda: self.order.append("clip"))
        register_optimizer_step_pre_hook(self._stepping)
        register_optimizer_step_post_hook(self._stepped)
        self._watch_backward()
        self._watch_tracing()

    def _watch_tracing(self) -> None:
        self.traces("trace_module", torch.jit, torch.jit._trace)

    def traces(self, name: str, *owners: Any) -> None:
        """What a function computes to have a graph is no evaluation and no loss; measured, that would be
        part of the graph."""
        traced: Callable[..., Any] = getattr(owners[0], name)

        @functools.wraps(traced)
        def watched(*args: Any, **kwargs: Any) -> Any:
            outside, self._tracing = self._tracing, True
            try:
                return traced(*args, **kwargs)
            finally:
                self._tracing = outside

        for owner in owners:
            setattr(owner, name, watched)

    def _watch_backward(self) -> None:
        backward = torch.autograd.backward

        @functools.wraps(backward)
        def watched(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if self._in_backward or self._tracing:  # a block that checkpointing computes again: no loss
                backward(tensors, *args, **kwargs)
                return
            self._loss_given(tensors)
            self._in_backward = True
            try:
                backward(tensors, *args, **kwargs)
            finally:
                self._in_backward = False
            self.observe("backward")

        setattr(torch.autograd, "backward", watched)  # noqa: B010

    def _loss_given(self, tensors: torch.Tensor | Sequence[torch.Tensor]) -> None:
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        self.backwards += len(roots)
        if self.backwards == 1 and not self.models.optimizers:
            self.models.adopt_all()
        self.order.append("backward")
        if self.values:
            self.losses += [_handle(root) for root in roots]

    def _casting(self, context: Any, result: Any, args: Any) -> None:
        if context._enabled:
            self.dtype = HALVES.get(context.fast_dtype, self.dtype)

    def _called(self, module: Any, output: Any, args: Any) -> None:
        if self._tracing or not self.models.is_outermost(module):
            return
        if not self.values:
            self._last_inputs = (weakref.ref(module), args, None)
        elif not torch.is_grad_enabled() and (found := measure.mean_square(output)):
            made = Evaluation(type(module).__name__, len(self.steps), 0.0, found[1])
            self._evaluations.append((made, found[0]))

    def input_shapes(self) -> str:
        """The shapes of the last inputs of an outermost module, in words."""
        if self._last_inputs is None:
            return ""
        module, inputs, _ = self._last_inputs
        return f"{type(module()).__name__}({', '.join(_short(_shape(value)) for value in inputs)})"

    def _stepping(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Gradients are looked at before the step, which may change them; those that a closure
        computes exist only after it."""
        with_closure = len(args) > 1 or kwargs.get("closure") is not None
        self._gradients = None if with_closure or not self.values else _gradients_of(optimizer)

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        seconds = time.perf_counter() - self._start
        values = self._measured(optimizer) if self.values else {}
        step = Step(
            self.models.number_of(optimizer), self.backwards, order=self.order, draws=self.draws(),
            seconds=seconds, **values,
        )  # fmt: skip
        self.steps.append(step)
        self.order = []
        self.observe("step")
        self.progress(len(self.steps))
        if self.limit is not None and len(self.steps) >= self.limit:
            raise EnoughSteps

    @measure.untouched
    def _measured(self, optimizer: Any) -> dict[str, Any]:
        parameters = list(parameters_of(optimizer))
        reached, gradients = self._gradients or _gradients_of(optimizer)
        starts = self._starts(optimizer)
        values = [*measure.norms(parameters), *measure.digests(parameters, starts), *gradients]
        self._handles.append((reached, torch.stack(values) if values else None))
        return {
            "learning_rates": [float(group.get("lr", 0.0)) for group in optimizer.param_groups],
            "unreached": sorted(set(range(len(parameters))) - set(reached)),
        }

    def _starts(self, optimizer: Any) -> list[int]:
        """Where the parts that this process holds of parameters begin; empty where it holds them whole."""
        number = self.models.number_of(optimizer)
        if number not in self._shards:
            self._shards[number] = self.models.shards(optimizer)
        shards = self._shards[number]
        return [0 if s is None else s.start for s in shards] if any(shards) else []

    def write_into(self, trace: Trace, materialise: Callable[[list[torch.Tensor]], None]) -> None:
        """Read all values, at the end; ``materialise`` computes pending tensors in one go."""
        trace.steps, trace.batches, trace.loaded = self.steps, self.loading.count, self.loading.batches
        trace.dtype, trace.draws = self.dtype, self.draws()
        if not self.values:
            return
        with measure.unwatched():
            self._read(trace, materialise)

    def _read(self, trace: Trace, materialise: Callable[[list[torch.Tensor]], None]) -> None:
        models = self.models
        groups = [list(parameters_of(optimizer)) for optimizer in models.optimizers]
        states = [dict(models.state_of(module)) for module in models.outermost]
        pending = [t for t in self.losses if t is not None] + [value for _, value in self._evaluations]
        pending += [values for _, values in self._handles if values is not None]
        pending += [t for group in groups for t in group] + [t for s in states for t in s.values()]
        materialise(pending)
        trace.losses = [None if t is None else float(t) for t in self.losses]
        trace.steps = [_read_step(s, *h) for s, h in zip(self.steps, self._handles, strict=True)]
        trace.evaluations = [replace(e, value=float(v) ** 0.5) for e, v in self._evaluations]
        trace.parameters = [[to_array(tensor) for tensor in group] for group in groups]
        trace.modules = [{n: to_array(tensor) for n, tensor in state.items()} for state in states]
        trace.names, trace.tied = models.names(groups), models.tied()
        if any(map(any, self._shards.values())):
            trace.shards = [models.shards(optimizer) for optimizer in models.optimizers]


@measure.untouched
def _gradients_of(optimizer: Any) -> tuple[list[int], Sequence[torch.Tensor]]:
    """The positions of parameters that have a gradient, and the norms of these."""
    found = [(j, p.grad) for j, p in enumerate(parameters_of(optimizer)) if p.grad is not None]
    return [j for j, _ in found], measure.norms([gradient for _, gradient in found])


def _read_step(step: Step, reached: list[int], values: torch.Tensor | None) -> Step:
    numbers: list[float] = [] if values is None else values.tolist()
    count = (len(numbers) - len(reached)) // 2
    by_parameter = [0.0] * count
    for j, value in zip(reached, numbers[2 * count :], strict=True):
        by_parameter[j] = value
    total = sum(value * value for value in by_parameter) ** 0.5 if reached else None
    return replace(
        step,
        gradient_norm=total,
        norms=numbers[:count],
        digests=numbers[count : 2 * count],
        gradients=by_parameter,
    )


def to_array(tensor: torch.Tensor) -> Array:
    """A copy of the tensor on the host; bfloat16, which numpy lacks, becomes float32."""
    host = tensor.detach().cpu()
    array: Array = (host.float() if host.dtype == torch.bfloat16 else host).numpy().copy()
    return array


def _shape(value: object) -> str:
    """A value without the numbers of its tensors, which nobody is to read from a device."""
    if isinstance(value, torch.Tensor):
        return str(list(value.shape))
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_shape, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_shape(one)}' for key, one in value.items())}}}"
    return str(value) if isinstance(value, (int, float, str, bool, type(None))) else type(value).__name__


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


@measure.untouched
def _handle(loss: torch.Tensor) -> torch.Tensor | None:
    loss = getattr(loss, UNSCALED, loss)
    return loss.detach().clone() if loss.numel() == 1 else None


def _remember_unscaled(scaler: Any, result: Any, args: Any) -> None:
    loss = args[0] if args else None
    if isinstance(result, torch.Tensor) and result is not loss:
        setattr(result, UNSCALED, loss)
