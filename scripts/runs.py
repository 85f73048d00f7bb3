"""Whole runs for ``scripts/benchmark``: over projects, a second time, over a tree without torch code.

What is compared is CPU time, taken in alternation in one run. Other tools work on copies of the same files.
"""

from __future__ import annotations

import gc
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import libcst as cst

from xla_migrate.cli import main
from xla_migrate.documents import gather

FILES, MODULES = 20_000, 100  # of the tree without torch code, and how many of them a folder holds
OURS = (sys.executable, "-m", "xla_migrate", "--quiet", "--no-cache", "--jobs", "1")
_MEBIBYTE = 1024  # ru_maxrss counts kibibytes on Linux


def best(rounds: int, *sides: Callable[[], object]) -> list[float]:
    """The least CPU time of each side, the sides in turn in each round."""
    found = [float("inf")] * len(sides)
    for _ in range(rounds):
        for number, side in enumerate(sides):
            gc.collect()  # what one side leaves is no cost of the other
            start = time.process_time()
            side()
            found[number] = min(found[number], time.process_time() - start)
    return found


def project(folder: Path, rounds: int) -> tuple[str, list[float]]:
    """Parsing and printing all files of a folder, the whole tool, and the tool a second time."""
    contents = list(_sources(folder))
    with tempfile.TemporaryDirectory() as kept:
        run(folder, kept)
        sides = (lambda: _print(contents), lambda: run(folder), lambda: run(folder, kept))
        times = best(rounds, *sides)
    return f"{len(contents)} files {sum(map(len, contents)) // 1000} kB", times


def _sources(folder: Path) -> Iterator[bytes]:
    """The files of a folder that hold Python, notebooks among them."""
    return (d.content.data for d in gather([str(folder)]) if d.content and d.path.endswith((".py", ".ipynb")))


def _print(contents: Sequence[bytes]) -> None:
    """Parse and print files; of a notebook its cells of code."""
    for data in contents:
        for source in _cells(data) if data.startswith(b"{") else [data]:
            _printed(source)


def _cells(data: bytes) -> Iterator[bytes]:
    for cell in json.loads(data)["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"]).encode()


def run(folder: Path, cache: str = "") -> None:
    """What ``xla-migrate --check FOLDER`` does, but for its start."""
    asked = ["--check", "--jobs", "1", *([] if cache else ["--no-cache"]), str(folder)]
    report = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with mock.patch.dict(os.environ, {"XLA_MIGRATE_CACHE_DIR": cache}), redirect_stdout(report):
        main(asked)


def _printed(data: bytes) -> str:
    try:
        return cst.parse_module(data).code
    except Exception:  # what libcst does not take the tool does not, either
        return ""


def tree_without_torch(rounds: int) -> tuple[str, list[float]]:
    """Walking and reading a tree of modules, and the whole tool over it."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        plant(folder)
        return f"{FILES} files", best(rounds, lambda: _read(folder), lambda: run(folder))


def plant(folder: Path) -> None:
    """Modules of plain Python that import one another."""
    choose = random.Random(1)
    unit = "def f{0}(x, y={0}):\n    z = [a * {0} for a in range(x)]\n    return sum(z) + y\n\n\n"
    for number in range(FILES):
        place = folder / f"p{number // (20 * MODULES)}" / f"m{number // MODULES}"
        place.mkdir(parents=True, exist_ok=True)
        body = "".join(unit.format(k) for k in range(choose.randint(2, 25)))
        text = f"import os\nfrom . import f{(number + 1) % MODULES}\n\n\n{body}"
        (place / f"f{number % MODULES}.py").write_text(text)


def _read(folder: Path) -> int:
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                size += len(file.read())
    return size


def peak(folder: Path) -> float:
    """MiB that one process takes at most to check a folder, nothing known from before."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [*OURS, "--check", str(folder)]
    ran = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    return int(ran.stdout) / _MEBIBYTE


def others(folder: Path, tools: Path) -> list[tuple[str, float]]:
    """CPU seconds of the tools in a folder of programs on a copy of a project, this tool among them."""
    found = []
    for name, command in _commands(tools).items():
        if not Path(command[0]).exists():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / "project"
            subprocess.run(["cp", "-r", str(folder), str(copy)], check=True)
            given = [part.format(copy=copy, out=Path(scratch) / "out") for part in command]
            found.append((name, children(given, scratch)))
    return found


def _commands(tools: Path) -> dict[str, Sequence[str]]:
    codemod = [str(tools / "python"), "-m", "libcst.tool", "codemod", "noop.NOOPCommand"]
    return {
        "xla-migrate --inplace": [*OURS, "--inplace", "{copy}"],
        "LibCST's no-op codemod": [*codemod, "--no-format", "--jobs", "1", "{copy}"],
        "torchfix": [str(tools / "torchfix"), "--select", "ALL", "{copy}"],
        "paconvert": [str(tools / "paconvert"), "--in_dir", "{copy}", "--out_dir", "{out}"],
    }


def children(command: Sequence[str], folder: str) -> float:
    """The CPU seconds of a program, and of those that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
