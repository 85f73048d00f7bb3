"""Classifier with early stopping: all ranks see the same validation accuracy, so that all stop together."""

import argparse

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

BATCH = 16


class AverageMeter:
    def __init__(self):
        self.sum = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    def synchronize(self, device):
        both = torch.tensor([self.sum, self.count], dtype=torch.float32, device=device)
        xm.all_reduce("sum", [both])
        self.sum, self.count = both.tolist()

    @property
    def average(self):
        return self.sum / max(self.count, 1)


class EarlyStopping:
    def __init__(self, patience, delta=0.0):
        self.patience, self.delta = patience, delta
        self.best, self.waited, self.stop = None, 0, False

    def __call__(self, score):
        if self.best is None or score > self.best + self.delta:
            self.best = score
            self.waited = 0
        else:
            self.waited += 1
            self.stop = self.waited >= self.patience


def blobs(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 4
    points = torch.randn(count, 8, generator=generator)
    points[torch.arange(count), labels] += 2.0
    return TensorDataset(points, labels)


def evaluate(model, loader, device):
    model.eval()
    accuracy, losses = AverageMeter(), AverageMeter()
    with torch.no_grad():
        for points, labels in loader:
            output = model(points)

            def log_step(labels, output_cross_entropy, output_mean):
                losses.update(output_cross_entropy.item(), labels.size(0))
                accuracy.update(output_mean.item(), labels.size(0))

            xm.add_step_closure(
                log_step,
                args=(
                    labels,
                    nn.functional.cross_entropy(output, labels),
                    (output.argmax(dim=1) == labels).float().mean(),
                ),
            )
    accuracy.synchronize(device)
    losses.synchronize(device)
    model.train()
    return accuracy.average, losses.average


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--patience", type=int, default=3)
    args = parser.parse_args()

    rank, local_rank = xm.get_ordinal(), xm.get_local_ordinal()
    device = xm.xla_device()
    torch.manual_seed(11)
    xm.set_rng_state(11)

    train_set, test_set = blobs(128, seed=1), blobs(64, seed=2)
    sampler = DistributedSampler(
        train_set,
        num_replicas=xm.xrt_world_size(),
        rank=xm.get_ordinal(),
        shuffle=True,
        drop_last=True,
    )
    train_loader = DataLoader(
        train_set, batch_size=BATCH, sampler=sampler, drop_last=True
    )
    train_loader = pl.MpDeviceLoader(train_loader, device)
    test_loader = DataLoader(
        test_set,
        batch_size=BATCH,
        sampler=DistributedSampler(
            test_set,
            num_replicas=xm.xrt_world_size(),
            rank=xm.get_ordinal(),
            shuffle=False,
        ),
    )
    test_loader = pl.MpDeviceLoader(test_loader, device)

    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=1
    )
    stopping = EarlyStopping(args.patience, delta=0.005)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for points, labels in train_loader:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(points), labels)
            loss.backward()
            xm.optimizer_step(optimizer)

        accuracy, test_loss = evaluate(model, test_loader, device)
        scheduler.step(test_loss)
        if rank == 0:
            lr = optimizer.param_groups[0]["lr"]
            print(
                f"epoch {epoch}: accuracy {accuracy:.4f}, loss {test_loss:.4f}, lr {lr:g}"
            )
        stopping(accuracy)
        if stopping.best == accuracy:
            xm.save(
                {"model": model.state_dict(), "accuracy": accuracy},
                "best_classifier.pt",
            )
        if stopping.stop:
            if rank == 0:
                print("stopped early")
            break


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
