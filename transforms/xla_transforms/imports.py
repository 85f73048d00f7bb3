"""The imports of a module: which local name a wanted module has, and where a new import line goes."""

from __future__ import annotations

import libcst as cst

from xla_transforms.scopes import How, ModuleIndex

# What the migrated code may need, and the name that PyTorch/XLA's own examples give it.
ALIASES = {
    "contextlib": "contextlib",
    "functools": "functools",
    "os": "os",
    "time": "time",
    "torch": "torch",
    "torch.distributed": "dist",
    "torch.utils.data.DistributedSampler": "DistributedSampler",
    "torch_xla": "torch_xla",
    "torch_xla.amp.syncfree": "syncfree",
    "torch_xla.amp.GradScaler": "GradScaler",
    "torch_xla.amp.autocast": "autocast",
    "torch_xla.core.xla_model": "xm",
    "torch_xla.debug.profiler": "xp",
    "torch_xla.distributed.parallel_loader": "pl",
    "torch_xla.distributed.xla_backend": "xla_backend",
    "torch_xla.distributed.xla_multiprocessing": "xmp",
    "torch_xla.experimental.pjrt_backend": "pjrt_backend",
    "torch_xla.runtime": "xr",
    "torch_xla.utils.checkpoint": "xla_checkpoint",
}
_FROM = {
    "torch.utils.data.DistributedSampler", "torch_xla.amp.syncfree", "torch_xla.amp.GradScaler",
    "torch_xla.amp.autocast",
}  # fmt: skip


class ImportTable:
    """Local names for wanted modules in one file."""

    def __init__(self, index: ModuleIndex) -> None:
        self.index = index
        self._present = self._imported_at_top()
        self._bound = {name for scope in index.scopes.values() for name in scope.bindings}
        self._chosen: dict[str, str] = {}

    def name_of(self, module: str) -> str:
        """The name under which a module is, or will be, known in the file."""
        if module not in self._chosen:
            self._chosen[module] = self._present.get(module) or self._free(ALIASES[module])
        return self._chosen[module]

    def _free(self, alias: str) -> str:
        while alias in self._bound:
            alias = f"xla_{alias}"
        self._bound.add(alias)
        return alias

    def _imported_at_top(self) -> dict[str, str]:
        found: dict[str, str] = {}
        module = self.index.source.module
        for name, bindings in self.index.scopes[module].bindings.items():
            for binding in bindings:
                if binding.how is How.IMPORT and self._unconditional(binding.statement):
                    found[binding.name] = name
        return found

    def _unconditional(self, statement: cst.CSTNode) -> bool:
        line = self.index.parent(statement)
        return line is not None and isinstance(self.index.parent(line), cst.Module)

    def lines(self, modules: list[str]) -> list[str]:
        """The import lines for the wanted modules that the file does not have yet."""
        missing = [m for m in modules if m not in self._present]
        return sorted((self._line(m) for m in missing), key=lambda line: (line.startswith("from"), line))

    def _line(self, module: str) -> str:
        name = self.name_of(module)
        if module in _FROM:
            package, _, item = module.rpartition(".")
            return f"from {package} import {item}" + (f" as {name}" if name != item else "")
        return f"import {module}" + (f" as {name}" if name != module else "")

    def insertion(self) -> tuple[int, bool]:
        """Offset of the line where imports go (behind the import block), and whether none precede it.

        Imports inside the first run of top-level statements count, also those behind a docstring or a
        ``__future__`` import; code in between (``sys.path`` changes) ends the run.
        """
        source = self.index.source
        anchor: cst.CSTNode | None = None
        for position, statement in enumerate(source.module.body):
            if _is_import(statement) or (position == 0 and _is_docstring(statement)):
                anchor = statement
            elif anchor is not None:
                break
        if anchor is None:
            return self._top(), True
        end = source.line_end(source.offsets(anchor)[1])
        return end, not _is_import(anchor)

    def _top(self) -> int:
        source = self.index.source
        if not source.module.body:
            return len(source.text)
        return source.line_start(source.offsets(source.module.body[0])[0])


def _is_import(statement: cst.CSTNode) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    return all(isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body)


def _is_docstring(statement: cst.CSTNode) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    small = statement.body[0]
    return isinstance(small, cst.Expr) and isinstance(
        small.value, (cst.SimpleString, cst.ConcatenatedString)
    )
