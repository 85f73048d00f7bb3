"""Which ``step()`` goes through xm.optimizer_step, and where gradients are reduced first."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest
from transforms.helpers import check_noop, check_transformed, findings, run_only

TOP = """\
import torch
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
"""
XM = "import torch_xla.core.xla_model as xm\n"
NET = """
net = nn.Linear(2, 2).cuda()
opt = optim.SGD(net.parameters(), lr=0.1)
"""


def check(before: str, after: str, *rules: str) -> None:
    code, expected = dedent(before).lstrip("\n"), dedent(after).lstrip("\n")
    check_transformed(TOP + NET + code, TOP + XM + NET + expected, "steps", rules=set(rules) or {"XLA611"})


def noop(code: str) -> None:
    check_noop(TOP + NET + dedent(code).lstrip("\n"), "steps")


def loop(*lines: str) -> str:
    return "for x in stream:\n" + "".join(f"    {line}\n" for line in lines)


WORK = ("opt.zero_grad()", "loss = net(x).sum()", "loss.backward()")


# ---- nothing to do


@pytest.mark.parametrize(
    "code",
    [
        "sched = StepLR(opt, 1)\nsched.step()\n",
        "sched = optim.lr_scheduler.OneCycleLR(opt, 1)\nsched.step()\n",
        "prof = torch.profiler.profile()\nprof.step()\n", "env.step(action)\n",
        "def f(optimizer):\n    optimizer.step()\n",
        "opt.step\n", "step(opt)\n", "opt.zero_grad()\n", "import gym\nenv = gym.make('x')\nenv.step(1)\n",
        "with torch.profiler.profile() as prof:\n    prof.step()\n",
    ],
)  # fmt: skip
def test_steps_of_other_things(code: str) -> None:
    noop(code)


def test_a_script_without_cuda() -> None:
    check_noop(TOP + "opt = optim.SGD(net.parameters(), lr=0.1)\nopt.step()\n", "steps")


def test_a_script_that_imports_torch_xla() -> None:
    check_noop(TOP + "import torch_xla\n" + NET + loop(*WORK, "opt.step()"), "steps")


# ---- plain steps


def test_a_step_in_a_loop() -> None:
    check(loop(*WORK, "opt.step()"), loop(*WORK, "xm.optimizer_step(opt)"))


def test_the_value_of_a_step() -> None:
    check("loss = opt.step()\n", "loss = xm.optimizer_step(opt)\n")


def test_a_step_under_a_condition() -> None:
    before = loop(*WORK[1:], "if n % 4 == 0:", "    opt.step()", "    opt.zero_grad()")
    check(before, before.replace("opt.step()", "xm.optimizer_step(opt)"))


@pytest.mark.parametrize(
    "code",
    [
        "def one(o):\n    o.step()\n\none(opt)\n",
        "def one(o: optim.Optimizer):\n    o.step()\n",
        "opts = [opt, optim.Adam(net.parameters())]\nfor o in opts:\n    o.step()\n",
        "opts = {'a': opt}\nfor name, o in opts.items():\n    o.step()\n",
        "def make():\n    return optim.Adam(net.parameters())\n\no = make()\no.step()\n",
        "def make():\n    return net, optim.Adam(net.parameters())\n\nn, o = make()\no.step()\n",
        "def one(o: optim.SGD):\n    o.zero_grad()\n    o.step()\n",
    ],
)  # fmt: skip
def test_an_optimizer_wherever_it_comes_from(code: str) -> None:
    check(code, code.replace("o.step()", "xm.optimizer_step(o)"))


def test_a_step_in_a_method_beside_the_environments() -> None:
    before = """
        class Runner:
            def __init__(self, net, opt, sched):
                self.net, self.opt, self.sched = net, opt, sched

            def one(self, xs):
                self.opt.zero_grad()
                loss = self.net(xs)
                loss.backward()
                self.opt.step()
                self.sched.step()
                return loss.detach()


        Runner(net, opt, StepLR(opt, 1)).one(x)
        """
    check(before, before.replace("self.opt.step()", "xm.optimizer_step(self.opt)"))


def test_two_optimizers_that_step_in_turn() -> None:
    before = "dis = optim.Adam(net.parameters())\n" + loop(
        "dis.zero_grad()", "net(x).sum().backward()", "dis.step()", *WORK, "opt.step()"
    )
    check(
        before,
        re.sub(r"(dis|opt)\.step\(\)", r"xm.optimizer_step(\1)", before),
    )


# ---- gradients that are clipped or read first


@pytest.mark.parametrize(
    "clip",
    [
        ("nn.utils.clip_grad_norm_(net.parameters(), 1.0)",),
        ("norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)",),
        ("nn.utils.clip_grad_value_(net.parameters(), 1.0)",),
        ("if args.clip:", "    nn.utils.clip_grad_norm_(net.parameters(), args.clip)"),
        ("for p in net.parameters():", "    p.grad.data.clamp_(-1, 1)"),
        ("norms.append(net.weight.grad.norm())",),
        ("clip(net)", "log(1)"),
    ],
)
def test_gradients_are_reduced_before_they_are_used(clip: tuple[str, ...]) -> None:
    helper = "def clip(m):\n    nn.utils.clip_grad_norm_(m.parameters(), 1.0)\n\n"
    before = helper + loop(*WORK, *clip, "opt.step()")
    check(before, helper + loop(*WORK, "xm.reduce_gradients(opt)", *clip, "opt.step()"), "XLA612")


def test_the_reduction_comes_before_the_first_use() -> None:
    uses = ("print(net.weight.grad)", "nn.utils.clip_grad_norm_(net.parameters(), 1.0)")
    before = loop(*WORK, *uses, "opt.step()")
    check(before, loop(*WORK, "xm.reduce_gradients(opt)", *uses, "opt.step()"), "XLA612")


def test_clipping_inside_the_condition_of_the_step() -> None:
    before = loop(*WORK, "if last:", "    nn.utils.clip_grad_norm_(net.parameters(), 1.0)", "    opt.step()")
    after = loop(
        *WORK, "if last:", "    xm.reduce_gradients(opt)",
        "    nn.utils.clip_grad_norm_(net.parameters(), 1.0)", "    opt.step()",
    )  # fmt: skip
    check(before, after, "XLA612")


def test_clipping_above_the_condition_of_the_step() -> None:
    clip = "nn.utils.clip_grad_norm_(net.parameters(), 1.0)"
    before = loop(*WORK, clip, "if ok:", "    opt.step()")
    check(before, loop(*WORK, "xm.reduce_gradients(opt)", clip, "if ok:", "    opt.step()"), "XLA612")


@pytest.mark.parametrize(
    ("test", "guard"),
    [
        ("opt is not None", "opt is not None"), ("opt", "opt"), ("last and opt", "opt"),
        ("opt is not None and last", "opt is not None"),
    ],
)  # fmt: skip
def test_clipping_where_there_may_be_no_optimizer(test: str, guard: str) -> None:
    clip = "nn.utils.clip_grad_norm_(net.parameters(), 1.0)"
    before = loop(*WORK, clip, f"if {test}:", "    opt.step()")
    lines = (f"if {guard}:", "    xm.reduce_gradients(opt)", clip, f"if {test}:", "    opt.step()")
    check(before, loop(*WORK, *lines), "XLA612")


def test_clipping_where_the_other_way_has_no_optimizer() -> None:
    clip = "nn.utils.clip_grad_norm_(net.parameters(), 1.0)"
    ways = ("if opt is None:", "    by_hand(net)", "else:", "    opt.step()")
    guard = ("if not (opt is None):", "    xm.reduce_gradients(opt)")
    check(loop(*WORK, clip, *ways), loop(*WORK, *guard, clip, *ways), "XLA612")


@pytest.mark.parametrize("test", ["opt or last", "opt.param_groups[0]['lr'] > 0", "ready(opt)"])
def test_conditions_that_do_not_tell_whether_there_is_an_optimizer(test: str) -> None:
    clip = "nn.utils.clip_grad_norm_(net.parameters(), 1.0)"
    before = loop(*WORK, clip, f"if {test}:", "    opt.step()")
    check(before, loop(*WORK, "xm.reduce_gradients(opt)", clip, f"if {test}:", "    opt.step()"), "XLA612")


CHOSEN = """\
import argparse
import torch
from torch import nn, optim
{xm}
args = argparse.ArgumentParser().parse_args()
net = nn.Linear(2, 2).cuda()
if args.fancy:
    opt = optim.SGD(net.parameters(), lr=0.1)
{otherwise}

def train():
    for x in stream:
        net(x).sum().backward()
{reduce}        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        if args.fancy:
            opt.step()
        else:
            by_hand(net)
"""


@pytest.mark.parametrize(
    ("otherwise", "reduce"),
    [
        ("", "        if args.fancy:\n            xm.reduce_gradients(opt)\n"),
        ("else:\n    opt = optim.Adam(net.parameters())\n", "        xm.reduce_gradients(opt)\n"),
    ],
    ids=["one way makes an optimizer", "both do"],
)
def test_an_optimizer_that_an_option_makes(otherwise: str, reduce: str) -> None:
    before = CHOSEN.format(xm="", otherwise=otherwise, reduce="")
    after = CHOSEN.format(xm=XM, otherwise=otherwise, reduce=reduce)
    check_transformed(before, after, "steps", rules={"XLA612"})


def test_backward_and_clipping_in_one_block() -> None:
    body = ("with anomaly():", "    net(x).sum().backward()")
    clip = "    nn.utils.clip_grad_norm_(net.parameters(), 1.0)"
    check(
        loop(*body, clip, "opt.step()"),
        loop(*body, "    xm.reduce_gradients(opt)", clip, "opt.step()"),
        "XLA612",
    )


def test_clipping_before_another_optimizers_step_is_not_mine() -> None:
    before = "dis = optim.Adam(net.parameters())\n" + loop(
        "net(x).sum().backward()", "nn.utils.clip_grad_norm_(net.parameters(), 1.0)", "dis.step()", *WORK,
        "opt.step()"
    )
    text = run_only(TOP + NET + before, "steps")
    assert "xm.reduce_gradients(dis)\n    nn.utils" in text
    assert "    dis.step()\n" in text
    assert "xm.optimizer_step(opt)" in text


@pytest.mark.parametrize(
    "line",
    ["for p in net.parameters(): p.grad = None", "a = torch.autograd.grad(loss, x)", "print(1)"],
)
def test_what_is_no_use_of_gradients(line: str) -> None:
    before = loop(*WORK, line, "opt.step()")
    assert "reduce_gradients" not in run_only(TOP + NET + before, "steps")


# ---- scalers


def test_a_scalers_step_is_the_optimizers() -> None:
    code = "scaler = torch.cuda.amp.GradScaler()\n" + loop(
        *WORK[:2], "scaler.scale(loss).backward()", "scaler.step(opt)", "scaler.update()"
    )
    text = run_only(TOP + NET + code, "steps")
    assert "xm.optimizer_step(opt)" in text
    assert "scaler.step" not in text


def test_a_scalers_step_behind_clipping() -> None:
    code = "scaler = torch.amp.GradScaler()\n" + loop(
        *WORK[:2], "scaler.scale(loss).backward()", "scaler.unscale_(opt)",
        "nn.utils.clip_grad_norm_(net.parameters(), 1.0)", "scaler.step(opt)",
    )  # fmt: skip
    text = run_only(TOP + NET + code, "steps")
    clip = "    nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
    assert f"    xm.reduce_gradients(opt)\n{clip}    opt.step()\n" in text


def test_one_update_on_each_path() -> None:
    code = "scaler = torch.amp.GradScaler()\n" + loop(
        "if use_amp:", "    scaler.scale(net(x).sum()).backward()", "    scaler.step(opt)",
        "    scaler.update()",
        "else:", "    net(x).sum().backward()", "    opt.step()", "sched.step()",
    )  # fmt: skip
    text = run_only(TOP + NET + code, "steps")
    assert text.count("xm.optimizer_step(opt)") == 2
    assert "sched.step()" in text


# ---- what is not known


@pytest.mark.parametrize("origin", ["thing = make()", "from somewhere import thing", "thing = table['x']"])
def test_an_unknown_step_beside_a_backward_is_named(origin: str) -> None:
    code = f"{origin}\n" + loop(*WORK, "opt.step()", "thing.step()")
    head = (TOP + NET).count("\n")
    assert findings(TOP + NET + code, "steps") == [("XLA614", head + 7)]
    assert "    thing.step()\n" in run_only(TOP + NET + code, "steps")


def test_known_steps_and_those_with_arguments_are_not_named() -> None:
    code = "sched = StepLR(opt, 1)\n" + loop(*WORK, "opt.step()", "sched.step()", "state = env.step(action)")
    assert findings(TOP + NET + code, "steps") == []
