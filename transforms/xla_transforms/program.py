"""All modules that are migrated together, and the questions that cross their borders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from xla_transforms.scopes import Binding, How, ModuleIndex
from xla_transforms.source import Source


class Program:
    """The indexed modules by dotted name; a single script is a program of one module."""

    def __init__(self, sources: Iterable[tuple[str, Source]]) -> None:
        self._parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.modules = {name: ModuleIndex(source, name, self._parents) for name, source in sources}
        self._by_root = {index.source.module: index for index in self.modules.values()}

    def index_of(self, node: cst.CSTNode) -> ModuleIndex:
        """The module in which a node stands."""
        if len(self.modules) == 1:
            return next(iter(self.modules.values()))
        current = node
        while (parent := self._parents.get(current)) is not None:
            current = parent
        return self._by_root[current]  # type: ignore[index]

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
        module = self._find(module_path, importer)
        if module is None:
            return []
        bindings = module.scopes[module.source.module].bindings.get(name, [])
        return [b for b in bindings if b.how is not How.OTHER]

    def _find(self, path: str, importer: ModuleIndex) -> ModuleIndex | None:
        if not path:
            return None
        level = len(path) - len(path.lstrip("."))
        wanted = path.lstrip(".")
        if level:
            package = importer.name.split(".")[: -level or None]
            wanted = ".".join([*package, wanted]) if wanted else ".".join(package)
        if wanted in self.modules and self.modules[wanted] is not importer:
            return self.modules[wanted]
        tails = [m for n, m in self.modules.items() if n.endswith("." + wanted) and m is not importer]
        return tails[0] if len(tails) == 1 and "." not in wanted.strip(".") else None
