"""What to write for each release of torch_xla: data, no decisions."""

from __future__ import annotations

from xla_transforms.targets.base import Target
from xla_transforms.targets.torch_xla_2_9 import TORCH_XLA_2_9

DEFAULT = "2.9"
TARGETS: dict[str, Target] = {"2.9": TORCH_XLA_2_9}


def target(name: str) -> Target:
    """The target of a name such as ``2.9`` or ``torch_xla==2.9``.

    Raises ``ValueError`` for a name that is not in the table.
    """
    plain = name.removeprefix("torch_xla").lstrip("=~ ")
    plain = ".".join(plain.split(".")[:2])
    if plain not in TARGETS:
        raise ValueError(f"unknown target {name!r}; known: {', '.join(sorted(TARGETS))}")
    return TARGETS[plain]
