import argparse
import os

import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class RandomDataset(Dataset):
    def __init__(self, size):
        generator = torch.Generator().manual_seed(3)
        self.data = [
            (torch.rand(20, generator=generator), torch.rand(1, generator=generator))
            for _ in range(size)
        ]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


class Trainer:
    def __init__(self, model, train_data, gpu_id, save_every, snapshot_path):
        self.gpu_id = gpu_id
        self.train_data = train_data
        self.save_every = save_every
        self.snapshot_path = snapshot_path
        self.epochs_run = 0
        self.history = []
        self.model = model.to(xm.xla_device())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2, momentum=0.9)
        if os.path.exists(snapshot_path):
            self._load_snapshot()
        xm.collective_broadcast([*self.model.parameters(), *self.model.buffers()])

    def _load_snapshot(self):
        snapshot = torch.load(self.snapshot_path, map_location="cpu")
        self.model.load_state_dict(snapshot["MODEL_STATE"])
        self.optimizer.load_state_dict(snapshot["OPTIMIZER_STATE"])
        self.epochs_run = snapshot["EPOCHS_RUN"]

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.model(source), targets)
        loss.backward()
        xm.optimizer_step(self.optimizer)
        return loss.detach()

    def _run_epoch(self, epoch):
        self.train_data.sampler.set_epoch(epoch)
        losses = torch.zeros(1, device=xm.xla_device())
        for source, targets in pl.MpDeviceLoader(self.train_data, xm.xla_device()):
            losses += self._run_batch(source, targets)
        return losses / len(self.train_data)

    def _save_snapshot(self, epoch):
        snapshot = {
            "MODEL_STATE": self.model.state_dict(),
            "OPTIMIZER_STATE": self.optimizer.state_dict(),
            "EPOCHS_RUN": epoch + 1,
        }
        xm.save(snapshot, self.snapshot_path)
        if xm.is_master_ordinal(local=False):
            print(f"Epoch {epoch} | Training snapshot saved at {self.snapshot_path}")

    def train(self, max_epochs):
        for epoch in range(self.epochs_run, max_epochs):
            loss = self._run_epoch(epoch)
            loss_value = loss.item()
            if self.gpu_id == 0:
                self.history.append(loss_value)
                print(f"[GPU{self.gpu_id}] Epoch {epoch} | Loss {self.history[-1]:.5f}")
            if epoch % self.save_every == 0:
                self._save_snapshot(epoch)


def prepare_dataloader(dataset, batch_size):
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=False,
        drop_last=True,
        sampler=DistributedSampler(
            dataset, num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal()
        ),
    )


def main(rank, save_every, total_epochs, batch_size, snapshot_path):
    train_data = prepare_dataloader(RandomDataset(128), batch_size)
    trainer = Trainer(
        torch.nn.Linear(20, 1), train_data, rank, save_every, snapshot_path
    )
    trainer.train(total_epochs)


def _mp_fn(index):
    parser = argparse.ArgumentParser(
        description="distributed training job of one machine"
    )
    parser.add_argument("--total-epochs", type=int, default=4)
    parser.add_argument("--save-every", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--snapshot-path", default="snapshot.pt")
    args = parser.parse_args()

    main(
        xm.get_ordinal(),
        args.save_every,
        args.total_epochs,
        args.batch_size,
        args.snapshot_path,
    )


if __name__ == "__main__":
    _mp_fn(0)
