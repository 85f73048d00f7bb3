"""All modules that are migrated together, and the questions that cross their borders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from xla_transforms.grouping import FRAMEWORK
from xla_transforms.scopes import Binding, How, ModuleIndex, Parents
from xla_transforms.source import Source


class Program:
    """The indexed modules by dotted name; a single script is a program of one module."""

    def __init__(self, sources: Iterable[tuple[str, Source]]) -> None:
        self._parents: Parents = {}
        self.modules = {name: ModuleIndex(source, name, self._parents) for name, source in sources}
        self._found: dict[tuple[str, ModuleIndex], ModuleIndex | None] = {}
        self._by_root = {index.source.module: index for index in self.modules.values()}

    def index_of(self, node: cst.CSTNode) -> ModuleIndex:
        """The module in which a node stands."""
        if len(self.modules) == 1:
            return next(iter(self.modules.values()))
        held = self._parents.get(id(node))
        return held[1].index if held is not None else self._by_root[node]  # type: ignore[index]

    @cached_property
    def uses_cuda(self) -> bool:
        """Whether anything names CUDA (or torch's accelerator) as a place to compute: else no pass is run."""
        return any(names_cuda(module) for module in self.modules.values())

    @cached_property
    def replicated(self) -> bool:
        """Whether the program trains in several processes that average gradients, by what it names."""
        if self.calls.get("init_process_group"):
            return True
        return self.mentions("DistributedDataParallel") and any(map(_wraps, self.modules.values()))

    def mentions(self, *words: str) -> bool:
        """Whether a word stands in any text: no path that has it as a part can be named without."""
        return any(word in index.source.text for index in self.modules.values() for word in words)

    @cached_property
    def calls(self) -> dict[str, list[cst.Call]]:
        """Every call by the last name of what is called: ``c`` for ``a.b.c(...)``."""
        found: dict[str, list[cst.Call]] = defaultdict(list)
        for index in self.modules.values():
            for node in index.all(cst.Call):
                assert isinstance(node, cst.Call)
                if isinstance(node.func, cst.Attribute):
                    found[node.func.attr.value].append(node)
                elif isinstance(node.func, cst.Name):
                    found[node.func.value].append(node)
        return found

    @cached_property
    def attributes(self) -> dict[str, list[Binding]]:
        """Every assignment to an attribute, by the attribute's name."""
        found: dict[str, list[Binding]] = defaultdict(list)
        for index in self.modules.values():
            for name, bindings in index.attributes.items():
                found[name].extend(bindings)
        return found

    def definition(self, path: str, importer: ModuleIndex) -> list[Binding]:
        """What binds ``package.module.name`` (or ``.module.name``) inside the program, if it is ours."""
        module_path, _, name = path.rpartition(".")
        module = self.module(module_path if module_path.strip(".") else path[: -len(name)], importer)
        if module is None:
            return []
        bindings = module.scopes[module.source.module].bindings.get(name, [])
        return [b for b in bindings if b.how is not How.OTHER]

    def module(self, path: str, importer: ModuleIndex) -> ModuleIndex | None:
        """The module that ``package.module`` (or ``.module``) names in an importer, if it is ours.

        Where the folder that Python starts from is not known, it is one around the importer; for
        a path of several parts it may be any, if only one fits.
        """
        if not path or len(self.modules) == 1:
            return None
        key = (path, importer)
        if key not in self._found:
            self._found[key] = self._find(path, importer)
        return self._found[key]

    def _find(self, path: str, importer: ModuleIndex) -> ModuleIndex | None:
        wanted = path.lstrip(".")
        level = len(path) - len(wanted)
        if level:
            parts = importer.name.split(".")
            package = parts[: len(parts) - level + _is_package(importer)]
            exact = self.modules.get(".".join([*package, *([wanted] if wanted else [])]))
            return exact if exact is not importer else None
        if wanted in self.modules:
            return self.modules[wanted] if self.modules[wanted] is not importer else None
        tails = [m for n, m in self.modules.items() if n.endswith("." + wanted) and m is not importer]
        roots = {m.name[: -len(wanted)]: m for m in tails}
        around = [root for root in roots if importer.name.startswith(root)]
        if around:
            return roots[max(around, key=len)]
        return tails[0] if len(tails) == 1 and "." in wanted else None


def _is_package(index: ModuleIndex) -> bool:
    return index.source.path.endswith("__init__.py")


def _wraps(index: ModuleIndex) -> bool:
    name = "DistributedDataParallel"
    bindings = (b for scope in index.scopes.values() for found in scope.bindings.values() for b in found)
    return bool(index.attributed(name)) or any(b.name.endswith(f".{name}") for b in bindings)


def reachable(program: Program, start: ModuleIndex) -> set[ModuleIndex]:
    """A module of a program with all of the program's modules that it imports, directly or not."""
    found, waiting = {start}, [start]
    while waiting:
        index = waiting.pop()
        scopes = (scope.bindings.values() for scope in index.scopes.values())
        bindings = (b for every in scopes for some in every for b in some if b.how is How.IMPORT)
        for binding in bindings:
            for path in (binding.name, binding.name.rpartition(".")[0]):
                module = program.module(path, index) if path.strip(".") else None
                if module is not None and module not in found:
                    found.add(module)
                    waiting.append(module)
    return found


def concerns(text: str) -> bool:
    """Whether a program with this text can use CUDA, or a framework that does: asked before parsing."""
    return "cuda" in text or "accelerator" in text or FRAMEWORK.search(text) is not None


def names_cuda(index: ModuleIndex) -> bool:
    attributes = {n.attr.value for n in index.all(cst.Attribute) if isinstance(n, cst.Attribute)}
    if attributes & {"cuda", "accelerator", "is_cuda"}:
        return True
    strings = (n.value for n in index.all(cst.SimpleString, cst.FormattedStringText) if isinstance(
        n, (cst.SimpleString, cst.FormattedStringText)))
    if any(text.lstrip("rRbBuU\"'").startswith(("cuda", "torch.cuda.")) for text in strings):
        return True
    bindings = (b for scope in index.scopes.values() for found in scope.bindings.values() for b in found)
    return any("torch.cuda" in binding.name for binding in bindings)
