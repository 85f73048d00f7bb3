"""The ordered passes. A pass is a module with ``RULES`` and ``run(context)``; the order is this tuple."""

from __future__ import annotations

from types import ModuleType

PASSES: tuple[ModuleType, ...] = ()
