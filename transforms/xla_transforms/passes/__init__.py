"""The ordered passes. A pass is a module with ``RULES`` and ``run(context)``; the order is this tuple.

Loops come first: which loaders are wrapped decides which transfers the device pass still has to write.
"""

from __future__ import annotations

from types import ModuleType

from xla_transforms.passes import (
    availability,
    barrier,
    device,
    device_guards,
    device_moves,
    loaders,
    steps,
    transfers,
)

PASSES: tuple[ModuleType, ...] = (
    loaders,
    transfers,
    availability,
    device_guards,
    device,
    device_moves,
    steps,
    barrier,
)
