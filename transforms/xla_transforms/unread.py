"""Variables of which the migration took the last read: ``local_rank``, the number of GPUs.

They go where nothing happens when their value is computed. What nothing read before stays, as does what
other code may reach: names that other modules use, those of notebooks, and all where ``locals()`` is asked.
"""

from __future__ import annotations

import symtable
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from xla_transforms.cleanup import removal, words_in
from xla_transforms.ignores import spares
from xla_transforms.plan import Site
from xla_transforms.roles import Roles
from xla_transforms.scopes import ModuleIndex, Scope
from xla_transforms.tree import LOOPS, is_main_guard, walk

_BY_NAME = ("dir", "eval", "exec", "globals", "locals", "vars")
_PURE = frozenset({
    "abs", "bool", "float", "int", "len", "list", "max", "min", "range", "str", "tuple",
    "multiprocessing.cpu_count", "multiprocessing.get_context", "os.cpu_count", "os.environ.get", "os.getenv",
    "torch.cuda.current_device", "torch.cuda.device_count", "torch.cuda.is_available", "torch.device",
    "torch.distributed.get_backend", "torch.distributed.get_rank", "torch.distributed.get_world_size",
    "torch.distributed.is_available", "torch.distributed.is_initialized", "torch.multiprocessing.get_context",
})  # fmt: skip
_PLAIN = (
    cst.Name, cst.Integer, cst.Float, cst.SimpleString, cst.FormattedString, cst.ConcatenatedString,
    cst.Attribute, cst.UnaryOperation, cst.BinaryOperation, cst.BooleanOperation, cst.Comparison,
    cst.IfExp, cst.List, cst.Tuple,
)  # fmt: skip


@dataclass(frozen=True)
class Variable:
    """A variable with the scope and the statements that bind it."""

    name: str
    scope: Scope
    statements: tuple[cst.CSTNode, ...]


class Unread:
    """Finds the variables of one module that nothing reads any more."""

    def __init__(self, roles: Roles, index: ModuleIndex) -> None:
        self.roles, self.index = roles, index
        open_to_all = index.source.is_notebook or any(map(index.named, _BY_NAME))
        self.scopes = [] if open_to_all else [s for s in index.scopes.values() if self._own(s)]

    def sites(self, code: str, sites: Sequence[Site]) -> list[Site]:
        """Sites that take out what ``code``, the text that ``sites`` give, does not read."""
        text, gone = self.index.source.text, {s.removes for s in sites if s.removes is not None}
        names = words_in(text, sites)
        variables = [v for v in self._variables(names) if not gone.issuperset(v.statements)]
        table = _table(code) if variables else None
        if table is None:
            return []
        unread = [v for v in variables if not _is_read(table, self._path(v.scope), v.name)]
        found: list[cst.CSTNode] = []
        for one in unread:
            bound = {name for statement in one.statements for name in _bound(statement)}
            together = bound <= {v.name for v in unread if v.scope is one.scope}
            if together and not self._empties(one.statements, gone):
                found += [s for s in one.statements if s not in gone]
                gone.update(one.statements)
        return [removal(self.index, statement) for statement in found]

    def _own(self, scope: Scope) -> bool:
        """Whether what a scope binds can be a variable of this text alone."""
        return scope.node is self.index.source.module or isinstance(scope.node, cst.FunctionDef)

    def _variables(self, names: Collection[str]) -> Iterator[Variable]:
        """Those of some names that something read, and of which no value does anything."""
        for scope in self.scopes:
            for name in sorted(scope.bindings.keys() & names):
                statements = tuple(dict.fromkeys(b.statement for b in scope.bindings[name]))
                own = scope.parent is not None
                read = (own or all(map(self._runs, statements))) and self._was_read(scope, name)
                if read and all(map(self._removable, statements)) and (own or not self._told(name)):
                    yield Variable(name, scope, statements)

    def _was_read(self, scope: Scope, name: str) -> bool:
        """Whether something read a variable that one scope alone binds, and nothing deletes it."""
        targets = {b.node for b in scope.bindings[name]}
        if any(self.index.scope_of(target) is not scope for target in targets):
            return False
        named = [n for n in self.index.named_of(scope, name) if n not in targets]
        deleted = any(isinstance(a, cst.Del) for n in named for a in self.index.ancestors(n))
        return bool(named) and not deleted

    def _runs(self, statement: cst.CSTNode) -> bool:
        """Whether a statement of a module runs in a script alone: nobody imports one that loops then."""
        around = [a for a in self.index.ancestors(statement) if isinstance(a, cst.If)]
        loops = any(isinstance(line, LOOPS) for line in self.index.source.module.body)
        return any(map(is_main_guard, around)) or (loops and not self.roles.program.imported(self.index.name))

    def _told(self, name: str) -> bool:
        """Whether a name of a module is one that others may ask the module for."""
        modules = self.roles.program.modules.values()
        known = [m.source.names for m in modules]
        return any(n is None or name in n.strings for n in known) or any(m.attributed(name) for m in modules)

    def _removable(self, statement: cst.CSTNode) -> bool:
        """Whether a statement gives names their values, and does nothing else."""
        value, source = getattr(statement, "value", None), self.index.source
        plain = bool(_bound(statement)) and isinstance(value, cst.BaseExpression) and self._plain(value)
        return plain and not spares(source.text, source.span(statement))

    def _plain(self, value: cst.BaseExpression) -> bool:
        """Whether nothing happens when a value is computed."""
        parts = (node for node in walk(value) if isinstance(node, cst.BaseExpression))
        return all(isinstance(n, _PLAIN) or self._asks(n) for n in parts)

    def _asks(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Subscript):
            return self.roles.path(node.value) == "os.environ"
        return isinstance(node, cst.Call) and self.roles.path(node.func).removeprefix("builtins.") in _PURE

    def _path(self, scope: Scope) -> tuple[str, ...]:
        """The names of the functions and classes in which a scope is found again."""
        around = [scope.node, *self.index.ancestors(scope.node)]
        return tuple(n.name.value for n in reversed(around) if isinstance(n, (cst.FunctionDef, cst.ClassDef)))

    def _empties(self, statements: Sequence[cst.CSTNode], gone: Collection[cst.CSTNode]) -> bool:
        """Whether nothing is left of a block in which one of some statements stood, all of which go."""
        removed = {*gone, *statements}
        for line in map(self.index.parent, statements):
            block = self.index.parent(line) if isinstance(line, cst.SimpleStatementLine) else line
            if removed.issuperset(_statements(block, removed)):
                return True
        return False


def _statements(block: cst.CSTNode | None, gone: Collection[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """The statements of a block but for whole lines that are gone, those of one line apart."""
    for item in getattr(block, "body", ()):
        if item not in gone:
            yield from item.body if isinstance(item, cst.SimpleStatementLine) else [item]


def _bound(statement: cst.CSTNode) -> set[str]:
    """The names that a plain assignment binds; none where it writes to anything else."""
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target: cst.CSTNode = statement.targets[0].target
    elif isinstance(statement, cst.AnnAssign):
        target = statement.target
    else:
        return set()
    parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
    names = {part.value for part in parts if isinstance(part, cst.Name)}
    return names if len(names) == len(parts) else set()


def _table(code: str) -> symtable.SymbolTable | None:
    try:
        return symtable.symtable(code, "<migrated>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_read(top: symtable.SymbolTable, path: tuple[str, ...], name: str) -> bool:
    """Whether new text reads what a scope binds, which is told by the names of what it stands in.

    Where it is not bound in one such place, whether anything there reads that name.
    """
    tables = [top]
    for part in path:
        tables = [inner for table in tables for inner in table.get_children() if inner.get_name() == part]
    if len(tables) == 1 and name in tables[0].get_identifiers():
        return _within(tables[0], name)
    return any(name in t.get_identifiers() and t.lookup(name).is_referenced() for t in _all(top))


def _within(table: symtable.SymbolTable, name: str) -> bool:
    """Whether a name that a table binds is read there, or further in."""
    if table.lookup(name).is_referenced():
        return True
    if table.get_type() == "module":
        symbols = (t.lookup(name) for t in _all(table) if name in t.get_identifiers())
        return any(s.is_global() and s.is_referenced() for s in symbols)
    inner = (t for t in table.get_children() if name in t.get_identifiers() and t.lookup(name).is_free())
    return any(_within(t, name) for t in inner)


def _all(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for inner in table.get_children():
        yield from _all(inner)
