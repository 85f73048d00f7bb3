import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch_xla.device()
VOCAB = 40
SEQ_LEN = 12


class RNNModel(nn.Module):
    """LSTM language model whose decoder shares the embedding matrix."""

    def __init__(self, vocab, hidden, tie_weights=True):
        super().__init__()
        self.encoder = nn.Embedding(vocab, hidden)
        self.rnn = nn.LSTM(hidden, hidden, batch_first=True)
        self.decoder = nn.Linear(hidden, vocab)
        if tie_weights:
            self.decoder.weight = self.encoder.weight
        self.init_weights()

    def init_weights(self):
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens):
        out, _ = self.rnn(self.encoder(tokens))
        return self.decoder(out)


def counting_corpus(n):
    start = torch.randint(0, VOCAB, (n, 1))
    stride = torch.randint(1, 3, (n, 1))
    return (start + stride * torch.arange(SEQ_LEN + 1)) % VOCAB


def main():
    torch.manual_seed(1111)
    torch_xla.manual_seed(1111)
    rows = counting_corpus(96)
    loader = DataLoader(
        TensorDataset(rows), batch_size=12, shuffle=True, drop_last=True
    )
    loader = pl.MpDeviceLoader(loader, DEVICE)

    model = RNNModel(VOCAB, 24).to(DEVICE)
    model.decoder.weight = model.encoder.weight
    n_params = sum(p.numel() for p in model.parameters())
    print("parameters:", n_params)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(1, 4):
        model.train()
        total_loss = 0.0
        for (batch,) in loader:
            source, target = batch[:, :-1], batch[:, 1:]
            logits = model(source)
            loss = criterion(logits.reshape(-1, VOCAB), target.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            xm.reduce_gradients(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            total_loss += loss.detach()
        total_loss = float(total_loss)
        mean = total_loss / len(loader)
        print(f"| epoch {epoch} | loss {mean:5.3f} | ppl {math.exp(mean):8.3f}")
    shared = model.decoder.weight is model.encoder.weight
    print("still tied:", shared)


if __name__ == "__main__":
    main()
