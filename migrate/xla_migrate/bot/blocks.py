"""A patch as blocks of lines, and which blocks make sense only together."""

from __future__ import annotations

import bisect
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from xla_migrate.patch import Patch
from xla_transforms.findings import Edit, Safety

MOST_CHANGES = 200
"""More changes of one file than these are not taken apart: each is rendered anew for it."""


@dataclass(frozen=True)
class Block:
    """The lines ``start`` to ``end`` of the source (from 1, both included) become ``lines``.

    There is always a line that it stands on: what is only inserted takes its neighbour along.
    """

    start: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """Blocks that only together leave a script that works, with the changes that they make."""

    blocks: tuple[Block, ...]
    changes: tuple[int, ...]


def groups(patch: Patch) -> tuple[Group, ...]:
    """The patch in as many independent parts as it has; each can be taken alone.

    Empty for a text whose lines are not those of git and of a suggestion alike: one with carriage returns or
    form feeds, or without a final newline.
    """
    source, code = patch.outcome.source, patch.outcome.code
    if not (_plain(source) and _plain(code)):
        return ()
    blocks = _blocks(source, patch.edits)
    reached = _reached(patch, blocks)
    return tuple(_group(part, blocks, patch, reached) for part in _components(reached, len(blocks)))


def _plain(text: str) -> bool:
    return text.endswith("\n") and "\r" not in text and len(text.splitlines()) == text.count("\n")


def _group(part: Sequence[int], blocks: list[Block], patch: Patch, reached: dict[int, set[int]]) -> Group:
    ids = sorted(change for change, touched in reached.items() if touched & set(part))
    return Group(tuple(blocks[number] for number in part), tuple(ids))


def _reached(patch: Patch, blocks: list[Block]) -> dict[int, set[int]]:
    """The blocks that each change touches with all that it needs."""
    everything = set(range(len(blocks)))
    if len(patch.changes) > MOST_CHANGES or any(c.safety is not Safety.SAFE for c in patch.changes):
        return {change.id: everything for change in patch.changes}
    found = {}
    for change in patch.changes:
        narrowed = patch.narrow([change])
        found[change.id] = _touched(narrowed, blocks)
    return found


def _touched(patch: Patch, blocks: list[Block]) -> set[int]:
    touched: set[int] = set()
    for own in _blocks(patch.outcome.source, patch.edits):
        near = [n for n, block in enumerate(blocks) if block.start <= own.end and own.start <= block.end]
        touched.update(near or range(len(blocks)))  # not a part of the whole: nothing is independent
    return touched


def _components(reached: dict[int, set[int]], count: int) -> list[list[int]]:
    parts = [{number} for number in range(count)]
    for touched in reached.values():
        joined = [part for part in parts if part & touched]
        parts = [part for part in parts if not part & touched]
        parts.append(set().union(*joined) if joined else set())
    return sorted(sorted(part) for part in parts if part)


def _blocks(source: str, edits: Sequence[Edit]) -> list[Block]:
    """What each edit, which is one of whole lines, does to lines; those that meet at a line are one."""
    lines = io.StringIO(source, newline="\n").readlines()
    starts = [0, *accumulate(map(len, lines))]
    found: list[Block] = []
    for edit in edits:
        first, behind = bisect.bisect_left(starts, edit.start), bisect.bisect_left(starts, edit.end)
        new = edit.text.splitlines(keepends=True) if edit.text else []
        found.append(_standing(first, behind, new, lines))
        if len(found) > 1 and found[-1].start <= found[-2].end:
            found[-2:] = [_joined(*found[-2:])]
    return found


def _standing(first: int, behind: int, new: list[str], lines: list[str]) -> Block:
    if first == behind and first:  # only inserted: behind the line before it
        return _block(first - 1, behind, [lines[first - 1], *new])
    if first == behind:
        return _block(0, 1, [*new, lines[0]])
    return _block(first, behind, new)


def _block(first: int, behind: int, new: Sequence[str]) -> Block:
    return Block(first + 1, behind, tuple(line.rstrip("\n") for line in new))


def _joined(one: Block, other: Block) -> Block:
    """Two blocks that share one line, which the second kept as its first."""
    return Block(one.start, max(one.end, other.end), (*one.lines, *other.lines[1:]))
