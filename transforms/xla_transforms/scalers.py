"""What becomes of gradient scalers on a target that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from xla_transforms.context import Context


def unwound(context: Context, scaler: cst.BaseExpression) -> bool:
    """Whether the scaler an expression gives is taken out of the script."""
    return not context.target.has_grad_scaler
