"""What only a run on torch_xla needs. Written for torch_xla 2.9; imported in the recording process,
never by the tool."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xla_migrate.verify.hooks import before
from xla_migrate.verify.trace import Sample

if TYPE_CHECKING:
    from xla_migrate.verify.recorder import Recorder


READ = "aten::_local_scalar_dense"
"""Counted by torch_xla as if it fell back to the CPU: it is how a value is read."""


def module(name: str) -> Any:
    """A module of torch_xla, which has no types."""
    return importlib.import_module(name)


def refuse_cuda() -> None:
    """Let a CUDA call that the migration left over say so; torch would complain of the fork."""

    def refuse() -> None:
        raise RuntimeError("the script still uses CUDA, and a machine with XLA devices has none")

    module("torch.cuda")._lazy_init = refuse


def take_sample(event: str, shapes: str = "") -> Sample:
    """The counts of this moment. Waits for pending executions, which adds none, as they count when
    they finish."""
    module("torch_xla.core.xla_model").wait_device_ops()
    metrics = module("torch_xla.debug.metrics")
    named = (name for name in metrics.counter_names() if name.startswith("aten::"))
    fallbacks = [name for name in named if name != READ]
    return Sample(
        event=event,
        compiles=_samples_of(metrics, "CompileTime"),
        executions=_samples_of(metrics, "ExecuteTime"),
        barriers=metrics.counter_value("MarkStep") or 0,
        fallbacks={name: metrics.counter_value(name) for name in fallbacks},
        shapes=shapes,
    )


def executions() -> int:
    """The executions so far. Waits for pending ones, or a read would be charged with those before it."""
    module("torch_xla.core.xla_model").wait_device_ops()
    return _samples_of(module("torch_xla.debug.metrics"), "ExecuteTime")


def _samples_of(metrics: Any, name: str) -> int:
    data = metrics.metric_data(name)
    return int(data[0]) if data else 0


def materialise(tensors: list[Any]) -> None:
    """Compute pending tensors in one execution. Unlike a barrier this runs no step closures."""
    on_device = [tensor for tensor in tensors if tensor.device.type == "xla"]
    if on_device:
        module("torch_xla.core.xla_model").unlazy(on_device)


def watch_batches(observe: Callable[[str], None]) -> None:
    """Report each batch that a device loader hands out as the event ``batch``."""
    loader: Any = module("torch_xla.distributed.parallel_loader").PerDeviceLoader
    original = loader.next

    def watched(self: Any) -> Any:
        batch = original(self)
        observe("batch")
        return batch

    loader.next = watched


def load_in_step() -> None:
    """Let device loaders fetch a batch when the script asks for it, and not ahead, in a thread.

    Samplers, augmentations and dropout draw from the same generators. With a thread that runs
    ahead, the order of their draws would be a matter of time; fetched in step it is that of the
    native run. Batches still pass through torch_xla's own transfer, and the barrier of each
    ``next`` stays where it is.
    """
    loaders: Any = module("torch_xla.distributed.parallel_loader")

    class InStep(loaders.ParallelLoader):  # type: ignore[misc]
        def __init__(self, cpu_loader: Any, devices: Any, **options: Any) -> None:
            self._cpu_loader = cpu_loader
            self._devices = devices
            self._batches_per_execution = options.get("batches_per_execution", 1)
            self._input_sharding = options.get("input_sharding")
            self._exception_queue = module("queue").Queue()
            self._batches = iter(cpu_loader)

        def next_item(self, device: Any) -> Any:
            for batch in self._batches:
                return self.send_cpu_data_to_device([batch], device)[0]
            return None

        def close(self) -> None:
            self._batches = iter(())

    loaders.ParallelLoader = InStep


def watch_reductions(recorder: Recorder) -> None:
    """Note when gradients are reduced over the replicas, by whichever function."""
    xm = module("torch_xla.core.xla_model")
    for name in ("reduce_gradients", "all_reduce"):
        before([xm], name, lambda: note(recorder))


def watch_scans(recorder: Recorder) -> None:
    """A scan differentiates its function to have the graphs: torch_xla 2.9 computes every GRU so
    (``_patched_functions.py``)."""
    try:
        scan = module("torch_xla.experimental.scan")
    except ImportError:  # before 2.6
        return
    recorder.traces("value_and_grad_partitioned", scan)


def note(recorder: Recorder) -> None:
    """One reduction is one entry, however many calls it takes."""
    if recorder.order[-1:] != ["reduce"]:
        recorder.order.append("reduce")
