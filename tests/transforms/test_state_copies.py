"""Models that go to the CPU only to be saved."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, check_transformed, findings

IMPORTS = "import torch\n"
XM = "import torch_xla.core.xla_model as xm\n"
HEAD = """
device = torch.device("cuda")
net = torch.nn.Linear(2, 2).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def check(before: str, after: str) -> None:
    check_transformed(IMPORTS + HEAD + before, IMPORTS + XM + HEAD + after, "state_copies", "checkpoints")


@pytest.mark.parametrize(
    "lines",
    [
        "torch.save(net.cpu().state_dict(), 'x')\n",
        "torch.save(net.cpu().state_dict(), 'x')\nnet.to('cpu')\n",
        "torch.save(net.cpu().state_dict(), 'x')\nprint('saved')\nnet.to(device)\n",
        "torch.save(net.cpu().state_dict(), 'x')\nother.to(device)\n",
        "state = net.cpu().state_dict()\nnet.to(device)\n",
    ],
)
def test_what_does_not_come_straight_back(lines: str) -> None:
    check_noop(IMPORTS + HEAD + lines, "state_copies")


def test_the_model_is_saved_where_it_is() -> None:
    check("torch.save(net.cpu().state_dict(), 'x')\nnet.to(device)\n", "xm.save(net.state_dict(), 'x')\n")
    check("torch.save(net.cpu().state_dict(), 'x')\nnet.cuda()\n", "xm.save(net.state_dict(), 'x')\n")


def test_saves_between_two_moves() -> None:
    check(
        "net.eval().cpu()\npath = f'{epoch}.pt'\ntorch.save({'net': net.state_dict()}, path)\n"
        "net.to(device).train()\n",
        "net.eval()\npath = f'{epoch}.pt'\nxm.save({'net': net.state_dict()}, path)\nnet.train()\n",
    )
    before = "net.to('cpu')\ntorch.save(net.state_dict(), 'x')\nnet.cuda()\n"
    check(before, "xm.save(net.state_dict(), 'x')\n")


@pytest.mark.parametrize(
    "lines",
    [
        "net.cpu()\nnet.to(device)\n",  # nothing is saved
        "net.cpu()\ntorch.save(net, 'x')\nnet.to(device)\n",
        "net.cpu()\nnet(x)\ntorch.save(net.state_dict(), 'x')\nnet.to(device)\n",
        "net.cpu()\nstate = net.state_dict()\ntorch.save(state, 'x')\nnet.to(device)\n",
        "net.cpu()\ntorch.save(net.state_dict(), 'x')\n",
        "net.cpu()\ntorch.save(net.state_dict(), 'x')\nother.to(device)\n",
        "def use():\n    net(x)\n\nnet.cpu()\ntorch.save(net.state_dict(), 'x')\nuse()\nnet.to(device)\n",
    ],
)
def test_what_else_is_done_on_the_cpu(lines: str) -> None:
    check_noop(IMPORTS + HEAD + lines, "state_copies")


def test_models_that_are_found_by_name() -> None:
    check(
        "for name in names:\n    part = getattr(self, name)\n"
        "    torch.save(part.module.cpu().state_dict(), name)\n    part.cuda(ids[0])\n",
        "for name in names:\n    part = getattr(self, name)\n    xm.save(part.module.state_dict(), name)\n",
    )


def test_there_is_no_round_trip_left_to_report() -> None:
    code = IMPORTS + HEAD + "torch.save(net.cpu().state_dict(), 'x')\nnet.to(device)\n"
    assert findings(code, "optimizer_order") == [("XLA413", 6)]
    assert findings(code, "state_copies", "optimizer_order") == []
