import argparse

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from datasets import load_dataset
from sklearn.metrics import f1_score
from torch.optim import AdamW
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    get_linear_schedule_with_warmup,
)

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="bert-base-uncased")
parser.add_argument("--max-length", type=int, default=256)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=2e-5)
args = parser.parse_args()

device = xm.xla_device()
tok = AutoTokenizer.from_pretrained(args.model)


def pack(rows):
    enc = tok(
        [r["body"] for r in rows],
        padding="longest",
        truncation=True,
        return_tensors="pt",
    )
    enc["labels"] = torch.tensor([r["stars"] for r in rows])
    return enc


def pack_fixed(rows):
    enc = tok(
        [r["body"] for r in rows],
        padding="max_length",
        max_length=args.max_length,
        truncation=True,
        return_tensors="pt",
    )
    enc["labels"] = torch.tensor([r["stars"] for r in rows])
    return enc


def main():
    reviews = load_dataset("json", data_files="reviews.json")["train"].train_test_split(
        0.1
    )
    feed = DataLoader(reviews["train"], batch_size=16, shuffle=True, collate_fn=pack)
    feed = pl.MpDeviceLoader(feed, device)
    hold = DataLoader(reviews["test"], batch_size=32, collate_fn=pack_fixed)
    net = AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=5)
    net.to(device)
    opt = AdamW(net.parameters(), lr=args.lr)
    total = len(feed) * args.epochs
    sched = get_linear_schedule_with_warmup(opt, total // 10, total)
    progress = tqdm(range(total))
    for epoch in range(args.epochs):
        net.train()
        for batch in feed:
            out = net(**batch)
            out.loss.backward()
            xm.optimizer_step(opt)
            sched.step()
            opt.zero_grad()
            progress.update(1)

            def log_step(out):
                progress.set_description(f"loss {out.loss.item():.3f}")

            xm.add_step_closure(log_step, args=(out,))
        net.eval()
        guesses, truth = [], []
        for batch in hold:
            batch.to(device)
            with torch.no_grad():
                logits = net(**batch).logits

            def log_step_2(logits_argmax):
                guesses.extend(logits_argmax.cpu().numpy())

            xm.add_step_closure(log_step_2, args=(logits.argmax(-1),))
            xm.mark_step()
            truth.extend(batch["labels"].cpu().numpy())
        print(f"epoch {epoch} f1 {f1_score(truth, guesses, average='macro'):.4f}")
    net.save_pretrained("out")
    tok.save_pretrained("out")


if __name__ == "__main__":
    main()
