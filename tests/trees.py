"""Small projects for the tests of verify, and what a tree looks like from outside."""

from __future__ import annotations

import hashlib
import os
import textwrap
from pathlib import Path


def plant(folder: Path, files: dict[str, str]) -> Path:
    """Write files below ``folder``."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def digest(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, time of change and contents of all that is in a tree."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        if path.is_symlink():
            content = os.readlink(path)
        else:
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, content)
    return found
