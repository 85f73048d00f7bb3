import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm


class Words(Dataset):
    """Words as lists of letters; the label is the number of vowels, at most 3."""

    def __init__(self, n):
        self.items = []
        for _ in range(n):
            size = int(torch.randint(3, 9, (1,)))
            letters = torch.randint(1, 27, (size,))
            vowels = sum(int(c) in (1, 5, 9, 15, 21) for c in letters)
            self.items.append((letters, min(vowels, 3)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(rows):
    letters, labels = zip(*rows)
    lengths = torch.tensor([len(w) for w in letters])
    padded = pad_sequence(letters, batch_first=True, padding_value=0)
    return padded, lengths, torch.tensor(labels)


class VowelNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(27, 8, padding_idx=0)
        self.fc = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, words):
        return self.fc(self.emb(words).sum(1))


def main():
    torch.manual_seed(303)
    torch_xla.manual_seed(303)
    device = torch_xla.device()
    feed = DataLoader(Words(96), batch_size=8, shuffle=True, collate_fn=collate)
    net = VowelNet().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        letters_seen, total = 0, 0.0
        for words, lengths, labels in feed:
            words, labels = words.to(device), labels.to(device)
            letters_seen += int(lengths.sum())
            loss = nn.functional.cross_entropy(net(words), labels)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            torch_xla.sync()
            total += loss.item()
        print(f"epoch {epoch}: {letters_seen} letters, loss {total / len(feed):.4f}")


if __name__ == "__main__":
    main()
