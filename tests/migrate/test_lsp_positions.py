"""Offsets as positions of the Language Server Protocol."""

from __future__ import annotations

import json

import pytest
from lsprotocol import types

from xla_migrate.lsp.cells import OpenNotebook
from xla_migrate.lsp.positions import Positions

TEXT = "a\u00fc\U0001f680b\r\n\tx\ry\u2028\x0cz\n"


def places(encoding: str, text: str = TEXT) -> list[tuple[int, int]]:
    positions = Positions(text, encoding)
    found = [positions.position(offset) for offset in range(len(text) + 1)]
    return [(one.line, one.character) for one in found]


@pytest.mark.parametrize(
    ("encoding", "first", "third"),
    [
        ("utf-16", [0, 1, 2, 4, 5, 5], [0, 1, 2, 3, 4]),
        ("utf-8", [0, 1, 3, 7, 8, 8], [0, 1, 4, 5, 6]),
        ("utf-32", [0, 1, 2, 3, 4, 4], [0, 1, 2, 3, 4]),
    ],
)
def test_columns_count_units_and_lines_end_as_in_the_protocol(
    encoding: str, first: list[int], third: list[int]
) -> None:
    expected = [(0, column) for column in first] + [(1, 0), (1, 1), (1, 2)]
    assert places(encoding) == [*expected, *((2, column) for column in third), (3, 0)]


def test_an_empty_text_has_one_position() -> None:
    assert places("utf-16", "") == [(0, 0)]


def test_half_a_surrogate_pair_is_a_unit() -> None:
    assert places("utf-16", "\ud800x") == [(0, 0), (0, 1), (0, 2)]
    assert places("utf-8", "\ud800x") == [(0, 0), (0, 3), (0, 4)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_a_position_leads_back_to_its_offset(encoding: str) -> None:
    positions = Positions(TEXT, encoding)
    inside = TEXT.index("\r\n") + 1  # of a line ending, which has no position of its own
    for offset in range(len(TEXT) + 1):
        assert positions.offset(positions.position(offset)) == offset - (offset == inside)


def test_a_position_behind_its_line_or_text_is_the_end() -> None:
    positions = Positions("ab\nc")
    assert [positions.offset(types.Position(*one)) for one in [(0, 9), (1, 9), (9, 0)]] == [2, 4, 3]


# ---- a notebook as the editor shows it


def notebook(*sources: str) -> OpenNotebook:
    items = [types.TextDocumentItem(f"cell:{n}", "python", 1, source) for n, source in enumerate(sources)]
    cells = [types.NotebookCell(types.NotebookCellKind.Code, item.uri) for item in items]
    document = types.NotebookDocument("file:///demo.ipynb", "jupyter-notebook", 1, cells)
    return OpenNotebook.opened(types.DidOpenNotebookDocumentParams(document, items))


def edited(source: str, *changes: types.TextDocumentContentChangeEvent) -> str:
    one = notebook(source)
    name = types.VersionedTextDocumentIdentifier(2, "cell:0")
    content = types.NotebookDocumentCellContentChanges(name, changes)
    one.change(types.NotebookDocumentCellChanges(text_content=[content]), "utf-16")
    return one.texts["cell:0"].text


def typed(first: tuple[int, int], last: tuple[int, int], text: str) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(
        types.Range(types.Position(*first), types.Position(*last)), text
    )


def test_each_change_of_a_cell_speaks_of_what_the_one_before_it_left() -> None:
    assert edited("é🐍x\r\ny", typed((0, 3), (1, 0), "\n\n"), typed((2, 0), (2, 1), "z")) == "é🐍\n\nz"
    whole = types.TextDocumentContentChangeWholeDocument("new")
    assert edited("old", whole, typed((0, 0), (0, 0), "a ")) == "a new"


def test_a_cell_without_a_text_is_empty() -> None:
    one = notebook("x", "y")
    del one.texts["cell:0"]
    assert [cell["source"] for cell in json.loads(one.text)["cells"]] == ["", "y"]
