"""The ranks of a distributed script on CPUs: NCCL becomes gloo, and each rank is a process that has
been started already.

``torch.multiprocessing.spawn`` and loops that start a process a rank call their function for this
rank, here.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import multiprocessing.context
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from xla_migrate.verify.calls import Calls
from xla_migrate.verify.cuda_stand_in.cuda_module import NAME
from xla_migrate.verify.hooks import after
from xla_migrate.verify.measure import unwatched
from xla_migrate.verify.replicas.starts import Starts

SUM, AVERAGE = dist.ReduceOp.SUM, dist.ReduceOp.AVG


def backend(asked: str, init_method: str) -> str:
    """The backend in the place of the one that was asked for."""
    return asked if _has_cuda() else "gloo"


def _has_cuda() -> bool:
    """Whether this machine really has a CUDA device: then only the start of the ranks is replaced."""
    return bool(torch.cuda.get_device_name(0) != NAME)


def install(rank: int, world: int, calls: Calls, starts: Starts) -> None:
    """Patch torch for the rest of the process, after the stand-in for one device."""
    _start_here(rank, world, starts)
    if _has_cuda():
        return
    _count_devices(world)
    _wrap_models(calls)
    _shard_models()
    _synchronise_norms()
    _fit_to_gloo()


def _count_devices(world: int) -> None:
    """One device a rank, as the script sees them: the one it has chosen is its current one."""
    chosen = [0]

    def choose(device: Any) -> None:
        index = device if isinstance(device, int) else torch.device(device).index
        chosen[0] = chosen[0] if index is None else index

    torch.cuda.device_count = lambda: world
    torch.cuda.set_device = choose
    torch.cuda.current_device = lambda: chosen[0]
    torch.accelerator.device_count = lambda: world


class Spawned:
    """What ``spawn(join=False)`` returns: all has been done already."""

    processes: tuple[Any, ...] = ()

    def join(self, timeout: float | None = None) -> bool:
        """Nothing is left to wait for."""
        return True


def _start_here(rank: int, world: int, starts: Starts) -> None:
    def spawn(
        fn: Callable[..., Any], args: Any = (), nprocs: int = 1, join: bool = True, *rest: Any, **options: Any
    ) -> Spawned | None:
        if nprocs != world:
            raise ValueError(f"the script starts {nprocs} processes, and {world} were started")
        starts.begin()
        fn(rank, *args)
        starts.wait()
        return None if join else Spawned()

    for module in (torch.multiprocessing, importlib.import_module("torch.multiprocessing.spawn")):
        for name in ("spawn", "start_processes"):
            setattr(module, name, spawn)
    _run_own_process(rank, world, starts)


def _run_own_process(rank: int, world: int, starts: Starts) -> None:
    """Of the processes that a script starts with a function of its own, the one with this rank runs,
    in here; the workers of loaders and of libraries start as ever. As many as there are ranks start
    together."""
    started: list[Any] = []
    begin, wait = multiprocessing.process.BaseProcess.start, multiprocessing.process.BaseProcess.join

    def start(process: Any) -> None:
        if getattr(process._target, "__module__", "") != "__main__":
            begin(process)
            return
        process.done_here = True
        if len(started) % world == 0:
            starts.begin()
        started.append(process)
        if (len(started) - 1) % world == rank:
            process._target(*process._args, **process._kwargs)

    def join(process: Any, timeout: float | None = None) -> None:
        if not hasattr(process, "done_here"):
            wait(process, timeout)
        elif process in started:  # the first of those that were started together
            started.clear()
            starts.wait()

    kind: Any = multiprocessing.process.BaseProcess
    kind.start, kind.join = start, join
    code = kind.exitcode.fget
    kind.exitcode = property(lambda process: 0 if hasattr(process, "done_here") else code(process))


def _wrap_models(calls: Calls) -> None:
    """``DistributedDataParallel`` looks at devices, and finds them all on the CPU."""
    kind: Any = DistributedDataParallel
    begin = kind.__init__

    @functools.wraps(begin)
    def wrapped(self: Any, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        for option in ("device_ids", "output_device"):
            kwargs.pop(option, None)
        elements = sum(parameter.numel() for parameter in module.parameters())
        with calls.named("DistributedDataParallel", elements), unwatched():
            begin(self, module, None, None, *args[2:], **kwargs)

    kind.__init__ = wrapped
    kind._passing_sync_batchnorm_handle = lambda self, module: None  # refuses norms on a CPU


def _shard_models() -> None:
    """``FullyShardedDataParallel`` shards on the CPU; parameters keep their names, as on torch_xla."""
    fsdp: Any = importlib.import_module("torch.distributed.fsdp")
    inside: Any = importlib.import_module("torch.distributed.fsdp._init_utils")
    inside._check_module_states_for_sync_module_states = lambda states: None  # wants them on a GPU
    begin = fsdp.FullyShardedDataParallel.__init__

    @functools.wraps(begin)
    def sharded(self: Any, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(begin).bind(self, module, *args, **kwargs).arguments
        given |= {"device_id": torch.device("cpu"), "use_orig_params": True, "cpu_offload": None}
        with unwatched():
            begin(**given)

    fsdp.FullyShardedDataParallel.__init__ = sharded
    after(fsdp.FullStateDictConfig, "__init__", _stay)


def _stay(config: Any, result: Any, args: Any) -> None:
    """What is on the CPU is not brought there: its memory would be freed while it is read (PyTorch 2.9)."""
    config.offload_to_cpu = False


class _Total(torch.autograd.Function):
    """The sum over the ranks, whose gradient is summed over the ranks as well."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return _summed(value, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _summed(gradients[0], ctx.group), None


def _summed(value: torch.Tensor, group: Any) -> torch.Tensor:
    total = value.detach().clone().contiguous()
    _all_reduce(total, group=group)
    return total


_all_reduce: Any = dist.all_reduce


def _synchronise_norms() -> None:
    """``SyncBatchNorm`` has kernels for GPUs only."""
    plain: Any = nn.modules.batchnorm._BatchNorm.forward

    def forward(self: Any, batch: torch.Tensor) -> Any:
        if not (self.training and dist.is_initialized()):
            return plain(self, batch)
        axes = [i for i in range(batch.dim()) if i != 1]
        total: Any = _Total.apply
        count = total(batch.new_tensor([float(batch.numel() // batch.shape[1])]), self.process_group)
        mean = total(batch.sum(axes), self.process_group) / count
        square = total((batch * batch).sum(axes), self.process_group) / count
        variance = square - mean * mean
        _track(self, mean.detach(), variance.detach(), float(count))
        shape = [-1 if i == 1 else 1 for i in range(batch.dim())]
        normal = (batch - mean.view(shape)) / torch.sqrt(variance.view(shape) + self.eps)
        return normal if not self.affine else normal * self.weight.view(shape) + self.bias.view(shape)

    norm: Any = nn.SyncBatchNorm
    norm.forward = forward


def _track(norm: Any, mean: torch.Tensor, variance: torch.Tensor, count: float) -> None:
    if not norm.track_running_stats:
        return
    norm.num_batches_tracked.add_(1)
    momentum = 1.0 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    unbiased = variance * (count / max(count - 1.0, 1.0))
    norm.running_mean.lerp_(mean, momentum)
    norm.running_var.lerp_(unbiased, momentum)


def _fit_to_gloo() -> None:
    """What NCCL takes and gloo does not."""
    reduce, barrier, get_backend = dist.all_reduce, dist.barrier, dist.get_backend

    @functools.wraps(reduce)
    def all_reduce(tensor: Any, op: Any = SUM, group: Any = None, async_op: bool = False) -> Any:
        if op != AVERAGE:
            return reduce(tensor, op, group, async_op)
        reduce(tensor, SUM, group)
        tensor.div_(dist.get_world_size(group))
        return Done() if async_op else None

    @functools.wraps(barrier)
    def plain_barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
        return barrier(group, async_op)

    for module in (dist, dist.distributed_c10d):
        setattr(module, "all_reduce", all_reduce)  # noqa: B010
        setattr(module, "barrier", plain_barrier)  # noqa: B010
        setattr(module, "is_nccl_available", lambda: True)  # noqa: B010
        setattr(module, "get_backend", lambda group=None: get_backend(group) and "nccl")  # noqa: B010


class Done:
    """The handle of work that is done."""

    def wait(self, timeout: object = None) -> bool:
        """Nothing is left to wait for."""
        return True

    def is_completed(self) -> bool:
        """Always."""
        return True
