"""What one run of a script leaves behind: a JSON file and the final tensors, in one directory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SUMMARY = "trace.json"
TENSORS = "tensors.npz"
STDOUT = "stdout.txt"
STDERR = "stderr.txt"


@dataclass(frozen=True)
class Request:
    """One run to record.

    ``side`` is ``native`` or ``xla``. ``mode`` is ``values`` (losses and final tensors) or
    ``count`` (compilations and executions, no value is read; ``xla`` only). ``workdir`` is where
    the script runs and writes; ``out`` is where the trace goes.
    """

    script: str
    side: str
    workdir: str
    out: str
    mode: str = "values"
    argv: list[str] = field(default_factory=list)
    seed: int = 0
    timeout: float = 120.0
    """Seconds."""


@dataclass(frozen=True)
class Failure:
    """The exception that ended a run; ``frames`` are its last ones, innermost last, as ``path:line
    in name: code``."""

    kind: str
    message: str
    frames: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n  ".join([f"{self.kind}: {self.message}", *self.frames])


@dataclass(frozen=True)
class Step:
    """One step of the optimizer that was made as number ``optimizer``, after ``backwards`` losses
    in all."""

    optimizer: int
    backwards: int


@dataclass(frozen=True)
class Sample:
    """Cumulative counts of torch_xla at one ``event``: ``backward``, ``step``, ``batch`` or
    ``end``."""

    event: str
    compiles: int
    executions: int
    barriers: int
    fallbacks: dict[str, int] = field(default_factory=dict)


@dataclass
class Trace:
    """One recorded run.

    ``losses`` holds what was handed to ``backward``, in order, before a gradient scaler's factor;
    None stands for a tensor that is not a scalar. ``batches`` counts what all DataLoaders yielded.
    ``parameters`` are the final ones, by optimizer in order of construction and by position;
    ``modules`` are the final states of the outermost modules that these belong to. ``files`` are
    the sizes in bytes of what the script wrote below its working directory.
    """

    side: str
    mode: str
    losses: list[float | None] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    batches: int = 0
    samples: list[Sample] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    failure: Failure | None = None
    stdout: str = ""
    stderr: str = ""
    parameters: list[list[Array]] = field(default_factory=list)
    modules: list[dict[str, Array]] = field(default_factory=list)

    def save(self, directory: Path) -> None:
        """Write the trace; the JSON file comes last, so where it is, all is."""
        with Replacing(directory / TENSORS) as stream:
            np.savez(stream, **_keyed(self.parameters, self.modules))
        small = {name: value for name, value in vars(self).items() if name not in NOT_IN_SUMMARY}
        shape = {
            "parameters": [len(group) for group in self.parameters],
            "modules": [list(module) for module in self.modules],
        }
        text = json.dumps({**small, **shape}, default=asdict, indent=1)
        with Replacing(directory / SUMMARY) as stream:
            stream.write(text.encode())

    @classmethod
    def load(cls, directory: Path) -> Trace:
        """Read a trace; raises FileNotFoundError where the run was cut off before it was
        written."""
        summary = json.loads((directory / SUMMARY).read_text())
        with np.load(directory / TENSORS) as tensors:
            parameters = [
                [tensors[f"optimizer{i}/{j}"] for j in range(count)]
                for i, count in enumerate(summary.pop("parameters"))
            ]
            modules = [
                {name: tensors[f"module{i}/{name}"] for name in names}
                for i, names in enumerate(summary.pop("modules"))
            ]
        failure = summary.pop("failure")
        return cls(
            steps=[Step(**step) for step in summary.pop("steps")],
            samples=[Sample(**sample) for sample in summary.pop("samples")],
            failure=Failure(**failure) if failure else None,
            parameters=parameters,
            modules=modules,
            stdout=read_text(directory / STDOUT),
            stderr=read_text(directory / STDERR),
            **summary,
        )


NOT_IN_SUMMARY = ("parameters", "modules", "stdout", "stderr")


def read_text(path: Path) -> str:
    """The text of a captured stream, empty where it was never opened."""
    return path.read_text(errors="replace") if path.exists() else ""


def _keyed(parameters: list[list[Array]], modules: list[dict[str, Array]]) -> dict[str, Any]:
    keyed = {
        f"optimizer{i}/{j}": a for i, group in enumerate(parameters) for j, a in enumerate(group)
    }
    return keyed | {
        f"module{i}/{name}": a for i, state in enumerate(modules) for name, a in state.items()
    }


class Replacing:
    """Opens a temporary file beside ``path`` and renames it when all went well."""

    def __init__(self, path: Path, sync: Callable[[int], None] = os.fsync) -> None:
        self.path, self.sync = path, sync
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}")

    def __enter__(self) -> IO[bytes]:
        self.stream = self.temporary.open("wb")
        return self.stream

    def __exit__(self, kind: object, *rest: object) -> None:
        self.stream.flush()
        self.sync(self.stream.fileno())
        self.stream.close()
        if kind is None:
            self.temporary.replace(self.path)
        else:
            self.temporary.unlink(missing_ok=True)
