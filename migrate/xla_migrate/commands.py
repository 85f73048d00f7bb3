"""The commands that a project installs, with the functions they call: read, never run.

Source: the packaging specifications, "Entry points" and "pyproject.toml"; setuptools' ``console_scripts``.
"""

from __future__ import annotations

import ast
import configparser
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from xla_migrate.config import table, tables

_GROUP = "console_scripts"


def installed_commands(paths: Iterable[str]) -> dict[str, str]:
    """``package.module:function`` by command, of the projects in which the paths lie."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(f for path in paths for f in _folders(path)):
        found |= dict(_of_pyproject(folder))
        found |= dict(_of_setup_cfg(folder))
        found |= dict(_of_setup_py(folder))
        for told in folder.glob("*.dist-info/entry_points.txt"):
            found |= dict(_of_ini(told, _GROUP))
    return {name: path.split("[")[0].strip() for name, path in found.items()}


def _folders(path: str) -> list[Path]:
    """The folder of a path, and the one above where it is a package in a project."""
    place = Path(path or os.curdir).absolute()
    folder = place if place.is_dir() else place.parent
    while (folder / "__init__.py").exists() and folder.parent != folder:
        folder = folder.parent
    return [folder, *([folder.parent] if folder.name == "src" else [])]


def _of_pyproject(folder: Path) -> Iterator[tuple[str, str]]:
    project = table(tables(folder / "pyproject.toml"), "project")
    yield from ((name, path) for name, path in table(project, "scripts").items() if isinstance(path, str))


def _of_setup_cfg(folder: Path) -> Iterator[tuple[str, str]]:
    parser = _ini(folder / "setup.cfg")
    told = parser.get("options.entry_points", _GROUP, fallback="", raw=True)
    yield from _assignments(told.splitlines())


def _of_ini(path: Path, section: str) -> Iterator[tuple[str, str]]:
    parser = _ini(path)
    yield from parser.items(section, raw=True) if parser.has_section(section) else ()


def _ini(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(delimiters=("=",), strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return configparser.ConfigParser()
    return parser


def _of_setup_py(folder: Path) -> Iterator[tuple[str, str]]:
    """What ``setup(entry_points={"console_scripts": [...]})`` says where it is a literal."""
    try:
        tree = ast.parse((folder / "setup.py").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    keywords = (k for node in ast.walk(tree) if isinstance(node, ast.Call) for k in node.keywords)
    for keyword in keywords:
        if keyword.arg == "entry_points":
            try:
                told = ast.literal_eval(keyword.value)
            except ValueError:
                continue
            lines = told.get(_GROUP, ()) if isinstance(told, dict) else ()
            yield from _assignments(lines if not isinstance(lines, str) else lines.splitlines())


def _assignments(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, equal, path = line.partition("=")
        if equal and ":" in path:
            yield name.strip(), path.strip()
