"""Trains a character-level language model."""
import os

import torch
from torch.utils.data import Dataset

from mingpt.config import get_config
from mingpt.model import GPT
from mingpt.trainer import Trainer

TEXT = "to be or not to be that is the question whether tis nobler in the mind to suffer " * 4


class CharDataset(Dataset):
    """Emits batches of characters"""

    def __init__(self, block_size, data):
        chars = sorted(list(set(data)))
        self.stoi = {ch: i for i, ch in enumerate(chars)}
        self.itos = {i: ch for i, ch in enumerate(chars)}
        self.block_size = block_size
        self.data = data

    def get_vocab_size(self):
        return len(self.stoi)

    def __len__(self):
        return len(self.data) - self.block_size

    def __getitem__(self, idx):
        dix = [self.stoi[s] for s in self.data[idx : idx + self.block_size + 1]]
        return torch.tensor(dix[:-1], dtype=torch.long), torch.tensor(dix[1:], dtype=torch.long)


if __name__ == "__main__":
    config = get_config()
    os.makedirs(config.work_dir, exist_ok=True)
    torch.manual_seed(config.seed)
    torch.cuda.manual_seed_all(config.seed)

    train_dataset = CharDataset(config.block_size, TEXT)
    model = GPT(train_dataset.get_vocab_size(), config.block_size, n_embd=16)
    trainer = Trainer(config, model, train_dataset)

    def batch_end_callback(trainer):
        if trainer.iter_num % 4 == 0:
            print(f"iter {trainer.iter_num}: train loss {trainer.loss.item():.4f}")

        if trainer.iter_num == config.max_iters - 1:
            model.eval()
            with torch.no_grad():
                context = "to be"
                x = torch.tensor([train_dataset.stoi[s] for s in context], dtype=torch.long)[None, ...]
                y = model.generate(x.to(trainer.device), 6)[0]
                completion = "".join([train_dataset.itos[int(i)] for i in y])
                print(repr(completion))
            torch.save(model.state_dict(), os.path.join(config.work_dir, "model.pt"))
            model.train()

    trainer.set_callback("on_batch_end", batch_end_callback)
    trainer.run()
