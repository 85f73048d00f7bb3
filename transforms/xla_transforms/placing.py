"""Where a device is at hand: the expression to write for "the device" at a place of the script."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.plan import Planned

if TYPE_CHECKING:
    from xla_transforms.context import Context


def device_at(context: Context, node: cst.CSTNode, change: Planned) -> str:
    """An expression that is the script's device at ``node``: a visible variable, else the target's own."""
    return change.spell(context.target.device)


def may_be_cpu(context: Context, node: cst.CSTNode) -> bool:
    """Whether the user's own flags can make the device at ``node`` the CPU."""
    return False


def xla_test(context: Context, node: cst.CSTNode) -> str | None:
    """A condition that holds where the device at ``node`` is the XLA device: ``device.type == "xla"``.

    ``None`` where no device variable is visible there.
    """
    return None
