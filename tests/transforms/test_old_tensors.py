"""What tensors could do before PyTorch 0.4."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, findings

HEAD = "import torch\nfrom torch.autograd import Variable\nnet = torch.nn.Linear(2, 1).cuda()\n"


def told(*lines: str) -> list[tuple[str, int]]:
    return findings(HEAD + "".join(f"{line}\n" for line in lines), "old_tensors")


@pytest.mark.parametrize(
    "line",
    [
        "print(loss.item())",
        "print(loss.data)",
        "print(losses.data[0])",
        "print(loss.data[1])",
        "loss.data[0:]",
        "loss[0]",
    ],
)
def test_other_reads_of_a_loss(line: str) -> None:
    assert told("loss = net(x).mean()", "loss.backward()", line) == []


def test_a_tensor_with_a_gradient_of_its_own_may_have_a_dimension() -> None:
    assert told("y = net(x)", "y.backward(g)", "print(y.data[0])") == []


def test_a_name_of_another_function_is_another_thing() -> None:
    assert told("def f(loss):", "    loss.backward()", "def g(loss):", "    return loss.data[0]") == []


def test_a_script_without_cuda_is_left() -> None:
    check_noop("import torch\nloss.backward()\nprint(loss.data[0])\n", "old_tensors")


def test_an_indexed_loss_is_reported() -> None:
    assert told("loss = net(x).mean()", "loss.backward()", "print(loss.data[0])") == [("XLA713", 6)]


@pytest.mark.parametrize(
    "line", ["y = Variable(x)", "y = Variable(x, requires_grad=True)", "y = Other(x, volatile=True)"]
)
def test_other_variables(line: str) -> None:
    assert told(line) == []


def test_a_volatile_variable_is_reported() -> None:
    assert told("y = Variable(x.cuda(), volatile=True)") == [("XLA714", 4)]
