"""What to write for each release of torch_xla: data, no decisions."""

from __future__ import annotations

from xla_transforms.targets.base import Target
from xla_transforms.targets.sagemaker import SAGEMAKER
from xla_transforms.targets.torch_xla_2_1 import TORCH_XLA_2_1
from xla_transforms.targets.torch_xla_2_5 import TORCH_XLA_2_5
from xla_transforms.targets.torch_xla_2_9 import TORCH_XLA_2_9

DEFAULT = "2.9"
TARGETS: dict[str, Target] = {t.name: t for t in (TORCH_XLA_2_9, TORCH_XLA_2_5, TORCH_XLA_2_1, SAGEMAKER)}


def target(name: str) -> Target:
    """The target of a name such as ``2.9`` or ``sagemaker``, or of a release: ``torch_xla==2.6.1``.

    Raises ``ValueError`` for a release that no target covers.
    """
    plain = name.removeprefix("torch_xla").lstrip("=~ ")
    if plain in TARGETS:
        return TARGETS[plain]
    found = covering(plain)
    if found is None:
        raise ValueError(f"unknown target {name!r}; known: {', '.join(TARGETS)}")
    return found


def covering(release: str) -> Target | None:
    """The target whose releases a version of torch_xla (or of the torch it belongs to) is one of."""
    numbers = release.split(".")[:2]
    if len(numbers) < 2 or not all(n.isdecimal() for n in numbers):
        return None
    version = (int(numbers[0]), int(numbers[1]))
    return next((t for t in TARGETS.values() if t.releases[0] <= version <= t.releases[1]), None)
