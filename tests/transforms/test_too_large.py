"""What becomes of a program that is too large to be analysed."""

from __future__ import annotations

import pytest

from xla_transforms.engine import map_program, migrate_program
from xla_transforms.roles import questions

SMALL = b"import torch\nx = torch.ones(1).cuda()\n"
STEP = "    model(x.cuda() if flag else y.to('cuda')).backward()\n"
LARGE = {
    "large/train.py": f"import torch, helper\nfor x, y in helper.data:\n{STEP * 40}".encode(),
    "large/helper.py": b"import torch\ndata = torch.ones(9, 2).cuda()\n",
    "large/words.py": b"import helper\nwords = 'a b c'\n",
}


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "LIMIT", 100)


def test_below_the_bound_nothing_is_said_of_it() -> None:
    outcomes = migrate_program(LARGE)
    assert not any(f.code == "XLA016" for outcome in outcomes.values() for f in outcome.findings)
    assert outcomes["large/helper.py"].edits


@pytest.mark.usefixtures("bound")
def test_a_program_beyond_it_is_left_whole_with_the_reason_where_gpus_are_named() -> None:
    outcomes = migrate_program({**LARGE, "small.py": SMALL})
    assert all(outcomes[path].data == data for path, data in LARGE.items())
    found = {path: [f.code for f in outcome.findings] for path, outcome in outcomes.items()}
    assert found["large/train.py"] == found["large/helper.py"] == ["XLA016"]
    assert "one by one" in outcomes["large/train.py"].findings[0].advice


@pytest.mark.usefixtures("bound")
def test_the_other_programs_of_the_run_are_migrated() -> None:
    assert migrate_program({**LARGE, "small.py": SMALL})["small.py"].edits


@pytest.mark.usefixtures("bound")
def test_a_map_says_so_too() -> None:
    failed = map_program(LARGE).failed
    assert failed.keys() == {"large/train.py", "large/helper.py"}
    assert "too large" in failed["large/train.py"]
