"""What code may come to, by itself or through the functions that it calls."""

from __future__ import annotations

from textwrap import dedent

import libcst as cst
import pytest
from transforms.helpers import context_of

from xla_transforms.replicas.reach import comes_to

LEARNER = """
import torch
class Learner(torch.nn.Module):
    def forward(self, x):
        self.loss(x).backward()
"""


def reached(code: str) -> bool:
    """Whether the last statement may come to a backward pass."""
    context = context_of(LEARNER + dedent(code))
    last = context.index.source.module.body[-1]
    return comes_to(context.roles, last, context.program.calls.get("backward", ()))


@pytest.mark.parametrize(
    "code",
    [
        "print(x)",
        "def run(learner, x):\n    learner(x)\nprint(run)",
        "def run(x):\n    print(x)\nrun(x)",
    ],
)
def test_what_only_names_a_function_comes_to_nothing(code: str) -> None:
    assert not reached(code)


@pytest.mark.parametrize(
    "code",
    [
        "loss.backward()",
        "for x in data:\n    loss.backward()",
        "def run(x):\n    x.backward()\nrun(x)",
        "def run(x):\n    x.backward()\ndef outer(x):\n    run(x)\nouter(x)",
        "def run(x):\n    def inner():\n        x.backward()\n    inner()\nrun(x)",
        "class Steps:\n    def __init__(self, x):\n        x.backward()\nSteps(x)",
        "class Steps:\n    def __call__(self, x):\n        x.backward()\nsteps = Steps()\nsteps(x)",
    ],
)
def test_a_call_that_is_reached_through_others(code: str) -> None:
    assert reached(code)


def test_a_backward_pass_in_a_models_own_forward_pass_is_reached_where_the_model_is_called() -> None:
    assert reached("learner = Learner()\nlearner(x)")
    assert reached("def run(learner, x):\n    learner(x)\nrun(Learner(), x)")
    assert not reached("def run(other, x):\n    other(x)\nLearner()\nrun(torch.nn.ReLU(), x)")


def test_a_function_that_calls_itself_comes_to_an_end() -> None:
    assert reached("def run(x):\n    run(x)\n    x.backward()\nrun(x)")
    assert not reached("def run(x):\n    run(x)\nrun(x)")


def test_nothing_is_reached_where_there_is_nothing_to_reach() -> None:
    context = context_of("print(x)\n")
    last = context.index.source.module.body[-1]
    assert isinstance(last, cst.SimpleStatementLine)
    assert not comes_to(context.roles, last, ())
