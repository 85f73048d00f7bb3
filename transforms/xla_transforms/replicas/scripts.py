"""Scripts that are run from the top: which of their statements every process has to run anew.

A process that XLA starts imports the script before it runs its function. Definitions, imports and what only
reads the command line may stay there; what touches a device, asks for a rank or trains may not.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.replicas.reach import reachable
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.fold import FALSE_ON_CUDA, TRUE_ON_CUDA
from xla_transforms.roles.ranks import COUNTS, PLACES, SIZES, is_option
from xla_transforms.scopes import How, ModuleIndex
from xla_transforms.tree import body_of, is_main_guard, method, receiver, string_value, value_of, walk

_DEFINITIONS = (cst.FunctionDef, cst.ClassDef)
_IMPORTS = (cst.Import, cst.ImportFrom)
_PLAIN = (
    "argparse.", "builtins.", "collections.", "dataclasses.", "datetime.", "json.", "logging.", "os.environ.",
    "os.getenv", "os.path.", "pathlib.", "re.", "sys.", "time.", "types.", "typing.", "warnings.", "yaml.",
    "matplotlib.use", *TRUE_ON_CUDA, *FALSE_ON_CUDA,
)  # fmt: skip
_PARTING = (".DataLoader", ".DistributedSampler")  # get a device, a rank
_OWN = frozenset({"builtins.print", "builtins.input"})  # each process does so, not the one that starts them
METHODS = frozenset(
    {
        "append", "extend", "format", "get", "items", "join", "keys", "lower", "read", "replace",
        "setdefault", "split", "startswith", "strip", "update", "upper", "values",
    }
)  # fmt: skip
# by how many arguments they are told whose names to work on; with fewer on those of where they stand
_BY_SCOPE = {"builtins.exec": 2, "builtins.locals": 1, "builtins.vars": 1, "builtins.dir": 1}
_GLOBALS = "builtins.globals"


class Layout:
    """What of one script moves into the function that every process runs, in the script's order.

    ``guard`` is its main guard, whose block moves in any case; with none all that trains does. With
    ``settings_stay`` what works on global names stays outside, and with it what stands above and needs no
    process: a mere name of the device touches nothing.
    """

    def __init__(
        self, roles: Roles, index: ModuleIndex, guard: cst.If | None, *, settings_stay: bool = False
    ) -> None:
        self.roles, self.index, self.guard, self.settings_stay = roles, index, guard, settings_stay
        self.moved: list[cst.CSTNode] = []
        self._names: set[str] = set()  # bound by what moves
        self._used: set[str] = set()  # read by it
        self._settings = self._above_settings() if settings_stay else set()
        for statement in index.source.module.body:
            if statement is not guard and self._moves(statement):
                self._move(statement)

    @staticmethod
    def of(roles: Roles, index: ModuleIndex, guard: cst.If | None) -> Layout:
        """The layout of a script: what works on its global names stays outside, if it can at all."""
        first = Layout(roles, index, guard)
        second = Layout(roles, index, guard, settings_stay=True) if first.obstacle else first
        return first if second.obstacle else second

    @property
    def obstacle(self) -> str:
        """Why the statements cannot be moved into a function; empty where they can."""
        for statement in [*self.moved, *([self.guard.body] if self.guard is not None else [])]:
            for node in walk(statement, into_functions=False):
                if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
                    return "a star import stands among what each process has to run"
                if isinstance(node, cst.Call) and self._by_scope(node):
                    name = self.roles.path(node.func).rpartition(".")[2]
                    return f"{name}() at the top of the script works on names that would be a function's own"
        return ""

    def _above_settings(self) -> set[cst.CSTNode]:
        """The statements down to the last that works on the script's names."""
        body = [s for s in self.index.source.module.body if not isinstance(s, _DEFINITIONS)]
        works = [any(map(self._on_names, walk(s, into_functions=False))) for s in body]
        return set(body[: len(body) - works[::-1].index(True)]) if any(works) else set()

    def _on_names(self, node: cst.CSTNode) -> bool:
        return self._by_scope(node) or (isinstance(node, cst.Call) and self.roles.path(node.func) == _GLOBALS)

    def _move(self, statement: cst.CSTNode) -> None:
        self.moved.append(statement)
        self._names |= _bound(statement)
        self._used |= _read(statement)

    def _moves(self, statement: cst.CSTNode) -> bool:
        if isinstance(statement, _DEFINITIONS):
            return any(self._names & _read(part) for part in _evaluated(statement))
        if _imports(statement):
            return isinstance(statement, cst.SimpleStatementLine) and self._imports_process(statement)
        if self._reads_moved(statement) or self._needs_process(statement):
            return True
        if not self.moved:
            return self.guard is None and statement not in self._settings and not self._plain(statement)
        return not (self._plain(statement) and self._names_once(statement))

    def _names_once(self, statement: cst.CSTNode) -> bool:
        """Whether a statement only gives names their only values, by nothing that moves."""
        module = self.index.scopes[self.index.source.module]
        smalls = body_of(statement) if isinstance(statement, cst.SimpleStatementLine) else []
        plain = all(isinstance(s, (cst.Assign, cst.AnnAssign)) for s in smalls)
        targets = [t for small in smalls for t in _targets(small)]
        once = all(isinstance(t, cst.Name) and len(module.bindings[t.value]) == 1 for t in targets)
        calls = [n for n in walk(statement) if isinstance(n, cst.Call)]
        apart = all(self._imported(name) for name in _read(statement) & self._used)
        return plain and bool(targets) and once and apart and not any(map(self._on_names, calls))

    def _imported(self, name: str) -> bool:
        """Whether a name of the module only stands for something imported."""
        bindings = self.index.scopes[self.index.source.module].bindings.get(name, [])
        return all(b.how is How.IMPORT for b in bindings)

    def _by_scope(self, node: cst.CSTNode) -> bool:
        told = _BY_SCOPE.get(self.roles.path(node.func)) if isinstance(node, cst.Call) else None
        return told is not None and len(node.args) < told  # type: ignore[attr-defined]

    def _reads_moved(self, statement: cst.CSTNode) -> bool:
        return bool(self._names & _read(statement))

    def _needs_process(self, node: cst.CSTNode) -> bool:
        """Whether a statement, or a function that it calls, touches a device or asks for a rank."""
        if self._touches(node, into_functions=False):
            return True
        return any(map(self._touched_in, reachable(self.roles, node)))

    def _touched_in(self, function: cst.FunctionDef) -> bool:
        return self.roles.remembered(("touches", id(function)), lambda: self._touches(function.body))

    def _imports_process(self, line: cst.SimpleStatementLine) -> bool:
        """Whether what is imported asks for a rank at its top: ``rank = int(os.environ["RANK"])``."""
        modules = _imported(self.roles, line) if len(self.roles.program.modules) > 1 else []
        return any(asks_on_import(self.roles, module) for module in modules)

    def _touches(self, node: cst.CSTNode, *, into_functions: bool = True) -> bool:
        return any(self._is_process(n) for n in walk(node, into_functions=into_functions))

    def _is_process(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.SimpleString, cst.FormattedStringText)):
            text = string_value(node) if isinstance(node, cst.SimpleString) else node.value
            return (text or "").partition(":")[0] == "cuda" and not self.settings_stay
        if isinstance(node, cst.Call) and (method(node) == "cuda" or self._placed(node)):
            return True
        if isinstance(node, (cst.Call, cst.Subscript)) and asks_launcher(self.roles, node):
            return True
        if is_option(self.roles, node):
            return True
        path = self.roles.path(node) if isinstance(node, (cst.Name, cst.Attribute)) else ""
        if path in TRUE_ON_CUDA or path in FALSE_ON_CUDA:
            return False
        if path.startswith("torch.utils.data.") and path.endswith(_PARTING):
            return True
        return path in COUNTS or path.startswith(("torch.cuda.", "torch.distributed.", "torch.accelerator."))

    def _placed(self, call: cst.Call) -> bool:
        """Whether a call puts something on the device that a variable names."""
        place = value_of(call, "device", 0 if method(call) == "to" else None)
        return place is not None and "cuda" in self.roles.places(place)

    def _plain(self, statement: cst.CSTNode) -> bool:
        """Whether running a statement in the starting process too makes no difference."""
        if isinstance(statement, (cst.For, cst.While, cst.With)):
            return False
        calls = (n for n in walk(statement, into_functions=False) if isinstance(n, cst.Call))
        return all(self._plain_call(call) for call in calls)

    def _plain_call(self, call: cst.Call) -> bool:
        path, base = self.roles.path(call.func), receiver(call)
        if path:
            return path.startswith(_PLAIN) and path not in _OWN
        if base is not None and self.roles.kinds(base) & {Kind.PARSER, Kind.ARGUMENTS}:
            return True
        return base is not None and method(call) in METHODS


def asks_launcher(roles: Roles, node: cst.BaseExpression) -> bool:
    """Whether a launcher's variable is read here."""
    facts = roles.facts(node)
    own = any(f.kind is Kind.NUMBER and f.node is node and f.detail in PLACES | SIZES for f in facts)
    return own or any(f.kind is Kind.ENVIRONMENT for f in facts)


def asks_on_import(roles: Roles, module: ModuleIndex) -> bool:
    """Whether a module, or one that it imports at its top, is there to ask a launcher for its numbers.

    It asks as it is imported, and defines nothing.
    """
    return roles.remembered(("asks on import", module.name), lambda: _asks(roles, module, {module.name}))


def _asks(roles: Roles, module: ModuleIndex, seen: set[str]) -> bool:
    guard = main_guard(module)
    body = [s for s in module.source.module.body if s is not guard]
    plain = [s for s in body if not isinstance(s, _DEFINITIONS)]
    for line in (s for s in plain if isinstance(s, cst.SimpleStatementLine) and _imports(s)):
        fresh = [m for m in _imported(roles, line) if m.name not in seen]
        seen |= {m.name for m in fresh}
        if any(_asks(roles, m, seen) for m in fresh):
            return True
    nodes = (n for s in plain for n in walk(s, into_functions=False)) if plain == body else ()
    return any(isinstance(n, (cst.Call, cst.Subscript)) and asks_launcher(roles, n) for n in nodes)


def _imported(roles: Roles, line: cst.SimpleStatementLine) -> list[ModuleIndex]:
    """The modules of the program that an import statement imports."""
    index = roles.index(line)
    return roles.remembered(("imports", index.name), lambda: _imports_of(roles, index)).get(line, [])


def _imports_of(roles: Roles, index: ModuleIndex) -> dict[cst.CSTNode | None, list[ModuleIndex]]:
    """The modules of the program that a module imports at its top, by the line."""
    found: dict[cst.CSTNode | None, list[ModuleIndex]] = {}
    for binding in (b for bs in index.scopes[index.source.module].bindings.values() for b in bs):
        module = roles.program.module_of(binding, index) if binding.how is How.IMPORT else None
        if module is not None:
            found.setdefault(index.statement_of(binding.node), []).append(module)
    return found


def main_guard(index: ModuleIndex) -> cst.If | None:
    """The first ``if __name__ == "__main__":`` of a module."""
    return next((s for s in index.source.module.body if isinstance(s, cst.If) and is_main_guard(s)), None)


def _imports(statement: cst.CSTNode) -> bool:
    """Whether a statement only imports, also where it tries several ways."""
    if isinstance(statement, cst.SimpleStatementLine):
        return all(isinstance(small, _IMPORTS) for small in statement.body)
    if isinstance(statement, cst.Try):
        smalls = [s for line in body_of(statement) for s in (body_of(line) or [line])]
        return any(isinstance(s, _IMPORTS) for s in smalls) and not any(
            isinstance(n, cst.Call) for n in walk(statement)
        )
    return False


def _evaluated(definition: cst.FunctionDef | cst.ClassDef) -> Iterator[cst.CSTNode]:
    """The parts of a definition that are computed where it stands, not when it is called."""
    yield from definition.decorators
    if isinstance(definition, cst.ClassDef):
        yield from (*definition.bases, *definition.keywords)
        for line in body_of(definition):
            if isinstance(line, _DEFINITIONS):
                yield from _evaluated(line)
            else:
                yield line
    else:
        params = definition.params
        every = (*params.posonly_params, *params.params, *params.kwonly_params)
        yield from (p.default for p in every if p.default is not None)


def _read(node: cst.CSTNode) -> set[str]:
    return {n.value for n in walk(node, into_functions=False) if isinstance(n, cst.Name)}


def _bound(statement: cst.CSTNode) -> set[str]:
    """The names that a statement gives a value in its own scope."""
    if isinstance(statement, _DEFINITIONS):
        return {statement.name.value}
    found: set[str] = set()
    for node in walk(statement, into_functions=False):
        if isinstance(node, _DEFINITIONS):
            found.add(node.name.value)
        if isinstance(node, cst.ImportAlias) and node.asname is None:
            found.add(node.evaluated_name.partition(".")[0])
        for target in _targets(node):
            if isinstance(target, (cst.Attribute, cst.Subscript)):
                continue
            found |= {n.value for n in walk(target) if isinstance(n, cst.Name)}
    return found


def _targets(node: cst.CSTNode) -> list[cst.CSTNode]:
    if isinstance(node, cst.Assign):
        targets: list[cst.CSTNode] = [t.target for t in node.targets]
    elif isinstance(node, (cst.AnnAssign, cst.AugAssign, cst.For, cst.NamedExpr)):
        targets = [node.target]
    elif isinstance(node, cst.AsName):
        targets = [node.name]
    else:
        targets = []
    return targets
