"""The user's own settings for black, found as black finds them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xla_transforms.formatting import BlackSettings

# Minor versions of Python 3 that black may know; it is asked later which it does.
_MINORS = range(3, 20)


def black_settings(paths: Iterable[str]) -> BlackSettings:
    """``[tool.black]`` of the project that holds all ``paths``, else black's defaults.

    The project's root is the nearest common folder with a ``.git`` or ``.hg``, or with a
    ``pyproject.toml`` that configures black
    (https://black.readthedocs.io/en/stable/usage_and_configuration/the_basics.html).
    """
    common = common_folder(paths)
    for folder in (common, *common.parents) if common is not None else ():
        found = tables(folder / "pyproject.toml")
        is_root = any((folder / mark).exists() for mark in (".git", ".hg"))
        if is_root or "black" in table(found, "tool"):
            return _settings(found)
    return BlackSettings()


def common_folder(paths: Iterable[str]) -> Path | None:
    """The nearest folder that holds all ``paths``."""
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in paths]
    reals = {os.path.realpath(folder or os.curdir) for folder in folders}
    try:
        return Path(os.path.commonpath(reals)) if reals else None
    except ValueError:  # several drives
        return None


def tables(path: Path) -> Mapping[str, Any]:
    """A parsed ``pyproject.toml``; empty where there is none or it does not parse."""
    try:
        return parsed(path.read_bytes())
    except (OSError, ValueError):
        return {}


def parsed(data: bytes) -> Mapping[str, Any]:
    """The tables of a ``pyproject.toml``. Raises ``ValueError``."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10, where black brings the same parser
        import tomli as tomllib  # type: ignore[import-not-found,no-redef]
    return tomllib.loads(data.decode())


def table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table inside of another; empty where it is missing or something else."""
    value = tables.get(name)
    return value if isinstance(value, Mapping) else {}


def _settings(tables: Mapping[str, Any]) -> BlackSettings:
    black = {
        key.replace("--", "").replace("-", "_"): value
        for key, value in table(table(tables, "tool"), "black").items()
    }
    length = black.get("line_length")
    versions = black.get("target_version") or _inferred(table(tables, "project"))
    versions = [versions] if isinstance(versions, str) else versions
    return BlackSettings(
        line_length=length if isinstance(length, int) else BlackSettings.line_length,
        skip_string_normalization=bool(black.get("skip_string_normalization")),
        skip_magic_trailing_comma=bool(black.get("skip_magic_trailing_comma")),
        preview=bool(black.get("preview")),
        target_versions=frozenset(map(str, versions)),
    )


def _inferred(project: Mapping[str, Any]) -> list[str]:
    """The versions that ``requires-python`` allows; as in black, ``>=3.8.1`` allows 3.8."""
    wanted = project.get("requires-python")
    if not isinstance(wanted, str):
        return []
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        parts = [_without_patch(part.operator, part.version) for part in SpecifierSet(wanted)]
    except InvalidSpecifier:
        return []
    allowed = SpecifierSet(",".join(parts))
    return [f"py3{minor}" for minor in _MINORS if f"3.{minor}" in allowed] if parts else []


def _without_patch(operator: str, version: str) -> str:
    parts = version.split(".")
    if "*" in version or operator in ("<", "<=", "!=") or len(parts) < 3:
        return operator + version
    return (">=" if operator == ">" else operator) + ".".join(parts[:2])
