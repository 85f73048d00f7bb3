"""``[tool.xla-migrate]`` of a ``pyproject.toml``: what counts where the command line says nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_migrate.config import common_folder, parsed, table
from xla_transforms.ignores import is_named
from xla_transforms.settings import Distributed

TABLE = "[tool.xla-migrate]"
KEYS = ("target", "select", "ignore", "per-file-ignores", "exclude", "distributed")
ROOMS = ("bot",)
"""Tables inside of it that others read."""


class BadSettings(ValueError):
    """The settings of a project cannot be understood; the message names file, key and what is allowed."""


@dataclass(frozen=True)
class ProjectSettings:
    """What ``[tool.xla-migrate]`` of a project says.

    ``folder`` is what its patterns are relative to; ``target`` and ``distributed`` are ``None`` where it says
    nothing of them.
    """

    folder: str = ""
    target: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    distributed: Distributed | None = None

    def per_file(self) -> list[tuple[Callable[[str], bool], tuple[str, ...]]]:
        """The ignored rules of files, with a function that says whether a path is meant."""
        return [(matcher(self.folder, [pattern]), rules) for pattern, rules in self.per_file_ignores]

    @property
    def excluded(self) -> Callable[[str], bool] | None:
        """Whether a file is passed over where it is not named; ``None`` where none is."""
        return matcher(self.folder, self.exclude) if self.exclude else None


def project_settings(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> ProjectSettings:
    """The settings for some paths: those of the nearest ``pyproject.toml`` at or above all of them that has
    the table ``[tool.xla-migrate]``, no further than the repository's root; empty ones where there is none.

    Raises ``ValueError`` for a key, rule or value that has no meaning, with the nearest that has one.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    common = common_folder([os.fspath(path) for path in given])
    for folder in (common, *common.parents) if common is not None else ():
        path = folder / "pyproject.toml"
        tool = table(_tables(path), "tool")
        if "xla-migrate" in tool:
            return _project(path, tool["xla-migrate"])
        if any((folder / mark).exists() for mark in (".git", ".hg")):
            break
    return ProjectSettings()


def _tables(path: Path) -> Mapping[str, Any]:
    """A parsed ``pyproject.toml``. One that cannot be parsed is an error where it may hold our table."""
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    try:
        return parsed(data)
    except ValueError as error:
        if b"xla-migrate" not in data:
            return {}
        raise BadSettings(f"{path}: {TABLE} cannot be read: {error}") from error


def _project(path: Path, found: Any) -> ProjectSettings:
    if not isinstance(found, Mapping):
        raise BadSettings(f"{path}: {TABLE} has to be a table")
    for key in found:
        if key not in (*KEYS, *ROOMS):
            raise BadSettings(f"{path}: {TABLE} knows no key {key!r}{nearest(key, [*KEYS, *ROOMS])}")
    per_file = found.get("per-file-ignores", {})
    if not isinstance(per_file, Mapping):
        raise BadSettings(f"{path}: {TABLE} per-file-ignores has to be a table of patterns and rules")
    return ProjectSettings(
        folder=str(path.parent),
        target=_target(path, found.get("target")),
        select=_rules(path, "select", found.get("select", [])),
        ignore=_rules(path, "ignore", found.get("ignore", [])),
        per_file_ignores=tuple(
            (pattern, _rules(path, "per-file-ignores", rules)) for pattern, rules in per_file.items()
        ),
        exclude=_texts(path, "exclude", found.get("exclude", [])),
        distributed=_distributed(path, found.get("distributed")),
    )


def _target(path: Path, value: Any) -> str | None:
    from xla_migrate.releases import AUTO
    from xla_transforms.targets import target

    if value is None or value == AUTO:
        return None if value is None else AUTO
    try:
        return target(str(value)).name
    except ValueError as error:
        raise BadSettings(f"{path}: {TABLE} target: {error}") from error


def _distributed(path: Path, value: Any) -> Distributed | None:
    if value in (None, "auto") or isinstance(value, bool):
        return "auto" if value == "auto" else value
    raise BadSettings(f'{path}: {TABLE} distributed has to be true, false or "auto"')


def _texts(path: Path, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadSettings(f"{path}: {TABLE} {key} has to be a list of texts")
    return tuple(value)


def _rules(path: Path, key: str, value: Any) -> tuple[str, ...]:
    texts = _texts(path, key, value)
    try:
        return known(texts)
    except BadSettings as error:
        raise BadSettings(f"{path}: {TABLE} {key}: {error}") from error


def known(selectors: Sequence[str]) -> tuple[str, ...]:
    """The same, each of which means at least one rule. Raises ``BadSettings``."""
    if not selectors:  # nothing heavy is imported for nothing
        return ()
    from xla_migrate.known_rules import known_rules

    rules = known_rules()
    for selector in selectors:
        if not any(is_named(rule.code, rule.name, selector) for rule in rules):
            numbered = selector.upper().startswith("XLA")  # of a wrong number no other one is the right one
            names = [] if numbered else [rule.name for rule in rules]
            raise BadSettings(f"there is no rule {selector!r}{nearest(selector, names)}")
    return tuple(selectors)


def nearest(word: str, words: Sequence[str]) -> str:
    """``; did you mean ...?``, or nothing where no word is near."""
    from difflib import get_close_matches

    lower = {one.lower(): one for one in words}
    found = get_close_matches(word.lower(), lower, 1)
    return f"; did you mean {lower[found[0]]!r}?" if found else ""


def matcher(folder: str, patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path is meant by patterns as in a ``.gitignore`` of a folder. Raises ``BadSettings``."""
    from pathspec import GitIgnoreSpec

    try:
        spec = GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise BadSettings(f"a pattern of {', '.join(map(repr, patterns))} cannot be read: {error}") from error
    base = os.path.realpath(folder or os.curdir)

    def matches(path: str) -> bool:
        relative = os.path.relpath(os.path.realpath(path), base)
        return not relative.startswith("..") and spec.match_file(relative.replace(os.sep, "/"))

    return matches
