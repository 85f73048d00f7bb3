"""Helpers for logging and distributed training."""
import time
from collections import defaultdict

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr


def memory_info():
    # not every device tells: a CPU does not
    try:
        return xm.get_memory_info()
    except RuntimeError:
        return {"bytes_used": 0, "bytes_limit": 0, "peak_bytes_used": 0}


class SmoothedValue:
    """Tracks a series of values and gives their average over the whole series."""

    def __init__(self):
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.count += n
        self.total += value * n

    def synchronize_between_processes(self):
        if not is_dist_avail_and_initialized():
            return
        t = torch.tensor([self.count, self.total], dtype=torch.float64, device=torch_xla.device())
        xm.rendezvous("synchronize_between_processes")
        xm.all_reduce("sum", [t])
        t = t.tolist()
        self.count = int(t[0])
        self.total = t[1]

    @property
    def global_avg(self):
        return self.total / max(self.count, 1)


class MetricLogger:
    def __init__(self, delimiter="\t"):
        self.meters = defaultdict(SmoothedValue)
        self.delimiter = delimiter

    def update(self, **kwargs):
        for k, v in kwargs.items():
            if isinstance(v, torch.Tensor):
                v = v.item()
            assert isinstance(v, (float, int))
            self.meters[k].update(v)

    def synchronize_between_processes(self):
        for meter in self.meters.values():
            meter.synchronize_between_processes()

    def log_every(self, iterable, print_freq, header=None):
        start = time.time()
        for i, obj in enumerate(iterable):
            yield obj
            if i % print_freq == 0:
                stats = self.delimiter.join(f"{k}: {m.global_avg:.4f}" for k, m in self.meters.items())
                memory = memory_info()["peak_bytes_used"] / 1024.0 / 1024.0
                if memory < 0:
                    print("max mem:", memory)
                print(header, f"[{i}/{len(iterable)}]", stats)
        assert time.time() >= start


def get_world_size():
    if not is_dist_avail_and_initialized():
        return 1
    return xr.world_size()


def get_rank():
    if not is_dist_avail_and_initialized():
        return 0
    return xr.global_ordinal()


def is_main_process():
    return get_rank() == 0


def save_on_master(*args, **kwargs):
    xm.save(*args, **kwargs)


def reduce_dict(input_dict, average=True):
    """Reduce the values of a dictionary from all processes, so that all have the averaged results."""
    world_size = get_world_size()
    if world_size < 2:
        return input_dict
    with torch.no_grad():
        names = sorted(input_dict.keys())
        values = torch.stack([input_dict[k] for k in names], dim=0)
        xm.all_reduce("sum", [values])
        if average:
            values /= world_size
        return dict(zip(names, values))


def is_dist_avail_and_initialized():
    return True


def setup_for_distributed(is_master):
    """Disable printing when not in the master process."""
    import builtins as __builtin__

    builtin_print = __builtin__.print

    def print(*args, **kwargs):
        force = kwargs.pop("force", False)
        if is_master or force:
            builtin_print(*args, **kwargs)

    __builtin__.print = print


def init_distributed_mode(args):
    args.rank = xr.global_ordinal()
    args.world_size = xr.world_size()
    args.gpu = xr.local_ordinal()

    args.distributed = True
    args.dist_backend = "nccl"
    xm.rendezvous("init_distributed_mode")
    setup_for_distributed(args.rank == 0)
