"""LSTM and GRU on the release that computes wrong numbers of them."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings

from xla_transforms.settings import Settings

HEAD = "import torch\nfrom torch import nn\nnet = nn.Linear(2, 2).cuda()\n"
OLD = Settings(target="2.1")


@pytest.mark.parametrize("target", ["2.9", "2.5", "sagemaker"])
def test_other_releases_compute_them_rightly(target: str) -> None:
    settings = Settings(target=target)
    assert findings(HEAD + "rnn = nn.LSTM(2, 3)\n", "recurrent_layers", settings=settings) == []


@pytest.mark.parametrize("line", ["rnn = nn.RNN(2, 3)", "a, b = x.chunk(2)", "isinstance(m, nn.LSTM)"])
def test_what_is_right_has_no_finding(line: str) -> None:
    assert findings(f"{HEAD}{line}\n", "recurrent_layers", settings=OLD) == []


def test_on_the_cpu_all_is_right() -> None:
    code = "import torch\nrnn = torch.nn.LSTM(2, 3)\n"
    assert findings(code, "recurrent_layers", settings=OLD) == []


@pytest.mark.parametrize(
    "line",
    [
        "rnn = nn.LSTM(2, 3)",
        "rnn = torch.nn.GRU(2, 3).cuda()",
        "cell = nn.LSTMCell(2, 3)",
        "cell = nn.GRUCell(2, 3)",
        "a, b = torch.unsafe_chunk(net(x), 2)",
        "class Mine(nn.LSTM):\n    pass",
    ],
)
def test_on_2_1_they_are_told(line: str) -> None:
    check_noop(f"{HEAD}{line}\n", "recurrent_layers", settings=OLD)
    assert findings(f"{HEAD}{line}\n", "recurrent_layers", settings=OLD) == [("XLA270", 4)]
