"""Scratch copies: where runs happen, so that the user's files stay as they are.

A scratch directory stands for the root of the file system. ``/project/train.py`` is run as
``<scratch>/project/train.py``: relative paths keep their meaning, and a name in a message becomes
the original's by leaving the scratch directory out.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
SKIPPED = frozenset(
    {
        ".git", ".hg", ".svn", "__pycache__", "__pypackages__", "node_modules", ".tox", ".nox",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", ".hypothesis",
    }
)  # fmt: skip
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
LIMIT = 2 * 10**9
NAMED = 4  # of the largest entries, in a message


class CannotCopy(Exception):
    """There can be no scratch copy; says why and what to do."""


@dataclass
class Tree:
    """What a look at the originals found, before anything is copied.

    ``sizes`` are in bytes, by entry of a root. ``skipped`` are directories that are not copied, ``outside``
    what links of the copied directories lead to.
    """

    sizes: dict[Path, int] = field(default_factory=dict)
    skipped: set[Path] = field(default_factory=set)
    outside: set[Path] = field(default_factory=set)


class Overlay:
    """Which directories a run of ``script`` in ``cwd`` needs copies of: the script's project, and
    the working directory where that lies elsewhere.

    A directory that is shared is linked instead. Raises :class:`CannotCopy` where the rest is larger
    than ``limit`` bytes. Neither the home directory nor one that holds it is ever copied: of a script
    that lies there itself, only the Python files beside it are.
    """

    def __init__(
        self, script: Path, cwd: Path, shares: Iterable[Path] = (), limit: int = LIMIT
    ) -> None:
        self.script, self.cwd = script.resolve(), cwd.resolve()
        self.shares = [Path(os.path.abspath(share)) for share in shares]
        places = [project_of(self.script), *([] if is_too_much(self.cwd) else [self.cwd])]
        whole = [place for place in places if not is_too_much(place)]
        self.roots = [p for p in whole if not any(p != q and p.is_relative_to(q) for q in whole)]
        self.roots = list(dict.fromkeys(self.roots))
        self.single = [] if self.covers(self.script) else sorted(self.script.parent.glob("*.py"))
        self.tree = Tree()
        self._look()
        self._check(limit)

    def covers(self, path: Path) -> bool:
        """Whether a path lies in a directory that is copied."""
        return any(path.is_relative_to(root) for root in self.roots)

    @property
    def guarded(self) -> list[str]:
        """What of the user's a run may read but not write."""
        shares = [share.resolve() for share in self.shares]
        every = {*self.roots, *self.single, *shares, *self.tree.outside, home()}
        return sorted(str(path) for path in every if path != Path(path.anchor))

    def _look(self) -> None:
        for share in self.shares:
            if not share.exists():
                raise CannotCopy(f"{share} is to be shared, and does not exist")
        for root in self.roots:
            for entry in _entries(root, self):
                self.tree.sizes[Path(entry.path)] = self._size(entry)

    def _size(self, entry: os.DirEntry[str]) -> int:
        if entry.is_symlink():
            target = Path(os.path.realpath(entry.path))
            if not self.copies(_lexical_target(entry.path)):
                self.tree.outside.add(target)
            return 0
        if not entry.is_dir():
            return entry.stat(follow_symlinks=False).st_size
        if is_skipped(entry):
            self.tree.skipped.add(Path(entry.path))
            return 0
        return sum(map(self._size, _entries(Path(entry.path), self)))

    def _check(self, limit: int) -> None:
        total = sum(self.tree.sizes.values())
        if total <= limit:
            return
        largest = sorted(self.tree.sizes.items(), key=lambda item: -item[1])[:NAMED]
        names = ", ".join(f"{path} ({in_words(size)})" for path, size in largest if size)
        raise CannotCopy(
            f"the project holds {in_words(total)}, and runs are made in copies of at most "
            f"{in_words(limit)}. The largest are {names}. Link what is only read with "
            f"--share {largest[0][0]}, or raise --copy-limit"
        )

    def copies(self, path: Path) -> bool:
        """Whether the copy will hold this path; what is skipped or shared, it does not."""
        if any(path.is_relative_to(left_out) for left_out in (*self.tree.skipped, *self.shares)):
            return False
        roots = (root for root in self.roots if path.is_relative_to(root))
        return any(not SKIPPED & set(path.relative_to(root).parts) for root in roots)

    def holds(self, path: Path) -> bool:
        """Whether the copy will hold this file, be it in a directory that is copied or on its own."""
        return path in self.single or self.copies(path)

    @contextmanager
    def copy(self, keep: bool = False) -> Iterator[Scratch]:
        """A fresh copy of all that, removed afterwards unless it is to be kept."""
        place = Path(tempfile.mkdtemp(prefix="xla-migrate-")).resolve()
        try:
            scratch = Scratch(place, self)
            try:
                scratch.fill()
            except OSError as error:
                raise CannotCopy(
                    f"no copy could be made in {place.parent}: {error} (TMPDIR names another place)"
                ) from error
            yield scratch
        finally:
            if not keep:
                remove(place)


@dataclass(frozen=True)
class Scratch:
    """One copy. ``path`` stands for the root of the file system."""

    path: Path
    overlay: Overlay

    def place(self, original: Path) -> Path:
        """Where the copy of a file or directory is."""
        return self.path / original.relative_to(original.anchor)

    @property
    def script(self) -> Path:
        return self.place(self.overlay.script)

    @property
    def workdir(self) -> Path:
        return self.place(self.overlay.cwd)

    @property
    def request(self) -> dict[str, Any]:
        """What the recording process has to know of the copy, as fields of a request."""
        roots = [*self.overlay.roots, *self.overlay.single]
        return {
            "scratch": str(self.path),
            "copied": [str(root) for root in roots],
            "guarded": self.overlay.guarded,
        }

    def original(self, text: str) -> str:
        """A text with the names of the originals in the place of the copies."""
        return text.replace(str(self.path), "")

    def write(self, files: Mapping[Path, bytes]) -> None:
        """Put other contents into the copies of these originals."""
        for original, data in files.items():
            place = self.place(original)
            place.chmod(place.stat().st_mode | stat.S_IWUSR)
            place.write_bytes(data)

    def fill(self) -> None:
        """Make the copy. Raises OSError where it does not fit."""
        for share in self.overlay.shares:
            place = self.place(share)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(share.resolve())
        for root in self.overlay.roots:
            self._directory(root)
        for file in self.overlay.single:
            self.place(file).parent.mkdir(parents=True, exist_ok=True)
            copy_file(file, self.place(file))
        self.workdir.mkdir(parents=True, exist_ok=True)

    def _directory(self, folder: Path) -> None:
        place = self.place(folder)
        place.mkdir(parents=True, exist_ok=True)
        for entry in _entries(folder, self.overlay):
            path = Path(entry.path)
            if entry.is_symlink():
                self._link(path)
            elif entry.is_dir():
                if path not in self.overlay.tree.skipped:
                    self._directory(path)
            elif entry.is_file():
                copy_file(path, self.place(path))
        shutil.copystat(folder, place)

    def _link(self, link: Path) -> None:
        """A link within what is copied leads to the copy, any other one to the original."""
        target, text = _lexical_target(link), os.readlink(link)
        if self.overlay.copies(target):
            text = str(self.place(target)) if os.path.isabs(text) else text
        elif not any(target.is_relative_to(share) for share in self.overlay.shares):
            text = os.path.realpath(link)
        elif os.path.isabs(text):
            text = str(self.place(target))
        self.place(link).symlink_to(text)


def project_of(script: Path) -> Path:
    """The nearest directory that looks like a project, else that of the script."""
    for folder in script.parents:
        if is_too_much(folder):
            break
        if any((folder / mark).exists() for mark in MARKS):
            return folder
    return script.parent


def is_too_much(folder: Path) -> bool:
    """Whether a directory holds far more than a project: the home directory, or the temporary files."""
    temporary = Path(tempfile.gettempdir()).resolve()
    return home().is_relative_to(folder) or temporary.is_relative_to(folder)


def home() -> Path:
    """The user's home directory."""
    return Path(os.path.expanduser("~")).resolve()


def is_skipped(entry: os.DirEntry[str]) -> bool:
    """Whether a directory holds nothing that a run of the script reads as a file of its project."""
    if entry.name in SKIPPED:
        return True
    return any(os.path.exists(os.path.join(entry.path, mark)) for mark in ENVIRONMENT_MARKS)


def in_words(size: int) -> str:
    """A number of bytes, for people."""
    for unit, bytes_of in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= bytes_of:
            return f"{size / bytes_of:.3g} {unit}"
    return f"{size} bytes"


def copy_file(source: Path, target: Path) -> None:
    """Copy bytes, times and mode; on a file system that can, the blocks are shared. A file that may
    not be read is left out: a run could not read it either."""
    try:
        reading = source.open("rb")
    except PermissionError:
        return
    with reading, target.open("wb") as writing:
        try:
            while os.copy_file_range(reading.fileno(), writing.fileno(), 2**30):
                pass
        except (AttributeError, OSError):  # other file systems, or no Linux; a full disk fails again
            reading.seek(0)
            writing.seek(0)
            shutil.copyfileobj(reading, writing)
    shutil.copystat(source, target)


def remove(place: Path) -> None:
    """Remove a copy, with directories in it that may not be written."""
    for folder, names, _ in os.walk(place):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            if not os.path.islink(path):
                with suppress(OSError):
                    os.chmod(path, stat.S_IRWXU)
    shutil.rmtree(place, ignore_errors=True)


def _entries(folder: Path, overlay: Overlay) -> list[os.DirEntry[str]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except PermissionError:
        return []
    return [entry for entry in entries if Path(entry.path) not in overlay.shares]


def _lexical_target(link: str | Path) -> Path:
    """What a link names, links on the way there not followed: they are copied as links."""
    return Path(os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link))))
