"""The imports of a module: which local name a wanted module has, and where a new import line goes."""

from __future__ import annotations

import libcst as cst

from xla_transforms.scopes import How, ModuleIndex
from xla_transforms.targets import base as targets

# What the migrated code may need, and its name there.
ALIASES = {
    "contextlib": "contextlib",
    "functools": "functools",
    "os": "os",
    "sagemaker.huggingface.TrainingCompilerConfig": "TrainingCompilerConfig",
    "sagemaker.pytorch.TrainingCompilerConfig": "TrainingCompilerConfig",
    "time": "time",
    "torch": "torch",
    "torch.distributed": "dist",
    **targets.ALIASES,
}
_PACKAGE = "torch_xla.amp."
_FROM = (_PACKAGE, "sagemaker.")  # what is imported from its package, by name
_CUDA_TWINS = ("torch.cuda.amp.{0}", "torch.cuda.amp.autocast_mode.{0}", "torch.cuda.amp.grad_scaler.{0}")


class ImportTable:
    """Local names for wanted modules in one file."""

    def __init__(self, index: ModuleIndex) -> None:
        self.index = index
        self._present = self._imported_at_top()
        self._bound = {name for scope in index.scopes.values() for name in scope.bindings}
        self._chosen: dict[str, str] = {}
        self.twins: dict[str, frozenset[str]] = {}  # what else a module's name may stand for up to now

    def name_of(self, module: str) -> str:
        """The name under which a module is, or will be, known in the file."""
        if module not in self._chosen:
            alias = ALIASES[module]
            own = alias if self._replaces(module) else self._free(alias)
            self._chosen[module] = self._present.get(module) or own
        return self._chosen[module]

    def _replaces(self, module: str) -> bool:
        """Whether the file imports CUDA's thing of this name, whose import line the new one replaces."""
        if not module.startswith(_PACKAGE):
            return False
        alias = ALIASES[module]
        twins = {twin.format(alias) for twin in _CUDA_TWINS} | self.twins.get(module, frozenset())
        bindings = [b for scope in self.index.scopes.values() for b in scope.bindings.get(alias, ())]
        imports = all(b.how is How.IMPORT and b.name in twins for b in bindings)
        return bool(bindings) and imports and all(self._unconditional(b.statement) for b in bindings)

    def replaced(self, modules: list[str]) -> set[str]:
        """The names among those of the wanted modules that the file imports from CUDA."""
        wanted = [m for m in modules if m not in self._present and self._replaces(m)]
        return {ALIASES[module] for module in wanted}

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
        missing = sorted(m for m in modules if m not in self._present)
        packages: dict[str, list[str]] = {}
        for module in (m for m in missing if m.startswith(_FROM)):
            package, _, item = module.rpartition(".")
            packages.setdefault(package, []).append(self._item(module, item))
        plain = [f"import {self._item(m, m)}" for m in missing if not m.startswith(_FROM)]
        return plain + [f"from {package} import {', '.join(items)}" for package, items in packages.items()]

    def _item(self, module: str, item: str) -> str:
        name = self.name_of(module)
        return item + (f" as {name}" if name != item else "")

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
