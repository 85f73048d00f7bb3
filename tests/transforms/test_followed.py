"""Functions that the steps of a program run, in other files than the loop."""

from __future__ import annotations

from xla_transforms import engine

TRAIN = """\
import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

import helpers
from net import Net

parser = argparse.ArgumentParser()
parser.add_argument("--clip", type=float, default=0.0)
args = parser.parse_args()
device = torch.device("cuda")
model = Net().to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (x, y) in enumerate(DataLoader(data, batch_size=8, drop_last=True)):
    x, y = x.to(device), y.to(device)
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    {call}
    opt.step()
"""
NET = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)

    def load(self, x, keep):
        return x[x > keep]

    def forward(self, x):
        return self.fc(x)
"""
CLIP = """\
import torch


def clip(model, most):
    norms = []
    for p in model.parameters():
        if p.grad is not None:
            norm = p.grad.norm()
            norms.append(norm.item())
            if norm > most:
                p.grad.mul_(most / norm)
    return norms
"""
PLACES = [("helpers.py", "XLA701", 9), ("helpers.py", "XLA702", 10)]


def migrated(call: str, helpers: str, net: str = NET) -> dict[str, engine.Outcome]:
    texts = {"train.py": TRAIN.replace("{call}", call), "helpers.py": helpers, "net.py": net}
    outcomes = engine.migrate_program({name: text.encode() for name, text in texts.items()})
    assert not any(outcome.failed for outcome in outcomes.values())
    return outcomes


def found(call: str, helpers: str, net: str = NET) -> list[tuple[str, str, int]]:
    outcomes = migrated(call, helpers, net)
    findings = [(name, f) for name, outcome in outcomes.items() for f in outcome.findings]
    return sorted((name, f.code, f.span.line) for name, f in findings if f.code[:5] in ("XLA70", "XLA90"))


def test_a_helper_that_no_step_calls_has_no_finding() -> None:
    assert found("pass", CLIP) == []


def test_a_helper_that_only_some_steps_call_has_no_finding() -> None:
    assert found("if step % 10 == 0: helpers.clip(model, 1.0)", CLIP) == []
    assert found("if step == 3:\n        helpers.clip(model, 1.0)", CLIP) == []


def test_what_a_helper_reads_in_some_steps_has_no_finding() -> None:
    code = "def show(step, loss):\n    late = step > 10\n    if {}:\n        return loss.item()\n"
    assert found("kept = helpers.show(step, loss)", code.format("True")) == [("helpers.py", "XLA701", 4)]
    for test in ("step % 10 == 0", "late", "is_late(step)"):
        assert found("kept = helpers.show(step, loss)", code.format(test)) == [], test


def test_what_a_helper_gets_as_a_number_has_no_finding() -> None:
    code = "class Meter:\n    def __init__(self):\n        self.sum = 0\n\n    def add(self, value):\n"
    code += "        self.sum += float(value)\n\n\nmeter = Meter()\n"
    assert found("helpers.meter.add(step)", code) == []


def test_a_method_of_a_model_that_no_step_calls_has_no_finding() -> None:
    net = NET.replace("x[x > keep]", "self.fc.weight[self.fc.weight > keep]")
    assert found("kept = model.load(x, 0.5)", "", net) == [("net.py", "XLA902", 10)]
    assert found("pass", "", net) == []


def test_a_helper_that_reads_in_every_step_is_told_where_it_reads() -> None:
    assert found("helpers.clip(model, 1.0)", CLIP) == PLACES
    assert found("norms = helpers.clip(model, 1.0)", CLIP) == PLACES


def test_a_choice_that_is_made_once_does_not_make_it_some_steps() -> None:
    assert found("if args.clip:\n        norms = helpers.clip(model, args.clip)", CLIP) == PLACES


def test_a_helper_of_a_helper_is_followed() -> None:
    code = CLIP + "\n\ndef finish(model):\n    clip(model, 1.0)\n"
    assert found("helpers.finish(model)", code) == PLACES


def test_an_object_that_is_called_is_followed() -> None:
    code = CLIP + "\n\nclass Clipper:\n    def __call__(self, model):\n        clip(model, 1.0)\n"
    assert found("helpers.Clipper()(model)", code) == PLACES


def test_the_loop_is_named_with_its_file() -> None:
    outcomes = migrated("helpers.clip(model, 1.0)", CLIP)
    messages = [f.message for f in outcomes["helpers.py"].findings if f.code == "XLA701"]
    assert messages == ["norm.item() is read in every step of the loop in train.py:16: one more execution"]


def test_a_shape_that_depends_on_data_in_a_model_of_another_file_is_told() -> None:
    net = NET.replace("return self.fc(x)", "return self.fc(x)[x.sum(1) > 0]")
    assert ("net.py", "XLA902", 13) in found("pass", "", net)


def test_a_shape_that_depends_on_data_in_a_helper_is_told() -> None:
    code = "import torch\n\n\ndef hits(out, y):\n    return torch.nonzero(out.argmax(1) == y)\n"
    assert ("helpers.py", "XLA903", 5) in found("rows = helpers.hits(model(x), y)", code)


def test_a_helper_that_works_in_place_keeps_its_moment() -> None:
    code = "import torch\n\nkept = torch.zeros(4)\n\n\ndef tune(by):\n    kept.{}\n    return by\n"
    lines = [line.strip() for line in tuned(code.format("mul_(by)")).splitlines()]
    at = lines.index("print(helpers.tune(2), loss.item())")
    assert not lines[at - 1].startswith("def ")
    assert at < lines.index("xm.optimizer_step(opt)")


def test_a_helper_that_changes_nothing_may_wait() -> None:
    code = "import torch\n\nkept = torch.zeros(4)\n\n\ndef tune(by):\n    kept.{}\n    return by\n"
    late = "def log_step(loss):\n        print(helpers.tune(2), loss.item())\n"
    assert late in tuned(code.format("mul(by)"))


def tuned(helpers: str) -> str:
    return migrated("print(helpers.tune(2), loss.item())", helpers)["train.py"].code
