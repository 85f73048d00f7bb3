"""Transfers that a device loader makes needless go away, whatever way they are written."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, check_transformed, run_only

PASSES = ("loaders", "transfers")
HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
net = nn.Linear(2, 2).to(device)
feed = DataLoader(rows, batch_size=2)
"""
AFTER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
import torch_xla.distributed.parallel_loader as pl

device = torch.device("cuda")
net = nn.Linear(2, 2).to(device)
feed = DataLoader(rows, batch_size=2)
feed = pl.MpDeviceLoader(feed, device)
"""


def loop(head: str, *lines: str) -> str:
    return f"{head}:\n" + "".join(f"    {line}\n" for line in lines)


def check(before: str, after: str) -> None:
    check_transformed(HEAD + before, AFTER + after, *PASSES, rules={"XLA501", "XLA502"})


def test_transfers_of_other_things_stay() -> None:
    code = HEAD + loop("for x, y in feed", "z = torch.rand(2).to(device)", "net(x.to(device) + z.cuda())")
    assert "z = torch.rand(2).to(device)" in run_only(code, *PASSES)
    assert "net(x + z.cuda())" in run_only(code, *PASSES)


def test_transfers_in_loops_that_are_not_wrapped_stay() -> None:
    check_noop(HEAD + loop("for x in rows", "x = x.to(device)", "net(x)"), *PASSES)


def test_transfers_to_the_host_stay() -> None:
    code = HEAD + loop("for x, y in feed", "out = net(x.to(device))", "keep.append(out.cpu())")
    assert "keep.append(out.cpu())" in run_only(code, *PASSES)


@pytest.mark.parametrize(
    "moves",
    [
        ("x = x.to(device)",),
        ("x, y = x.to(device), y.to(device)",),
        ("x = x.cuda()", "y = y.cuda(non_blocking=True)"),
        ("x = x.to(device, non_blocking=True); y = y.to(device)",),
        ("x, y = [t.to(device) for t in (x, y)]",),
        ("x, y = (t.cuda() for t in [x, y])",),
        ("(x, y) = (x.to(device), y.to(device))",),
        ("x = x.to(device=device)",),
        ('x = x.to("cuda")',),
        ("x = x.to(device, copy=False)",),
    ],
)
def test_a_move_onto_the_same_name_goes_with_its_line(moves: tuple[str, ...]) -> None:
    check(loop("for x, y in feed", *moves, "net(x)"), loop("for x, y in feed", "net(x)"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("net(x.to(device))", "net(x)"),
        ("net(x.cuda(0))", "net(x)"),
        ("a, b = x.to(device), y.to(device)", "a, b = x, y"),
        ("a, y = x.to(device), y.to(device)", "a, y = x, y"),
        ("net(x.view(-1, 2).to(device))", "net(x.view(-1, 2))"),
        ("x = x.float().to(device)", "x = x.float()"),
        ("x = x.to(device, torch.float16)", "x = x.to(torch.float16)"),
        ("x = x.to(device=device, dtype=torch.half)", "x = x.to(dtype=torch.half)"),
        ("x = x.to(device, non_blocking=True, memory_format=torch.channels_last)",
         "x = x.to(memory_format=torch.channels_last)"),
        ("x = x.to(device).float()", "x = x.float()"),
        ("net(x.to(device, dtype=torch.float32, non_blocking=True))", "net(x.to(dtype=torch.float32))"),
        ("z = list(t.to(device) for t in (x, y))", "z = list((x, y))"),
    ],
)  # fmt: skip
def test_a_move_within_an_expression_is_taken_out_of_it(before: str, after: str) -> None:
    check(loop("for x, y in feed", before, "net(1)"), loop("for x, y in feed", after, "net(1)"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (['x = batch["x"].to(device)', "net(x)"], ['x = batch["x"]', "net(x)"]),
        (["x, y = batch[0].cuda(), batch[1].cuda()", "net(x)"], ["x, y = batch[0], batch[1]", "net(x)"]),
        (["x, y = (t.to(device) for t in batch)", "net(x)"], ["x, y = batch", "net(x)"]),
        (["batch = [t.to(device) for t in batch]", "net(batch[0])"], ["net(batch[0])"]),
        (["batch = {k: v.to(device) for k, v in batch.items()}", "net(**batch)"], ["net(**batch)"]),
        (["z = {k: v.cuda() for k, v in batch.items()}", "net(**z)"], ["z = batch", "net(**z)"]),
        (["x, y = batch", "x, y = x.to(device), y.to(device)", "net(x)"], ["x, y = batch", "net(x)"]),
        (["z = {k: batch[k].to(device) for k in batch}", "net(**z)"], ["z = batch", "net(**z)"]),
        (["z = {k: batch[k].to(device) for k in batch.keys()}", "net(z)"], ["z = batch", "net(z)"]),
        (["z = {k: v.cuda() for k, v in batch.items() if k != 'y'}", "net(z)"],
         ["z = {k: v for k, v in batch.items() if k != 'y'}", "net(z)"]),
        (["z = {k: v.cuda() if torch.is_tensor(v) else v for k, v in batch.items()}", "net(z)"],
         ["z = batch", "net(z)"]),
        (["z = [{k: v.cuda() for k, v in t.items()} for t in batch]", "net(z)"], ["z = batch", "net(z)"]),
        (["z = [[v.cuda() for v in t[:1]] for t in batch]", "net(z)"],
         ["z = [t[:1] for t in batch]", "net(z)"]),
        (["x, y = map(lambda t: t.to(device), batch)", "net(x)"], ["x, y = batch", "net(x)"]),
        (["x, y = batch", "x, y = map(lambda t: t.cuda(), (x, y))", "net(x)"], ["x, y = batch", "net(x)"]),
        (["batch = tuple(t.to(device) for t in batch)", "net(*batch)"],
         ["batch = tuple(batch)", "net(*batch)"]),
    ],
)  # fmt: skip
def test_batches_taken_apart_in_the_loop(before: list[str], after: list[str]) -> None:
    check(loop("for batch in feed", *before), loop("for batch in feed", *after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["z = {k: v.cuda() for k, v in batch.items()}", "y = z.pop('y')", "net(z, batch['y'].size(0))"],
         ["z = dict(batch)", "y = z.pop('y')", "net(z, batch['y'].size(0))"]),
        (["z = [t.cuda() for t in batch]", "y = z.pop()", "net(z, len(batch))"],
         ["z = list(batch)", "y = z.pop()", "net(z, len(batch))"]),
    ],
)  # fmt: skip
def test_a_batch_that_is_read_again_is_copied(before: list[str], after: list[str]) -> None:
    check(loop("for batch in feed", *before), loop("for batch in feed", *after))


IN_PLACE = [
    ("for k in batch:", "    batch[k] = batch[k].to(device)"),
    ("for k in batch.keys():", "    batch[k] = batch[k].cuda(non_blocking=True)"),
    ("for k in list(batch.keys()):", "    batch[k] = batch[k].cuda()"),
    ("for k, v in batch.items():", "    batch[k] = v.to(device)"),
    ("for k, v in batch.items():", "    if torch.is_tensor(v):", "        batch[k] = v.to(device)"),
    ("for k in batch:", "    if isinstance(batch[k], torch.Tensor):", "        batch[k] = batch[k].cuda()"),
    ("for k in batch: batch[k] = batch[k].cuda()",),
    ("for i in range(len(batch)):", "    batch[i] = batch[i].to(device)"),
    ("for i, t in enumerate(batch):", "    batch[i] = t.to(device)"),
    ('batch["x"] = batch["x"].to(device)',),
]


@pytest.mark.parametrize(
    "moves",
    [
        ("for k in keys:", "    batch[k] = batch[k].to(device)"),
        ("for k in batch:", "    if k != 'y':", "        batch[k] = batch[k].to(device)"),
        ("for k in batch:", "    if isinstance(k, str):", "        batch[k] = batch[k].to(device)"),
        ("for k in batch:", "    if isinstance(batch[k], kinds):", "        batch[k] = batch[k].to(device)"),
        ("for k in batch:", "    batch[k] = other[k].to(device)"),
        ("for k in batch:", "    batch['x'] = batch[k].to(device)"),
        ("if training:", "    for k in batch:", "        batch[k] = batch[k].to(device)"),
    ],
)
def test_batches_that_are_moved_in_part_are_moved_by_the_script(moves: tuple[str, ...]) -> None:
    code = HEAD + loop("for batch in feed", *moves, "net(batch['x'])", "keep(batch['y'].numpy())")
    check_noop(code, *PASSES)


def test_what_is_read_before_the_move_is_on_the_host() -> None:
    moves = ("count(batch['x'].numpy())", "for k in batch:", "    batch[k] = batch[k].to(device)")
    check_noop(HEAD + loop("for batch in feed", *moves, "net(batch['x'])"), *PASSES)


def test_a_key_that_is_not_moved_may_be_needed_on_the_host() -> None:
    moves = ('batch["x"] = batch["x"].to(device)', 'net(batch["x"])', 'keep(batch["y"].numpy())')
    check_noop(HEAD + loop("for batch in feed", *moves), *PASSES)


@pytest.mark.parametrize("moves", IN_PLACE)
def test_a_move_within_the_batch_goes_with_its_loop(moves: tuple[str, ...]) -> None:
    before = loop("for batch in feed", *moves, 'net(batch["x"])')
    check(before, loop("for batch in feed", 'net(batch["x"])'))


def test_a_function_that_moves_a_batch_in_place_is_seen() -> None:
    move = "def put(batch):\n    for k in batch:\n        batch[k] = batch[k].cuda()\n    return batch\n\n\n"
    before = HEAD + move + loop("for batch in feed", "batch = put(batch)", "net(**batch)")
    assert "feed = pl.MpDeviceLoader(feed, device)" in run_only(before, *PASSES)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("x = x.type(torch.cuda.FloatTensor)", "y = y.type(torch.cuda.LongTensor)"),
         ("x = x.to(torch.float32)", "y = y.to(torch.int64)")),
        (("x = x.type('torch.cuda.HalfTensor')", "y = y.cuda()"), ("x = x.to(torch.float16)",)),
        (("x = x.cuda()", "y = y.type(torch.LongTensor).cuda()"), ("y = y.to(torch.int64)",)),
        (("x, y = x.cuda(), y.type('torch.LongTensor')", "y = y.cuda()"),
         ("x, y = x, y.to(torch.int64)",)),
    ],
)  # fmt: skip
def test_a_cast_to_a_tensor_type_names_the_dtype_alone(before: tuple[str], after: tuple[str]) -> None:
    passes = (*PASSES, "type_names", "device_types")
    code = run_only(HEAD + loop("for x, y in feed", *before, "net(x, y)"), *passes)
    assert code == AFTER + loop("for x, y in feed", *after, "net(x, y)")


def test_a_tensor_type_that_is_chosen_elsewhere_keeps_the_loader_as_it_is() -> None:
    moves = ("y = y.type(kind)", "y = y.to(device)", "net(y)")
    check_noop(HEAD + "kind = torch.LongTensor\n" + loop("for x, y in feed", *moves), *PASSES)


def test_what_a_batch_goes_through_on_another_device_stays() -> None:
    other = "if torch.backends.mps.is_available():\n"
    other += "        x, y = x.to('mps'), y.to('mps')\n        show(x.numpy())"
    before = loop("for x, y in feed", "x, y = x.cuda(), y.cuda()", other, "net(x)")
    check(before, loop("for x, y in feed", other, "net(x)"))


def test_comments_on_the_lines_stay() -> None:
    before = loop("for x, y in feed", "# to the card", "x = x.to(device)  # slow", "net(x)")
    after = loop("for x, y in feed", "# to the card", "# slow", "net(x)")
    check(before, after)


def test_a_guard_that_cuda_decides_goes_with_what_it_guards() -> None:
    move = "    x, y = x.cuda(), y.cuda()"
    before = loop("for x, y in feed", "if torch.cuda.is_available():", move, "net(x)")
    check(before, loop("for x, y in feed", "net(x)"))


def test_a_guard_that_holds_more_keeps_the_rest() -> None:
    before = loop(
        "for x, y in feed", "if torch.cuda.is_available():", "    x = x.cuda()", "    n += 1", "net(x)"
    )
    after = loop("for x, y in feed", "if torch.cuda.is_available():", "    n += 1", "net(x)")
    check(before, after)


def test_a_move_inside_a_called_function_stays() -> None:
    before = "def move(x):\n    return x.cuda()\n\n" + loop("for x, y in feed", "net(move(x))")
    assert "    return x.cuda()\n" in run_only(HEAD + before, *PASSES)


def test_nothing_moves_twice() -> None:
    code = HEAD + loop("for x, y in feed", "x = x.to(device)", "net(x.to(device))")
    assert "net(x.to(device))" in run_only(code, *PASSES)
