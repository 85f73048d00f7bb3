"""``torch.distributed`` among the replicas (or ranks) of one run, whatever address a script names."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from xla_migrate.verify.calls import Calls
from xla_migrate.verify.replicas.meeting import silent

FUNCTIONS = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object",
    "monitored_barrier", "new_group", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor",
    "scatter", "scatter_object_list", "send",
)  # fmt: skip


def set_environment(rank: int, world: int) -> None:
    """What ``torchrun`` tells each process on a machine."""
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
        GROUP_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500",
    )  # fmt: skip


def set_environment_of_others(rank: int, world: int) -> None:
    """What Slurm's ``srun`` and Open MPI's ``mpirun`` tell each process on a machine."""
    os.environ.update(
        SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank), SLURM_NTASKS=str(world),
        OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_LOCAL_RANK=str(rank), OMPI_COMM_WORLD_SIZE=str(world),
    )  # fmt: skip


def join_by_file(
    rank: int, world: int, store: Any, begun: Callable[[str, str], str], timeout: Any
) -> None:
    """Let every ``init_process_group`` meet in ``store``.

    ``begun(backend, init_method)`` is called first, and returns the backend to use.
    """
    original, count = dist.init_process_group, [0]

    @functools.wraps(original)
    def init(
        backend: Any = None, init_method: Any = None, timeout: Any = timeout, world_size: int = -1,
        rank: int = -1, store: Any = None, *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        _check(rank, world_size, mine, world)
        kwargs.pop("device_id", None)
        count[0] += 1
        used = begun(str(backend or ""), str(init_method or "env://"))
        place = distributed.PrefixStore(f"process group {count[0]}", meeting_point)
        with silent():
            original(used, timeout=timeout, rank=mine, world_size=world, store=place)

    distributed: Any = dist
    mine, meeting_point = rank, store
    for module in (dist, dist.distributed_c10d):
        setattr(module, "init_process_group", init)  # noqa: B010


def _check(rank: int, world_size: int, mine: int, world: int) -> None:
    if world_size not in (-1, world):
        raise ValueError(f"the script wants {world_size} processes, and {world} were started")
    if rank not in (-1, mine):
        raise ValueError(f"the script calls the process with rank {mine} rank {rank}")


def watch(calls: Calls) -> None:
    """Note the script's own calls of ``torch.distributed``."""
    for name in FUNCTIONS:
        owners = [dist, dist.distributed_c10d]
        original = getattr(dist, name, None)
        if original is None:
            continue

        @functools.wraps(original)
        def noted(*args: Any, _original: Any = original, _name: str = name, **kwargs: Any) -> Any:
            given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
            elements = max((tensor.numel() for tensor in given), default=0)
            with calls.named(f"dist.{_name}", elements):
                return _original(*args, **kwargs)

        for owner in owners:
            setattr(owner, name, noted)
