"""Which loops are step loops, what drives them, what ends their iterations."""

from __future__ import annotations

from textwrap import dedent

import libcst as cst
import pytest
from transforms.helpers import context_of, migrate

from xla_transforms.context import Context
from xla_transforms.loops import Effect, Loop
from xla_transforms.tree import dotted

HEAD = """\
import torch
from torch import nn, optim
from torch.utils.data import DataLoader
import torch.nn.functional as F
from tqdm import tqdm

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

device = torch.device("cuda")
net = Net().to(device)
opt = optim.SGD(net.parameters(), lr=0.1)
feed = DataLoader(rows, batch_size=2)
"""
LINES = HEAD.count("\n")


def context(code: str) -> Context:
    return context_of(HEAD + dedent(code).lstrip("\n"))


def loops(code: str) -> list[Loop]:
    return context(code).loops.all


def lines(code: str) -> list[int]:
    """The lines of the step loops, counted from 1 within ``code``."""
    ctx = context(code)
    return [ctx.index.source.span(loop.node).line - LINES for loop in ctx.loops.all]


def only(code: str) -> Loop:
    found = loops(code)
    assert len(found) == 1
    return found[0]


def barrier_line(code: str, number: int = 0) -> int | None:
    ctx = context(code)
    anchor = ctx.loops.barrier_after(ctx.loops.all[number])
    return None if anchor is None else ctx.index.source.span(anchor).line - LINES


# ---- which loops are step loops


@pytest.mark.parametrize(
    "body",
    [
        "print(x)", "x.cuda()", "names.append(x)", "sched.step()", "env.step(x)",
        "opt.param_groups[0]['lr'] = x",
        "len(feed)", "torch.manual_seed(x)", "opt.zero_grad", "x.forward_hooks()", "total += x.sum()",
    ],
)  # fmt: skip
def test_loops_without_device_work_are_no_step_loops(body: str) -> None:
    assert loops(f"for x in range(3):\n    {body}\n") == []


def test_the_loop_in_a_forward_is_one_pass() -> None:
    assert loops("net(1)\n") == []


def test_loops_over_parameters_are_no_step_loops() -> None:
    code = """
        for p in net.parameters():
            p.data.mul_(0.5)
        for name, p in net.named_parameters():
            print(name, p.norm())
        """
    assert loops(code) == []


def test_a_loop_over_epochs_is_no_step_loop() -> None:
    code = """
        for epoch in range(3):
            for x, y in feed:
                net(x)
            torch.save(net.state_dict(), "x.pt")
        """
    assert lines(code) == [2]


def test_a_loop_over_epochs_that_calls_train_and_test() -> None:
    code = """
        def train():
            for x, y in feed:
                net(x.cuda()).sum().backward()
                opt.step()
        def test():
            for x, y in feed:
                net(x.cuda())
        for epoch in range(3):
            train()
            test()
        """
    assert lines(code) == [2, 6]


def test_a_loop_over_epochs_that_also_samples_once() -> None:
    code = """
        for epoch in range(3):
            for x, y in feed:
                net(x.cuda()).sum().backward()
                opt.step()
            fake = net(noise)
        """
    assert lines(code) == [2]


@pytest.mark.parametrize(
    ("body", "effect"),
    [
        ("net(x)", Effect.FORWARD), ("net(x).sum().backward()", Effect.FORWARD | Effect.BACKWARD),
        ("loss = net(x).sum(); loss.backward(); opt.step()", Effect.FORWARD | Effect.BACKWARD | Effect.STEP),
        ("net.forward(x)", Effect.FORWARD), ("F.relu(net(x))", Effect.FORWARD),
        ("y = net(x) if x else None", Effect.FORWARD),
        ("torch.autograd.grad(net(x), x)", Effect.FORWARD | Effect.BACKWARD),
        ("net(x); opt.zero_grad()", Effect.FORWARD | Effect.OTHER),
    ],
)  # fmt: skip
def test_what_an_iteration_does(body: str, effect: Effect) -> None:
    assert only(f"for x in range(3):\n    {body}\n").effect == effect


def test_effects_through_functions_and_methods() -> None:
    code = """
        def one(x):
            loss = forward(x)
            loss.backward()
            opt.step()

        def forward(x):
            return net(x).sum()

        class Runner:
            def __init__(self, net, opt):
                self.net, self.opt = net, opt

            def one(self, x):
                self.net(x).sum().backward()
                self.update()

            def update(self):
                self.opt.step()

        runner = Runner(net, opt)
        for x in stream:
            one(x)
        for x in stream:
            runner.one(x)
        while True:
            runner.one(next(stream))
        """
    found = loops(code)
    assert lines(code) == [21, 23, 25]
    assert all(loop.effect & Effect.BACKWARD and loop.effect & Effect.STEP for loop in found)


def test_a_helper_with_its_own_step_loop_makes_no_step_loop_of_its_callers() -> None:
    code = """
        def epoch():
            for x, y in feed:
                net(x.cuda()).sum().backward()
                opt.step()
        for _ in range(3):
            epoch()
        """
    assert lines(code) == [2]


def test_a_loop_in_a_dead_branch() -> None:
    code = """
        if not torch.cuda.is_available():
            for x in feed:
                net(x)
        """
    assert loops(code) == []


def test_a_closure_for_lbfgs_is_the_iterations_work() -> None:
    code = """
        for x, y in feed:
            x = x.to(device)
            def closure():
                opt.zero_grad()
                loss = net(x).sum()
                loss.backward()
                return loss
            opt.step(closure)
        """
    assert only(code).effect & Effect.BACKWARD


def test_accumulation_written_as_an_inner_loop() -> None:
    code = """
        for step in range(100):
            for micro in range(4):
                x = get_batch()
                net(x).sum().backward()
            opt.step()
            opt.zero_grad()
        """
    assert lines(code) == [1, 2]


# ---- what drives a loop


@pytest.mark.parametrize(
    ("head", "loader"),
    [
        ("for x, y in feed", "feed"), ("for i, (x, y) in enumerate(feed)", "feed"),
        ("for x, y in tqdm(feed)", "feed"),
        ("for i, (x, y) in enumerate(tqdm(feed, desc='train'), 1)", "feed"),
        ("for i, (x, y) in zip(range(9), feed)", "feed"),
        ("for x, y in range(3)", None), ("for x, y in pairs", None), ("while True", None),
    ],
)  # fmt: skip
def test_the_loader_behind_a_loop(head: str, loader: str | None) -> None:
    loop = only(f"{head}:\n    net(x.to(device))\n")
    assert (dotted(loop.loader) if loop.loader is not None else None) == loader
    assert loop.wrapped is (loader is not None)


def test_two_loaders_at_once_are_not_wrapped() -> None:
    loop = only("other = DataLoader(r)\nfor (x, _), (z, _) in zip(feed, other):\n    net(x.cuda())\n")
    assert not loop.wrapped
    assert "several loaders" in loop.reason


@pytest.mark.parametrize(
    "body",
    [
        "net(x.to(device))", "net(x.cuda())", "x = x.to(device); net(x)",
        "x, y = x.to(device), y.cuda()\n    net(x)",
        "net(x.cuda(non_blocking=True))", "net(x.to('cuda'))", "net(x.float().to(device))",
        "net(x.to(device=device, dtype=torch.float))", "z = [t.to(device) for t in (x, y)]\n    net(z[0])",
        "n = x.size(0)\n    net(x.cuda())", "n = len(x)\n    net(x.cuda())",
        "n = x.shape[0]\n    net(x.cuda())",
        "x = x.view(-1, 4).cuda()\n    net(x)", "x = x.cuda()\n    print(x.cpu().numpy())\n    net(x)",
    ],
)  # fmt: skip
def test_batches_that_only_go_to_the_device(body: str) -> None:
    loop = only(f"for x, y in feed:\n    {body}\n")
    assert loop.reason == ""
    assert loop.wrapped


@pytest.mark.parametrize(
    "body",
    [
        "a = x.numpy()", "show(x)", "a = x + 1", "a = np.array(x)", "rows.append(x)", "print(x)", "a = [x]",
        "a = x.tolist()", "a = x[y == 1]", "if x.sum() > 0: pass", "a = f'{x}'", "a = {'x': x}", "self.x = x",
        "a = lambda: x", "yield_ = x if y else None", "a = x.mean()", "a = x == y", "a = tokenizer(x)",
    ],
)  # fmt: skip
def test_batches_used_on_the_host_are_not_wrapped(body: str) -> None:
    loop = only(f"for x, y in feed:\n    {body}\n    net(x.to(device))\n")
    assert not loop.wrapped
    assert "on the host" in loop.reason


def test_a_host_use_of_another_part_blocks_too() -> None:
    assert not only("for x, y in feed:\n    net(x.cuda())\n    seen.extend(y.numpy())\n").wrapped


def test_batches_that_are_never_moved_stay_where_they_are() -> None:
    loop = only("for x, y in feed:\n    net(x)\n")
    assert not loop.wrapped
    assert loop.reason


def test_something_that_may_be_no_loader() -> None:
    loop = only("data = feed if flag else rows()\nfor x, y in data:\n    net(x.cuda())\n")
    assert not loop.wrapped


def test_batches_followed_into_a_function() -> None:
    code = """
        def move(x, y):
            return x.cuda(), y.cuda()
        def look(x):
            return x.numpy()
        for x, y in feed:
            x, y = move(x, y)
            net(x)
        for x, y in feed:
            look(x)
            net(x.cuda())
        """
    assert [loop.wrapped for loop in loops(code)] == [True, False]


def test_the_model_may_move_the_batch_itself() -> None:
    code = """
        class Mover(nn.Module):
            def forward(self, x):
                return x.cuda()
        mover = Mover()
        for x, y in feed:
            mover(x)
        """
    loop = only(code)
    assert loop.wrapped or loop.reason


def test_dictionary_batches() -> None:
    code = """
        for batch in feed:
            batch = {k: v.to(device) for k, v in batch.items()}
            net(batch["x"])
        for batch in feed:
            x, y = batch["x"].to(device), batch["y"].to(device)
            net(x)
        """
    assert [loop.wrapped for loop in loops(code)] == [True, True]


def test_its_own_synchronize_is_the_barrier() -> None:
    code = """
        for x, y in feed:
            net(x.cuda())
            torch.cuda.synchronize()
        """
    loop = only(code)
    assert not loop.wrapped
    assert barrier_line(code) is None


def test_a_synchronize_that_not_every_iteration_passes_is_no_barrier() -> None:
    code = """
        for i, (x, y) in enumerate(feed):
            net(x.cuda())
            if i % 10 == 0:
                torch.cuda.synchronize()
        """
    assert only(code).wrapped


def test_transfers_found() -> None:
    code = """
        for x, y in feed:
            x, y = x.to(device), y.to(device, non_blocking=True)
            z = torch.randn(2).to(device)
            net(x + z)
        """
    ctx = context(code)
    loop = ctx.loops.all[0]
    assert [ctx.index.source.code(c) for c in ctx.loops.own_transfers(loop)] == [
        "x.to(device)",
        "y.to(device, non_blocking=True)",
    ]
    assert ctx.loops.needless(ctx.loops.own_transfers(loop)[0])
    other = [c for c in ctx.index.all(cst.Call) if ctx.index.source.code(c) == "torch.randn(2).to(device)"]
    assert not ctx.loops.needless(other[0])


# ---- where the barrier stands


def test_the_barrier_comes_behind_the_last_device_work() -> None:
    code = """
        while True:
            loss = net(get()).sum()
            loss.backward()
            opt.step()
            opt.zero_grad()
            count += 1
            print(count)
        """
    assert barrier_line(code) == 5


def test_no_barrier_in_a_loop_that_a_device_loader_drives() -> None:
    assert barrier_line("for x, y in feed:\n    net(x.cuda())\n") is None


def test_a_barrier_behind_a_condition() -> None:
    code = """
        for i in range(9):
            net(get()).sum().backward()
            if i % 4 == 3:
                opt.step()
                opt.zero_grad()
            print(i)
        """
    assert barrier_line(code) == 3


def test_exits_behind_device_work() -> None:
    code = """
        for x, y in feed:
            if x is None:
                continue
            loss = net(x.cuda())
            if done:
                break
            for z in rows:
                if z:
                    break
        """
    ctx = context(code)
    loop = ctx.loops.all[0]
    found = [ctx.index.source.span(n).line - LINES for n in ctx.loops.exits(loop, cst.Break)]
    assert found == [6]
    assert list(ctx.loops.exits(loop, cst.Continue)) == []


def test_the_loop_around_a_node() -> None:
    code = """
        for epoch in range(3):
            for x, y in feed:
                net(x.cuda())
        """
    ctx = context(code)
    loop = ctx.loops.all[0]
    call = next(c for c in ctx.index.all(cst.Call) if ctx.index.source.code(c) == "x.cuda()")
    assert ctx.loops.of(call) is loop
    assert ctx.loops.of(loop.node) is None


LOSS = """\
import torch


class Loss:
    def __init__(self):
        self.bce = torch.nn.BCEWithLogitsLoss()

    def __call__(self, outputs, target):
        total = 0
        for output in outputs:
            part = self.bce(output, target)
            total += part
            if self.balanced:
                self.weight = part.item()
        return total


model = torch.nn.Linear(2, 2).cuda()
criterion = Loss()
for x, y in load():
    loss = criterion([model(x.cuda())], y.cuda())
    {}
"""


def test_a_loop_of_the_loss_is_a_part_of_the_step_that_calls_it() -> None:
    text = migrate(LOSS.format("loss.backward()")).code
    assert text.count("torch_xla.sync()") == 1
    assert "loss.backward()\n    torch_xla.sync()" in text
