import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def mlp(width, classes=5):
    return nn.Sequential(nn.Linear(12, width), nn.ReLU(), nn.Linear(width, classes))


def kd_loss(student_logits, teacher_logits, labels, T, alpha):
    soft = F.kl_div(
        F.log_softmax(student_logits / T, dim=1),
        F.log_softmax(teacher_logits / T, dim=1),
        reduction="batchmean",
        log_target=True,
    )
    hard = F.cross_entropy(student_logits, labels)
    return alpha * T * T * soft + (1 - alpha) * hard, soft, hard


def get_device(args):
    if args.gpu >= 0:
        return torch_xla.device()
    return torch.device("cpu")


def pretrain(teacher, loader, device, epochs=2):
    optimizer = torch.optim.SGD(teacher.parameters(), lr=0.1, momentum=0.9)
    for _ in range(epochs):
        for x, y in loader:
            loss = F.cross_entropy(teacher(x), y)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
    xm.save(teacher.state_dict(), "teacher.pth")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=0, help="-1 for the CPU")
    parser.add_argument("-T", "--temperature", type=float, default=3.0)
    parser.add_argument("--alpha", type=float, default=0.7)
    args = parser.parse_args()
    device = get_device(args)

    torch.manual_seed(50)
    torch_xla.manual_seed(50)
    x = torch.randn(96, 12)
    y = (x @ torch.randn(12, 5)).argmax(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
    if device.type == "xla":
        loader = pl.MpDeviceLoader(loader, device)

    teacher = mlp(64).to(device)
    pretrain(teacher, loader, device)
    teacher = mlp(64)
    teacher.load_state_dict(torch.load("teacher.pth", map_location="cpu"))
    teacher = teacher.to(device).eval()
    for p in teacher.parameters():
        p.requires_grad = False

    student = mlp(10).to(device)
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    for epoch in range(3):
        sums = {"loss": 0.0, "soft": 0.0, "hard": 0.0}
        for x, y in loader:
            with torch.no_grad():
                t_logits = teacher(x)
            loss, soft, hard = kd_loss(
                student(x), t_logits, y, args.temperature, args.alpha
            )
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
            torch_xla.sync()
            for name, value in zip(sums, (loss, soft, hard)):
                sums[name] += value.item()
        report = " ".join(f"{k} {v / len(loader):.4f}" for k, v in sums.items())
        print("epoch", epoch, report)


if __name__ == "__main__":
    main()
