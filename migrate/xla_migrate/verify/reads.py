"""Watches reads of device values by the host, and the line of the script that asks for them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from xla_migrate.verify.trace import HostRead

READS = (
    "item", "tolist", "numpy", "cpu", "to", "__bool__", "__float__", "__int__", "__index__",
    "__format__", "__repr__", "__array__", "__contains__",
)  # fmt: skip


class HostReads:
    """Counts the reads; ``steps`` and ``executions`` give the numbers at this moment."""

    def __init__(self, root: Path, steps: Callable[[], int], executions: Callable[[], int]) -> None:
        self.root, self.steps, self.executions = root, steps, executions
        self._found: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._within = False

    def install(self) -> None:
        """Watch the methods of tensors for the rest of the process."""
        for name in READS:
            original = getattr(torch.Tensor, name)
            setattr(torch.Tensor, name, self._watched(name, original))

    def _watched(self, name: str, original: Any) -> Any:
        @functools.wraps(original)
        def read(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if self._within or tensor.device.type != "xla" or (name == "to" and not _to_host(args, kwargs)):
                return original(tensor, *args, **kwargs)
            self._within, before = True, self.executions()
            try:
                return original(tensor, *args, **kwargs)
            finally:
                self._within = False
                key = (where(self.root), name.strip("_"))
                self._found.setdefault(key, []).append((self.steps(), self.executions() - before))

        return read

    def all(self) -> list[HostRead]:
        """The reads by place, the most frequent first."""
        made = [
            HostRead(place, what, len(found), sum(n for _, n in found), len({step for step, _ in found}))
            for (place, what), found in self._found.items()
        ]
        return sorted(made, key=lambda read: (-read.count, read.where))


def _to_host(args: Any, kwargs: Any) -> bool:
    target = kwargs.get("device", args[0] if args else None)
    if isinstance(target, torch.Tensor):
        target = target.device
    return isinstance(target, (str, torch.device)) and torch.device(target).type == "cpu"


def where(root: Path) -> str:
    """``train.py:42``: the innermost line of a file below ``root`` that is being executed."""
    frame = sys._getframe(1)
    prefix = f"{root}/"
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(prefix):
            return f"{name.removeprefix(prefix)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "outside the script"
