import torch
import torch_xla.core.xla_model as xm

from cluster import rank, size


def mean_of_all(value):
    total = value.detach().clone()
    xm.all_reduce("sum", [total])
    return total / size


def show(*words):
    if rank == 0:
        print(*words)
