import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def build():
    torch.cuda.set_device(0)
    torch.backends.cudnn.benchmark = True
    net = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 3)).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    return net, opt


def warm_up(net, shape):
    # the first calls pay for kernels and memory
    dummy = torch.cuda.FloatTensor(*shape).fill_(0.5)
    for _ in range(2):
        net(dummy)
    torch.cuda.synchronize()


def train(net, opt, feed, crit):
    on = torch.cuda.Event(enable_timing=True)
    off = torch.cuda.Event(enable_timing=True)
    spent, kernel_ms = 0.0, 0.0
    losses = []
    for xs, ys in feed:
        torch.cuda.synchronize()
        t0 = time.perf_counter()
        xs, ys = xs.cuda(), ys.cuda()
        opt.zero_grad()
        on.record()
        loss = crit(net(xs), ys)
        loss.backward()
        opt.step()
        off.record()
        torch.cuda.synchronize()
        kernel_ms += on.elapsed_time(off)
        spent += time.perf_counter() - t0
        losses.append(loss.item())
    return losses, spent, kernel_ms


def main():
    torch.manual_seed(18)
    xs = torch.randn(96, 20)
    ys = xs[:, :3].argmax(1)
    feed = DataLoader(TensorDataset(xs, ys), batch_size=12, shuffle=True)
    net, opt = build()
    crit = nn.CrossEntropyLoss()
    warm_up(net, (12, 20))
    torch.cuda.reset_peak_memory_stats()
    for epoch in range(2):
        losses, spent, kernel_ms = train(net, opt, feed, crit)
        assert spent > 0 and kernel_ms > 0
        print(f"epoch {epoch} first {losses[0]:.4f} last {losses[-1]:.4f}")
    peak = torch.cuda.max_memory_allocated() / 2**20
    with open("timing.log", "w") as log:
        log.write(f"{spent / len(feed):.4f} s/it, {kernel_ms:.2f} ms, {peak:.1f} MiB\n")
    torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
