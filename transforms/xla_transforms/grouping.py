"""Which files concern the tool, and which belong together: those that import one another, either way.

An unrelated script in the same folder is a program of its own: what it does says nothing about the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

# What a program that uses a GPU, or a helper of one, says somewhere. Its other modules need not: a file that
# asks for the rank, steps an optimizer or defines a scheduler is part of the program all the same.
GPU = re.compile(r"cuda|accelerator|device|gpu|nccl|\bget_rank\(|\.to\(\s*\d", re.IGNORECASE)
# What a module without GPUs says that has to be read with its program: ranks, steps, schedulers, a device's
# name. Not every module: data that several scripts share would make one program of them, with one launch.
RELATED = re.compile(r"cuda|\brank|_rank|world_size|distributed|optim|\.step\(", re.IGNORECASE)
# A module that a framework trains, or that starts training jobs, concerns the tool without naming CUDA.
FRAMEWORKS = (
    "transformers|accelerate|lightning|pytorch_lightning|ignite|horovod|fairscale|deepspeed|sagemaker"
)
FRAMEWORK = re.compile(
    rf"^[ \t]*(?:from|import)[ \t]+(?:{FRAMEWORKS})\b|GPU_NUM_DEVICES", re.MULTILINE
)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>[.\w]+)[ \t]+import[ \t]*\(?(?P<names>[^#\n)]*)"
    r"|import[ \t]+(?P<modules>[^#\n;]+))",
    re.MULTILINE,
)


def groups(texts: Mapping[str, str], others: Iterable[str] = ()) -> list[list[str]]:
    """Split modules (text by dotted name) into groups connected by imports, in the order given.

    ``others`` are modules that are there, too, but are of no interest: an import may mean one of them.
    """
    others = list(others)
    root = {name: name for name in texts}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    by_tail: dict[str, list[str]] = {}
    for name in dict.fromkeys([*texts, *others]):
        by_tail.setdefault(name.rpartition(".")[2], []).append(name)
    packages = packages_of([*texts, *others])
    for name, text in texts.items():
        for wanted in imported(name, text, packages):
            for other in nearest(name, wanted, by_tail):
                if other in root:
                    root[find(other)] = find(name)
    found: dict[str, list[str]] = {}
    for name in texts:
        found.setdefault(find(name), []).append(name)
    return list(found.values())


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
