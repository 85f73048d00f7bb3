"""Replicas: their data, their numbers, their schedules, and who of them does what."""

from __future__ import annotations

import pytest
from whole import ALONE, DATA, IMPORTS, NET, ONE, RANKS, REPLICAS, STEP, becomes, says

LOOP = f"for xs, ys in feed:\n{STEP}"
INNER = STEP.replace("    ", "        ")
BATCH = "XLA174 info: "


def test_data_parallel_goes_and_the_batch_is_spoken_of() -> None:
    code = ALONE + DATA + (
        "net = nn.Linear(4, 2)\nif torch.cuda.device_count() > 1:\n    net = nn.DataParallel(net)\n"
        "net = net.cuda()\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\ncrit = nn.CrossEntropyLoss()\n"
        "feed = DataLoader(ds, batch_size=256, shuffle=True, drop_last=True)\n" + LOOP
        + 'core = net.module if hasattr(net, "module") else net\ntorch.save(core.state_dict(), "m.pt")\n'
    )
    found = becomes(
        code,
        "net = nn.Linear(4, 2)\ndevice = torch_xla.device()\nnet = net.to(device)\n",
        'core = net\nxm.save(core.state_dict(), "m.pt")\n',
    )
    says(code, "XLA121 warning: net = nn.DataParallel(net)")
    (told,) = [f.message for f in found.findings if f.code == "XLA121"]
    assert "each replica needs 1/W of it" in told


LOADERS = (
    "def loaders(ds):\n    return DataLoader(ds, batch_size=64, shuffle=True,\n"
    "                      num_workers=4, drop_last=True)\n\n\n"
    f"feed = loaders(ds)\nfor epoch in range(3):\n    for xs, ys in feed:\n{INNER}"
)


def test_each_replica_of_a_script_of_one_process_gets_its_own_part() -> None:
    becomes(
        ALONE + DATA + NET + LOADERS,
        "    sampler = DistributedSampler(\n"
        "        ds, num_replicas=xr.world_size(), rank=xr.global_ordinal(), shuffle=True, drop_last=True\n"
        "    )\n"
        "    return DataLoader(ds, batch_size=64, sampler=sampler,\n",
        "    feed = loaders(ds)\n    for epoch in range(3):\n        feed.sampler.set_epoch(epoch)\n"
        "        for xs, ys in pl.MpDeviceLoader(feed, device):\n",
        settings=REPLICAS,
    )
    says(ALONE + DATA + NET + LOADERS, settings=None)


def test_what_is_asked_of_a_loader_is_asked_of_the_loader() -> None:
    code = RANKS.replace("feed =", "unused =") + (
        "picker = DistributedSampler(ds)\n"
        "feed = DataLoader(ds, batch_size=64, sampler=picker, drop_last=True)\n"
        "for epoch in range(3):\n    feed.sampler.set_epoch(epoch)\n"
        f"    for n, (xs, ys) in enumerate(feed):\n{INNER}"
        '        if n % 100 == 0:\n            print(epoch, n * feed.batch_size, "of", len(feed.dataset))\n'
    )
    becomes(
        code,
        "    picker = DistributedSampler(\n"
        "        ds, num_replicas=xr.world_size(), rank=xr.global_ordinal()\n    )\n"
        "    feed = DataLoader(ds, batch_size=64, sampler=picker, drop_last=True)\n"
        "    feed_device_loader = pl.MpDeviceLoader(feed, device)\n",
        "        feed.sampler.set_epoch(epoch)\n        for n, (xs, ys) in enumerate(feed_device_loader):\n",
        '                print(epoch, n * feed.batch_size, "of", len(feed.dataset))\n',
    )
    says(code)


COUNTS = (
    "hold = DataLoader(ds, batch_size=50)\nright = total = 0\nnet.eval()\nwith torch.no_grad():\n"
    "    for xs, ys in hold:\n        right += (net(xs.cuda()).argmax(1) == ys.cuda()).sum().item()\n"
    '        total += ys.size(0)\nif dist.get_rank() == 0:\n    print("acc", right / total)\n'
)


def test_an_evaluation_that_is_not_parted_counts_each_sample_once() -> None:
    code = RANKS + LOOP + COUNTS
    found = becomes(
        code,
        "    hold = DataLoader(ds, batch_size=50)\n    hold = pl.MpDeviceLoader(hold, device)\n",
        '    if xr.global_ordinal() == 0:\n        print("acc", right / total)\n',
    )
    assert "mesh_reduce" not in found.data.decode()
    assert "all_reduce" not in found.data.decode()
    says(code, "XLA905 info: hold = DataLoader(ds, batch_size=50)")


LINES = (
    "from torch.utils.data import IterableDataset\n\n\nclass Lines(IterableDataset):\n"
    '    def __iter__(self):\n        with open("train.tsv") as fh:\n            for row in fh:\n'
    "                yield torch.rand(4), int(row)\n\n\n"
)
STREAM = "stream = DataLoader({}, batch_size=32, num_workers=2, drop_last=True)\n"


@pytest.mark.parametrize(
    ("head", "data"),
    [
        (LINES, "Lines()"),
        ("from datasets import load_dataset\n\n", 'load_dataset("texts", split="train", streaming=True)'),
    ],
)
def test_a_stream_of_samples_gets_no_sampler(head: str, data: str) -> None:
    """One process reads it whole, as it did; replicas cannot, and are told."""
    code = ALONE + NET + head + STREAM.format(data) + LOOP.replace("feed", "stream")
    line = STREAM.format(data).strip()
    says(code)
    says(code, BATCH + line, f"XLA515 error: {line}", settings=REPLICAS)
    text = becomes(code, settings=REPLICAS).data.decode()
    assert "DistributedSampler" not in text
    assert "shuffle" not in text


SEEDS = "rank = dist.get_rank()\ntorch.manual_seed(1337 + rank)\n"


def test_weights_that_each_rank_draws_for_itself_are_made_equal() -> None:
    code = RANKS.replace("net = nn", SEEDS + "net = nn") + LOOP
    becomes(
        code,
        "    rank = xr.global_ordinal()\n    torch.manual_seed(1337 + rank)\n"
        "    torch_xla.manual_seed(1337 + rank)\n    net = nn.Linear(4, 2).to(device)\n",
        "    xm.broadcast_master_param(net)\n    for xs, ys in feed:\n",
    )
    says(code)
    unseeded = becomes(RANKS + LOOP).data.decode()
    assert "    xm.broadcast_master_param(net)\n    for xs, ys in feed:\n" in unseeded


NORM = (
    "class Small(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.norm = nn.BatchNorm1d(4)\n        self.head = nn.Linear(4, 2)\n\n"
    "    def forward(self, x):\n        return self.head(self.norm(x))\n\n\n"
)
SYNCED = "net = nn.SyncBatchNorm.convert_sync_batchnorm(net)\n"


def test_a_conversion_to_synchronised_norms_goes_and_is_told() -> None:
    code = IMPORTS + NORM + RANKS.removeprefix(IMPORTS).replace("nn.Linear(4, 2)", "Small()").replace(
        "net = DDP", SYNCED + "net = DDP"
    ) + LOOP
    text = becomes(code).data.decode()
    assert "SyncBatchNorm" not in text
    assert "    xm.broadcast_master_param(net)\n" in text
    sampled = "feed = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds), drop_last=True)"
    says(code, f"XLA267 info: {sampled}", f"XLA146 error: {SYNCED.strip()}")


SCHEDULES = (
    "total = len(feed) * 3\n"
    "cycle = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.01, total_steps=total)\n"
    "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1)\n"
    "for epoch in range(3):\n    running = 0.0\n    for xs, ys in feed:\n        opt.zero_grad()\n"
    "        loss = crit(net(xs.cuda()), ys.cuda())\n        loss.backward()\n        opt.step()\n"
    "        cycle.step()\n        running += loss.item()\n    plateau.step(running)\n"
)


def test_a_schedule_by_the_loaders_length_and_one_by_a_loss_of_ones_own() -> None:
    for code, settings in ((RANKS, None), (ONE, REPLICAS)):
        text = becomes(code + SCHEDULES, settings=settings).data.decode()
        sampler, loader, count = (text.index(w) for w in ("DistributedSampler(", "feed = DataL", "len(feed)"))
        assert max(sampler, loader) < count
        assert "            xm.optimizer_step(opt)\n            cycle.step()\n" in text
        order = [] if settings is None else [BATCH + "feed = DataLoader(ds, batch_size=4, drop_last=True)"]
        sampled = "feed = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds), drop_last=True)"
        says(
            code + SCHEDULES,
            *(order or [f"XLA518 info: {sampled}"]),
            "XLA171 error: plateau.step(running)",
            settings=settings,
        )


TUNED = (
    "BATCH = 24            # largest that fits on a 16 GB card\nLR = 3e-4\n"
    "feed = DataLoader(ds, batch_size=BATCH, shuffle=True, drop_last=True)\n"
    "opt = torch.optim.AdamW(net.parameters(), lr=LR)\n"
)


def test_a_batch_that_was_tuned_for_one_card_stays_and_its_multiple_is_told() -> None:
    code = ALONE + DATA + NET + TUNED + LOOP
    says(code)
    constants = "BATCH = 24            # largest that fits on a 16 GB card\nLR = 3e-4\n"
    found = becomes(code, constants, settings=REPLICAS)
    (told,) = [f.message for f in found.findings if f.code == "XLA174"]
    assert told == (
        "the batch of BATCH = 24 is each replica's, the global batch N times that: 96 on 4 replicas"
    )


def test_what_the_native_processes_ran_is_hoisted_by_the_user() -> None:
    """A function within another cannot be handed to new processes: nothing is launched, and it is told."""
    code = IMPORTS + DATA + (
        "def launch():\n    def work(rank, world):\n"
        '        dist.init_process_group("nccl", rank=rank, world_size=world)\n'
        "        net = DDP(nn.Linear(4, 2).cuda(rank))\n        return net\n\n"
        "    n = torch.cuda.device_count()\n    torch.multiprocessing.spawn(work, args=(n,), nprocs=n)\n\n\n"
        'if __name__ == "__main__":\n    launch()\n'
    )
    found = becomes(code)
    assert "torch_xla.launch" not in found.data.decode()
    (told,) = [f for f in found.findings if f.code == "XLA163"]
    assert told.severity.name == "ERROR"
    assert told.message == "work (line 12), run by the processes, stands in a function: it cannot be pickled"
