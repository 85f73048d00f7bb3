"""What looks suspicious and is not: none of it may be flagged, or changed.

The numeric ones were counted on torch_xla 2.9: they compile no more often than the step without them, but
for one graph for each special number such as 0 and 1.
"""

from __future__ import annotations

import pytest
from helpers import migrate, open_findings
from whole import ONE

LOOP = """\
for k, (xs, ys) in enumerate(feed):
    xs, ys = xs.cuda(), ys.cuda()
    opt.zero_grad()
    out = net(xs)
    loss = crit(out, ys)
{body}
    loss.backward()
    opt.step()
{behind}
"""
WITHIN = {
    "a loss times a number": "loss = loss * (0.5 + k)",
    "a factor of MixUp": "lam = random.random()\nloss = lam * loss + (1 - lam) * crit(out, ys.flip(0))",
    "the rate of a dropout": "drop.p = 0.1 + 0.01 * k\nloss = loss + drop(out).mean()",
    "the bound of a clamp": "loss = loss.clamp(max=10.0 + k)",
    "a tensor that is full of a number": "loss = loss + torch.full((2,), 0.1 * k, device='cuda').mean()",
    "a choice on the device": "loss = torch.where(loss > 3, loss * 0.5, loss)",
    "places that a permutation gives": "order = torch.randperm(4, device='cuda')\n"
    "loss = loss + out[order].mean()",
    "constant bounds of a slice": "buf[:, :2] = 0",
    "to the device once more": "out = out.to('cuda')\nxs = xs.cuda()",
    "what a shape says": "rows = xs.shape[0]\nloss = loss / rows",
}
BEHIND = {
    "another learning rate": "for group in opt.param_groups:\n    group['lr'] = 0.1 / (1 + k)",
    "an average with another decay": (
        "decay = min(0.99, (1 + k) / (10 + k))\nwith torch.no_grad():\n"
        "    for p, q in zip(ema.parameters(), net.parameters()):\n"
        "        p.data.mul_(decay).add_(q.data, alpha=1 - decay)"
    ),
    "a step of a schedule": "sched.step()",
    "a step of a profiler": "prof.step()",
    "a step of a world": "world.step()",
    "a number of Python": "seen += len(xs)",
    "a word in a string": "name = 'on cuda'  # not cuda:0 either",
}
HEAD = """\
import random
drop = nn.Dropout(0.1)
buf = torch.zeros(2, 4, device="cuda")
ema = nn.Linear(4, 2).cuda()
sched = torch.optim.lr_scheduler.StepLR(opt, 1)
prof = torch.profiler.profile()
seen = 0


class World:
    def step(self):
        pass


world = World()
"""


def indented(lines: str) -> str:
    return "".join(f"    {line}\n" for line in lines.splitlines())


def script(body: str = "", behind: str = "") -> str:
    return ONE + HEAD + LOOP.format(body=indented(body), behind=indented(behind))


CASES = {
    **{name: script(body=lines) for name, lines in WITHIN.items()},
    **{name: script(behind=lines) for name, lines in BEHIND.items()},
    "a read behind the loop": script() + "print(loss.item())\n",
    "a dictionary of a batch": script().replace(
        "for k, (xs, ys) in enumerate(feed):\n    xs, ys = xs.cuda(), ys.cuda()\n",
        "for batch in feed:\n    batch = {name: value.cuda() for name, value in batch.items()}\n"
        "    xs, ys = batch['x'], batch['y']\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_harmless_is_not_flagged(name: str) -> None:
    assert [f"{f.code}: {f.message}" for f in open_findings(migrate(CASES[name]))] == []


LINES = {**WITHIN, **BEHIND}


@pytest.mark.parametrize("name", [name for name, lines in LINES.items() if "cuda" not in lines])
def test_what_is_harmless_stays(name: str) -> None:
    assert indented(LINES[name]) in migrate(CASES[name]).data.decode()


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("loss = loss ** (1 + k)", "XLA904"),
        ("loss = loss + out.topk(k + 1).values.mean()", "XLA904"),
        ("loss = loss + out.split([k, 4 - k])[0].mean()", "XLA904"),
        ("loss = loss + out[out > 0].mean()", "XLA902"),
        ("out[out > 0] = 0", "XLA902"),
    ],
)
def test_what_compiles_anew_is(line: str, rule: str) -> None:
    assert [f.code for f in open_findings(migrate(script(body=line)))] == [rule]
