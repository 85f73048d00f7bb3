"""What a patch calls the files of a run, so that ``git apply`` finds them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from xla_migrate.discovery import repository_root


def base(paths: Iterable[str]) -> str:
    """The folder that a patch of these files is made from: the current one where it holds them all, else
    the root of the repository that does, else the nearest common folder.

    git takes no path that leads out of the folder it is called in.
    """
    reals = [os.path.realpath(path) for path in paths]
    here = os.path.realpath(os.curdir)
    if not reals or all(_within(real, here) for real in reals):
        return here
    try:
        common = os.path.commonpath([os.path.dirname(real) for real in reals])
    except ValueError:  # several drives
        return here
    root = repository_root(Path(common))
    return str(root) if root is not None else common


def named(path: str, folder: str) -> str:
    """A file as a patch made from ``folder`` calls it; absolute where it lies outside.

    git refuses to patch through a symbolic link, so a link is named by its target.
    """
    real = os.path.realpath(path)
    name = os.path.relpath(real, folder) if _within(real, folder) else real
    return name.replace(os.sep, "/")


def _within(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))
