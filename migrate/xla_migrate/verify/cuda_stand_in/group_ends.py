"""The ends of process groups: a thread of gloo's must not wait for one that waits for it.

What is asked of a group holds the modes it was asked under, the stand-in's among them, and takes the
interpreter's lock to let go of them, in a thread of the group. The reducer of ``DistributedDataParallel``,
where it is the last owner of its group, waits for these threads and keeps the lock: neither ever ends
(pytorch/pytorch#56297).
"""

from __future__ import annotations

import functools
from typing import Any

import torch.distributed as dist


def install() -> None:
    """Let groups that are destroyed live on as objects, up to the end of the process."""
    if not dist.is_available():
        return
    destroy, groups = dist.destroy_process_group, dist.distributed_c10d._world
    kept: set[Any] = set()

    @functools.wraps(destroy)
    def destroy_process_group(group: Any = None) -> None:
        kept.update(groups.pg_map)
        destroy(group)

    for module in (dist, dist.distributed_c10d):
        setattr(module, "destroy_process_group", destroy_process_group)  # noqa: B010
