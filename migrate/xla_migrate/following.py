"""The files that an entry imports, directly or not: found by their names, as Python would find them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from xla_migrate.files import FileProblem, read
from xla_transforms.encoding import SourceError, decode
from xla_transforms.grouping import imported


def follow(entries: Iterable[str], started: Iterable[str] | None = None) -> list[str]:
    """The entry files and all files of their project that they come to import, in the order found.

    Modules are looked for where Python would find them when the entry is started: in its folder, in the
    current folder, and in the folder that holds the importer's package. ``started`` are those of the
    entries that Python is called with, by default each.
    """
    entries = [os.path.normpath(entry) for entry in entries]
    folders = [os.path.dirname(entry) or os.curdir for entry in (entries if started is None else started)]
    starts = [os.curdir, *folders]
    found, ahead = dict.fromkeys(entries), list(entries)
    while ahead:
        path = ahead.pop(0)
        fresh = [p for p in _imported_files(path, starts) if p not in found]
        found.update(dict.fromkeys(fresh))
        ahead.extend(dict.fromkeys(fresh))
    return list(found)


def module_file(name: str) -> str | None:
    """The file that ``python -m name`` runs from the current folder."""
    place = os.path.join(*name.split("."))
    candidates = (os.path.join(place, "__main__.py"), f"{place}.py")
    return next((path for path in candidates if os.path.isfile(path)), None)


def _imported_files(path: str, starts: list[str]) -> Iterator[str]:
    try:
        text, _ = decode(read(path).data)
    except (FileProblem, SourceError):
        return
    root, package = _package(path)
    name = ".".join([*package, os.path.basename(path).removesuffix(".py")])
    roots = dict.fromkeys([root, *starts])
    for module in imported(name, text):
        yield from _files_of(module, list(roots))


def _package(path: str) -> tuple[str, list[str]]:
    """The folder from which a file's package is imported, and the names of its packages."""
    folder = os.path.dirname(path) or os.curdir
    names: list[str] = []
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        name = os.path.basename(os.path.abspath(folder))  # the current folder and those above have names, too
        if not name:
            break
        names.insert(0, name)
        folder = os.path.normpath(os.path.join(folder, os.pardir))
    return folder, names


def _files_of(module: str, roots: list[str]) -> Iterator[str]:
    """The file of a module, and those of the packages that hold it; none where no folder has it."""
    parts = [part for part in module.split(".") if part]
    for root in roots if parts else ():
        whole = _file(os.path.join(root, *parts))
        if whole is not None:
            packages = (os.path.join(root, *parts[:n], "__init__.py") for n in range(1, len(parts)))
            yield from (os.path.normpath(p) for p in packages if os.path.isfile(p))
            yield os.path.normpath(whole)
            return


def _file(place: str) -> str | None:
    candidates = (f"{place}.py", os.path.join(place, "__init__.py"))
    return next((path for path in candidates if os.path.isfile(path)), None)
