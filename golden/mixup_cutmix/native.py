import numpy as np
import torch
import torch.nn as nn
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
    index = torch.randperm(images.size(0)).cuda()
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
    torch.cuda.manual_seed(1)
    labels = torch.arange(96) % 4
    images = 0.5 * torch.randn(96, 2, 8, 8)
    for i, c in enumerate(labels.tolist()):
        images[i, c % 2, 4 * (c // 2) : 4 * (c // 2) + 4] += 1.5
    loader = DataLoader(TensorDataset(images, labels), batch_size=12, shuffle=True)

    model = nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4)
    )
    model.cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    for epoch in range(3):
        train_loss = correct = total = 0.0
        for images, labels in loader:
            images, labels = images.cuda(), labels.cuda()
            images, a, b, lam = mix(images, labels)
            outputs = model(images)
            loss = lam * criterion(outputs, a) + (1 - lam) * criterion(outputs, b)
            train_loss += loss.data.item()
            _, predicted = torch.max(outputs.data, 1)
            total += labels.size(0)
            correct += (
                lam * predicted.eq(a.data).cpu().sum().float()
                + (1 - lam) * predicted.eq(b.data).cpu().sum().float()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(
            "epoch %d loss %.3f acc %.2f%%"
            % (epoch, train_loss / len(loader), 100.0 * correct / total)
        )


if __name__ == "__main__":
    main()
