"""Models that are traced."""

from __future__ import annotations

import pytest
from helpers import findings, migrate, run_only

HEAD = (
    "import copy\nimport torch\nfrom torch.utils.tensorboard import SummaryWriter\n"
    "net = torch.nn.Conv1d(2, 2, 1).cuda()\nx = torch.ones(1, 2)\ny = x.cuda()\nwriter = SummaryWriter()\n"
)


@pytest.mark.parametrize(
    "line",
    [
        "torch.jit.trace(copy.deepcopy(net).cpu(), x)",
        "writer.add_graph(copy.deepcopy(net).cpu(), x)",
        "book.add_graph(net, y)",
        "torch.jit.script(net)",
        "torch.jit.trace(f, given)",
    ],
)
def test_what_is_not_traced_on_the_device_is_no_matter(line: str) -> None:
    assert findings(f"{HEAD}{line}\n", "tracing") == []


def test_a_model_without_convolutions_may_be_traced() -> None:
    code = HEAD.replace("Conv1d(2, 2, 1)", "Linear(2, 2)") + "torch.jit.trace(net, y)\n"
    assert findings(code, "tracing") == []


def test_models_of_torchvision_have_convolutions() -> None:
    head = HEAD.replace("torch.nn.Conv1d(2, 2, 1)", "torchvision.models.resnet18()")
    code = f"import torchvision\n{head}torch.jit.trace(net, y)\n"
    assert findings(code, "tracing") == [("XLA268", 9)]


@pytest.mark.parametrize(
    "line",
    [
        "torch.jit.trace(net, y)",
        "traced = torch.jit.trace(net, (y, x))",
        "torch.jit.trace(net, example_inputs=torch.ones(1, 2).cuda(), check_trace=False)",
        "writer.add_graph(net, y + 1)",
        "writer.add_graph(net, (y, given))",
        "torch.nn.utils.weight_norm(net); writer.add_graph(net, y)",
    ],
)
def test_a_trace_on_the_device_is_an_error(line: str) -> None:
    (found,) = migrate(f"{HEAD}{line}\n", "tracing").findings
    assert (found.code, found.span.line, found.severity.label) == ("XLA268", 8, "error")
    assert "copy.deepcopy(net).cpu()" in found.advice


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("writer.add_graph(net, y)", "writer.add_graph(copy.deepcopy(net).cpu(), y.cpu())"),
        ("writer.add_graph(net, (y, x))", "writer.add_graph(copy.deepcopy(net).cpu(), (y.cpu(), x))"),
        (
            "writer.add_graph(net, input_to_model=y, verbose=True)",
            "writer.add_graph(copy.deepcopy(net).cpu(), input_to_model=y.cpu(), verbose=True)",
        ),
    ],
)
def test_a_graph_is_drawn_from_a_copy_on_the_cpu(line: str, wanted: str) -> None:
    assert run_only(f"{HEAD}{line}\n", "tracing") == f"{HEAD}{wanted}\n"


def test_a_graph_drawn_without_the_module_imports_it() -> None:
    head = HEAD.replace("import copy\n", "")
    assert "import copy\n" in run_only(f"{head}writer.add_graph(net, y)\n", "tracing")
