"""Tensors of the CPU that wrapped models are given."""

from __future__ import annotations

import pytest
from helpers import check_noop, migrate, run_only
from replicated import launched

HEAD = "import torch\nfrom torch import nn\nnet = nn.Linear(2, 2).cuda()\n"
PARALLEL = HEAD + "net = nn.DataParallel(net)\n"


@pytest.mark.parametrize(
    "code",
    [
        HEAD + "y = net(torch.ones(2, 2))\n",
        PARALLEL + "y = net(x)\n",
        PARALLEL + "y = net(torch.ones(2, 2).cuda())\n",
        PARALLEL + "y = net(torch.ones(2, 2, device='cuda'))\n",
        PARALLEL + "net.train(True)\n",
        PARALLEL + "y = net(2, *rest)\n",
    ],
)
def test_what_is_no_tensor_of_the_cpu_given_to_a_wrapped_model_stays(code: str) -> None:
    check_noop(code, "wrapped_inputs")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("net(torch.ones(2, 2))", "net(torch.ones(2, 2).to(torch_xla.device()))"),
        ("net(batch, mask=torch.ones(2))", "net(batch, mask=torch.ones(2).to(torch_xla.device()))"),
    ],
)
def test_what_the_wrapper_moved_is_moved(call: str, expected: str) -> None:
    assert run_only(f"{PARALLEL}y = {call}\n", "wrapped_inputs").endswith(f"y = {expected}\n")


def test_a_distributed_wrapper_moved_its_inputs_as_well() -> None:
    lines = ("net = make().to(rank)", "model = DDP(net, device_ids=[rank])", "y = model(torch.randn(2, 2))")
    code = launched("rank = dist.get_rank()", *lines)
    assert "    y = model(torch.randn(2, 2).to(torch_xla.device()))\n" in run_only(code, "wrapped_inputs")


def test_batches_that_the_wrapper_moves_may_come_on_the_device() -> None:
    code = (
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
        "net = nn.DataParallel(nn.Linear(4, 2)).cuda()\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "loader = DataLoader(data, batch_size=8, drop_last=True)\nfor x, y in loader:\n"
        "    y = y.cuda(non_blocking=True)\n    opt.zero_grad()\n"
        "    loss = nn.functional.cross_entropy(net(x), y)\n    loss.backward()\n    opt.step()\n"
    )
    text = migrate(code).code
    assert "loader = pl.MpDeviceLoader(loader, device)\nfor x, y in loader:\n    opt.zero_grad()\n" in text
    assert "cross_entropy(net(x), y)" in text


def test_batches_that_stay_on_the_cpu_are_moved_for_the_model() -> None:
    code = (
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
        "net = nn.DataParallel(nn.Linear(4, 2)).cuda()\nloader = DataLoader(data, batch_size=8)\n"
        "for x, y in loader:\n    print(x.numpy())\n    out = net(x)\n"
    )
    assert "    out = net(x.to(torch_xla.device()))\n" in migrate(code).code


LISTS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.DataParallel(nn.Linear(4, 2)).cuda()
for crops in DataLoader(data, batch_size=8):
    print({})
    out = net(crops)
"""


@pytest.mark.parametrize("shown", ["len(crops)", "crops[0].size(0)", "crops"])
def test_what_may_be_a_list_is_moved_with_all_that_it_holds(shown: str) -> None:
    code = run_only(LISTS.format(shown), "wrapped_inputs")
    assert "    out = net(xm.send_cpu_data_to_device([crops], torch_xla.device())[0])\n" in code


@pytest.mark.parametrize("shown", ["crops.size(0)", "crops.shape", "crops.mean()"])
def test_what_is_used_as_a_tensor_is_moved_as_one(shown: str) -> None:
    assert "    out = net(crops.to(torch_xla.device()))\n" in run_only(LISTS.format(shown), "wrapped_inputs")
