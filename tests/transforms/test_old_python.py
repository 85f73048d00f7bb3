"""Scripts of Python 2 and of Python 3 before 3.7: what can be read is migrated, the rest is told."""

from __future__ import annotations

import pytest

from xla_transforms.engine import migrate_bytes, migrate_program
from xla_transforms.old_python import renamed
from xla_transforms.outcome import Outcome

HEAD = "import torch\nnet = net.cuda()\n"


def migrated(text: str) -> Outcome:
    return migrate_bytes(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "y = x.cuda(non_blocking=True)\n",
        "async def f():\n    pass\n",
        "y = 'x.cuda(async=True)'  # (async=True)\n",
        "f(async=True)\n",
        "y = x.cuda(async=True)\nf(a, async=True)\n",
        "y = x.cuda(async=True)\nprint y\n",
        "y = x.cuda(async==True)\n",
    ],
)
def test_texts_in_which_nothing_is_renamed(text: str) -> None:
    assert renamed(HEAD + text) is None


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        ("y.cuda(async=True)", "y.to(device, non_blocking=True)"),
        ("y.cuda(0, async = a)", "y.to(device, non_blocking=a)"),
    ],
)
def test_transfers_say_non_blocking(call: str, instead: str) -> None:
    text = f"{HEAD}e = 'é'; z = {call}  # async\nw = y.cuda(async=True)\n"
    outcome = migrated(text)
    lines = outcome.code.split("\n")
    assert outcome.source == text
    assert lines[-3].replace(" = a", "=a") == f"e = 'é'; z = {instead}  # async"
    assert lines[-2] == "w = y.to(device, non_blocking=True)"
    fixed = [f for f in outcome.findings if f.code == "XLA014"]
    assert [text[f.span.start : f.span.end] for f in fixed] == ["async", "async"]
    assert [(f.span.line, f.fixed) for f in fixed] == [(3, True), (4, True)]
    assert migrate_bytes(outcome.data).edits == ()


def test_places_are_those_of_the_file() -> None:
    text = f"{HEAD}y, z = x.cuda(async=True), type(x) == torch.cuda.FloatTensor\n"
    outcome = migrated(text)
    (left,) = [f for f in outcome.findings if f.code == "XLA194"]
    assert text[left.span.start : left.span.end] == "torch.cuda.FloatTensor"
    assert text.split("\n")[2][left.span.column - 1 :] == "torch.cuda.FloatTensor"
    spans = {text[span.start : span.end] for change in outcome.changes for span in change.spans}
    assert "x.cuda(async=True)" in spans


def test_some_of_the_changes() -> None:
    text = f"{HEAD}y = x.cuda(async=True)\n"
    outcome = migrated(text)
    assert outcome.narrow([]).code == text
    assert outcome.narrow([change.id for change in outcome.changes]).edits == outcome.edits


def test_nothing_else_to_change() -> None:
    text = "import torch\nfrom accelerate import Accelerator\ny = x.to(accelerator.device, async=True)\n"
    outcome = migrated(text)
    assert outcome.data == text.encode()
    assert [(f.code, f.fixed) for f in outcome.findings if f.code == "XLA015"] == [("XLA015", False)]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("print 'loss', loss", "Python 2"),
        ("print 'a' % b, c", "Python 2"),
        ("exec 'x = 1'", "Python 2"),
        ("raise ValueError, 'x'", "Python 2"),
        ("x = 0777", "Python 2"),
        ("x = ur'a'", "Python 2"),
        ("x = `y`", "Python 2"),
        ("if a <> b: pass", "Python 2"),
        ("try: pass\nexcept ValueError, e: pass", "Python 2"),
        ("f(async=True)", "non_blocking"),
        ("async = True", "non_blocking"),
        ("if x:\n\ty = 1\n        z = 2", "expand"),
        ("x = = 2", ""),
        ("print(x", ""),
    ],
)
def test_what_to_do_about_a_file_that_python_refuses(line: str, word: str) -> None:
    outcome = migrated(f"{HEAD}{line}\n")
    (finding,) = outcome.findings
    assert outcome.failed
    assert (finding.code, finding.span.line > 2) == ("XLA001", True)
    assert word in finding.advice
    assert bool(word) == bool(finding.advice)


def test_one_old_file_does_not_cost_the_others() -> None:
    new, old = b"import torch\nx = y.cuda()\n", b"import torch\nx = y.cuda()\nprint x\n"
    outcomes = migrate_program({"a.py": new, "b.py": old})
    assert (outcomes["a.py"].failed, outcomes["b.py"].failed) == (False, True)
    assert outcomes["a.py"].edits


def test_tabs_stay_where_they_are_used_alike() -> None:
    outcome = migrated(f"{HEAD}if x:\n\ty = x.cuda()\n\tz = 2\n")
    assert "\ty = x.to(device)\n\tz = 2\n" in outcome.code


def test_types_of_old_scripts() -> None:
    text = (
        f"{HEAD}Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor\ny = Tensor(2, 3).fill_(1)\n"
    )
    outcome = migrated(text.replace("if cuda", "if torch.cuda.is_available()"))
    assert "torch.cuda" not in outcome.code
