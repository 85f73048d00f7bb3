"""Which files this process writes: replicas share a directory, and each is to write its own part."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import Any

import torch

WRITES = os.O_WRONLY | os.O_RDWR


class WrittenFiles:
    """The paths that were opened for writing from ``install`` on."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()

    def install(self) -> None:
        """Watch this process for the rest of its life."""
        sys.addaudithook(self._opened)
        save = torch.save

        @functools.wraps(save)
        def saved(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            self._note(f)  # written by C++, unseen by the hook
            save(obj, f, *args, **kwargs)

        torch.save = saved

    def _opened(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[2], int) and args[2] & WRITES:
            self._note(args[0])
        elif event == "os.rename":
            self._note(args[1])

    def _note(self, path: object) -> None:
        if isinstance(path, (str, bytes, os.PathLike)):
            self._paths.add(Path(os.path.abspath(os.fsdecode(path))))

    def of(self, files: dict[str, int], workdir: Path) -> dict[str, int]:
        """Those of the ``files`` below ``workdir`` that this process wrote."""
        return {name: size for name, size in files.items() if workdir / name in self._paths}
