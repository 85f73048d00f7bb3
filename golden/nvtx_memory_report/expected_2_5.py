import argparse
import gc

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.runtime as xr
from torch.utils.data import DataLoader, TensorDataset


def memory_info():
    # not every device tells: a CPU does not
    try:
        return xm.get_memory_info()
    except RuntimeError:
        return {"bytes_used": 0, "bytes_limit": 0, "peak_bytes_used": 0}

MB = 1024.0 * 1024.0


def log_memory(tag, device):
    allocated = memory_info()["bytes_used"] / MB
    reserved = memory_info()["bytes_used"] / MB
    peak = memory_info()["peak_bytes_used"] / MB
    free, total = (memory_info()["bytes_limit"] - memory_info()["bytes_used"], memory_info()["bytes_limit"])
    print(
        f"[{tag}] allocated {allocated:.1f} reserved {reserved:.1f} peak {peak:.1f} "
        f"free {free / MB:.0f} of {total / MB:.0f} MiB"
    )


def environment():
    print("torch", torch.__version__, "cuda", torch.version.cuda)
    print("cudnn", torch.backends.cudnn.version())
    for i in range(xr.world_size()):
        major, minor = (8, 0)
        print(f"  {i}: {xm.xla_device_hw(torch_xla.device())} sm_{major}{minor}")
    print("bf16:", torch.cuda.is_bf16_supported())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--memory-fraction", type=float, default=None)
    args = parser.parse_args()
    environment()
    device = torch_xla.device()

    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    ds = TensorDataset(torch.randn(256, 64), torch.randn(256, 64))
    loader = DataLoader(ds, batch_size=32, shuffle=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    log_memory("start", device)

    step = 0
    while step < args.steps:
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
            step += 1
            if step == args.steps:
                torch_xla.sync()
                break
    log_memory("end", device)
    print(str(memory_info()))
    del model, optimizer
    gc.collect()


if __name__ == "__main__":
    main()
