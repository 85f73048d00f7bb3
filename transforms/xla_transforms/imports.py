"""The imports of a module: which local name a wanted module has, and where a new import line goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import libcst as cst

from xla_transforms.import_order import beside, blocks, home
from xla_transforms.scopes import How, ModuleIndex
from xla_transforms.targets import base as targets
from xla_transforms.tree import is_docstring

# What the migrated code may need, and its name there.
ALIASES = {
    "contextlib": "contextlib",
    "copy": "copy",
    "functools": "functools",
    "os": "os",
    "sagemaker.huggingface.TrainingCompilerConfig": "TrainingCompilerConfig",
    "sagemaker.pytorch.TrainingCompilerConfig": "TrainingCompilerConfig",
    "time": "time",
    "timm.utils.dispatch_clip_grad": "dispatch_clip_grad",
    "torch": "torch",
    "torch.distributed": "dist",
    "torch.utils.data.DistributedSampler": "DistributedSampler",
    **targets.ALIASES,
}
_PACKAGE = "torch_xla.amp."
# What is imported from its package, by name.
_FROM = (_PACKAGE, "torch_xla.distributed.fsdp.", "sagemaker.", "timm.utils.", "torch.utils.data.")
_CUDA_TWINS = ("torch.cuda.amp.{0}", "torch.cuda.amp.autocast_mode.{0}", "torch.cuda.amp.grad_scaler.{0}")


class ImportTable:
    """Local names for wanted modules in one file."""

    def __init__(self, index: ModuleIndex) -> None:
        self.index = index
        self._present = self._imported_at_top()
        self._bound = {name for scope in index.scopes.values() for name in scope.bindings}
        self._chosen: dict[str, str] = {}
        self.moving: set[cst.CSTNode] = set()  # import lines that go into a function
        self.twins: dict[str, frozenset[str]] = {}  # what else a module's name may stand for up to now

    def name_of(self, module: str) -> str:
        """The name under which a module is, or will be, known in the file."""
        if module not in self._chosen:
            self._chosen[module] = self._present.get(module) or self._own(module)
        return self._chosen[module]

    def _own(self, module: str) -> str:
        """The name that a module's new import gives it."""
        alias = ALIASES[module]
        return alias if self._replaces(module) else self._free(alias)

    def _replaces(self, module: str) -> bool:
        """Whether the file imports CUDA's thing of this name, whose import line the new one replaces."""
        if not module.startswith(_PACKAGE) and module not in self.twins:
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

    def placed(self, modules: list[str], used: int) -> dict[int, list[str]]:
        """The lines for the wanted modules, by the offset of the line where they go.

        ``used`` is where the new text begins: above the imports only where code stands in front of them.
        """
        run = self._run()
        in_front = run and run[0] is not self.index.source.module.body[0]
        if in_front and used <= self._above(run[0]):
            return {self._top(): self.lines(modules)}
        found: dict[int, list[str]] = defaultdict(list)
        known = blocks(self.index.source, [line for line in run if _is_import(line)])
        for line in self.lines(modules):
            words = line.split()
            block = home(known, words[1])
            if block is None:
                above = beside(known, words[1])
                found[self._behind([above]) if above else self.end()].append(line)
                continue
            earlier = block.before((words[0] == "from", words[1]))
            found[self._behind([earlier]) if earlier else self._above(block.lines[0])].append(line)
        return found

    def end(self) -> int:
        """The offset of the line behind the imports."""
        return self._behind(self._run())

    def apart(self) -> bool:
        """Whether no import precedes the new ones, which a blank line then parts from what follows."""
        run = self._run()
        return not run or not _is_import(run[-1])

    def _run(self) -> list[cst.SimpleStatementLine]:
        """The docstring and the first run of top-level imports; code in between ends it (``sys.path``)."""
        found: list[cst.SimpleStatementLine] = []
        for position, statement in enumerate(self.index.source.module.body):
            if _is_import(statement) or (position == 0 and is_docstring(statement)):
                assert isinstance(statement, cst.SimpleStatementLine)
                found += [statement] if statement not in self.moving else []
            elif found:
                break
        return found

    def _behind(self, run: Sequence[cst.SimpleStatementLine]) -> int:
        source = self.index.source
        return source.line_end(source.offsets(run[-1])[1]) if run else self._top()

    def _above(self, line: cst.SimpleStatementLine) -> int:
        return self.index.source.line_start(self.index.source.offsets(line)[0])

    def _top(self) -> int:
        source = self.index.source
        if not source.module.body:
            return len(source.text)
        return source.line_start(source.offsets(source.module.body[0])[0])


def _is_import(statement: cst.CSTNode) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    return all(isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body)
