"""Reading files and writing them so that the original survives whatever goes wrong."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from xla_transforms.findings import Effort, Rule, Safety, Severity

FILE_RULE = Rule(
    code="XLA005",
    name="file-access",
    summary="A file could not be read or written.",
    why="It is missing, not permitted, changed meanwhile, or the disk is full; it stays as it was.",
    severity=Severity.ERROR,
    safety=Safety.DISPLAY,
    by_hand=Effort.LOW,
)

_READING = os.O_RDONLY | getattr(os, "O_BINARY", 0)  # the flag is one of Windows
_PIECE = 1 << 16


class FileProblem(Exception):
    """A file could not be read or written; ``message`` says why in the user's words."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


class Content(NamedTuple):
    """The bytes of a file as they were read; ``mode`` holds its permission bits."""

    path: str
    data: bytes
    mode: int


def read(path: str) -> Content:
    """The whole file. Raises ``FileProblem`` also where its size kept changing while it was read.

    What changes meanwhile at the same size ``replace`` finds out. (A kernel's own files tell no size.)
    """
    for _ in range(3):
        try:
            descriptor = os.open(path, _READING)
            try:
                status = os.fstat(descriptor)
                data = _whole(descriptor, status.st_size)
                told = len(data) == status.st_size or os.fstat(descriptor).st_size == status.st_size
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            raise _problem(path, error) from error
        if told or not stat.S_ISREG(status.st_mode):
            return Content(path, data, stat.S_IMODE(status.st_mode))
    raise FileProblem(path, "the file changes while it is read")


def _whole(descriptor: int, size: int) -> bytes:
    """All that is left to read, of about this size. (Python's file objects take twice as long.)"""
    data = os.read(descriptor, size + 1)
    if data and len(data) == size:  # the end was met
        return data
    while more := os.read(descriptor, _PIECE) if data else b"":
        data += more
    return data


def replace(content: Content, data: bytes) -> None:
    """Write ``data`` over the file that ``content`` was read from.

    A symbolic link stays one: its target is written. Raises ``FileProblem`` where the file no
    longer holds the bytes that were read, may not be written, or cannot be; it is then as it was.
    """
    with _as_problem(content.path):
        target = os.path.realpath(content.path)
        status = os.stat(target)
        if not stat.S_ISREG(status.st_mode):
            raise FileProblem(content.path, "not a regular file, so it is not written")
        _require_writable(content.path, target, status)
        with _replacement(target, data, status.st_mode, status) as temporary:
            with open(target, "rb") as file:
                unchanged = file.read() == content.data
            if not unchanged:
                message = "the file changed since it was read, so it is not overwritten"
                raise FileProblem(content.path, message)
            os.replace(temporary, target)
        _flush_folder(os.path.dirname(target))


def write(path: str, data: bytes, mode: int) -> None:
    """Make or overwrite the file ``path``; a new one gets the permission bits ``mode``.

    Raises ``FileProblem``; an earlier file of that name is then as it was.
    """
    with _as_problem(path):
        target = os.path.realpath(path)
        if not os.path.isdir(os.path.dirname(target)):
            raise FileProblem(path, "there is no such folder to write it to")
        status = os.stat(target) if os.path.exists(target) else None
        if status and stat.S_ISDIR(status.st_mode):
            raise FileProblem(path, "is a directory")
        if status and not stat.S_ISREG(status.st_mode):
            with open(target, "wb") as file:
                file.write(data)
            return
        if status:
            _require_writable(path, target, status)
        with _replacement(target, data, status.st_mode if status else mode, status) as temporary:
            os.replace(temporary, target)
        _flush_folder(os.path.dirname(target))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A while in which Ctrl-C waits: ``KeyboardInterrupt`` is raised at its end."""
    if threading.current_thread() is not threading.main_thread():  # which alone hears of signals
        yield
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


def default_mode() -> int:
    """The permission bits that a new file of this process gets."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


@contextmanager
def _as_problem(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise _problem(path, error) from error


def _problem(path: str, error: Exception) -> FileProblem:
    if isinstance(error, FileNotFoundError):
        return FileProblem(path, "no such file or directory")
    reason = getattr(error, "strerror", None) or str(error)
    return FileProblem(path, reason[:1].lower() + reason[1:])


def _require_writable(path: str, target: str, status: os.stat_result) -> None:
    # The superuser may write anything, but a file without write bits is meant to stay as it is.
    if not status.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise FileProblem(path, "the file is read-only")


@contextmanager
def _replacement(
    target: str, data: bytes, mode: int, owner: os.stat_result | None
) -> Iterator[str]:
    """A complete, flushed file beside ``target``, removed again unless it was moved away."""
    import tempfile

    folder, name = os.path.split(target)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            _take_over(file.fileno(), mode, owner)
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _take_over(descriptor: int, mode: int, owner: os.stat_result | None) -> None:
    if owner is not None and hasattr(os, "fchown"):
        with suppress(PermissionError):
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(mode))


def _flush_folder(folder: str) -> None:
    """Make a rename last through a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
