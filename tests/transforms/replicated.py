"""Scripts of several processes for the tests: pieces of them, started by spawn or by a launcher."""

from __future__ import annotations

IMPORTS = """\
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
"""


def spawned(*lines: str, before: str = "") -> str:
    """A script whose processes run ``lines``, with ``rank`` and ``world_size`` as parameters."""
    body = "".join(f"    {line}\n" for line in lines)
    return (
        f"{IMPORTS}{before}\n\ndef worker(rank, world_size):\n"
        f'    dist.init_process_group("nccl", rank=rank, world_size=world_size)\n{body}'
        '\n\nif __name__ == "__main__":\n'
        "    n = torch.cuda.device_count()\n    mp.spawn(worker, args=(n,), nprocs=n)\n"
    )


def launched(*lines: str, before: str = "") -> str:
    """A script that a launcher starts once for each process, which runs ``lines``."""
    body = "".join(f"    {line}\n" for line in lines)
    return (
        f'{IMPORTS}{before}\n\ndef main():\n    dist.init_process_group("nccl")\n{body}'
        '    device = torch.device("cuda")\n\n\nif __name__ == "__main__":\n    main()\n'
    )
