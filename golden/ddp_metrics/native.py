"""Metrics over all processes: sums, extremes, gathered tensors and objects.  torchrun --nproc_per_node=N native.py"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def is_dist_avail_and_initialized():
    if not dist.is_available():
        return False
    if not dist.is_initialized():
        return False
    return True


def get_world_size():
    if not is_dist_avail_and_initialized():
        return 1
    return dist.get_world_size()


def get_rank():
    return dist.get_rank() if is_dist_avail_and_initialized() else 0


def reduce_mean(value):
    if get_world_size() < 2:
        return value
    value = value.clone()
    dist.all_reduce(value, op=dist.ReduceOp.SUM)
    return value / get_world_size()


def all_gather(data):
    world_size = get_world_size()
    if world_size == 1:
        return [data]
    data_list = [None] * world_size
    dist.all_gather_object(data_list, data)
    return data_list


class SmoothedValue:
    def __init__(self):
        self.total, self.count, self.largest = 0.0, 0, 0.0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n
        self.largest = max(self.largest, value)

    def synchronize_between_processes(self):
        if not is_dist_avail_and_initialized():
            return
        t = torch.tensor([self.count, self.total], dtype=torch.float64, device="cuda")
        dist.barrier()
        dist.all_reduce(t)
        t = t.tolist()
        self.count, self.total = int(t[0]), t[1]
        top = torch.tensor(self.largest, device="cuda")
        dist.all_reduce(top, dist.ReduceOp.MAX)
        self.largest = top.item()


def init_distributed_mode():
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        gpu = int(os.environ["LOCAL_RANK"])
    elif "SLURM_PROCID" in os.environ:
        rank, world_size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
        gpu = rank % torch.cuda.device_count()
    else:
        print("Not using distributed mode")
        return
    torch.cuda.set_device(gpu)
    dist.init_process_group(backend="nccl", world_size=world_size, rank=rank)
    dist.barrier()


def main():
    init_distributed_mode()
    device = torch.device("cuda")
    torch.manual_seed(get_rank())

    x = torch.randn(48, 5, generator=torch.Generator().manual_seed(8))
    data = TensorDataset(x, (x[:, 0] > x[:, 1]).long())
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    model = nn.parallel.DistributedDataParallel(nn.Linear(5, 2).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)

    for epoch in range(2):
        sampler.set_epoch(epoch)
        meter = SmoothedValue()
        for inputs, labels in loader:
            inputs, labels = inputs.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.update(reduce_mean(loss.detach()).item(), len(inputs))
        meter.synchronize_between_processes()
        outputs = model(inputs).detach().contiguous()
        parts = [torch.zeros_like(outputs) for _ in range(get_world_size())]
        dist.all_gather(parts, outputs)
        seen = torch.cat(parts).mean()
        dist.broadcast(seen, src=0)
        ranks = all_gather({"rank": get_rank(), "batches": len(loader)})
        print(f"{epoch}: {meter.total / meter.count:.5f} {meter.largest:.5f} {seen.item():.5f} {ranks}")


if __name__ == "__main__":
    main()
