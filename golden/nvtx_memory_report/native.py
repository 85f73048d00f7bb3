import argparse
import gc

import torch
import torch.cuda.nvtx as nvtx
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

MB = 1024.0 * 1024.0


def log_memory(tag, device):
    allocated = torch.cuda.memory_allocated(device) / MB
    reserved = torch.cuda.memory_reserved(device) / MB
    peak = torch.cuda.max_memory_allocated(device) / MB
    free, total = torch.cuda.mem_get_info(device)
    print(
        f"[{tag}] allocated {allocated:.1f} reserved {reserved:.1f} peak {peak:.1f} "
        f"free {free / MB:.0f} of {total / MB:.0f} MiB"
    )


def environment():
    print("torch", torch.__version__, "cuda", torch.version.cuda)
    print("cudnn", torch.backends.cudnn.version())
    for i in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(i)
        print(f"  {i}: {torch.cuda.get_device_name(i)} sm_{major}{minor}")
    print("bf16:", torch.cuda.is_bf16_supported())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--memory-fraction", type=float, default=None)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this script needs a GPU")
    environment()
    device = torch.cuda.current_device()
    if args.memory_fraction:
        torch.cuda.set_per_process_memory_fraction(args.memory_fraction, device)

    torch.manual_seed(0)
    ds = TensorDataset(torch.randn(256, 64), torch.randn(256, 64))
    loader = DataLoader(ds, batch_size=32, shuffle=True, pin_memory=True)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda(
        device
    )
    optimizer = torch.optim.Adam(model.parameters())
    torch.cuda.reset_peak_memory_stats(device)
    log_memory("start", device)

    step = 0
    while step < args.steps:
        for x, y in loader:
            nvtx.range_push(f"step {step}")
            with torch.cuda.nvtx.range("copy"):
                x, y = x.cuda(device, non_blocking=True), y.cuda(
                    device, non_blocking=True
                )
            nvtx.range_push("forward")
            loss = nn.functional.mse_loss(model(x), y)
            nvtx.range_pop()
            nvtx.range_push("backward")
            optimizer.zero_grad()
            loss.backward()
            nvtx.range_pop()
            optimizer.step()
            nvtx.range_pop()
            step += 1
            if step == args.steps:
                break
    log_memory("end", device)
    print(torch.cuda.memory_summary(device, abbreviated=True))
    del model, optimizer
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.ipc_collect()


if __name__ == "__main__":
    main()
