"""The golden cases: the files of each, and what their ``case.toml`` says about running them.

A case is one script, ``native.py``, or a project: all that is Python below ``native/``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from xla_migrate.verify import BOUNDS, Bounds, Limits
from xla_transforms.engine import Settings, migrate_program
from xla_transforms.targets import DEFAULT

GOLDEN = Path(__file__).parents[1] / "golden"
ENTRIES = {False: "native.py", True: "train.py"}


@dataclass(frozen=True)
class Case:
    """One case. Read from ``case.toml``, all but ``dtype`` optional:

    ``entry``              the file of a project that is run (``train.py``)
    ``argv``               the arguments of the script
    ``replicas``           how many replicas it is run in, against as many native ranks (1)
    ``distributed``        it is a script of one process that is migrated to be replicas (false)
    ``dtype``              the lowest precision it computes in, ``float32`` or ``bfloat16``
    ``loss_bound``         another bound than that of the dtype, for losses
    ``parameter_bound``    the same for final parameters
    ``evaluation_bound``   the same for what modules return without gradients
    ``ignore_parameters``  parameters without a gradient but rounding, as ``optimizer.position``
    ``iterations``         iterations of all loops, where neither loaders nor optimizer steps tell
    ``execution_slack``    executions allowed beyond the iterations (3)
    ``compile_slack``      compilations allowed in the second half of the steps (0)
    ``prints_otherwise``   why what it prints is not compared
    ``not_counted``        why its executions are not counted: it reads or recompiles by its nature
    ``not_run``            by target why its script for that one cannot be run and compared
    """

    name: str
    native: Path
    bounds: Bounds
    limits: Limits
    argv: list[str] = field(default_factory=list)
    replicas: int = 1
    distributed: bool = False
    ignore: list[str] = field(default_factory=list)
    not_counted: str = ""
    prints_otherwise: str = ""
    not_run: Mapping[str, str] = field(default_factory=dict)

    def migrated(self, folder: Path, target: str = DEFAULT) -> Path:
        """Write the case into a folder, migrated; the script to run there."""
        sources = sources_of(GOLDEN / self.name)
        settings = Settings(target=target, distributed=self.distributed or "auto")
        outcomes = migrate_program({name: path.read_bytes() for name, path in sources.items()}, settings)
        for name, outcome in outcomes.items():
            written = folder / name
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_bytes(outcome.data)
        return next(folder / name for name, path in sources.items() if path == self.native)

    def runs_on(self, target: str) -> bool:
        """Whether there is an expected script for a target that can be run."""
        expected = self.native.parent / f"expected_{target.replace('.', '_')}.py"
        return target not in self.not_run and expected.exists()


def sources_of(directory: Path) -> dict[str, Path]:
    """The native files of a case, by their paths in the project; a single one is ``native.py``."""
    root = directory / "native"
    if not root.is_dir():
        return {"native.py": directory / "native.py"}
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.py"))}


def settings_of(directory: Path) -> dict[str, Any]:
    """What stands in the ``case.toml`` of a directory."""
    path = directory / "case.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}


def read_case(directory: Path) -> Case | None:
    """The case of a directory, None where it is not to be run."""
    settings = settings_of(directory)
    if not settings.get("runnable"):
        return None
    usual = BOUNDS[settings["dtype"]]
    loss = settings.get("loss_bound", usual.loss)
    limits = {
        name: settings[name]
        for name in ("iterations", "execution_slack", "compile_slack")
        if name in settings
    }
    return Case(
        name=directory.name,
        native=sources_of(directory)[settings.get("entry", ENTRIES[(directory / "native").is_dir()])],
        bounds=Bounds(
            loss=loss,
            parameters=settings.get("parameter_bound", usual.parameters),
            evaluation=settings.get("evaluation_bound", loss * usual.evaluation) / loss,
        ),
        limits=Limits(**limits),
        argv=settings.get("argv", []),
        replicas=settings.get("replicas", 1),
        distributed=settings.get("distributed", False),
        ignore=settings.get("ignore_parameters", []),
        not_counted=settings.get("not_counted", ""),
        prints_otherwise=settings.get("prints_otherwise", ""),
        not_run=settings.get("not_run", {}),
    )


def runnable_cases(root: Path = GOLDEN) -> list[Case]:
    """All cases that are to be run, by name."""
    directories = sorted(root.iterdir()) if root.is_dir() else []
    cases = [read_case(directory) for directory in directories]
    return [case for case in cases if case is not None]
