"""What a project asks to be installed: releases of torch and torch_xla that do not fit each other."""

from __future__ import annotations

import os
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement

from xla_migrate.doctor import Check

_ADVICE = "ask for one minor release of both: torch~=2.9.0 and torch_xla~=2.9.0"


def examine(folder: str) -> Iterator[Check]:
    """The requirement files of a folder (``requirements*.txt``), each by itself."""
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        if entry.name.startswith("requirements") and entry.name.endswith(".txt") and entry.is_file():
            with open(entry.path, encoding="utf-8", errors="replace") as file:
                yield _of_file(entry.path, file.read())


def _of_file(path: str, text: str) -> Check:
    pins = dict(_pins(text))
    torch, xla = pins.get("torch", ""), pins.get("torch-xla", "")
    if xla and torch and torch != xla:
        return Check(path, "error", f"torch {torch} and torch_xla {xla} do not fit each other", _ADVICE)
    if not xla:
        return Check(path, "info", "torch_xla is not asked for, or not with one release", _ADVICE)
    return Check(path, "ok", f"torch_xla {xla}")


def _pins(text: str) -> Iterator[tuple[str, str]]:
    """The minor release to which ``==`` or ``~=`` pins a package."""
    for line in text.splitlines():
        try:
            requirement = Requirement(line.split("#")[0].strip())
        except InvalidRequirement:
            continue
        for part in requirement.specifier:
            if part.operator in ("==", "~=", "==="):
                minor = ".".join(part.version.split("+")[0].split(".")[:2])
                yield requirement.name.lower().replace("_", "-"), minor
