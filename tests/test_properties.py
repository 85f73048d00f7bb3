"""What must hold for every file, tried on scripts and bytes made at random."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from scripts_to_migrate import Script, scripts
from soundness import lost_comments

from xla_migrate import migrate_source
from xla_migrate.api import Result
from xla_transforms.check import names
from xla_transforms.engine import migrate_bytes

GOLDEN = Path(__file__).parent.parent / "golden"

# "fixed" tries the same examples each time; HYPOTHESIS_PROFILE=search looks for new ones and shrinks them.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, max_examples=30, database=None,
    suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate),
)  # fmt: skip
settings.register_profile(
    "search", settings.get_profile("fixed"), derandomize=False, max_examples=500, phases=tuple(Phase)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def comments(code: str) -> Counter[str]:
    lines = io.StringIO(code.removeprefix("\ufeff").replace("\f", ""), newline="")
    tokens = tokenize.generate_tokens(lines.readline)
    return Counter(token.string.rstrip() for token in tokens if token.type == tokenize.COMMENT)


def patched(source: str, diff: str, *, reverse: bool = False) -> str:
    """A small ``patch``: the text that a unified diff makes of a text."""
    old, new = ("+", "-") if reverse else ("-", "+")
    lines = io.StringIO(source, newline="\n").readlines()
    entries = re.split("(?m)^(?=[-+ @\\\\])", diff)
    found: list[str] = []
    position = 0
    for number, entry in enumerate(entries):
        last = number + 1 < len(entries) and entries[number + 1].startswith("\\")
        text = entry[1:-1] if last else entry[1:]
        if entry.startswith(("---", "+++", "\\")) or not entry:
            continue
        if entry.startswith("@@"):
            numbers = re.findall(r"[-+](\d+)(?:,(\d+))?", entry)
            start, size = numbers[1 if reverse else 0]
            first = int(start) - (size != "0")
            found += lines[position:first]
            position = first
        elif entry[0] == new:
            found.append(text)
        else:
            assert lines[position] == text
            position += 1
            found += [text] if entry[0] != old else []
    return "".join([*found, *lines[position:]])


def check(text: str) -> Result:
    """All that holds for any text that is Python."""
    result = migrate_source(text)
    assert not result.failed, result.findings
    assert not [f for f in result.findings if f.code == "XLA004"], result.findings
    compile(result.code.removeprefix("\ufeff"), "migrated", "exec")
    again = migrate_source(result.code)
    assert again.code == result.code
    assert result.patch.apply(text) == result.code
    assert result.patch.reverse(result.code) == text
    diff = result.patch.unified_diff()
    assert patched(text, diff) == result.code
    assert patched(result.code, diff, reverse=True) == text
    return result


@given(scripts())
def test_scripts(script: Script) -> None:
    ast.parse(script.text.removeprefix("\ufeff"))
    result = check(script.text)
    assert result.changed
    assert lost_comments(script.text, result.code) == []
    kept = [line.strip("\r\n\t ") for line in io.StringIO(result.code, newline="\n")]
    assert [line for line in kept if line.startswith("marker_")] == [m.strip() for m in script.markers]
    assert result.code.startswith("\ufeff") is script.text.startswith("\ufeff")
    if "\r\n" in script.text:
        assert not re.search("(?<!\r)\n", result.code)
    else:
        assert "\r" not in result.code


@given(scripts(), st.data())
@settings(max_examples=15)
def test_some_of_the_changes(script: Script, data: st.DataObject) -> None:
    result = migrate_source(script.text)
    ids = sorted(change.id for change in result.changes)
    chosen = data.draw(st.lists(st.sampled_from(ids), unique=True))
    patch = result.patch.narrow(chosen)
    code = patch.apply(script.text)
    ast.parse(code.removeprefix("\ufeff"))
    brought = {change.id for change in patch.changes}
    assert set(chosen) <= brought <= set(ids)
    assert patch.narrow(brought).apply(script.text) == code
    assert bool(chosen) or code == script.text


@cache
def golden(name: str) -> tuple[str, Result]:
    text = (GOLDEN / name / "native.py").read_bytes().decode("utf-8-sig")
    return text, migrate_source(text)


def check_some(name: str, chosen: set[int]) -> None:
    """What some changes of a golden case give: a program that binds what it uses, with all that they need."""
    text, whole = golden(name)
    patch = whole.patch.narrow(chosen)
    brought = {change.id: change.code for change in patch.changes}
    assert chosen <= brought.keys()
    code = patch.apply(text)
    tree, old = ast.parse(code), ast.parse(text)
    assert names(tree).unbound <= names(old).unbound
    assert "XLA502" not in brought.values() or "XLA501" in brought.values()
    assert "MpDeviceLoader" in code or not {"XLA502", "XLA504"} & set(brought.values())


@given(st.sampled_from(sorted(p.parent.name for p in GOLDEN.glob("*/native.py"))), st.data())
@settings(max_examples=40)
def test_some_of_the_changes_of_a_golden_case(name: str, data: st.DataObject) -> None:
    ids = sorted(change.id for change in golden(name)[1].changes)
    chosen = data.draw(st.sets(st.sampled_from(ids))) if ids else set()
    check_some(name, chosen)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.parent.name for p in GOLDEN.glob("*/native.py")))
def test_every_change_alone_and_all_but_one(name: str) -> None:
    ids = {change.id for change in golden(name)[1].changes}
    for change in ids:
        check_some(name, {change})
        check_some(name, ids - {change})


@given(scripts(), st.data())
@settings(max_examples=25)
def test_broken_scripts(script: Script, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(script.text)))
    end = data.draw(st.integers(start, min(len(script.text), start + 40)))
    text = script.text[:start] + script.text[end:]
    result = migrate_source(text)
    assert result.code == text or result.changed
    if result.failed:
        assert result.findings
        assert result.code == text


HEADS = (b"", b"# coding: utf-16\n", b"# coding: latin-1\n", b"\xef\xbb\xbf")


@given(st.binary(max_size=80), st.sampled_from(HEADS))
@example(b"\xff\xfe", b"")
@example(b"\x00", b"")
@example(b"\x0c", b"\xef\xbb\xbf")
@settings(max_examples=150)
def test_bytes(tail: bytes, head: bytes) -> None:
    for data in (head + tail, head + b"import torch\ndevice = torch.device('cuda')\n" + tail):
        outcome = migrate_bytes(data)
        assert not outcome.failed or (outcome.findings and outcome.data == data)
        assert outcome.edits or outcome.data == data


@given(st.text(st.sampled_from("\r\n\f\t \\#'\"()[]{}:;=.,xi0\ufeff\x1a\u00e9"), max_size=30))
@settings(max_examples=150)
def test_odd_text(tail: str) -> None:
    text = "import torch\nx = torch.zeros(1).cuda()\n" + tail
    result = migrate_source(text)
    if not result.failed and not any(f.code == "XLA004" for f in result.findings):
        ast.parse(result.code.removeprefix("\ufeff"))
        assert result.code.endswith(tail[tail.rfind("\n") + 1 :])


@pytest.mark.parametrize("name", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "shift_jis", "utf-16", "utf-7"])
def test_encodings(name: str) -> None:
    text = f"# coding: {name}\nimport torch\nx = torch.zeros(2).cuda()  # kept\n"
    outcome = migrate_bytes(text.encode(name))
    assert outcome.failed or "# kept" in outcome.data.decode(name)
    assert not outcome.failed or outcome.data == text.encode(name)


def test_python_2() -> None:
    text = "import torch\nprint 'cuda'\nraise E, 'x'\n"
    result = migrate_source(text)
    assert result.failed
    assert result.code == text
    assert result.findings[0].span.line == 2


@pytest.mark.parametrize(
    "lines", [1_000, pytest.param(10_000, marks=pytest.mark.slow)]
)
def test_long_files(lines: int) -> None:
    unit = (
        "def f{0}(x):\n    y = x.cuda()  # {0}\n    if y is None:\n"
        "        return torch.zeros({0}).to('cuda')\n    return y\n\n"
    )
    text = "import torch\n\n" + "".join(unit.format(i) for i in range(lines // 6 + 1))
    assert text.count("\n") > lines
    result = migrate_source(text, black=None)
    assert not result.failed
    assert comments(text) == comments(result.code)
    assert ".cuda()" not in result.code
    ast.parse(result.code)


@pytest.mark.parametrize("depth", [20, 90])
def test_deep_nesting(depth: int) -> None:
    blocks = "".join("    " * i + f"if a{i}:\n" for i in range(depth))
    text = f"import torch\n{blocks}{'    ' * depth}x = torch.zeros(1).cuda()\n"
    result = migrate_source(text)
    assert result.failed == (result.code == text)
    brackets = "import torch\nx = " + "(" * depth + "torch.zeros(1).cuda()" + ")" * depth + "\n"
    assert not migrate_source(brackets).failed
