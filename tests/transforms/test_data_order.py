"""Splitting and shuffling the data of a script that is to train in replicas."""

from __future__ import annotations

import pytest
from transforms.helpers import findings

from xla_transforms.settings import Settings

REPLICAS = Settings(distributed=True)
HEAD = "import random\nimport numpy as np\nimport torch\n"
TRAIN = "net = torch.nn.Linear(4, 1).cuda()\nfor x in stream:\n    net(x).sum().backward()\n"


def told(*lines: str, settings: Settings = REPLICAS) -> list[tuple[str, int]]:
    return findings(HEAD + "".join(f"{line}\n" for line in lines) + TRAIN, "data_order", settings=settings)


@pytest.mark.parametrize(
    "lines",
    [
        ("random.seed(3)", "random.shuffle(files)"),
        ("np.random.seed(3)", "order = np.random.permutation(9)"),
        ("order = torch.randperm(9)",), ("random.Random(3).shuffle(files)",),
        ("class Data:", "    def __getitem__(self, i):", "        return random.choice(self.files)"),
        ("for _ in range(9):", "    random.shuffle(files)"),
    ],
)  # fmt: skip
def test_what_is_alike_everywhere_or_no_order_of_the_data(lines: tuple[str, ...]) -> None:
    assert told(*lines) == []


@pytest.mark.parametrize("line", ["random.shuffle(files)", "order = np.random.permutation(9)"])
def test_an_order_without_a_seed_is_reported(line: str) -> None:
    assert told(line) == [("XLA519", 4)]


def test_one_process_orders_as_it_likes() -> None:
    assert told("random.shuffle(files)", settings=Settings()) == []
