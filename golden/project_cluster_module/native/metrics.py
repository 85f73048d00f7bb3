import torch
import torch.distributed as dist

from cluster import rank, size


def mean_of_all(value):
    total = value.detach().clone()
    dist.all_reduce(total)
    return total / size


def show(*words):
    if rank == 0:
        print(*words)
