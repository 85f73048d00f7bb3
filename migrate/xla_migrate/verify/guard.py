"""Keeps a run from writing to the user's own files, which lie beside the copies that it works on.

It sees what goes through Python: ``open``, ``os``, ``shutil``, ``pathlib``, and the writer of
``torch.save``. What other C++ code or another program opens by an absolute name it does not see.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CACHES = (
    "HF_HOME", "HF_DATASETS_CACHE", "TORCH_HOME", "XDG_CACHE_HOME", "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR", "NUMBA_CACHE_DIR", "MPLCONFIGDIR", "CUDA_CACHE_PATH",
)  # fmt: skip

ADVICE = (
    "a recorded run may read this file of yours but not write it; relative names lead to the copy it runs "
    "in (--keep keeps that; what is linked with --share stays yours)"
)

Touched = tuple[Any, int, bool]
"""A path, the descriptor of the directory it is relative to (-1: none), and whether a link in its
last part is followed."""


def _opened(path: Any, mode: Any, flags: Any) -> Iterator[Touched]:
    writes = flags & WRITING if mode is None else set(mode) & set("wax+")
    if writes and not isinstance(path, int):
        yield path, -1, True


def _renamed(source: Any, target: Any, source_fd: int = -1, target_fd: int = -1) -> Iterator[Touched]:
    yield source, source_fd, False
    yield target, target_fd, False


def _made(path: Any, *rest: Any) -> Iterator[Touched]:
    if not os.path.lexists(_within(path, rest[-1])):  # else the call fails by itself
        yield path, rest[-1], False


def _gone(path: Any, dir_fd: int = -1) -> Iterator[Touched]:
    yield path, dir_fd, False


def _changed(path: Any, *rest: Any) -> Iterator[Touched]:
    yield path, -1, True


def _changed_at(path: Any, *rest: Any) -> Iterator[Touched]:
    yield path, rest[-1], True


def _linked(source: Any, target: Any, dir_fd: int = -1) -> Iterator[Touched]:
    yield target, dir_fd, False


EVENTS: dict[str, Callable[..., Iterator[Touched]]] = {
    "open": _opened,
    "os.rename": _renamed,
    "os.link": _renamed,
    "os.symlink": _linked,
    "os.mkdir": _made,
    "os.remove": _gone,
    "os.rmdir": _gone,
    "os.truncate": _changed,
    "os.setxattr": _changed,
    "os.removexattr": _changed,
    "os.chmod": _changed_at,
    "os.chown": _changed_at,
    "os.utime": _changed_at,
}


class Guard:
    """An audit hook. The longest of ``guarded`` and ``free`` that a path lies in decides."""

    def __init__(self, guarded: Iterable[str], free: Iterable[str]) -> None:
        rules = [(path, True) for path in guarded] + [(path, False) for path in free]
        self._rules = sorted(rules, key=lambda rule: len(rule[0]), reverse=True)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        touched = EVENTS.get(event)
        if touched is None:
            return
        for path, directory, follow in touched(*args):
            self.check(_within(path, directory), follow)

    def check(self, path: str, follow: bool = True) -> None:
        """Raise PermissionError where ``path`` may not be written."""
        if path and self.protects(path, follow):
            raise PermissionError(errno.EACCES, ADVICE, path)

    def protects(self, path: str, follow: bool = True) -> bool:
        """Whether a path is one of the user's; with ``follow``, what a link leads to counts."""
        folder, name = os.path.split(os.path.abspath(path))
        real = os.path.realpath(path) if follow else os.path.join(os.path.realpath(folder), name)
        for place, guarded in self._rules:
            if real == place or real.startswith(os.path.join(place, "")):
                return guarded
        return False


def install(guarded: list[str], free: list[str]) -> None:
    """Guard the rest of this process, and the processes that it forks."""
    guard = Guard(guarded, [*free, *usual_places()])
    sys.addaudithook(guard)
    _watch_torch(guard)


def usual_places() -> list[str]:
    """Where programs keep temporary files and caches: these a run may write."""
    home = os.path.realpath(os.path.expanduser("~"))
    caches = [os.environ[name] for name in CACHES if os.environ.get(name)]
    hidden = [str(path) for path in Path(home).glob(".*") if path.is_dir()]
    usual = [os.path.join(home, ".cache"), tempfile.gettempdir(), *caches, *hidden]
    return [os.path.realpath(path) for path in usual]


def _watch_torch(guard: Guard) -> None:
    """``torch.save`` opens its file in C++ where it is given a name."""
    torch: Any = sys.modules.get("torch")
    writer = getattr(getattr(torch, "_C", None), "PyTorchFileWriter", None)
    if writer is None:
        return

    def checked(target: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(target, (str, bytes, os.PathLike)):
            guard.check(os.fsdecode(target))
        return writer(target, *args, **kwargs)

    torch._C.PyTorchFileWriter = checked


def _within(path: Any, directory: int) -> str:
    """A path that is relative to a directory's descriptor, or is a descriptor, as a name."""
    if isinstance(path, int):
        return _name_of(path)
    text = os.fsdecode(path)
    return text if directory < 0 or os.path.isabs(text) else os.path.join(_name_of(directory), text)


def _name_of(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""
