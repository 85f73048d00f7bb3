"""What earlier runs found, in files named by a digest of all that it depends on.

An entry that does not fit what it should be is as good as none: it is made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from xla_migrate.work.parts import Part
from xla_transforms.outcome import Outcome

LIMIT = 256 * 1024 * 1024
"""Bytes that all entries may take; beyond them the entries that were not used for longest go."""

_PACKAGES = ("libcst", "black")  # what the result depends on besides the tool itself


class Cache:
    """The entries in ``folder``, which need not exist. Nothing here raises where files cannot be used."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self._folder, self._limit = folder, limit
        self._wrote = False

    def get(self, part: Part) -> dict[str, Outcome] | None:
        """The outcomes of a part, if they are known."""
        body = self._read(key(part))
        try:
            return part.outcomes(json.loads(body)) if body is not None else None
        except (ValueError, KeyError, TypeError):
            return None

    def put(self, part: Part, records: list[dict[str, object]]) -> None:
        self._write(key(part), json.dumps(records, separators=(",", ":")).encode())

    def text(self, given: Sequence[str], make: Callable[[], str]) -> str:
        """A text that depends on what is ``given`` and on the tool alone: known, or made."""
        digest = hashlib.sha256(_tool() + json.dumps(given).encode()).hexdigest()
        known = self._read(digest)
        if known is not None:
            return known.decode("utf-8", "surrogatepass")
        made = make()
        self._write(digest, made.encode("utf-8", "surrogatepass"))
        return made

    def _read(self, name: str) -> bytes | None:
        path = self._path(name)
        try:
            data = path.read_bytes()
            digest, body = data[:32], data[32:]
            if hashlib.sha256(body).digest() != digest:
                return None
            found = zlib.decompress(body)
        except (OSError, zlib.error):
            return None
        with suppress(OSError):
            os.utime(path)
        return found

    def _write(self, name: str, content: bytes) -> None:
        body = zlib.compress(content, 1)
        path = self._path(name)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(hashlib.sha256(body).digest() + body)
                os.replace(temporary, path)
                self._wrote = True
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)

    def trim(self) -> None:
        """Where this run added entries, keep all of them together below the limit."""
        if not self._wrote:
            return
        entries = sorted(self._entries(), reverse=True)
        total = 0
        for _, size, path in entries:
            total += size
            if total > self._limit:
                with suppress(OSError):
                    os.unlink(path)

    def _entries(self) -> Iterator[tuple[int, int, str]]:
        """When each entry was last used, its size and its path."""
        with suppress(OSError):
            for folder in os.scandir(self._folder):
                for entry in os.scandir(folder.path):
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_mtime_ns, status.st_size, entry.path

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name[2:]


def default_folder() -> Path:
    """``XLA_MIGRATE_CACHE_DIR``, else the user's folder for caches."""
    named = os.environ.get("XLA_MIGRATE_CACHE_DIR")
    if named:
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("xla-migrate", appauthor=False)


def key(part: Part) -> str:
    """A digest of all that the outcomes of a part depend on: its files, the settings, the tool itself."""
    digest = hashlib.sha256(_tool())
    digest.update(json.dumps(asdict(part.settings), default=sorted, sort_keys=True).encode())
    for path, data in part.files.items():
        digest.update(hashlib.sha256(path.encode("utf-8", "surrogateescape")).digest())
        digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest()


@cache
def _tool() -> bytes:
    """A digest of the source of both packages, and of the versions of what they rest on."""
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            digest.update(f"{package} {version(package)}\n".encode())
    for name in ("xla_transforms", "xla_migrate"):
        folder = Path(sys.modules[name].__file__ or "").parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.digest()
