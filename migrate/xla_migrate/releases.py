"""``--target auto``: which release of torch_xla a project is for, by what it asks to have installed.

The nearest folder upwards that says something decides. There, a sign of SageMaker's Training Compiler comes
first, then a version of torch_xla, then one of torch (each torch_xla is for the torch of its number). Of a
range the newest release counts, as pip would install it.
Sources: packaging.python.org, "Version specifiers"; AWS, "SageMaker Training Compiler", the names of its
containers (``...-trcomp-training``) and of its class ``TrainingCompilerConfig``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_migrate.config import common_folder, table, tables
from xla_transforms.targets import DEFAULT, TARGETS, covering

AUTO = "auto"
_MINORS = [(1, minor) for minor in range(14)] + [(2, minor) for minor in range(30)]
_COMPILER = re.compile(r"TrainingCompilerConfig|-trcomp-training\b")
_IMAGE = re.compile(r"^\s*FROM\s+\S*\bpytorch/pytorch:(\d+\.\d+(?:\.\d+)?)", re.MULTILINE | re.IGNORECASE)
_WHEEL = re.compile(r"\b(torch_xla|torch)-(\d+\.\d+(?:\.\d+)?)\S*\.whl", re.IGNORECASE)
# a requirement in a line of a list, a Dockerfile or an environment: the name, and what stands behind it
_WORD = re.compile(
    r"(?<![\w./-])(?:[\w-]+::)?(pytorch|torch|torch[-_]xla)(?:\[[\w,-]+\])?\s*((?:[=<>!~]=?=?\s*[\w.*+]+\s*,?\s*)+)",
    re.IGNORECASE,
)
_FILES = ("requirements*.txt", "requirements/*.txt", "pyproject.toml", "setup.cfg", "setup.py",
          "environment*.y*ml", "Dockerfile*", "*.Dockerfile")  # fmt: skip
_CODE = ("*.py", "*.ipynb", "*/*.py", "*/*.ipynb")


@dataclass(frozen=True)
class Choice:
    """A target, and what it was chosen by."""

    target: str
    reason: str


def choose(paths: Iterable[str]) -> Choice:
    """The target for the project that holds all ``paths``."""
    start = common_folder(paths)
    for folder in (start, *start.parents) if start is not None else ():
        found = _of_folder(folder)
        if found is not None:
            return found
        if any((folder / mark).exists() for mark in (".git", ".hg")):
            break
    return Choice(DEFAULT, "nothing tells its release")


def _of_folder(folder: Path) -> Choice | None:
    files = [path for pattern in _FILES for path in sorted(folder.glob(pattern)) if path.is_file()]
    texts = {path: _text(path) for path in files}
    code = (path for pattern in _CODE for path in sorted(folder.glob(pattern)) if path.is_file())
    for path in (*files, *(code if files else ())):
        if _COMPILER.search(texts.get(path) or _text(path)):
            return Choice("sagemaker", f"SageMaker Training Compiler in {path.name}")
    asked = [(name, spec, path) for path in files for name, spec in _asked(path, texts[path])]
    for wanted in ("torch_xla", "torch"):
        for name, spec, path in asked:
            if name == wanted and (choice := _covering(name, spec, path.name)) is not None:
                return choice
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _asked(path: Path, text: str) -> Iterator[tuple[str, str]]:
    """The names and specifiers of torch and torch_xla that a file asks for."""
    if path.name == "pyproject.toml":
        yield from _of_pyproject(tables(path))
        return
    text = re.sub(r"(?m)(^|\s)#.*$", "", text)
    for name, version in _WHEEL.findall(text):
        yield _plain(name), f"=={version}"
    for version in _IMAGE.findall(text):
        yield "torch", f"=={version}"
    conda = path.suffix in (".yml", ".yaml")
    for name, spec in _WORD.findall(text):
        yield _plain(name), _pip(spec) if conda else spec


def _plain(name: str) -> str:
    return "torch_xla" if "xla" in name.lower() else "torch"


def _pip(spec: str) -> str:
    """``==2.1.*`` for conda's ``=2.1``, which also stands in front of a build's name."""
    return re.sub(r"^=\s*([\d.]+)(=.*)?$", r"==\1.*", spec.strip()) if not spec.startswith("==") else spec


def _of_pyproject(found: Any) -> Iterator[tuple[str, str]]:
    from packaging.requirements import InvalidRequirement, Requirement

    project, tool = table(found, "project"), table(found, "tool")
    groups = [*table(project, "optional-dependencies").values(), *table(found, "dependency-groups").values()]
    for entry in [e for group in (project.get("dependencies"), *groups) for e in group or ()]:
        try:
            asked = Requirement(entry) if isinstance(entry, str) else None
        except InvalidRequirement:
            continue
        if asked is not None and asked.name.lower().replace("-", "_") in ("torch", "torch_xla"):
            wheel = _WHEEL.search(asked.url or "")
            yield _plain(asked.name), f"=={wheel[2]}" if wheel else str(asked.specifier)
    for name, value in table(table(tool, "poetry"), "dependencies").items():
        spec = value.get("version") if isinstance(value, dict) else value
        if name.lower().replace("-", "_") in ("torch", "torch_xla") and isinstance(spec, str):
            yield _plain(name), _poetry(spec)


def _poetry(spec: str) -> str:
    """Poetry's ``^2.1`` and ``~2.1``, and a bare version, in the words of pip."""
    mark, numbers = spec[:1], spec.lstrip("^~=").split(".")
    if mark == "^":
        return f">={'.'.join(numbers)},<{int(numbers[0]) + 1}" if numbers[0].isdecimal() else ""
    if mark == "~" and not spec.startswith("~="):
        return f"=={'.'.join(numbers[:2])}.*"
    return f"=={spec}" if mark.isdecimal() else spec


def _covering(name: str, spec: str, file: str) -> Choice | None:
    """The target of the newest release that a specifier allows; the nearest one where none covers it."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    plain = re.sub(r"\+[\w.]+", "", spec).strip().rstrip(",")
    try:
        allowed = SpecifierSet(plain)
    except InvalidSpecifier:
        return None
    patches = range(10)
    minors = [(a, b) for a, b in _MINORS if any(allowed.contains(f"{a}.{b}.{p}") for p in patches)]
    if not plain or not minors:
        return None
    reason = f"{name}{plain.replace(' ', '')} in {file}"
    covered = [t for a, b in reversed(minors) if (t := covering(f"{a}.{b}")) is not None]
    if covered:
        return Choice(covered[0].name, reason)
    later = [t for t in TARGETS.values() if t.releases[1] >= minors[-1]]
    nearest = min(later, key=lambda t: t.releases[1]).name if later else DEFAULT
    return Choice(nearest, f"{reason}, which no target covers: the nearest")


def resolve(target: str, paths: Iterable[str]) -> Choice:
    """What a target's name means for some files: itself, or for ``auto`` what their project asks for."""
    return choose(paths) if target == AUTO else Choice(target, "")


def existing(path: str) -> list[str]:
    """A path that names a file's place, as the start of a search; none for a name such as ``<unknown>``."""
    return [path] if os.path.exists(os.path.dirname(path) or path) else []
