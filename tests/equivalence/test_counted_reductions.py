"""How often gradients count as reduced before they are used, by what a script does with them."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest

pytestmark = pytest.mark.slow

WATCHED = """
import json, sys, torch
from xla_migrate.verify.replicas.gradients import Reductions

reductions = Reductions(id)
reductions.install()

def counted(code):
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    x, reductions.steps = torch.ones(3, 2), []
    def backward():
        model(x).sum().backward()
    def reduce(one=model):
        reductions.reduced([p.grad for p in one.parameters()])
    def attack():
        model.weight.data.add_(0.1 * model.weight.grad / model.weight.grad.norm())
    exec(code, {**globals(), **locals()})
    return reductions.steps

for line in sys.stdin:
    print(json.dumps(counted(json.loads(line))), flush=True)
"""


@pytest.fixture(scope="module")
def counts() -> Iterator[Callable[[str], list[list[int]]]]:
    """``counts(code)`` runs code in a process whose reductions are watched; what each step counts."""
    command, pipe = [sys.executable, "-c", WATCHED], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def counted(code: str) -> list[list[int]]:
            print(json.dumps(textwrap.dedent(code)), file=stdin, flush=True)
            found: list[list[int]] = json.loads(stdout.readline())
            return found

        yield counted


def test_gradients_that_come_together_are_reduced_once(counts) -> None:
    assert counts("for step in range(2): backward(); backward(); reduce(); optimizer.step()") == [[1, 1]] * 2


def test_weights_that_are_moved_along_gradients_need_another_reduction(counts) -> None:
    assert counts("backward(); reduce(); attack(); backward(); reduce(); optimizer.step()") == [[1, 1]]


@pytest.mark.parametrize("zeroed", ["optimizer.zero_grad()", "model.zero_grad(set_to_none=False)"])
def test_gradients_that_are_zeroed_between_two_passes_are_reduced_with_each(counts, zeroed: str) -> None:
    assert counts(f"backward(); reduce(); {zeroed}; backward(); reduce(); optimizer.step()") == [[1, 1]]


def test_a_closure_reduces_as_often_as_it_runs_the_backward_pass(counts) -> None:
    code = """
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    target = torch.randn(3, 2)
    def closure():
        optimizer.zero_grad()
        loss = (model(x) - target).pow(2).sum()
        loss.backward()
        reduce()
        return loss
    optimizer.step(closure)
    """
    assert counts(code) == [[1, 1]]


def test_gradients_of_another_model_that_were_used_stay_reduced(counts) -> None:
    code = """
    other(x).sum().backward(); reduce(other)
    torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)
    backward(); reduce()
    second.step(); optimizer.step()
    """
    assert counts(code) == [[1, 1], [1, 1]]


def test_a_reduction_with_each_backward_is_one_too_many(counts) -> None:
    assert counts("backward(); reduce(); backward(); reduce(); optimizer.step()") == [[2, 2]]


def test_a_second_reduction_of_the_same_gradients_is_one_too_many(counts) -> None:
    assert counts("backward(); reduce(); attack(); reduce(); optimizer.step()") == [[2, 2]]


def test_a_second_reduction_before_the_attack_is_seen_behind_it(counts) -> None:
    twice = "backward(); reduce(); reduce(); attack(); backward(); reduce(); optimizer.step()"
    assert counts(twice) == [[1, 2]]


def test_what_an_attack_adds_to_reduced_gradients_is_not_reduced(counts) -> None:
    assert counts("backward(); reduce(); attack(); backward(); optimizer.step()") == [[0, 1]]


def test_a_step_that_is_left_out_is_no_reduction_of_the_next_one(counts) -> None:
    assert counts("backward(); reduce(); optimizer.zero_grad(); backward(); optimizer.step()") == [[0, 1]]
