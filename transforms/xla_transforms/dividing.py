"""Which files of a run can be migrated without the others: those that no imports lead to, or from.

Such a part may hold several programs (``grouping.py``); what one part holds says nothing about another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from xla_transforms.encoding import SourceError, decode
from xla_transforms.grouping import (
    FRAMEWORK,
    FRAMEWORKS,
    GPU,
    LAUNCHER,
    imported,
    module_name,
    nearest,
    packages_of,
)

_GPU = re.compile(GPU.pattern.encode(), re.IGNORECASE)
_LAUNCHER = re.compile(LAUNCHER.encode())
_FRAMEWORK = re.compile(FRAMEWORK.pattern.encode(), re.MULTILINE)
# The end of "from" or "import" before a framework's name: what begins with one certain letter is found fast.
_IMPORTED = re.compile(rf"m(?:port)?[ \t]+(?:{FRAMEWORKS})\b".encode())


def speaks(data: bytes) -> bool:
    """Whether a file by itself is reason enough to read its program."""
    if b"torch" in data and _GPU.search(data):
        return True
    if (b"torch" in data or b"accelerate" in data) and _LAUNCHER.search(data):
        return True
    # most files import no framework anywhere, which is found out in a tenth of the time
    if _IMPORTED.search(data) or (b"G" in data and b"GPU_NUM_DEVICES" in data):
        return _FRAMEWORK.search(data) is not None
    return False


def divide(files: Mapping[str, bytes]) -> tuple[list[list[str]], list[str]]:
    """The parts of a run in which a file speaks of torch and GPUs, each as paths in the order given; and
    the paths of all other files, none of which speaks, and which need not be read."""
    speaking = {path for path, data in files.items() if speaks(data)}
    if not speaking:
        return [], list(files)
    parts = _parts(files)
    chosen = [part for part in parts if not speaking.isdisjoint(part)]
    in_parts = {path for part in chosen for path in part}
    return chosen, [path for path in files if path not in in_parts]


def _parts(files: Mapping[str, bytes]) -> list[list[str]]:
    """The files, those that imports connect together."""
    names = {path: module_name(path) for path in files}
    by_tail: dict[str, list[str]] = {}
    for name in dict.fromkeys(names.values()):
        by_tail.setdefault(name.rpartition(".")[2], []).append(name)
    joined = _Joined(names.values())
    packages = packages_of(names.values())
    for path, data in files.items():
        for wanted in set(imported(names[path], _text(data), packages)):
            for other in nearest(names[path], wanted, by_tail):
                joined.join(names[path], other)
    found: dict[str, list[str]] = {}
    for path, name in names.items():  # two paths of one name stay together
        found.setdefault(joined.root(name), []).append(path)
    return list(found.values())


def _text(data: bytes) -> str:
    try:
        return decode(data)[0]
    except SourceError:
        return ""


class _Joined:
    """Sets of names that grow together."""

    def __init__(self, names: Iterable[str]) -> None:
        self._above = {name: name for name in names}

    def root(self, name: str) -> str:
        above = self._above
        while above[name] != name:
            above[name] = above[above[name]]
            name = above[name]
        return name

    def join(self, one: str, other: str) -> None:
        self._above[self.root(other)] = self.root(one)
