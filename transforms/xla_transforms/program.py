"""All modules that are migrated together, and the questions that cross their borders."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from xla_transforms.grouping import FRAMEWORK
from xla_transforms.numbered import NUMBERED, numbers_cuda
from xla_transforms.scopes import Binding, How, ModuleIndex, Parents
from xla_transforms.source import Source
from xla_transforms.tree import destination, dotted


class Program:
    """The indexed modules by dotted name; a single script is a program of one module."""

    def __init__(self, sources: Iterable[tuple[str, Source]]) -> None:
        self._parents: Parents = {}
        self.modules = {name: ModuleIndex(source, name, self._parents) for name, source in sources}
        self._only = next(iter(self.modules.values())) if len(self.modules) == 1 else None
        self._found: dict[tuple[str, ModuleIndex], ModuleIndex | None] = {}
        self._mentioned: dict[tuple[str, ...], bool] = {}
        self._said: dict[tuple[str, ...], bool] = {}
        self._by_root = {index.source.module: index for index in self.modules.values()}

    @cached_property
    def _by_tail(self) -> dict[str, list[ModuleIndex]]:
        found: dict[str, list[ModuleIndex]] = defaultdict(list)
        for name, index in self.modules.items():
            found[name.rpartition(".")[2]].append(index)
        return found

    def index_of(self, node: cst.CSTNode) -> ModuleIndex:
        """The module in which a node stands."""
        if self._only is not None:
            return self._only
        held = self._parents.get(id(node))
        return held[1].index if held is not None else self._by_root[node]  # type: ignore[index]

    def line_of(self, node: cst.CSTNode, beside: ModuleIndex) -> str:
        """The line of a node in the words of a finding about a module: ``7``, or ``7 of utils.py``."""
        source = self.index_of(node).source
        line = str(source.span(node).line)
        return line if source is beside.source else f"{line} of {source.path.rpartition('/')[2]}"

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """What holds a node; ``None`` also for one that stands in no module."""
        held = self._parents.get(id(node))
        return held[0] if held is not None else None

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
        if words not in self._mentioned:
            texts = [index.source.text for index in self.modules.values()]
            self._mentioned[words] = any(word in text for text in texts for word in words)
        return self._mentioned[words]

    def says(self, *words: str) -> bool:
        """Whether one of some names stands in any text as a word of its own."""
        if words not in self._said:
            pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
            texts = [index.source.text for index in self.modules.values()]
            self._said[words] = self.mentions(*words) and any(map(pattern.search, texts))
        return self._said[words]

    @cached_property
    def calls(self) -> dict[str, list[cst.Call]]:
        """Every call by the last name of what is called: ``c`` for ``a.b.c(...)``, and for ``d(...)`` where
        ``c`` is imported as ``d``; by an empty one where it has no name: ``losses[kind](...)``."""
        found: dict[str, list[cst.Call]] = defaultdict(list)
        for index in self.modules.values():
            renamed = _renamed(index)
            for node in index.all(cst.Call):
                assert isinstance(node, cst.Call)
                if isinstance(node.func, cst.Attribute):
                    found[node.func.attr.value].append(node)
                elif isinstance(node.func, cst.Name):
                    name = node.func.value
                    for meant in _defined_as(index, node.func) if name in renamed else (name,):
                        found[meant].append(node)
                else:
                    found[""].append(node)
        return found

    @cached_property
    def attributes(self) -> dict[str, list[Binding]]:
        """Every assignment to an attribute, by the attribute's name."""
        found: dict[str, list[Binding]] = defaultdict(list)
        for index in self.modules.values():
            for name, bindings in index.attributes.items():
                found[name].extend(bindings)
        return found

    @cached_property
    def declared(self) -> dict[str, list[cst.Call]]:
        """The calls that declare the command-line options, by the attribute that each stores to."""
        found: dict[str, list[cst.Call]] = defaultdict(list)
        for call in self.calls.get("add_argument", ()):
            found[destination(call)].append(call)
        return found

    def related(self, index: ModuleIndex) -> list[ModuleIndex]:
        """A module, what it imports and what imports it, each way as far as it leads."""
        behind = _along(self._importers, index)
        return list(dict.fromkeys([*self.reachable(index), *behind]))

    def reachable(self, index: ModuleIndex) -> list[ModuleIndex]:
        """A module with all of the program's modules that it imports, directly or not."""
        return _along(self._imports, index)

    def imported(self, name: str) -> bool:
        """Whether another module of the program imports one."""
        return bool(self._importers[name])

    @cached_property
    def _imports(self) -> dict[str, list[ModuleIndex]]:
        """The modules of the program that each module imports."""
        return {name: list(dict.fromkeys(self._imported(m))) for name, m in self.modules.items()}

    @cached_property
    def _importers(self) -> dict[str, list[ModuleIndex]]:
        found: dict[str, list[ModuleIndex]] = {name: [] for name in self.modules}
        for name, imported in self._imports.items():
            for module in imported:
                found[module.name].append(self.modules[name])
        return found

    def imports_of(self, module: ModuleIndex) -> Iterator[cst.CSTNode]:
        """The imports of a module, wherever in the program they stand."""
        for importer in self._importers[module.name]:
            found = _imports(importer)
            yield from (b.node for b in found if self.module_of(b, importer) is module)

    def module_of(self, binding: Binding, importer: ModuleIndex) -> ModuleIndex | None:
        """The module of the program that an import names, or takes a name from."""
        above = binding.name.rpartition(".")[0]
        return self.module(binding.name, importer) or self.module(above, importer)

    def _imported(self, importer: ModuleIndex) -> Iterator[ModuleIndex]:
        for binding in _imports(importer):
            module = self.module_of(binding, importer)
            if module is not None:
                yield module

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
        ends = self._by_tail[wanted.rpartition(".")[2]]
        tails = [m for m in ends if m.name.endswith("." + wanted) and m is not importer]
        roots = {m.name[: -len(wanted)]: m for m in tails}
        around = [root for root in roots if importer.name.startswith(root)]
        if around:
            return roots[max(around, key=len)]
        return tails[0] if len(tails) == 1 and "." in wanted else None


def _along(steps: dict[str, list[ModuleIndex]], start: ModuleIndex) -> list[ModuleIndex]:
    """What the steps lead to from a module, itself first."""
    found, ahead = {start.name: start}, [start]
    while ahead:
        fresh = [m for m in steps[ahead.pop().name] if m.name not in found]
        found.update({m.name: m for m in fresh})
        ahead.extend(fresh)
    return list(found.values())


def _imports(index: ModuleIndex) -> Iterator[Binding]:
    """The imports of a module, those in its functions among them."""
    every = (b for scope in index.scopes.values() for found in scope.bindings.values() for b in found)
    return (b for b in every if b.how is How.IMPORT)


def _is_package(index: ModuleIndex) -> bool:
    return index.source.path.endswith("__init__.py")


def _wraps(index: ModuleIndex) -> bool:
    """Whether a module names the wrapper, other than to import it or to ask whether something is one."""
    name = "DistributedDataParallel"
    bound = [item for scope in index.scopes.values() for item in scope.bindings.items()]
    imported = {local for local, bindings in bound if any(b.name.endswith(f".{name}") for b in bindings)}
    named = [*index.attributed(name), *(n for local in imported for n in index.named(local))]
    return any(not _only_asked(index, node) for node in named)


def _only_asked(index: ModuleIndex, node: cst.CSTNode) -> bool:
    """Whether a class is named in ``isinstance(x, C)``, ``type(x) is C`` or an import."""
    around = (a for a in index.ancestors(node) if not isinstance(a, (cst.Attribute, cst.Tuple, cst.Element)))
    outer = next(around)
    if isinstance(outer, cst.Arg):
        call = index.parent(outer)
        return isinstance(call, cst.Call) and dotted(call.func) == "isinstance"
    return isinstance(outer, (cst.ComparisonTarget, cst.ImportAlias, cst.AsName))


def concerns(text: str) -> bool:
    """Whether a program with this text can use CUDA, a framework that does, or be a part of one that does:
    asked before parsing."""
    words = ("cuda", "accelerator", "nccl", "get_rank(")  # a process group on nccl needs CUDA
    named = any(word in text for word in words) or NUMBERED.search(text) is not None
    return named or FRAMEWORK.search(text) is not None


def names_cuda(index: ModuleIndex) -> bool:
    attributes = {n.attr.value for n in index.all(cst.Attribute) if isinstance(n, cst.Attribute)}
    if attributes & {"cuda", "accelerator", "is_cuda"}:
        return True
    strings = (n.value for n in index.all(cst.SimpleString, cst.FormattedStringText) if isinstance(
        n, (cst.SimpleString, cst.FormattedStringText)))
    if any(text.lstrip("rRbBuU\"'").startswith(("cuda", "torch.cuda.", "nccl")) for text in strings):
        return True
    bindings = (b for scope in index.scopes.values() for found in scope.bindings.values() for b in found)
    return any("torch.cuda" in binding.name for binding in bindings) or numbers_cuda(index)


def _renamed(index: ModuleIndex) -> set[str]:
    """The names that a module's imports give to what has another one: ``import a as b``."""
    aliases = (a for a in index.all(cst.ImportAlias) if isinstance(a, cst.ImportAlias))
    names = (a.asname.name for a in aliases if a.asname is not None)
    return {name.value for name in names if isinstance(name, cst.Name)}


def _defined_as(index: ModuleIndex, name: cst.Name) -> list[str]:
    """What the things are called that a name stands for, where they are imported from or defined."""
    owner = index.scope_of(name).owner(name.value)
    bindings = owner.bindings[name.value] if owner is not None else []
    words = (b.name.rpartition(".")[2] if b.how is How.IMPORT else name.value for b in bindings)
    return list(dict.fromkeys(words)) or [name.value]
