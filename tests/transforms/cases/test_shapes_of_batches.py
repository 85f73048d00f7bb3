"""Shapes that change from step to step: each new one is a compilation."""

from __future__ import annotations

import pytest
from whole import ONE, REPLICAS, becomes, says

TEXTS = (
    ONE.replace("from torch import nn\n", "from torch import nn\nfrom transformers import {}\n")
    + """\
tok = AutoTokenizer.from_pretrained("tiny")
reviews = [{{"body": "good", "stars": 5}}, {{"body": "not so good", "stars": 2}}]


def pack(rows):
    enc = {}
    enc["labels"] = torch.tensor([r["stars"] for r in rows])
    return enc


texts = DataLoader(reviews, batch_size=2, shuffle=True, drop_last=True, collate_fn={})
for batch in texts:
    batch = {{k: v.cuda() for k, v in batch.items()}}
    net(**batch).loss.backward()
    opt.step()
    opt.zero_grad()
"""
)
CALL = 'tok([r["body"] for r in rows], {}, return_tensors="pt")'


def texts(padding: str, collate: str = "pack", *more: str) -> str:
    return TEXTS.format(", ".join(["AutoTokenizer", *more]), CALL.format(padding), collate)


@pytest.mark.parametrize("padding", ['padding="longest", truncation=True', "padding=True"])
def test_a_collator_pads_to_the_longest_text_of_the_batch(padding: str) -> None:
    code = texts(padding)
    says(code, f"XLA901 warning: enc = {CALL.format(padding)}")
    becomes(code, "    enc = " + CALL.format(padding))  # no length is invented


def test_a_collator_pads_to_one_length() -> None:
    says(texts('padding="max_length", max_length=128, truncation=True'))


def test_a_collator_rounds_its_lengths() -> None:
    padding = "padding=True, pad_to_multiple_of=64"
    says(texts(padding), f"XLA901 info: enc = {CALL.format(padding)}")


def test_the_collator_of_a_library_pads_to_the_longest() -> None:
    name = "DataCollatorWithPadding"
    code = texts('padding="max_length", max_length=9', f"{name}(tok)", name)
    line = "texts = DataLoader(reviews, batch_size=2, shuffle=True, drop_last=True, collate_fn="
    says(code, f"XLA901 warning: {line}{name}(tok))")


EPOCHS = """\
tiles = TensorDataset(torch.rand(1003, 4), torch.randint(2, (1003,)))
tiles_val = TensorDataset(torch.rand(107, 4), torch.randint(2, (107,)))
train = DataLoader(tiles, batch_size=32, shuffle=True{})
hold = DataLoader(tiles_val, batch_size=32)


def accuracy(hold):
    net.eval()
    hits = sum((net(xs.cuda()).argmax(1) == ys.cuda()).sum() for xs, ys in hold)
    net.train()
    return hits


for epoch in range(3):
    for xs, ys in train:
        opt.zero_grad()
        crit(net(xs.cuda()), ys.cuda()).backward()
        opt.step()
    with torch.no_grad():
        for xs, ys in hold:
            print(net(xs.cuda()).argmax(1))
"""


def test_the_last_batch_of_training_and_of_evaluation_is_smaller() -> None:
    """No sample is left out of either, and a choice of the user's stands."""
    code = ONE + EPOCHS.format("")
    found = becomes(
        code,
        "train = DataLoader(tiles, batch_size=32, shuffle=True)\n",
        "hold = DataLoader(tiles_val, batch_size=32)\n",
    )
    ragged = [(f.severity.name.lower(), f.span.line) for f in found.findings if f.code == "XLA905"]
    lines = code.splitlines()
    assert [(s, lines[n - 1].partition("(")[0]) for s, n in ragged] == [
        ("info", "train = DataLoader"),
        ("info", "hold = DataLoader"),
    ]
    explicit = migrated_severities(ONE + EPOCHS.format(", drop_last=False"))
    assert explicit == ["warning", "info"]
    assert migrated_severities(ONE + EPOCHS.format(", drop_last=True")) == ["info"]


def migrated_severities(code: str) -> list[str]:
    return [f.severity.name.lower() for f in becomes(code).findings if f.code == "XLA905"]


def test_the_sampler_of_replicas_drops_what_its_loader_drops() -> None:
    becomes(
        ONE + EPOCHS.format(", drop_last=True"),
        "    train_sampler = DistributedSampler(\n"
        "        tiles,\n        num_replicas=xr.world_size(),\n        rank=xr.global_ordinal(),\n"
        "        shuffle=True,\n        drop_last=True,\n    )\n"
        "    train = DataLoader(tiles, batch_size=32, sampler=train_sampler, drop_last=True)\n",
        "    hold = DataLoader(tiles_val, batch_size=32)\n",
        settings=REPLICAS,
    )


def test_a_boolean_mask_inside_the_loss() -> None:
    code = ONE + (
        "def tag_loss(scores, tags, blank):\n"
        "    keep = tags != blank\n"
        "    picked = scores[keep]\n"
        "    gold = tags[keep]\n"
        "    return F.cross_entropy(picked, gold)\n\n\n"
        "for ids, tags in feed:\n"
        "    ids, tags = ids.cuda(), tags.cuda()\n"
        "    loss = tag_loss(net(ids), tags, blank=0)\n"
        "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
    )
    says(code, "XLA902 warning: picked = scores[keep]", "XLA902 warning: gold = tags[keep]")


def test_an_assignment_through_a_boolean_mask() -> None:
    code = ONE + (
        "for xs, ys in feed:\n"
        "    xs, ys = xs.cuda(), ys.cuda()\n"
        "    scores = net(xs)\n"
        "    scores[ys == 0] = -1e4\n"
        "    soft = scores.softmax(-1)\n"
        "    soft[soft < 0.01] = soft[soft < 0.01] * 0.5\n"
        "    soft[:, :1] = 0\n"
        "    loss = F.nll_loss(soft.clamp_min(1e-9).log(), ys)\n"
        "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
        "    for p in net.parameters():\n        p.data.mul_(0.99)\n"
    )
    line = "soft[soft < 0.01] = soft[soft < 0.01] * 0.5"
    says(code, "XLA902 warning: scores[ys == 0] = -1e4", f"XLA902 warning: {line}", f"XLA902 warning: {line}")
