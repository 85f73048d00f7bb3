"""A script of one process that is to train in replicas: the samplers of its loaders, and their epochs."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, migrate, open_findings

from xla_transforms.settings import Settings

REPLICAS = Settings(distributed=True, black=None)
PASSES = ("loader_samplers", "sampler_epochs", "loaders")
HEAD = """\
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler
from torch.utils.data import WeightedRandomSampler

device = torch.device("cuda")
net = torch.nn.Linear(4, 1).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def train(loader, device):
    for x in loader:
        opt.zero_grad()
        net(x.to(device)).sum().backward()
        opt.step()


def test(loader):
    with torch.no_grad():
        for x in loader:
            print(net(x.to(device)).sum())


"""
PARTS = "num_replicas=xr.world_size(), rank=xr.global_ordinal()"
EPOCHS = ("for epoch in range(3):", "    train(loader, device)")


def script(*lines: str) -> str:
    return HEAD + "".join(f"{line}\n" for line in lines)


def parted(*lines: str, passes: tuple[str, ...] = PASSES) -> str:
    """The text behind the head, at its own indentation."""
    return migrate(script(*lines), *passes, settings=REPLICAS).data.decode().partition("def test(")[2]


def told(*lines: str, passes: tuple[str, ...] = PASSES) -> list[tuple[str, str]]:
    found = open_findings(migrate(script(*lines), *passes, settings=REPLICAS))
    return [(f.code, f.severity.name) for f in found]


# ---- nothing to part


def test_on_one_device_nothing_is_parted() -> None:
    code = script("loader = DataLoader(data, 8, shuffle=True)", *EPOCHS)
    check_noop(code, "loader_samplers", "sampler_epochs")


def test_evaluation_stays_whole() -> None:
    lines = ("loader = DataLoader(data, 8)", "held = DataLoader(rest, 8)", *EPOCHS, "test(held)")
    assert "held = DataLoader(rest, 8)\n" in parted(*lines)
    assert told(*lines) == [("XLA516", "INFO")]


# ---- a sampler of its own


def test_the_order_of_the_loader_becomes_the_samplers() -> None:
    text = parted("loader = DataLoader(data, batch_size=8, shuffle=True, drop_last=True)", *EPOCHS)
    made = f"sampler = DistributedSampler(\n    data, {PARTS}, shuffle=True, drop_last=True\n)\n"
    assert f"{made}loader = DataLoader(data, batch_size=8, sampler=sampler, drop_last=True)\n" in text
    assert "for epoch in range(3):\n    sampler.set_epoch(epoch)\n    train(loader, device)\n" in text


def test_the_device_loader_takes_the_name_and_the_sampler_is_reached_by_its_own() -> None:
    loop = (EPOCHS[0], "    for x in train_loader:", "        net(x.to(device)).sum().backward()")
    text = parted("train_loader = DataLoader(data, 8, True)", *loop)
    assert "train_loader = DataLoader(data, 8, sampler=train_sampler)\n" in text
    assert "train_loader = pl.MpDeviceLoader(train_loader, device)\n" in text
    assert "    train_sampler.set_epoch(epoch)\n    for x in train_loader:\n" in text


@pytest.mark.parametrize("order", ["", ", shuffle=False"])
def test_a_fixed_order_needs_no_epochs(order: str) -> None:
    text = parted(f"loader = DataLoader(data, 8{order})", *EPOCHS)
    assert f"DistributedSampler(\n    data, {PARTS}, shuffle=False\n)\n" in text
    assert "set_epoch" not in text


def test_an_order_that_an_option_chooses() -> None:
    text = parted("loader = DataLoader(data, 8, shuffle=args.shuffle)", *EPOCHS)
    assert "shuffle=args.shuffle\n)" in text
    assert "    sampler.set_epoch(epoch)\n" in text


def test_a_data_set_that_is_made_among_the_arguments_is_made_once() -> None:
    text = parted("loader = DataLoader(Corpus('train'), 8, shuffle=True)", *EPOCHS)
    assert "dataset = Corpus('train')\n" in text
    assert "DataLoader(dataset, 8, sampler=sampler)" in text
    assert text.count("Corpus") == 1


def test_a_random_sampler_of_the_whole() -> None:
    text = parted("picks = RandomSampler(data)", "loader = DataLoader(data, 8, sampler=picks)", *EPOCHS)
    assert f"picks = DistributedSampler(data, {PARTS}, shuffle=True)\n" in text
    assert "DataLoader(data, 8, sampler=picks)\n" in text
    assert "    picks.set_epoch(epoch)\n" in text


def test_a_random_sampler_among_the_arguments() -> None:
    text = parted("loader = DataLoader(data, 8, sampler=RandomSampler(data))", *EPOCHS)
    assert f"DataLoader(data, 8, sampler=DistributedSampler(data, {PARTS}, shuffle=True))\n" in text
    assert "    loader.sampler.set_epoch(epoch)\n" in text


# ---- arguments from a dictionary


def test_the_order_leaves_the_dictionary() -> None:
    more = ("kw = {'batch_size': 8}", "if cuda:", "    kw.update({'shuffle': True, 'num_workers': 1})")
    text = parted(*more, "loader = DataLoader(data, **kw)", *EPOCHS)
    assert 'shuffle=kw.pop("shuffle", False)' in text
    assert "loader = DataLoader(data, sampler=sampler, **kw)\n" in text


@pytest.mark.parametrize(
    "lines",
    [
        ("kw = {'shuffle': True}", "other = DataLoader(rest, **kw)"),
        ("kw = read()",), ("kw = {'sampler': s}",), ("kw = {name: 1}",),
        ("kw = {'shuffle': True}", "print(kw)"),
    ],
)  # fmt: skip
def test_a_dictionary_that_is_not_seen_whole_or_read_elsewhere(lines: tuple[str, ...]) -> None:
    assert ("XLA515", "ERROR") in told(*lines, "loader = DataLoader(data, **kw)", *EPOCHS)
    assert "DistributedSampler" not in parted(*lines, "loader = DataLoader(data, **kw)", *EPOCHS)


# ---- how the sampler learns of the epochs


def test_through_the_loader_where_the_sampler_has_no_name() -> None:
    text = parted(
        "def make():", "    return DataLoader(data, 8, shuffle=True)", "", "def fit(feed):",
        "    for epoch in range(3):", "        train(feed, device)", "", "fit(make())",
    )  # fmt: skip
    assert "        feed.sampler.set_epoch(epoch)\n        train(feed, device)\n" in text
    assert "    return DataLoader(data, 8, sampler=sampler)\n" in text


def test_a_loop_that_counts_without_a_name_gets_one() -> None:
    loop = ("for _ in range(3):", "    train(loader, device)")
    text = parted("loader = DataLoader(data, 8, shuffle=True)", *loop)
    assert "for epoch in range(3):\n    sampler.set_epoch(epoch)\n" in text


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (("while epoch < 3:", "    train(loader, device)", "    epoch += 1"), "epoch"),
        (("while going():", "    train(loader, device)"), "sampler.epoch + 1"),
        (("for stage in stages:", "    train(loader, device)"), "sampler.epoch + 1"),
    ],
)
def test_other_loops_over_epochs(lines: tuple[str, ...], number: str) -> None:
    text = parted("epoch = 0", "loader = DataLoader(data, 8, shuffle=True)", *lines)
    assert f":\n    sampler.set_epoch({number})\n    train(loader, device)\n" in text


def test_steps_that_start_over() -> None:
    text = parted(
        "loader = DataLoader(data, 8, shuffle=True)", "it = iter(loader)", "for step in range(99):",
        "    try:", "        x = next(it)", "    except StopIteration:", "        it = iter(loader)",
        "        x = next(it)", "    net(x.to(device)).sum().backward()", "    opt.step()",
    )  # fmt: skip
    assert "        loader.sampler.set_epoch(loader.sampler.epoch + 1)\n        it = iter(loader)\n" in text
    assert text.count("set_epoch") == 1


def test_phases_are_no_epochs() -> None:
    text = parted(
        "loaders = {}", "loaders['train'] = DataLoader(data, 8, shuffle=True)", "for epoch in range(3):",
        "    for phase in ['train', 'val']:", "        train(loaders['train'], device)",
    )  # fmt: skip
    assert text.count("set_epoch") <= 1
    assert "        set_epoch" not in text


def test_a_loader_that_is_made_anew_in_each_epoch_is_reported() -> None:
    made = "    loader = DataLoader(data, 8, shuffle=True)"
    lines = (EPOCHS[0], made, EPOCHS[1])
    assert ("XLA518", "WARNING") in told(*lines)
    assert "set_epoch" not in parted(*lines)


# ---- what cannot be parted

ITERABLE = ("class Lines(IterableDataset):", "    pass", "", "loader = DataLoader(Lines(), 8)")
BATCHES = "loader = DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 8, True))"
WEIGHTED = "loader = DataLoader(data, 8, sampler=WeightedRandomSampler(weights, 99))"
DRAWS = "loader = DataLoader(data, 8, sampler=RandomSampler(data, num_samples=99))"


@pytest.mark.parametrize(
    "lines", [ITERABLE, (BATCHES,), (WEIGHTED,), (DRAWS,), ("loader = DataLoader(*given)",)]
)
def test_what_cannot_be_parted_is_an_error_and_stays(lines: tuple[str, ...]) -> None:
    assert told(*lines, *EPOCHS) == [("XLA515", "ERROR")]
    assert f"{lines[-1]}\n" in parted(*lines, *EPOCHS)


def test_one_call_for_training_and_evaluation() -> None:
    make = ("def make(d):", "    return DataLoader(d, 8, shuffle=True)", "")
    lines = (*make, "loader = make(data)", "held = make(rest)", *EPOCHS, "test(held)")
    assert told(*lines) == [("XLA515", "ERROR")]
    assert "DistributedSampler" not in parted(*lines)


def test_batches_from_elsewhere() -> None:
    loop = ("for step in range(9):", "    x = draw('train')", "    net(x).sum().backward()", "    opt.step()")
    assert told("loader = DataLoader(data, 8)", *EPOCHS, *loop) == [("XLA515", "ERROR")]


def test_an_evaluation_through_a_training_loader() -> None:
    lines = ("loader = DataLoader(data, 8, shuffle=True)", *EPOCHS, "test(loader)")
    assert told(*lines) == [("XLA516", "WARNING")]
