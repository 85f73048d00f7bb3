import math
import sys

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torchvision
from torch.utils.data import DataLoader
from torch_xla.amp import GradScaler, autocast, syncfree

from pennfudan import PedestrianDataset  # images, list of target dicts


def collate_fn(batch):
    return tuple(zip(*batch))


def warmup_scheduler(optimizer, iters, factor):
    def f(x):
        if x >= iters:
            return 1
        alpha = float(x) / iters
        return factor * (1 - alpha) + alpha

    return torch.optim.lr_scheduler.LambdaLR(optimizer, f)


def train_one_epoch(
    model, optimizer, data_loader, device, epoch, print_freq, scaler=None
):
    model.train()
    lr_scheduler = None
    if epoch == 0:
        lr_scheduler = warmup_scheduler(
            optimizer, min(1000, len(data_loader) - 1), 1e-3
        )
    for it, (images, targets) in enumerate(data_loader):
        images = list(images)
        with autocast(enabled=scaler is not None):
            loss_dict = model(images, targets)
            losses = sum(loss for loss in loss_dict.values())
        loss_value = losses.item()
        if not math.isfinite(loss_value):
            print(f"Loss is {loss_value}, stopping training")
            print(loss_dict)
            sys.exit(1)
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(losses).backward()
            xm.all_reduce(
                "sum", xm._fetch_gradients(optimizer), scale=1.0 / xm.xrt_world_size()
            )
            scaler.step(optimizer)
            scaler.update()
        else:
            losses.backward()
            xm.optimizer_step(optimizer)
        if lr_scheduler is not None:
            lr_scheduler.step()
        if it % print_freq == 0:

            def log_step(loss_dict, it, loss_value):
                parts = {k: round(v.item(), 4) for k, v in loss_dict.items()}
                print(epoch, it, f"{loss_value:.4f}", parts)

            xm.add_step_closure(log_step, args=(loss_dict, it, loss_value))


@torch.no_grad()
def count_boxes(model, data_loader, device, threshold=0.5):
    cpu_device = torch.device("cpu")
    model.eval()
    found = 0
    for images, targets in data_loader:
        images = list(img.to(device) for img in images)
        xm.mark_step()
        xm.wait_device_ops()
        outputs = model(images)
        outputs = [{k: v.to(cpu_device) for k, v in t.items()} for t in outputs]
        for out in outputs:
            keep = out["scores"] > threshold
            found += len(out["boxes"][keep])
    return found


def main():
    device = xm.xla_device()
    dataset = PedestrianDataset("data/people", train=True)
    loader = DataLoader(dataset, batch_size=2, shuffle=True, collate_fn=collate_fn)
    loader = pl.MpDeviceLoader(loader, device)
    test_loader = DataLoader(
        PedestrianDataset("data/people", train=False),
        batch_size=1,
        collate_fn=collate_fn,
    )
    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(num_classes=2)
    model.to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = syncfree.SGD(params, lr=0.005, momentum=0.9, weight_decay=0.0005)
    scaler = GradScaler()
    for epoch in range(2):
        train_one_epoch(model, optimizer, loader, device, epoch, 10, scaler)
        print("boxes", count_boxes(model, test_loader, device))


if __name__ == "__main__":
    main()
