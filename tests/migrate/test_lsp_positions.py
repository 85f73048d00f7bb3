"""Offsets as positions of the Language Server Protocol."""

from __future__ import annotations

import pytest

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
