"""Devices that a configuration names, and what else a finding names as deciding."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, findings, migrate, open_findings

HEAD = "import torch, yaml\nfrom torch import nn\ncfg = yaml.safe_load(text)\nnet = nn.Linear(8, 1)\n"
CUDA = "torch.cuda.synchronize()\n"
PASS = "outside_devices"


@pytest.mark.parametrize(
    "code",
    [
        "net.to(net.weight.device)", "net.to(torch.float16)", "net.to(other.device)", "x.to(cfg['device'])",
        "net.to(cfg[0])", "device = torch.device('cuda')\nnet.to(device)",
        "device = cfg['device']\ndevice = 'cuda'\nnet.to(device)",
    ],
)  # fmt: skip
def test_what_is_no_entry_of_a_configuration(code: str) -> None:
    check_noop(HEAD + CUDA + code + "\n", PASS)
    assert findings(HEAD + CUDA + code + "\n", PASS) == []


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("net.to(cfg['device'])", 6), ("device = cfg['device']\nnet.to(device)", 6),
        ("net.to(cfg.get('device'))", 6), ("net.to(torch.device(cfg['device']))", 6),
        ("name = cfg['device']\nnet.to(torch.device(name))", 7), ("net.to(torch.device(cfg.device))", 6),
    ],
)  # fmt: skip
def test_an_entry_of_a_configuration_is_told(code: str, line: int) -> None:
    assert findings(HEAD + CUDA + code + "\n", PASS) == [("XLA192", line)]


LOOP = """
import argparse
import torch
from elsewhere import make
args = argparse.ArgumentParser().parse_args()
net = torch.nn.Linear(8, 1).cuda()
stepped = {made}
for x in batches:
    net(x.cuda()).sum().backward()
    stepped.step()
"""


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("make(args.opt)", "elsewhere.make(), which train.py:7 calls, is not in the project"),
        ("getattr(make, args.opt)()", "getattr(make, args.opt) (train.py:7): args.opt decides"),
    ],
)
def test_a_step_that_is_not_known_names_what_decides(made: str, reason: str) -> None:
    (found,) = open_findings(migrate(LOOP.format(made=made), "steps"))
    assert found.code == "XLA614"
    assert found.message.endswith(f"whether it is an optimizer is not known: {reason}")
