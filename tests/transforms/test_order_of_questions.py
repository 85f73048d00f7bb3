"""The analysis answers the same in every run, and whatever it was asked before."""

from __future__ import annotations

import os
import subprocess
import sys

import libcst as cst
import pytest
from transforms.helpers import context_of, expression

from xla_transforms.loops.effects import Effect, Effects

CHOICES = """\
import torch
import torch.nn as nn
from torch.optim import SGD, Adam, RMSprop
class Net(nn.Module): pass
class Other(nn.Module): pass
def first(): pass
def second(a): pass
made = {0: Net(), 1: Other(), 2: first, 3: second, 4: [1], 5: (2,), 6: "cuda", 7: torch.device("cpu")}[n]
print(made)
"""
SHOW = """\
from xla_transforms.roles.facts import Fact, Kind
words = ["cuda", "cpu", "xla", "batch", "host", "rank", ""]
facts = frozenset(Fact(kind, word) for kind in (Kind.DEVICE, Kind.TENSOR) for word in words)
print([(f.kind.value, f.detail) for f in facts])
"""


def test_facts_of_the_same_source_come_in_the_same_order_wherever_its_nodes_lie() -> None:
    found, junk = set(), []
    for number in range(12):
        context = context_of(CHOICES)
        facts = context.roles.facts(expression(context, "made", -1))
        found.add(tuple((f.kind, f.detail, type(f.node).__name__) for f in facts))
        junk.append([context, bytearray(1000 * number)])
    assert len(found) == 1
    assert len(next(iter(found))) > 5


def test_facts_come_in_the_same_order_whatever_hash_texts_have() -> None:
    shown = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True
        )
        shown.add(run.stdout)
    assert len(shown) == 1


LED_BACK = """\
import torch
import torch.distributed as dist
def first(optimizer, n):
    if n:
        second(optimizer, n - 1)
    optimizer.step()
def second(optimizer, n):
    first(optimizer, n)
dist.init_process_group("nccl")
model = torch.nn.Linear(2, 2)
sampler = torch.utils.data.DistributedSampler(data)
loader = torch.utils.data.DataLoader(data, sampler=sampler)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
second(optimizer, 3)
one, other = 0.0, 0.0
for batch in loader:
    one = other + model(batch).mean().item()
    other = one
print(one, other)
"""


@pytest.mark.parametrize("names", [("first", "second"), ("second", "first")])
def test_what_functions_do_that_call_each_other_is_found_from_either(names: tuple[str, str]) -> None:
    context = context_of(LED_BACK)
    functions = {f.name.value: f for f in context.index.all(cst.FunctionDef)}  # type: ignore[attr-defined]
    effects = Effects(context.roles)
    assert [Effect.STEP in effects.of_function(functions[name]) for name in names] == [True, True]


@pytest.mark.parametrize("names", [("one", "other"), ("other", "one")])
def test_values_made_of_each_other_differ_both(names: tuple[str, str]) -> None:
    context = context_of(LED_BACK)
    decisions = context.replicas.decisions
    assert [decisions.differs(expression(context, name, -1)) for name in names] == [True, True]


def test_what_rested_on_the_right_answer_is_not_asked_again() -> None:
    roles, asked = context_of("x = 1\n").roles, []

    def one() -> int:
        asked.append("one")
        return roles.asked(("kind", 2), other, 0)

    def other() -> int:
        asked.append("other")
        return roles.asked(("kind", 1), one, 0)

    assert roles.asked(("kind", 1), one, 0) == roles.asked(("kind", 2), other, 0) == 0
    assert asked == ["one", "other"]


def test_condition_that_was_met_while_what_it_asks_was_open_is_decided_later() -> None:
    context = context_of("import torch\ndevice = torch.device('cuda')\nif device.type == 'cuda':\n    pass\n")
    roles, test = context.roles, expression(context, "device.type == 'cuda'", -1)
    asked = expression(context, "device", -1)
    with roles.guarded("around"):
        state = roles._questions.begin(id(asked))
        assert roles.fold(test) is None
        roles._questions.leave(id(asked), state)
    assert roles.fold(test) is True


def test_equal_answers_are_held_once() -> None:
    context = context_of("import torch\na = torch.device('cuda')\nb = torch.device('cuda')\nprint(a is a)\n")
    uses = [expression(context, "a", number) for number in (-1, -2)]
    assert context.roles.facts(uses[0]) is context.roles.facts(uses[1])
    texts = [expression(context, "'cuda'", number) for number in (0, 1)]
    assert context.roles.facts(texts[0]) is context.roles.facts(texts[1])
