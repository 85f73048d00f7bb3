"""Collators of the program's own that pad to the longest member of a batch."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings

HEAD = "import functools\nimport numpy as np\nimport torch\nfrom torch.utils.data import DataLoader\n"
CUDA = "model = torch.nn.Embedding(9, 4).cuda()\n"
ACCELERATE = "from accelerate import Accelerator\naccelerator = Accelerator()\n"
FUNCTION = "def collate(rows):\n    width = {}\n    return torch.stack([fill(row, width) for row in rows])\n"
LOADER = "loader = DataLoader(texts, batch_size=8, collate_fn={})\n"
LONGEST = "max(len(row) for row in rows)"


def code(width: str = LONGEST, collate: str = "collate", framework: str = CUDA) -> str:
    return HEAD + framework + FUNCTION.format(width) + LOADER.format(collate)


@pytest.mark.parametrize("width", ["128", "max(1, scale)", "max(row.score for row in rows)", "len(rows)"])
def test_a_collator_that_pads_to_no_length_of_its_members_is_no_finding(width: str) -> None:
    check_noop(code(width), "collators")
    assert findings(code(width), "collators") == []


def test_a_function_that_makes_no_batches_is_no_finding() -> None:
    assert findings(code(collate="other"), "collators") == []


def test_a_program_without_gpus_is_no_finding() -> None:
    assert findings(code(framework=""), "collators") == []


@pytest.mark.parametrize(
    "width",
    [
        LONGEST,
        "max([len(row) for row in rows])",
        "max(map(len, rows))",
        "np.max([row.shape[0] for row in rows])",
        "torch.tensor([len(row) for row in rows]).max()",
        "max(row.size(0) for row in rows)",
    ],
)
@pytest.mark.parametrize("framework", [CUDA, ACCELERATE])
def test_a_collator_pads_to_the_longest_of_its_members(width: str, framework: str) -> None:
    text = code(width, framework=framework)
    line = text[: text.index("width =")].count("\n") + 1
    check_noop(text, "collators")
    assert findings(text, "collators") == [("XLA908", line)]


@pytest.mark.parametrize(
    "named", ["functools.partial(collate, pad=0)", "lambda rows: collate(rows)", "Collator()", "Data.collate"]
)
def test_a_collator_by_another_name(named: str) -> None:
    classes = "class Collator:\n    def __call__(self, rows):\n        return collate(rows)\n"
    classes += "class Data:\n    @staticmethod\n    def collate(rows):\n        return collate(rows)\n"
    text = code(collate=named).replace("loader =", f"{classes}loader =")
    assert findings(text, "collators") == [("XLA908", 7)]


def test_lengths_that_have_a_name() -> None:
    text = code("max(lengths)").replace("    width", "    lengths = [len(row) for row in rows]\n    width")
    assert findings(text, "collators") == [("XLA908", 8)]


def test_the_collator_of_a_trainer_and_of_lightning() -> None:
    trainer = "from transformers import Trainer, TrainingArguments\n"
    text = code(framework=trainer) + "Trainer(model, TrainingArguments('out'), data_collator=collate)\n"
    assert findings(text, "collators") == [("XLA908", 7)]
    lightning = "import lightning as L\ntrainer = L.Trainer()\n"
    assert findings(code(framework=lightning), "collators") == [("XLA908", 8)]
