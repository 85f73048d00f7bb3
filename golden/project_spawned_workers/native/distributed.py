import os

import torch
import torch.distributed as dist


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12377"
    dist.init_process_group("nccl", rank=rank, world_size=world_size)


def cleanup():
    dist.destroy_process_group()


def is_main():
    return dist.get_rank() == 0


def total(value):
    value = value.clone()
    dist.all_reduce(value, op=dist.ReduceOp.SUM)
    return value


def mean(value):
    return total(value) / dist.get_world_size()


def save(state, path):
    if is_main():
        torch.save(state, path)
    dist.barrier()
