"""Where things stand in a JSON text, which Python's parser does not tell.

The text is known to be valid JSON: places are found by the parser itself, value by value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

Extent = tuple[int, int]

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\n\r]*")
# One character of a string as it is written; two escapes may stand for one character beyond U+FFFF.
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL
)


def skip_blanks(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    assert found is not None
    return found.end()


def members(text: str, start: int) -> dict[str, Extent]:
    """Where the values of the object at ``start`` stand; of a name that comes twice the last one counts."""
    found: dict[str, Extent] = {}
    place = skip_blanks(text, start + 1)
    while text[place] != "}":
        name, behind = _DECODER.raw_decode(text, place)
        place = skip_blanks(text, skip_blanks(text, behind) + 1)
        end = _DECODER.raw_decode(text, place)[1]
        found[name] = (place, end)
        place = _next(text, end)
    return found


def elements(text: str, start: int) -> Iterator[Extent]:
    """Where the elements of the array at ``start`` stand."""
    place = skip_blanks(text, start + 1)
    while text[place] != "]":
        end = _DECODER.raw_decode(text, place)[1]
        yield place, end
        place = _next(text, end)


def _next(text: str, end: int) -> int:
    place = skip_blanks(text, end)
    return skip_blanks(text, place + 1) if text[place] == "," else place


def characters(text: str, extent: Extent) -> list[int]:
    """Where each character of a string literal starts, and where its last one ends."""
    inner = extent[0] + 1, extent[1] - 1
    return [match.start() for match in _CHARACTER.finditer(text, *inner)] + [inner[1]]
