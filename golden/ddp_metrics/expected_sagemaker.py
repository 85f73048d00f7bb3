"""Metrics over all processes: sums, extremes, gathered tensors and objects.  torchrun --nproc_per_node=N native.py"""

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def is_dist_avail_and_initialized():
    return True


def get_world_size():
    if not is_dist_avail_and_initialized():
        return 1
    return xm.xrt_world_size()


def get_rank():
    return xm.get_ordinal() if is_dist_avail_and_initialized() else 0


def reduce_mean(value):
    if get_world_size() < 2:
        return value
    value = value.clone()
    xm.all_reduce("sum", [value])
    return value / get_world_size()


def all_gather(data):
    world_size = get_world_size()
    if world_size == 1:
        return [data]
    data_list = [None] * world_size
    data_list[:] = xm.mesh_reduce("all_gather", data, list)
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
        device = xm.xla_device()
        t = torch.tensor([self.count, self.total], dtype=torch.float64, device=device)
        xm.rendezvous("synchronize_between_processes")
        xm.all_reduce("sum", [t])
        t = t.tolist()
        self.count, self.total = int(t[0]), t[1]
        top = torch.tensor(self.largest, device=device)
        xm.all_reduce("max", [top])
        self.largest = top.item()


def init_distributed_mode():
    rank, world_size = xm.get_ordinal(), xm.xrt_world_size()
    xm.rendezvous("init_distributed_mode")


def main():
    init_distributed_mode()
    device = xm.xla_device()
    torch.manual_seed(get_rank())
    xm.set_rng_state(torch.initial_seed())

    x = torch.randn(48, 5, generator=torch.Generator().manual_seed(8))
    data = TensorDataset(x, (x[:, 0] > x[:, 1]).long())
    sampler = DistributedSampler(data, num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal(), shuffle=True)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    loader = pl.MpDeviceLoader(loader, device)
    model = nn.Linear(5, 2).to(device)
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)

    for epoch in range(2):
        sampler.set_epoch(epoch)
        meter = SmoothedValue()
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)

            def log_step(inputs, reduce_mean_value):
                meter.update(reduce_mean_value.item(), len(inputs))

            xm.add_step_closure(log_step, args=(inputs, reduce_mean(loss.detach())))
        meter.synchronize_between_processes()
        outputs = model(inputs).detach().contiguous()
        parts = [torch.zeros_like(outputs) for _ in range(get_world_size())]
        parts[:] = xm.all_gather(outputs.unsqueeze(0)).unbind()
        seen = torch.cat(parts).mean()
        xm.collective_broadcast([seen], 0)
        ranks = all_gather({"rank": get_rank(), "batches": len(loader)})
        print(f"{epoch}: {meter.total / meter.count:.5f} {meter.largest:.5f} {seen.item():.5f} {ranks}")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
