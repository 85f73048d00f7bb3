"""Where new imports go among those of a file: in their order where they have one, else behind the last.

The orders are isort's: ``import`` before ``from`` in each block (its default, and ruff's), or by module
alone (``force_sort_within_sections``). Source: the documentation of isort, "Configuration options".
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import libcst as cst

from xla_transforms.source import Source
from xla_transforms.tree import dotted

Key = tuple[bool, str]
_ORDERS: tuple[Callable[[Key], Key], ...] = (lambda key: key, lambda key: (False, key[1]))


@dataclass(frozen=True)
class Block:
    """Imports that stand together without a blank line, the first of each line with its key."""

    lines: tuple[cst.SimpleStatementLine, ...]
    keys: tuple[Key, ...]

    @property
    def order(self) -> Callable[[Key], Key] | None:
        """The order in which a block's imports stand."""
        for order in _ORDERS:
            keys = [order(key) for key in self.keys]
            if keys == sorted(keys):
                return order
        return None

    def before(self, key: Key) -> cst.SimpleStatementLine | None:
        """The line of an ordered block behind which a new import goes; ``None`` for its top."""
        order = self.order
        assert order is not None
        earlier = [line for line, own in zip(self.lines, self.keys, strict=True) if order(own) <= order(key)]
        return earlier[-1] if earlier else None


def blocks(source: Source, lines: Sequence[cst.SimpleStatementLine]) -> list[Block]:
    """The blocks of a run of import statements."""
    found: list[list[cst.SimpleStatementLine]] = []
    end = -1
    for line in lines:
        start = source.offsets(line)[0]
        if not found or "\n\n" in source.text[end:start].replace("\r\n", "\n").replace("\r", "\n"):
            found.append([])
        found[-1].append(line)
        end = source.offsets(line)[1]
    return [Block(tuple(block), tuple(map(_key, block))) for block in found]


def home(found: Sequence[Block], module: str) -> Block | None:
    """The block in which a new import belongs: that of torch, or of the standard library.

    ``None`` where the file does not look sorted: isort keeps the standard library in a block of its own, and
    a few lines may be in order by chance.
    """
    packages = [{name.partition(".")[0] for _, name in block.keys} for block in found]
    mixed = any(len({_is_standard(name) for name in names}) > 1 for names in packages)
    few = sum(len(block.keys) for block in found) < 4 or len(set().union(*packages)) < 2
    if mixed or few or any(block.order is None for block in found):
        return None
    wanted = _is_standard(module)
    fits = (all(map(_is_standard, names)) if wanted else "torch" in names for names in packages)
    return next((block for block, fit in zip(found, fits, strict=True) if fit), None)


def beside(found: Sequence[Block], module: str) -> cst.SimpleStatementLine | None:
    """The import of torch behind which a new import goes where other blocks follow: the script's own.

    ``None`` where the last imports of the file are the place.
    """
    of_torch = [block for block in found if any(_package(key) == "torch" for key in block.keys)]
    if _is_standard(module) or not of_torch or of_torch[-1] is found[-1]:
        return None
    block = of_torch[-1]
    lines = zip(block.lines, block.keys, strict=True)
    return [line for line, key in lines if _package(key) == "torch"][-1]


def _package(key: Key) -> str:
    return key[1].partition(".")[0]


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _key(line: cst.SimpleStatementLine) -> Key:
    small = line.body[0]
    if isinstance(small, cst.ImportFrom):
        return True, "." * len(small.relative) + dotted(small.module).lower()
    return False, dotted(small.names[0].name).lower() if isinstance(small, cst.Import) else ""
