"""Turns native PyTorch (CUDA) training code into PyTorch/XLA code.

The names below are imported when they are first used: the command line starts without the parser.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # as typing's, which costs more to import than all of this package's start
if TYPE_CHECKING:
    from xla_migrate.api import Result, migrate_file, migrate_project, migrate_source
    from xla_migrate.patch import Patch, PatchError
    from xla_migrate.project import ProjectSettings, project_settings
    from xla_transforms.formatting import BlackSettings

__all__ = [
    "BlackSettings",
    "Patch",
    "PatchError",
    "ProjectSettings",
    "Result",
    "__version__",
    "migrate_file",
    "migrate_project",
    "migrate_source",
    "project_settings",
]

_HOMES = {
    "BlackSettings": "xla_transforms.formatting",
    "Patch": "xla_migrate.patch",
    "PatchError": "xla_migrate.patch",
    "ProjectSettings": "xla_migrate.project",
    "Result": "xla_migrate.api",
    "migrate_file": "xla_migrate.api",
    "migrate_project": "xla_migrate.api",
    "migrate_source": "xla_migrate.api",
    "project_settings": "xla_migrate.project",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
