"""Which files a list of paths stands for: files as named, folders walked as git sees them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from xla_migrate.files import FileProblem
from xla_migrate.launches import is_launcher

_SKIPPED = frozenset(
    {"__pycache__", "__pypackages__", "build", "node_modules", "site-packages", "venv"}
)
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
_ENDINGS = (".py", ".ipynb")

_name = attrgetter("name")

# A file as it is called from here, its real path, and whether it may hold commands that start training.
_File = tuple[str, str, bool]

# An ignore file: the folder it stands in with a separator behind, and its verdict on a path below it.
_Rules = tuple[str, Callable[[str], "bool | None"]]


@dataclass
class Discovered:
    """Paths of files to migrate, in order and once each, and what could not be looked into.

    ``launchers`` are the files beside them that may hold commands which start training.
    """

    files: list[str] = field(default_factory=list)
    launchers: list[str] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)


def discover(paths: Iterable[str], excluded: Callable[[str], bool] | None = None) -> Discovered:
    """Every named file, and below every named folder each file of interest that git would not ignore.

    Left out below a folder: hidden folders, virtual environments, ``build``, ``node_modules``, links that
    lead out of the folder, and what is ``excluded``. A named file or folder is always taken.
    """
    found = Discovered()
    seen: set[str] = set()
    for path in paths:
        path = os.path.normpath(path) if path else path
        names = _below(path, found.problems, excluded) if os.path.isdir(path) else [_named(path)]
        for name, real, launches in names:
            if real not in seen:
                seen.add(real)
                (found.launchers if launches else found.files).append(name)
    return found


def _named(path: str) -> _File:
    return path, os.path.realpath(path), is_launcher(path)


def repository_root(folder: Path) -> Path | None:
    """The nearest folder at or above ``folder`` that holds a ``.git``."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)


def _below(
    folder: str, problems: list[FileProblem], excluded: Callable[[str], bool] | None
) -> list[_File]:
    """The files below a folder."""
    earlier = len(problems)
    real = os.path.realpath(folder)
    names: list[_File] = []
    _walk(folder, real, real, _rules_above(folder), names, problems)
    if excluded is not None and names:
        return [file for file in names if not excluded(file[0])]
    if all(launches for _, _, launches in names) and len(problems) == earlier:
        problems.append(FileProblem(folder, "no Python files in this directory"))
    return names


def _walk(
    folder: str, real: str, top: str, rules: list[_Rules], names: list[_File], problems: list[FileProblem]
) -> None:
    """Put the files below a folder to ``names``. (A generator hands each file through all folders above.)"""
    try:
        entries = sorted(os.scandir(folder), key=_name)
    except OSError as error:
        problems.append(FileProblem(folder, f"cannot be listed: {error.strerror}"))
        return
    rules = rules + _rules_of(folder, ".gitignore", folder)
    inside = os.path.join(real, "")
    for entry in entries:
        path = entry.name if folder == os.curdir else entry.path
        if entry.is_dir(follow_symlinks=False):
            if not _skipped(entry) and not _ignored(inside + entry.name, True, rules):
                _walk(path, inside + entry.name, top, rules, names, problems)
            continue
        name = entry.name
        launches = not name.endswith(_ENDINGS)
        asked = not launches or is_launcher(name)
        if asked and _is_ours(entry, top) and not _ignored(inside + name, False, rules):
            names.append((path, os.path.realpath(path) if entry.is_symlink() else inside + name, launches))


def _skipped(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in _SKIPPED:
        return True
    return any(os.path.exists(os.path.join(entry.path, mark)) for mark in _ENVIRONMENT_MARKS)


def _is_ours(entry: os.DirEntry[str], top: str) -> bool:
    """Whether an entry is a file, and no link that leads out of the folder."""
    if not entry.is_file():
        return False
    return not entry.is_symlink() or Path(os.path.realpath(entry.path)).is_relative_to(top)


def _rules_above(folder: str) -> list[_Rules]:
    """The ignore files between the repository's root and a folder, unless they ignore it."""
    here = Path(os.path.realpath(folder))
    root = repository_root(here)
    if root is None:
        return []
    rules = _rules_of(str(root), ".git/info/exclude", str(root))
    for place in reversed(here.parents):
        if place.is_relative_to(root):
            rules += _rules_of(str(place), ".gitignore", str(place))
    return [] if here != root and _ignored(str(here), True, rules) else rules


def _rules_of(folder: str, name: str, base: str) -> list[_Rules]:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().split("\n")
    except OSError:
        return []
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    return [(os.path.join(os.path.realpath(base), ""), _verdict(lines))] if lines else []


def _verdict(lines: list[str]) -> Callable[[str], bool | None]:
    from pathspec import GitIgnoreSpec

    spec: Any
    try:
        spec = GitIgnoreSpec.from_lines(lines)
    except ValueError:  # git passes over a pattern that it cannot read
        spec = GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)])
    return lambda path: spec.check_file(path).include


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _ignored(path: str, is_folder: bool, rules: list[_Rules]) -> bool:
    """What the deepest ignore file with an opinion says of a path whose folders are no links."""
    for base, verdict in reversed(rules):
        relative = path[len(base) :].replace(os.sep, "/")
        ignored = verdict(relative + "/" if is_folder else relative)
        if ignored is not None:
            return ignored
    return False
