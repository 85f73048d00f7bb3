"""Which files concern the tool, and which belong together: those that import one another, either way.

An unrelated script in the same folder is a program of its own: what it does says nothing about the others.
A module that says nothing of GPUs, ranks or steps joins no scripts, but is read with each that imports it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

# What a program that uses a GPU, or a helper of one, says somewhere. Its other modules need not: a file that
# asks for the rank, steps an optimizer or defines a scheduler is part of the program all the same.
GPU = re.compile(r"cuda|accelerator|device|gpu|nccl|\bget_rank\(|\.to\(\s*\d", re.IGNORECASE)
# What a module without GPUs says that makes it one of a program's own: ranks, steps, schedulers, a device's
# name. Not every module: data that several scripts share would make one program of them, with one launch.
RELATED = re.compile(r"cuda|\brank|_rank|world_size|distributed|optim|\.step\(", re.IGNORECASE)
# What the modules of a program that train say: those that import them may hold its loops, or start it.
TRAINS = re.compile(
    r"\.(?:backward|step|spawn|launch)\(|DistributedDataParallel|init_process_group|(?<!class )\b\w*Trainer\("
)
# A module that a framework trains, or that starts training jobs, concerns the tool without naming CUDA.
FRAMEWORKS = (
    "transformers|trl|sentence_transformers|accelerate|lightning|pytorch_lightning|ignite|horovod|fairscale|"
    "deepspeed|sagemaker|smdistributed|colossalai"
)
# So does one that starts others by a launcher for CUDA's process groups.
LAUNCHER = r"\btorchrun\b|\btorch\.distributed\.(?:launch|run)\b|\baccelerate[ \"',]+launch\b"
FRAMEWORK = re.compile(
    rf"^[ \t]*(?:from|import)[ \t]+(?:{FRAMEWORKS})\b|GPU_NUM_DEVICES|{LAUNCHER}", re.MULTILINE
)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>[.\w]+)[ \t]+import[ \t]*\(?(?P<names>[^#\n)]*)"
    r"|import[ \t]+(?P<modules>[^#\n;]+))",
    re.MULTILINE,
)


def groups(texts: Mapping[str, str], own: Collection[str]) -> list[tuple[str, ...]]:
    """Split modules (text by dotted name) into programs, each by the names of its modules in the order given.

    Those of ``own`` that import one another, directly or through others, make one program, and so do those
    that something which trains by them imports. What a program imports is read with it; the rest is in none.
    """
    steps = _steps(texts)
    root = {name: name for name in texts if name in own}
    starts = [*root, *_users(steps, [name for name in root if TRAINS.search(texts[name])], own)]
    needed = {name: _needed(steps, [name], own) for name in starts}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for reached in needed.values():
        first, *others = (find(name) for name in reached if name in root)
        root.update(dict.fromkeys(others, first))
    members: dict[str, set[str]] = defaultdict(set)
    for reached in needed.values():
        members[find(next(name for name in reached if name in root))] |= reached
    return [tuple(name for name in texts if name in whole) for whole in members.values()]


def _steps(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """The modules that each module imports."""
    by_tail: dict[str, list[str]] = {}
    for name in texts:
        by_tail.setdefault(name.rpartition(".")[2], []).append(name)
    found, packages = {}, packages_of(texts)
    for name, text in texts.items():
        paths = dict.fromkeys(imported(name, text, packages))
        found[name] = list(dict.fromkeys(other for path in paths for other in nearest(name, path, by_tail)))
    return found


def _users(steps: Mapping[str, list[str]], trained: list[str], own: Collection[str]) -> list[str]:
    """The modules, not of ``own``, that import what trains, directly or through others of their kind."""
    users: dict[str, list[str]] = defaultdict(list)
    for name, others in steps.items():
        for other in others if name not in own else ():
            users[other].append(name)
    return [name for name in _needed(users, trained, own) if name not in own]


def _needed(steps: Mapping[str, list[str]], names: list[str], own: Collection[str]) -> set[str]:
    """Modules and what they import, as far as the next of ``own``."""
    found, ahead = set(names), list(names)
    while ahead:
        fresh = [name for name in steps.get(ahead.pop(), ()) if name not in found]
        found.update(fresh)
        ahead.extend(name for name in fresh if name not in own)
    return found


def packages_of(names: Iterable[str]) -> set[str]:
    """The modules that hold others: a relative import in such a one starts at itself."""
    return {name.rpartition(".")[0] for name in names} - {""}


def imported(importer: str, text: str, packages: Collection[str] = ()) -> Iterator[str]:
    """The dotted paths that a module imports, and those that its imported names may be."""
    importer = f"{importer}.__init__" if importer in packages else importer
    for match in _IMPORT.finditer(text):
        if match["modules"]:
            yield from (part.split()[0] for part in match["modules"].split(",") if part.strip())
            continue
        base = _absolute(importer, match["base"])
        yield base
        for part in match["names"].split(","):
            if part.split():
                yield f"{base}.{part.split()[0]}".lstrip(".")


def _absolute(importer: str, base: str) -> str:
    level = len(base) - len(base.lstrip("."))
    if not level:
        return base
    package = importer.split(".")[:-level]
    return ".".join([*package, *([base.lstrip(".")] if base.lstrip(".") else [])])


def nearest(importer: str, wanted: str, by_tail: Mapping[str, list[str]]) -> list[str]:
    """The modules that a path may name: among several, those that share most folders with the importer."""
    candidates = [
        name
        for name in by_tail.get(wanted.rpartition(".")[2], ())
        if name != importer and (name == wanted or name.endswith("." + wanted))
    ]
    if len(candidates) < 2:
        return candidates
    shared = {name: _shared(importer, name) for name in candidates}
    return [name for name in candidates if shared[name] == max(shared.values())]


def _shared(left: str, right: str) -> int:
    count = 0
    for a, b in zip(left.split("."), right.split("."), strict=False):
        if a != b:
            break
        count += 1
    return count


def module_name(path: str) -> str:
    """The dotted name of a module's file."""
    parts = re.split(r"[/\\]", path.removesuffix(".py"))
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return ".".join(p for p in parts if p not in ("", ".", ".."))
