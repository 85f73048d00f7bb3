import torch
from torch import nn


class Seq2Seq(nn.Module):
    def __init__(self, vocabulary, d_model, pad_idx):
        super().__init__()
        self.pad_idx = pad_idx
        self.embed = nn.Embedding(vocabulary, d_model, padding_idx=pad_idx)
        self.position = nn.Parameter(torch.zeros(1, 16, d_model))
        self.encoder = nn.TransformerEncoderLayer(d_model, 2, 32, dropout=0.1, batch_first=True)
        self.decoder = nn.TransformerDecoderLayer(d_model, 2, 32, dropout=0.1, batch_first=True)
        self.out = nn.Linear(d_model, vocabulary, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, src_seq, trg_seq):
        n = trg_seq.shape[1]
        ahead = torch.triu(torch.ones(n, n, dtype=torch.bool, device=trg_seq.device), diagonal=1)
        src = self.embed(src_seq) + self.position[:, : src_seq.shape[1]]
        trg = self.embed(trg_seq) + self.position[:, :n]
        memory = self.encoder(src, src_key_padding_mask=src_seq.eq(self.pad_idx))
        hidden = self.decoder(trg, memory, tgt_mask=ahead)
        return self.out(hidden).flatten(0, 1)
