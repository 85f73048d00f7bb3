import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

ALPHA = 1.0
CUTMIX_PROB = 0.5


def rand_bbox(size, lam):
    h, w = size[2], size[3]
    cut = np.sqrt(1.0 - lam)
    cut_h, cut_w = int(h * cut), int(w * cut)
    cy, cx = np.random.randint(h), np.random.randint(w)
    y1, y2 = np.clip([cy - cut_h // 2, cy + cut_h // 2], 0, h)
    x1, x2 = np.clip([cx - cut_w // 2, cx + cut_w // 2], 0, w)
    return y1, y2, x1, x2


def mix(images, labels):
    lam = np.random.beta(ALPHA, ALPHA)
    index = torch.randperm(images.size(0)).to(torch_xla.device())
    if np.random.rand() < CUTMIX_PROB:
        y1, y2, x1, x2 = rand_bbox(images.size(), lam)
        images = images.clone()
        images[:, :, y1:y2, x1:x2] = images[index, :, y1:y2, x1:x2]
        lam = 1 - (y2 - y1) * (x2 - x1) / (images.size(-1) * images.size(-2))
    else:
        images = lam * images + (1 - lam) * images[index]
    return images, labels, labels[index], float(lam)


def main():
    np.random.seed(1)
    torch.manual_seed(1)
    torch_xla.manual_seed(1)
    labels = torch.arange(96) % 4
    images = 0.5 * torch.randn(96, 2, 8, 8)
    for i, c in enumerate(labels.tolist()):
        images[i, c % 2, 4 * (c // 2) : 4 * (c // 2) + 4] += 1.5
    device = torch_xla.device()
    loader = DataLoader(TensorDataset(images, labels), batch_size=12, shuffle=True)
    loader = pl.MpDeviceLoader(loader, device)

    model = nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4)
    )
    model.to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    for epoch in range(3):
        train_loss = correct = total = 0.0
        for images, labels in loader:
            images, a, b, lam = mix(images, labels)
            outputs = model(images)
            loss = lam * criterion(outputs, a) + (1 - lam) * criterion(outputs, b)
            train_loss += loss.data
            _, predicted = torch.max(outputs.data, 1)
            total += labels.size(0)

            def log_step(lam, predicted_eq, predicted_eq_now):
                nonlocal correct
                correct += (
                    lam * predicted_eq.cpu().sum().float()
                    + (1 - lam) * predicted_eq_now.cpu().sum().float()
                )

            xm.add_step_closure(
                log_step, args=(lam, predicted.eq(a.data), predicted.eq(b.data))
            )
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
        train_loss = float(train_loss)
        print(
            "epoch %d loss %.3f acc %.2f%%"
            % (epoch, train_loss / len(loader), 100.0 * correct / total)
        )


if __name__ == "__main__":
    main()
