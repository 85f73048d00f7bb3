"""A trace as one file: a zip archive, written whole or not at all."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np

from xla_migrate.verify.trace import (
    Array,
    Batch,
    Collective,
    Evaluation,
    Failure,
    HostRead,
    Sample,
    Shard,
    Step,
    Trace,
)

VERSION = 1
SUMMARY = "trace.json"
TRACE, STDOUT, STDERR, PROGRESS = "run.trace", "stdout.txt", "stderr.txt", "steps.txt"
"""What a recording process leaves in the directory it was given."""

STREAMS = ("stdout", "stderr")
ARRAYS = ("parameters", "modules")
RECORDS: dict[str, Any] = {
    "steps": Step,
    "loaded": Batch,
    "evaluations": Evaluation,
    "samples": Sample,
    "reads": HostRead,
    "collectives": Collective,
}


class BadTrace(Exception):
    """A file that is no trace, is cut off, or is of another version; says which and what to do."""


def save(trace: Trace, path: Path) -> None:
    """Write a trace. The archive's table comes last and the name last of all: no half of a trace
    can be read as a whole one. Raises OSError where it cannot be written."""
    apart = (*STREAMS, *ARRAYS)
    summary = {name: value for name, value in vars(trace).items() if name not in apart}
    summary["modules"] = [list(module) for module in trace.modules]
    summary["parameters"] = [len(group) for group in trace.parameters]
    text = json.dumps({"version": VERSION, **summary}, default=vars)
    packed: Any = {"compression": zipfile.ZIP_DEFLATED, "compresslevel": 1}  # numbers hardly shrink
    with Replacing(path) as stream, zipfile.ZipFile(stream, "w", **packed) as archive:
        archive.writestr(SUMMARY, text)
        for name in STREAMS:
            archive.writestr(f"{name}.txt", getattr(trace, name))
        for key, array in _keyed(trace).items():
            archive.writestr(key, _bytes_of(array))


def load(path: Path) -> Trace:
    """Read a trace. Raises FileNotFoundError, or :class:`BadTrace` with the reason."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path)
    except zipfile.BadZipFile as error:
        raise BadTrace(f"{path} is no trace, or was cut off: {error}; record it again") from error
    except (KeyError, TypeError, ValueError) as error:
        raise BadTrace(f"{path} is no trace of this version ({error!r}); record it again") from error


def _read(archive: zipfile.ZipFile, path: Path) -> Trace:
    summary = json.loads(archive.read(SUMMARY))
    if summary.pop("version") != VERSION:
        raise BadTrace(f"{path} was recorded by another version of xla-migrate; record it again")
    for name, kind in RECORDS.items():
        summary[name] = [kind(**record) for record in summary[name]]
    summary["shards"] = [[s and Shard(**s) for s in group] for group in summary.get("shards", [])]
    if summary["failure"]:
        summary["failure"] = Failure(**summary["failure"])
    for name in STREAMS:
        summary[name] = archive.read(f"{name}.txt").decode()
    summary["parameters"] = [
        [_array(archive, f"parameters/{i}/{j}") for j in range(count)]
        for i, count in enumerate(summary["parameters"])
    ]
    summary["modules"] = [
        {name: _array(archive, f"modules/{i}/{name}") for name in names}
        for i, names in enumerate(summary["modules"])
    ]
    return Trace(**summary)


def _keyed(trace: Trace) -> dict[str, Array]:
    return {
        f"parameters/{i}/{j}": a for i, group in enumerate(trace.parameters) for j, a in enumerate(group)
    } | {f"modules/{i}/{name}": a for i, state in enumerate(trace.modules) for name, a in state.items()}


def _bytes_of(array: Array) -> bytes:
    buffer = BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _array(archive: zipfile.ZipFile, key: str) -> Array:
    array: Array = np.load(BytesIO(archive.read(key)), allow_pickle=False)
    return array


def read_text(path: Path) -> str:
    """The text of a captured stream, empty where it was never opened."""
    return path.read_text(errors="replace") if path.exists() else ""


class Replacing:
    """Opens a temporary file beside ``path`` and renames it when all went well."""

    def __init__(self, path: Path, sync: Callable[[int], None] = os.fsync) -> None:
        self.path, self.sync = path, sync
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}")

    def __enter__(self) -> IO[bytes]:
        self.stream = self.temporary.open("wb")
        return self.stream

    def __exit__(self, kind: object, *rest: object) -> None:
        try:
            with self.stream:
                self.stream.flush()
                self.sync(self.stream.fileno())
            if kind is None:
                self.temporary.replace(self.path)
        finally:
            self.temporary.unlink(missing_ok=True)
