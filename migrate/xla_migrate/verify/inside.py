"""Makes a process that runs a scratch copy at home in it: what is named by the place of an original
means the copy, and the originals cannot be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from xla_migrate.verify import guard
from xla_migrate.verify.trace import Request

STANDARD = (BuiltinImporter, FrozenImporter, PathFinder)


def enter(request: Request) -> Request:
    """Prepare this process for its run; the request with the arguments that the script is to see."""
    if not request.scratch:
        return request
    moved = Moved(request.scratch, request.copied)
    sys.path[:] = [moved.path(place) for place in sys.path]
    sys.meta_path[:] = [f if f in STANDARD else Redirected(f, moved) for f in sys.meta_path]
    if "PYTHONPATH" in os.environ:
        places = os.environ["PYTHONPATH"].split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(map(moved.path, places))
    os.environ["PWD"] = request.workdir
    guard.install(request.guarded, [request.scratch, request.out])
    return replace(request, argv=[moved.argument(argument) for argument in request.argv])


def sources(request: Request) -> list[str]:
    """The originals of the files that this process has imported, and of the script."""
    if not request.scratch:
        return []
    files = [request.script, *(_file_of(module) for module in list(sys.modules.values()))]
    inside = {os.path.realpath(file) for file in files if file}
    root = os.path.join(request.scratch, "")
    return sorted(os.sep + f[len(root) :] for f in inside if f.startswith(root) and os.path.isfile(f))


def _file_of(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) and file.endswith(".py") else ""


class Moved:
    """From the place of an original to that of its copy."""

    def __init__(self, scratch: str, copied: list[str]) -> None:
        self.scratch, self.copied = scratch, copied

    def path(self, text: str) -> str:
        """The same path, or that of the copy for an absolute one that was copied."""
        if not os.path.isabs(text):
            return text
        real = os.path.realpath(text)
        inside = any(real == place or real.startswith(os.path.join(place, "")) for place in self.copied)
        return self.scratch + real if inside else text

    def argument(self, text: str) -> str:
        """An argument of the command line, where a path may stand behind ``--option=``."""
        option, sign, value = text.partition("=")
        if sign and option.startswith("-"):
            return f"{option}={self.path(value)}"
        return self.path(text)


class Redirected:
    """A finder of modules, such as that of an editable installation, which knows the originals."""

    def __init__(self, finder: Any, moved: Moved) -> None:
        self._finder, self._moved = finder, moved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The wrapped finder's answer, with the copy in the place of the original."""
        found: ModuleSpec | None = self._finder.find_spec(name, path, target)
        if found is None or not found.has_location or not found.origin:
            return found
        place = self._moved.path(found.origin)
        if place == found.origin or not Path(place).exists():
            return found
        folders = found.submodule_search_locations
        inner = None if folders is None else [self._moved.path(folder) for folder in folders]
        return spec_from_file_location(name, place, submodule_search_locations=inner)
