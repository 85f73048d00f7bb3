"""How to migrate: what the caller may choose."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from xla_transforms.formatting import BlackSettings
from xla_transforms.targets import DEFAULT

Distributed = Literal["auto"] | bool


@dataclass(frozen=True)
class Settings:
    """How to migrate.

    ``target`` names a torch_xla release; ``syncfree`` says when SGD, Adam and AdamW become their syncfree
    twins; ``black`` holds the user's black settings, ``None`` leaves new text unformatted. ``distributed``
    says whether the migrated program trains in several replicas; ``"auto"``: where the native one did.
    """

    target: str = DEFAULT
    syncfree: Literal["amp", "always", "never"] = "amp"
    black: BlackSettings | None = field(default_factory=BlackSettings)
    distributed: Distributed = "auto"
