"""From the loss to the step of the optimizer: what is reduced, scaled and clipped, when, and how often."""

from __future__ import annotations

import pytest
from whole import ALONE, DATA, NET, ONE, RANKS, STEP, becomes, says

from xla_transforms.settings import Settings

FORWARD = "    loss = crit(net(xs.cuda()), ys.cuda())\n"


def test_replicas_reduce_once_for_each_step_and_not_for_each_micro_batch() -> None:
    code = RANKS.replace("import os\n", "import os\nfrom contextlib import nullcontext\n") + (
        "K = 4\nopt.zero_grad()\nfor i, (xs, ys) in enumerate(feed):\n    last = (i + 1) % K == 0\n"
        "    with nullcontext() if last else net.no_sync():\n"
        "        loss = crit(net(xs.cuda()), ys.cuda()) / K\n        loss.backward()\n"
        "    if last:\n        opt.step()\n        opt.zero_grad()\n"
    )
    found = becomes(
        code,
        "        last = (i + 1) % K == 0\n        loss = crit(net(xs), ys) / K\n        loss.backward()\n"
        "        if last:\n            xm.optimizer_step(opt)\n            opt.zero_grad()\n",
    )
    text = found.data.decode()
    assert "reduce_gradients" not in text
    assert text.count("optimizer_step") == 1
    says(code)


CLIPS = (
    "torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)",
    "torch.nn.utils.clip_grad_value_(net.parameters(), 1.0)",
    "norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)",
)


@pytest.mark.parametrize("clip", CLIPS)
def test_replicas_reduce_before_they_clip(clip: str) -> None:
    """On ranks with gradients [30, 40] and [0, 0] the step is then [-0.6, -0.8], and not half of it."""
    step = f"    opt.zero_grad()\n{FORWARD}    loss.backward()\n    {clip}\n"
    step += "    opt.step()\n    sched.step()\n"
    sched = "sched = torch.optim.lr_scheduler.StepLR(opt, 1)\nfor xs, ys in feed:\n"
    becomes(
        RANKS + sched + step,
        "        loss.backward()\n        xm.reduce_gradients(opt)\n"
        f"        {clip}\n        opt.step()\n        sched.step()\n",
    )
    says(RANKS + sched + step)


def test_replicas_reduce_before_a_helper_clips() -> None:
    code = RANKS + (
        "def tame(net):\n    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n\n\n"
        f"for xs, ys in feed:\n    opt.zero_grad()\n{FORWARD}    loss.backward()\n    tame(net)\n"
        "    opt.step()\n"
    )
    becomes(code, "        xm.reduce_gradients(opt)\n        tame(net)\n        opt.step()\n")


SCALED = (
    "import argparse\n\nfrom torch.cuda.amp import GradScaler, autocast\n\n"
    "parser = argparse.ArgumentParser()\n"
    'parser.add_argument("--fp32", action="store_true")\ncfg = parser.parse_args()\n'
    "scaler = GradScaler(enabled=not cfg.fp32)\nfor xs, ys in feed:\n"
    f"    with autocast(enabled=not cfg.fp32):\n    {FORWARD}    scaler.scale(loss).backward()\n"
    "    scaler.step(opt)\n    scaler.update()\n    opt.zero_grad(set_to_none=True)\n"
    'torch.save({"net": net.state_dict(), "scaler": scaler.state_dict()}, "ck.pt")\n'
)


def test_a_scaler_of_float16_is_not_carried_to_bfloat16() -> None:
    found = becomes(
        ONE + SCALED,
        'parser.add_argument("--fp32", action="store_true")\n',
        '    with torch.autocast("xla", dtype=torch.bfloat16, enabled=not cfg.fp32):\n'
        "        loss = crit(net(xs), ys)\n    loss.backward()\n    xm.optimizer_step(opt)\n"
        "    opt.zero_grad(set_to_none=True)\n",
        'xm.save({"net": net.state_dict()}, "ck.pt")\n',
    )
    assert "scaler" not in found.data.decode()
    assert "XLA313" in [f.code for f in found.findings]  # checkpoints are without its state


def test_a_scaler_stays_where_a_release_has_one_for_xla() -> None:
    becomes(
        ONE + SCALED,
        "from torch_xla.amp import GradScaler, syncfree\n",
        "    scaler.scale(loss).backward()\n    xm.reduce_gradients(opt)\n    scaler.step(opt)\n"
        "    scaler.update()\n",
        settings=Settings(target="2.1"),
    )


OPTIMIZERS = """\
body = torch.optim.AdamW(net.parameters(), 2e-4, weight_decay=0.05, fused=True)
head = torch.optim.RMSprop(net.parameters(), lr=1e-3)
slow = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9, nesterov=True)
groups = torch.optim.Adam([
    {"params": net.weight, "lr": 1e-5},
    {"params": net.bias},
], lr=1e-4)
"""


def test_optimizers_keep_their_class_and_arguments_but_what_only_cuda_fuses() -> None:
    becomes(
        ALONE + DATA + NET + OPTIMIZERS,
        OPTIMIZERS.replace(", fused=True", ""),
    )


def test_with_amp_an_optimizer_without_a_twin_stays() -> None:
    becomes(
        ONE + OPTIMIZERS + SCALED,
        "body = syncfree.AdamW(net.parameters(), 2e-4, weight_decay=0.05)\n"
        "head = torch.optim.RMSprop(net.parameters(), lr=1e-3)\n"
        "slow = syncfree.SGD(net.parameters(), lr=1e-2, momentum=0.9, nesterov=True)\n"
        "groups = syncfree.Adam([\n",
    )


def test_each_way_of_a_choice_takes_one_step() -> None:
    code = ONE + (
        'scaler = torch.cuda.amp.GradScaler()\nuse_amp = "AMP" in os.environ\n'
        "sched = torch.optim.lr_scheduler.StepLR(opt, 1)\nfor xs, ys in feed:\n    opt.zero_grad()\n"
        f"    if use_amp:\n        with torch.cuda.amp.autocast():\n        {FORWARD}"
        "        scaler.scale(loss).backward()\n        scaler.step(opt)\n        scaler.update()\n"
        f"    else:\n    {FORWARD}        loss.backward()\n        opt.step()\n    sched.step()\n"
    )
    becomes(
        code,
        '    if use_amp:\n        with torch.autocast("xla", dtype=torch.bfloat16):\n'
        "            loss = crit(net(xs), ys)\n        loss.backward()\n        xm.optimizer_step(opt)\n"
        "    else:\n        loss = crit(net(xs), ys)\n        loss.backward()\n"
        "        xm.optimizer_step(opt)\n"
        "    sched.step()\n",
    )
    says(code)


RUNNER = '''\
class Runner:
    def __init__(self, net, opt, env):
        self.net, self.opt, self.env = net, opt, env

    def one(self, xs, ys):
        self.opt.zero_grad()
        loss = F.cross_entropy(self.net(xs), ys)
        loss.backward()
        self.opt.step()
        self.env.step()
        return loss.detach()


'''
RUN = "runner = Runner(net, opt, {})\nfor xs, ys in feed:\n    runner.one(xs.cuda(), ys.cuda())\n"


def test_of_the_steps_in_a_method_only_the_optimizers_is_written() -> None:
    world = "class World:\n    def step(self):\n        pass\n\n\n"
    for code in (ONE, RANKS):
        found = becomes(code + world + RUNNER + RUN.format("World()"))
        text = found.data.decode()
        assert "        xm.optimizer_step(self.opt)\n        self.env.step()\n" in text
        says(code + world + RUNNER + RUN.format("World()"))


def test_a_step_of_something_unknown_is_told() -> None:
    code = RANKS.replace("import os\n", "import os\nfrom worlds import Maze\n")
    says(code + RUNNER + RUN.format("Maze()"), "XLA614 error: self.env.step()")


def test_optimizers_of_a_list_and_of_a_function() -> None:
    becomes(
        RANKS + "def make(net):\n    return torch.optim.Adam(net.parameters())\n\n\nopts = [opt, make(net)]\n"
        f"for xs, ys in feed:\n{FORWARD}    loss.backward()\n    for o in opts:\n        o.step()\n"
        "        o.zero_grad()\n",
        "        for o in opts:\n            xm.optimizer_step(o)\n            o.zero_grad()\n",
    )


def test_a_wrapper_is_not_kept_beside_the_step_that_reduces() -> None:
    code = RANKS.replace("net = DDP(net)\n", "") + (
        'local = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(local)\n'
        "net = DDP(net, device_ids=[local], output_device=local)\n"
        f'for xs, ys in feed:\n{STEP}torch.save(net.module.state_dict(), "m.pt")\n'
    )
    found = becomes(
        code,
        "    opt = torch.optim.SGD(net.parameters(), lr=0.1)\n    xm.broadcast_master_param(net)\n",
        "        opt.zero_grad()\n        crit(net(xs), ys).backward()\n        xm.optimizer_step(opt)\n"
        '    xm.save(net.state_dict(), "m.pt")\n',
    )
    assert "DDP" not in found.data.decode()
    assert "init_process_group" not in found.data.decode()
    says(code)
