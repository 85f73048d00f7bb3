import time

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset


def memory_info():
    # not every device tells: a CPU does not
    try:
        info = xm.get_memory_info(xm.xla_device())
    except RuntimeError:
        return {"bytes_used": 0, "bytes_limit": 0, "peak_bytes_used": 0}
    if "kb_total" in info:
        used = info["kb_total"] - info["kb_free"]
        info = {"bytes_used": 1024 * used, "bytes_limit": 1024 * info["kb_total"]}
    return {"peak_bytes_used": info["bytes_used"], **info}


def build():
    net = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 3)).to(
        xm.xla_device()
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    return net, opt


def warm_up(net, shape):
    # the first calls pay for kernels and memory
    dummy = torch.empty(*shape, device=xm.xla_device()).fill_(0.5)
    for _ in range(2):
        net(dummy)
        xm.mark_step()
    xm.mark_step(wait=True)


def train(net, opt, feed, crit):
    spent, kernel_ms = 0.0, 0.0
    losses = []
    device = xm.xla_device()
    for xs, ys in feed:
        t0 = time.perf_counter()
        xs, ys = xs.to(device), ys.to(device)
        opt.zero_grad()
        on = time.perf_counter()
        loss = crit(net(xs), ys)
        loss.backward()
        xm.optimizer_step(opt)
        xm.mark_step(wait=True)
        off = time.perf_counter()
        kernel_ms += (off - on) * 1000
        spent += time.perf_counter() - t0
        losses.append(loss.item())
    return losses, spent, kernel_ms


def main():
    torch.manual_seed(18)
    xm.set_rng_state(18)
    xs = torch.randn(96, 20)
    ys = xs[:, :3].argmax(1)
    feed = DataLoader(TensorDataset(xs, ys), batch_size=12, shuffle=True)
    net, opt = build()
    crit = nn.CrossEntropyLoss()
    warm_up(net, (12, 20))
    for epoch in range(2):
        losses, spent, kernel_ms = train(net, opt, feed, crit)
        assert spent > 0 and kernel_ms > 0
        print(f"epoch {epoch} first {losses[0]:.4f} last {losses[-1]:.4f}")
    peak = memory_info()["peak_bytes_used"] / 2**20
    with open("timing.log", "w") as log:
        log.write(f"{spent / len(feed):.4f} s/it, {kernel_ms:.2f} ms, {peak:.1f} MiB\n")


if __name__ == "__main__":
    main()
