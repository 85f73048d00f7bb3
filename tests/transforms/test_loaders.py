"""Which loaders are driven through MpDeviceLoader, where the wrapping is written, what keeps working."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, check_transformed, findings, migrate, run_only

from xla_transforms import engine

PASSES = ("loaders", "transfers", "steps", "barrier")
TOP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
"""
PL = "import torch_xla.distributed.parallel_loader as pl\n"
NET = """
device = torch.device("cuda")
net = nn.Linear(2, 2).to(device)
"""


def check(before: str, after: str, *, sync: bool = False) -> None:
    """Transform the code below the head; ``sync`` where torch_xla itself is imported too."""
    imports = "import torch_xla\n" if sync else ""
    check_transformed(TOP + NET + before, TOP + imports + PL + NET + after, *PASSES)


def unwrapped(code: str) -> str:
    """The migrated text, in which nothing is wrapped and the loop has its own barrier."""
    text = run_only(TOP + NET + code, *PASSES)
    assert "MpDeviceLoader" not in text
    assert "torch_xla.sync()" in text
    return text


# ---- nothing to do


def test_a_script_without_gpu_code() -> None:
    check_noop(TOP + "net = nn.Linear(2, 2)\nfor x, y in DataLoader(rows):\n    net(x)\n")


def test_a_script_that_is_migrated_already() -> None:
    check_noop(
        TOP + "import torch_xla\n" + NET + "for x, y in DataLoader(rows):\n    net(x.to(device))\n", *PASSES
    )


def test_a_loader_that_drives_no_step_loop() -> None:
    check_noop(TOP + NET + "for x, y in DataLoader(rows):\n    print(x.shape)\n", *PASSES)


def test_a_loader_read_for_statistics_only() -> None:
    code = "feed = DataLoader(rows)\nmean = torch.cat([x for x, _ in feed]).mean()\n"
    check_noop(TOP + NET + code, *PASSES)


# ---- where the wrapping is written


def test_below_the_line_that_makes_the_loader() -> None:
    before = """
feed = DataLoader(rows, batch_size=2, shuffle=True)
for x, y in feed:
    net(x.to(device))
"""
    after = """
feed = DataLoader(rows, batch_size=2, shuffle=True)
feed = pl.MpDeviceLoader(feed, device)
for x, y in feed:
    net(x)
"""
    check(before, after)


def test_two_loaders_and_two_loops() -> None:
    before = """
train = DataLoader(rows, shuffle=True)
test = DataLoader(held)
for epoch in range(3):
    for x, y in train:
        net(x.to(device))
    for x, y in test:
        net(x.to(device))
"""
    after = """
train = DataLoader(rows, shuffle=True)
train = pl.MpDeviceLoader(train, device)
test = DataLoader(held)
test = pl.MpDeviceLoader(test, device)
for epoch in range(3):
    for x, y in train:
        net(x)
    for x, y in test:
        net(x)
"""
    check(before, after)


def test_one_loader_and_two_loops_are_wrapped_once() -> None:
    before = """
feed = DataLoader(rows)
for x, y in feed:
    net(x.to(device))
for x, y in feed:
    net(x.to(device))
"""
    after = """
feed = DataLoader(rows)
feed = pl.MpDeviceLoader(feed, device)
for x, y in feed:
    net(x)
for x, y in feed:
    net(x)
"""
    check(before, after)


def test_keyword_arguments_in_a_dictionary() -> None:
    before = """
kwargs = {"num_workers": 2, "pin_memory": True}
feed = DataLoader(rows, batch_size=2, **kwargs)
for x, y in feed:
    net(x.to(device))
"""
    after = before.replace("for x", "feed = pl.MpDeviceLoader(feed, device)\nfor x").replace(
        "x.to(device)", "x"
    )
    check(before, after)


def test_a_loader_made_in_the_loops_own_head() -> None:
    check(
        "for x, y in DataLoader(rows):\n    net(x.to(device))\n",
        "for x, y in pl.MpDeviceLoader(DataLoader(rows), device):\n    net(x)\n",
    )


@pytest.mark.parametrize(
    "head",
    [
        "i, (x, y) in enumerate(feed)", "x, y in tqdm(feed)", 
        "i, (x, y) in enumerate(tqdm(feed, total=len(feed)))",
    ],
)  # fmt: skip
def test_wrappers_around_the_loader_stay(head: str) -> None:
    before = f"from tqdm import tqdm\n\nfeed = DataLoader(rows)\nfor {head}:\n    net(x.to(device))\n"
    text = run_only(TOP + NET + before, *PASSES)
    assert "feed = pl.MpDeviceLoader(feed, device)\n" in text
    assert f"for {head}:\n" in text
    assert "net(x)" in text
    assert text.count("MpDeviceLoader") == 1


GENERATORS = {
    "numbered": "for i, item in enumerate(items):\n            yield item\n            print(i)",
    "plain": "for item in items:\n            yield item",
    "handed over": "yield from items",
}


@pytest.mark.parametrize("body", GENERATORS.values(), ids=GENERATORS)
def test_a_generator_that_hands_on_its_batches_is_a_wrapper(body: str) -> None:
    code = f"""
class Meter:
    def every(self, items, count):
        {body}

feed = DataLoader(rows)
for x, y in Meter().every(feed, 10):
    net(x.to(device))
"""
    text = run_only(TOP + NET + code, *PASSES)
    assert "pl.MpDeviceLoader(feed, device)" in text
    assert "    net(x)\n" in text
    assert "torch_xla.sync()" not in text


@pytest.mark.parametrize(
    "body",
    [
        "for item in items:\n        yield item[0].numpy(), item[1]",
        "for item in items:\n        print(item[0].numpy())\n        yield item",
        "for item in items:\n        yield item\n    yield from other",
        "return items[0]",
    ],
)
def test_a_generator_that_looks_at_its_batches_is_none(body: str) -> None:
    unwrapped(f"""
def every(items, other):
    {body}

feed = DataLoader(rows)
for x, y in every(feed, []):
    net(x.to(device))
""")


def test_beside_a_counter_the_loop_gets_the_device_loader() -> None:
    before = """
feed = DataLoader(rows)
for i, (x, y) in zip(range(10), feed):
    net(x.to(device))
"""
    after = """
feed = DataLoader(rows)
feed_device_loader = pl.MpDeviceLoader(feed, device)
for i, (x, y) in zip(range(10), feed_device_loader):
    net(x)
"""
    check(before, after)


def test_a_bar_that_is_made_before_the_loop() -> None:
    before = "from tqdm import tqdm\n\nbar = tqdm(DataLoader(rows))\nfor x, y in bar:\n    net(x.cuda())\n"
    text = run_only(TOP + NET + before, *PASSES)
    assert text.count("MpDeviceLoader") == 1
    assert "for x, y in bar:\n    net(x)\n" in text


def test_the_length_may_be_asked_of_the_device_loader() -> None:
    before = """
feed = DataLoader(rows)
for x, y in feed:
    net(x.to(device))
print(len(feed))
"""
    after = before.replace("for x", "feed = pl.MpDeviceLoader(feed, device)\nfor x").replace(
        "x.to(device)", "x"
    )
    check(before, after)


@pytest.mark.parametrize(
    "use",
    ["feed.dataset", "feed.sampler.set_epoch(1)", "feed.batch_size", "feed.batch_sampler", "keep(feed)",
     "[feed]", "next(iter(feed))", "feed.num_workers"],
)  # fmt: skip
def test_a_loader_asked_for_more_keeps_its_name(use: str) -> None:
    before = f"""
feed = DataLoader(rows)
print({use})
for x, y in feed:
    net(x.to(device))
"""
    after = f"""
feed = DataLoader(rows)
feed_device_loader = pl.MpDeviceLoader(feed, device)
print({use})
for x, y in feed_device_loader:
    net(x)
"""
    check(before, after)


def test_attributes_asked_inside_the_loop() -> None:
    before = """
train_loader = DataLoader(rows, batch_size=64)
for n, (x, y) in enumerate(train_loader):
    net(x.cuda())
    if n % 100 == 0:
        print(n * train_loader.batch_size, "of", len(train_loader.dataset))
"""
    after = """
train_loader = DataLoader(rows, batch_size=64)
train_device_loader = pl.MpDeviceLoader(train_loader, device)
for n, (x, y) in enumerate(train_device_loader):
    net(x)
    if n % 100 == 0:
        print(n * train_loader.batch_size, "of", len(train_loader.dataset))
"""
    check(before, after)


def test_the_new_name_is_free() -> None:
    before = """
feed_device_loader = 1
feed = DataLoader(rows)
for x, y in feed:
    net(x.to(device))
print(feed.dataset)
"""
    assert "feed_device_loader_ = pl.MpDeviceLoader" in run_only(TOP + NET + before, *PASSES)


def test_a_dictionary_of_loaders() -> None:
    before = """
loaders = {"train": DataLoader(a, shuffle=True), "val": DataLoader(b)}
sizes = {p: len(loaders[p].dataset) for p in loaders}
for phase in ("train", "val"):
    for x, y in loaders[phase]:
        net(x.to(device))
"""
    after = """
loaders = {"train": DataLoader(a, shuffle=True), "val": DataLoader(b)}
sizes = {p: len(loaders[p].dataset) for p in loaders}
for phase in ("train", "val"):
    for x, y in pl.MpDeviceLoader(loaders[phase], device):
        net(x)
"""
    check(before, after)


def test_a_loader_passed_as_a_parameter_is_wrapped_where_it_is_made() -> None:
    before = """

def run(net, feed):
    for x, y in feed:
        net(x.to(device))


train = DataLoader(a)
run(net, train)
run(net, DataLoader(b))
"""
    after = """

def run(net, feed):
    for x, y in feed:
        net(x)


train = DataLoader(a)
train = pl.MpDeviceLoader(train, device)
run(net, train)
run(net, pl.MpDeviceLoader(DataLoader(b), device))
"""
    check(before, after)


def test_a_parameter_that_is_asked_for_more_is_wrapped_at_the_loop() -> None:
    before = """

def run(net, feed):
    for x, y in feed:
        net(x.to(device))
    return len(feed.dataset)


run(net, DataLoader(a))
"""
    after = """

def run(net, feed):
    for x, y in pl.MpDeviceLoader(feed, device):
        net(x)
    return len(feed.dataset)


run(net, DataLoader(a))
"""
    check(before, after)


def test_loaders_returned_by_a_function() -> None:
    before = """

def make():
    train = DataLoader(a, shuffle=True)
    return train, DataLoader(b)


train, val = make()
for x, y in train:
    net(x.to(device))
for x, y in val:
    net(x.to(device))
"""
    after = """

def make():
    train = DataLoader(a, shuffle=True)
    train = pl.MpDeviceLoader(train, device)
    return train, pl.MpDeviceLoader(DataLoader(b), device)


train, val = make()
for x, y in train:
    net(x)
for x, y in val:
    net(x)
"""
    check(before, after)


def test_a_loader_in_an_attribute() -> None:
    before = """

class Trainer:
    def __init__(self, net):
        self.net = net
        self.feed = DataLoader(rows)

    def fit(self):
        for x, y in self.feed:
            self.net(x.to(device))


Trainer(net).fit()
"""
    after = before.replace(
        "        self.feed = DataLoader(rows)\n",
        "        self.feed = DataLoader(rows)\n        self.feed = pl.MpDeviceLoader(self.feed, device)\n",
    ).replace("x.to(device)", "x")
    check(before, after)


def test_an_iterable_dataset_keeps_its_arguments() -> None:
    before = """

class Lines(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield from rows


feed = DataLoader(Lines(), batch_size=32, num_workers=2)
for x, y in feed:
    net(x.cuda())
"""
    after = before.replace("for x", "feed = pl.MpDeviceLoader(feed, device)\nfor x").replace("x.cuda()", "x")
    check(before, after)


def test_the_flag_for_the_cpu_is_kept() -> None:
    top = TOP.replace("import torch\n", "import argparse\nimport torch\n", 1)
    options = """
parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()
use_cuda = not args.no_cuda and torch.cuda.is_available()
device = torch.device("cuda" if use_cuda else "cpu")
net = nn.Linear(2, 2).to(device)
"""
    before = "feed = DataLoader(rows)\nfor x, y in feed:\n    net(x.to(device))\n"
    after = """\
feed = DataLoader(rows)
if device.type == "xla":
    feed = pl.MpDeviceLoader(feed, device)
for x, y in feed:
    net(x)
"""
    text = run_only(top + options + before, *PASSES)
    assert text == top + PL + options + after


def test_a_flag_for_a_second_move_does_not_decide_about_a_loader_whose_batches_always_move() -> None:
    text = run_only(
        TOP + NET + "gpu = bool(rows)\nfeed = DataLoader(rows)\nfor batch in feed:\n"
        "    x, y = [t.cuda() for t in batch]\n    if gpu:\n        y = y.cuda()\n    net(x)\n",
        *PASSES,
    )
    assert "feed = DataLoader(rows)\nfeed = pl.MpDeviceLoader(feed, device)\n" in text


# ---- what is not wrapped, and why


@pytest.mark.parametrize(
    "line",
    ["seen.extend(y.numpy())", "show(x)", "print(y)", "ids = f(y)", "x = x + noise", "names.append(y)"],
)
def test_batches_used_on_the_host(line: str) -> None:
    code = f"feed = DataLoader(rows)\nfor x, y in feed:\n    {line}\n    net(x.to(device))\n"
    assert "x.to(device)" in unwrapped(code)
    assert ("XLA503", 8) in findings(TOP + NET + code, *PASSES)


def test_fields_of_a_named_tuple() -> None:
    text = unwrapped("feed = DataLoader(rows)\nfor batch in feed:\n    net(batch.image.to(device))\n")
    assert "batch.image.to(device)" in text


def test_a_hand_made_iterator() -> None:
    before = """
feed = iter(DataLoader(rows))
for step in range(100):
    x, y = next(feed)
    x = x.to(device)
    net(x)
"""
    assert "x = x.to(device)" in unwrapped(before)


def test_a_function_that_gives_batches() -> None:
    text = unwrapped("for step in range(100):\n    x, y = get_batch()\n    net(x.to(device))\n")
    assert "net(x.to(device))\n    torch_xla.sync()\n" in text


def test_something_that_may_be_no_loader() -> None:
    code = "feed = DataLoader(rows) if flag else load()\nfor x, y in feed:\n    net(x.to(device))\n"
    outcome = migrate(TOP + NET + code, *PASSES)
    assert "MpDeviceLoader" not in outcome.data.decode()
    assert any("not everything" in f.message for f in outcome.findings)


def test_two_loaders_in_step() -> None:
    code = """
one, two = DataLoader(a), DataLoader(b)
for (x, _), (z, _) in zip(one, two):
    net(x.cuda() + z.cuda())
"""
    outcome = migrate(TOP + NET + code, *PASSES)
    assert "MpDeviceLoader" not in outcome.data.decode()
    assert "torch_xla.sync()" in outcome.data.decode()
    assert any("several loaders" in f.message for f in outcome.findings)


def test_batches_that_stay_on_the_cpu() -> None:
    assert "net(x)\n" in unwrapped("feed = DataLoader(rows)\nfor x, y in feed:\n    net(x)\n")


def test_a_loop_that_waits_for_the_device_itself() -> None:
    code = "feed = DataLoader(rows)\nfor x, y in feed:\n    net(x.cuda())\n    torch.cuda.synchronize()\n"
    text = run_only(TOP + NET + code, *PASSES)
    assert "MpDeviceLoader" not in text
    assert "torch_xla.sync()" not in text


def test_a_batch_that_a_function_of_another_file_needs_on_the_host() -> None:
    script = TOP + "from texts import encode\n" + NET
    script += "for x, words in DataLoader(rows):\n    net(x.to(device))\n    encode(words)\n"
    helper = b"def encode(words):\n    return [word.upper() for word in words]\n"
    outcomes = engine.migrate_program({"train.py": script.encode(), "texts.py": helper})
    reasons = [f.message for f in outcomes["train.py"].findings if f.code == "XLA503"]
    assert reasons == ["the loader is not wrapped: line 2 of texts.py uses the batch on the host"]
