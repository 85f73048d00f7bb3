"""Names that are written and that not every release of the target has.

Source: the tagged sources of pytorch/xla v1.11.0, v1.12.0 and v1.13.0 (``core/xla_model.py``,
``utils/checkpoint.py``).
"""

from __future__ import annotations

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety

NEWER = Rule(
    "XLA938",
    "newer-name",
    "A name is written that the older ones of the target's releases lack.",
    "A target covers several releases; in the older ones the name raises AttributeError or ImportError.",
    safety=Safety.DISPLAY,
)
RULES = (NEWER,)


def run(context: Context) -> None:
    for name, (shown, release) in context.target.since.items():
        written = context.plan.about({name}) if not context.already_xla else set()
        places = [planned.node for planned in context.plan.planned if planned.id in written]
        if places:
            first = min(places, key=context.plan.offsets)
            message = f"{shown} came with torch_xla {release}: older containers raise an error here"
            context.plan.report(NEWER, first, message, f"train in the container of torch {release}")
