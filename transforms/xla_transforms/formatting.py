"""Black on what is new: changed lines of a file in black's style, and no other line."""

from __future__ import annotations

import ast
import bisect
import difflib
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from xla_transforms.comments import LITERAL_OR_COMMENT

Range = tuple[int, int]
Hunk = tuple[int, int, int, int]
_SHORT = 200


@dataclass(frozen=True)
class BlackSettings:
    """The part of a user's ``[tool.black]`` that changes how code is laid out.

    ``line_length`` counts characters; ``target_versions`` holds black's own names (``py310``),
    empty for "found out from the source", as in black itself.
    """

    line_length: int = 88
    skip_string_normalization: bool = False
    skip_magic_trailing_comma: bool = False
    preview: bool = False
    target_versions: frozenset[str] = frozenset()


def format_changed(original: str, code: str, black: BlackSettings | None) -> str:
    """``code`` with the lines that differ from ``original`` in black's style.

    Comes back as it is where ``original`` was not in black's style under these settings, where
    ``black`` is ``None``, where black refuses the code, or where it would alter a line that
    ``original`` has too.
    """
    if black is None or code == original:
        return code
    mark, newline = _outer(original), _newline(original)
    if newline is None or _outer(code) != mark or _newline(code) not in (newline, ""):
        return code
    before, after = (_inner(text, mark, newline) for text in (original, code))
    changed = changed_ranges(before, after)
    if not changed or _surely_unclean(before, black):
        return code
    try:
        if _surely_styled(after, changed, black):
            return code
        result = _format(after, changed, black)
    except Exception:  # black's own errors, a grammar it lacks, or no black at all
        return code
    return code if result == after else mark + result.replace("\n", newline or "\n")


def changed_ranges(original: str, code: str) -> list[Range]:
    """Line ranges (from 1, both ends included) of ``code`` that ``original`` does not have."""
    return [(j1 + 1, j2) for _, _, j1, j2 in hunks(_lines(original), _lines(code)) if j1 < j2]


def _surely_styled(code: str, ranges: Sequence[Range], settings: BlackSettings) -> bool:
    """Whether black leaves the changed lines as they are, in a file of any style.

    Asked for a few lines of a file black costs a fraction of what the whole file costs; asked for many
    there is nothing to gain, and ``False`` means "ask black".
    """
    lines = _lines(code)
    changed = {n for first, last in ranges for n in range(first, last + 1)}
    wanted = [_with_neighbours(lines, given) for given in ranges]
    if 2 * len({n for first, last in wanted for n in range(first, last + 1)}) > len(lines):
        return False
    if _DIRECTIVE.search(code):
        return False
    import black

    formatted = black.format_str(code, mode=_mode(settings), lines=wanted)
    return all(_touched(hunk).isdisjoint(changed) for hunk in hunks(lines, _lines(formatted)))


def _with_neighbours(lines: Sequence[str], given: Range) -> Range:
    """A range of lines with the nearest line of code on both sides: blanks between belong to both."""
    first, last = given
    above = (n for n in range(first - 1, 0, -1) if _is_code(lines[n - 1]))
    below = (n for n in range(last + 1, len(lines) + 1) if _is_code(lines[n - 1]))
    return next(above, 1), next(below, len(lines))


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _format(code: str, ranges: Sequence[Range], settings: BlackSettings) -> str:
    """Take from black's version of the whole file what lies inside the changed lines.

    One run tells both things: where black would alter a line far from every change, the original was not
    in its style; where it would alter a change together with a line that no edit touched, both stay.
    """
    import black

    formatted = black.format_str(code, mode=_mode(settings))
    before, after = _lines(code), _lines(formatted)
    changed = {n for first, last in ranges for n in range(first, last + 1)}
    altered = hunks(before, after)
    if any(not _touched(hunk) & changed for hunk in altered):
        return code
    spoiled = {n for hunk in altered if not _inside(hunk, changed) for n in _touched(hunk)}
    for first, last in _simple_statements(code):
        if not spoiled.isdisjoint(range(first, last + 1)):
            spoiled.update(range(first, last + 1))
    pieces, position = [], 0
    for start, end, new_start, new_end in altered:
        keep = not spoiled.isdisjoint(_touched((start, end, 0, 0)))
        pieces += before[position:start] + (before[start:end] if keep else after[new_start:new_end])
        position = end
    result = "\n".join([*pieces, *before[position:]]) + ("\n" if code.endswith("\n") else "")
    return result if _same_program(code, result) else code


def _touched(hunk: Hunk) -> set[int]:
    """The lines (from 1) that a hunk alters, or those on both sides of the gap it fills."""
    return set(range(hunk[0] + 1, hunk[1] + 1)) or {hunk[0], hunk[0] + 1}


def _inside(hunk: Hunk, changed: set[int]) -> bool:
    return hunk[0] == hunk[1] or _touched(hunk) <= changed


def _simple_statements(code: str) -> list[Range]:
    """The first and last line of each statement that is not a block, where it has several lines."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = ast.walk(ast.parse(code))
    return [
        (node.lineno, node.end_lineno or node.lineno)
        for node in nodes
        if isinstance(node, ast.stmt) and not hasattr(node, "body") and node.end_lineno != node.lineno
    ]


def hunks(before: Sequence[str], after: Sequence[str]) -> list[Hunk]:
    """What differs between two lists of lines: ``before[a:b]`` became ``after[c:d]``.

    Long lists are cut at lines that both hold once, since difflib's time grows with their square.
    """
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    cuts = _common_once(old, new) if len(old) + len(new) > _SHORT else []
    if not cuts:
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        codes = (code[1:] for code in matcher.get_opcodes() if code[0] != "equal")
        return [(i1 + head, i2 + head, j1 + head, j2 + head) for i1, i2, j1, j2 in codes]
    found: list[Hunk] = []
    for (i, j), (k, m) in zip([(-1, -1), *cuts], [*cuts, (len(old), len(new))], strict=True):
        x, y = i + 1 + head, j + 1 + head
        inner = hunks(old[i + 1 : k], new[j + 1 : m])
        found += [(a + x, b + x, c + y, d + y) for a, b, c, d in inner]
    return found


def _common_once(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Places of lines that both lists hold exactly once, as many as come in the same order."""
    once = [{line for line, n in Counter(lines).items() if n == 1} for lines in (old, new)]
    places = {line: i for i, line in enumerate(new)}
    pairs = [(i, places[line]) for i, line in enumerate(old) if line in once[0] and line in once[1]]
    ends: list[int] = []  # the smallest end of a rising run of each length, and its way back
    last: list[int] = []
    back: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect.bisect_left(ends, j)
        ends[length : length + 1] = [j]
        last[length : length + 1] = [number]
        back.append(last[length - 1] if length else -1)
    found: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        found.append(pairs[number])
        number = back[number]
    return found[::-1]


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _same_program(code: str, result: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.dump(ast.parse(code)) == ast.dump(ast.parse(result))


@lru_cache(maxsize=16)
def _mode(settings: BlackSettings) -> Any:
    import black
    from black.mode import TargetVersion

    names = settings.target_versions
    return black.Mode(
        target_versions={v for v in TargetVersion if v.name.lower() in names},
        line_length=settings.line_length,
        string_normalization=not settings.skip_string_normalization,
        magic_trailing_comma=not settings.skip_magic_trailing_comma,
        preview=settings.preview,
    )


def _outer(text: str) -> str:
    return "\ufeff" if text.startswith("\ufeff") else ""


def _newline(text: str) -> str | None:
    """The line ending of a text, empty for a text of one line, ``None`` where they are mixed."""
    returns, feeds, pairs = text.count("\r"), text.count("\n"), text.count("\r\n")
    if returns == 0:
        return "\n" if feeds else ""
    return "\r\n" if returns == feeds == pairs else None


def _inner(text: str, mark: str, newline: str) -> str:
    text = text.removeprefix(mark)
    return text.replace("\r\n", "\n") if newline == "\r\n" else text


# What black never leaves in code, once literals and comments are blanked out.
_UNCLEAN_CODE = re.compile(
    r"[ \t]+$|\t|[^\s\\]  +[^\s#\\]|,[^\s)\]}]|[(\[{] +[^\s#\\]"
    r"|^(?![@#\s)\]}])[^\n]*(?<!\.\.\.)\n\n?(?:async def|def|class) ",
    re.MULTILINE,
)
_IMPORT_AND_TWO = "import a\n\n\nb = 1\n"
_TWO_BLANKS = re.compile(
    r"^(?:import|from) [^\n()\\]*(?:\([^()]*\)[ #]*)?\n\n\n"
    r"(?!(?:import|from|def|class|async)\b)[A-Za-z_]",
    re.MULTILINE,
)
_UNCLEAN_COMMENT = re.compile(r"#[^ !:#'\n]|[^\n]*[ \t]$")
_DIRECTIVE = re.compile(r"#[^\n]*(?:fmt|yapf): ?(?:off|skip|disable)")


def _would_be_requoted(token: str) -> bool:
    return token[0] == "'" and '"' not in token and "\\" not in token


def _surely_unclean(text: str, settings: BlackSettings) -> bool:
    """Whether black would alter ``text``, by signs that a scan finds; ``False`` means "ask black".

    Black over a whole file costs several times what its migration does, and most files are not in
    its style.
    """
    if _DIRECTIVE.search(text):
        return False
    skeleton: list[str] = []
    position = 0
    for match in LITERAL_OR_COMMENT.finditer(text):
        token = match.group()
        if token[0] == "#":
            if _UNCLEAN_COMMENT.match(token):
                return True
        elif _would_be_requoted(token) and not settings.skip_string_normalization:
            return True
        skeleton += (text[position : match.start()], "#" if token[0] == "#" else '""')
        position = match.end()
    skeleton.append(text[position:])
    code = "".join(skeleton)
    if _UNCLEAN_CODE.search(code):
        return True
    return _TWO_BLANKS.search(code) is not None and _wants_one_blank(settings)


@lru_cache(maxsize=16)
def _wants_one_blank(settings: BlackSettings) -> bool:
    """Whether this release of black takes one of two blank lines below imports away."""
    try:
        import black

        return bool(black.format_str(_IMPORT_AND_TWO, mode=_mode(settings)) != _IMPORT_AND_TWO)
    except Exception:
        return False
