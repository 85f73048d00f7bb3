"""Real programs by name and version: packages of the index and checkouts, brought to this machine unread.

An archive of a package's source is downloaded and unpacked; nothing of it is built, installed or run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path


class Missing(Exception):
    """A source that could not be brought here; the message says why."""


@dataclass(frozen=True)
class Package:
    """A release of a package, with the digest of its source archive, so that it stays the same text."""

    name: str
    version: str
    sha256: str

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


def default_cache() -> Path:
    """Where archives are kept: in the user's cache folder, else in the system's for what is temporary."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    home = Path(chosen) if chosen else Path.home() / ".cache"
    usable = os.access(home, os.W_OK)
    return (home if usable else Path(tempfile.gettempdir())) / "xla-migrate" / "ecosystem"


def unpacked(package: Package, cache: Path) -> Path:
    """The folder with a package's source, downloaded where it is not there yet. Raises ``Missing``."""
    folder = cache / f"{package.name}-{package.version}-{package.sha256[:8]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        made = _download(package, Path(scratch))
        shutil.move(made, folder)
    return folder


def _download(package: Package, scratch: Path) -> Path:
    try:
        from unearth import PackageFinder
    except ImportError as error:
        raise Missing(f"{package.label}: {error}; install the dev extra") from error
    index = os.environ.get("PIP_INDEX_URL")
    finder = PackageFinder(
        index_urls=[index] if index else [],
        no_binary=[package.name],
        ignore_compatibility=True,  # it is read, by whichever Python
    )
    try:
        best = finder.find_best_match(f"{package.name}=={package.version}").best
        if best is None:
            raise Missing(f"{package.label}: the index has no source archive of it")
        hashes = {"sha256": [package.sha256]}
        return finder.download_and_unpack(best.link, scratch / "unpacked", scratch, hashes)
    except Missing:
        raise
    except Exception as error:  # whatever the network or the archive has against it
        raise Missing(f"{package.label}: not downloaded ({type(error).__name__}: {error})") from error
