"""What must hold for every notebook, tried on notebooks made at random."""

from __future__ import annotations

import io
import json
from typing import Any

import nbformat
from hypothesis import given, settings
from hypothesis import strategies as st
from notebook_files import cell, sources
from scripts_to_migrate import Script, scripts
from test_properties import patched

from xla_migrate import migrate_source
from xla_migrate.notebooks import NotebookOutcome
from xla_migrate.notebooks.magics import mask

MAGICS = (
    "%matplotlib inline",
    "!pip install 'torch'",
    "model?",
    "x = !ls 'a",
    "%time y = x.cuda()",
    "!a \\\n b",
)
OTHERS = (
    "%%bash\necho cuda (",
    "%%writefile a.py\nx.cuda()",
    "print 'cuda'",
    "x = (",
    "",
    "\n",
    "# é\u2028😀",
    "x;",
)


def cut(text: str, places: list[int]) -> list[str]:
    """A script in pieces, each of which is Python by itself: cut above lines that are not indented."""
    lines = io.StringIO(text, newline="").readlines()
    starts = [
        n
        for n, line in enumerate(lines)
        if line[:1].isalpha() and line[:4] not in ("else", "elif", "exce", "fina")
    ]
    chosen = sorted({starts[place % len(starts)] for place in places} - {0}) if starts else []
    return ["".join(lines[a:b]) for a, b in zip([0, *chosen], [*chosen, len(lines)], strict=True)]


@st.composite
def notebooks(draw: st.DrawFn) -> str:
    script: Script = draw(scripts())
    parts = cut(script.text.removeprefix("\ufeff"), draw(st.lists(st.integers(0, 99), max_size=6)))
    cells: list[dict[str, Any]] = []
    for part in parts:
        if draw(st.booleans()):
            part = draw(st.sampled_from(MAGICS)) + "\n" + part
        if draw(st.booleans()):
            part = part.rstrip("\r\n")
        cells.append(cell(part, listed=draw(st.booleans())))
        for other in draw(st.lists(st.sampled_from(OTHERS), max_size=2)):
            cells.append(
                cell(
                    other,
                    kind=draw(st.sampled_from(["code", "code", "markdown"])),
                    listed=draw(st.booleans()),
                )
            )
    content = {"cells": cells, "metadata": {"a": ["cuda"]}, "nbformat": 4, "nbformat_minor": 4}
    indent = draw(st.sampled_from([None, 1, 4, "\t"]))
    return json.dumps(content, indent=indent, ensure_ascii=draw(st.booleans())) + draw(
        st.sampled_from(["", "\n"])
    )


def values(text: str) -> tuple[list[str], list[str]]:
    """The JSON texts of a notebook's cells, and what stands between them."""
    place = text.index("[")
    pieces, between, last = [], [], 0
    decoder = json.JSONDecoder()
    while (start := text.find("{", place)) >= 0 and "]" not in text[place + 1 : start]:
        end = decoder.raw_decode(text, start)[1]
        pieces.append(text[start:end])
        between.append(text[last:start])
        place = last = end
    return pieces, [*between, text[last:]]


@given(notebooks())
@settings(max_examples=60)
def test_notebooks(text: str) -> None:
    result = migrate_source(text, path="demo.ipynb")
    assert not result.failed, result.findings
    assert not [f for f in result.findings if f.code in ("XLA004", "XLA006")], result.findings
    nbformat.validate(nbformat.reads(result.code, as_version=4))
    assert migrate_source(result.code, path="demo.ipynb").code == result.code
    before, after = values(text), values(result.code)
    assert before[1] == after[1]
    outcome = result.patch.outcome
    assert isinstance(outcome, NotebookOutcome)
    touched = {change.number for change in outcome.changed_cells}
    for number, (old, new) in enumerate(zip(before[0], after[0], strict=True), 1):
        assert (old != new) == (number in touched)
        assert {**json.loads(old), "source": 0} == {**json.loads(new), "source": 0}
    for number, source in enumerate(sources(result.code), 1):
        if number in touched:
            assert source == next(c.after for c in outcome.changed_cells if c.number == number)
    assert patched(text, result.patch.unified_diff()) == result.code
    for finding in result.findings:
        assert 0 <= finding.span.start <= finding.span.end <= len(text)


PIECES = st.sampled_from(
    [
        "%time ",
        "%",
        "!",
        "?",
        "x",
        " = ",
        "(",
        ")",
        "'",
        '"""',
        "#",
        "\\",
        "\n",
        "\n\n",
        "  ",
        "%%time\n",
        "if x:",
        ";",
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join))
@settings(max_examples=400)
def test_masking_loses_nothing(source: str) -> None:
    masked = mask(source, "_magic_")
    assert masked.unmasked(masked.text) == source
    assert masked.lost(masked.text) <= set(masked.magics)
    places = [masked.place(offset) for offset in range(len(masked.text))]
    assert all(0 <= place <= len(source) for place in places)
    assert places == sorted(places)
