"""The index of a program: parents, scopes, what binds each name, who calls what.

Built in one walk over each module; every question of the analysis is answered from it on demand.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import cast

import libcst as cst

from xla_transforms.ordered import Ordered
from xla_transforms.source import Source
from xla_transforms.tree import (
    COMPREHENSIONS,
    FUNCTIONS,
    SCOPES,
    STATEMENTS,
    Kinds,
    blocks_of,
    children,
    dotted,
)


class How(Enum):
    """In which way a binding gives its name a value."""

    ASSIGN = "assign"
    AUGMENT = "augment"
    ITERATE = "iterate"
    ENTER = "enter"
    PARAMETER = "parameter"
    IMPORT = "import"
    DEFINE = "define"
    OTHER = "other"


_OPENING = {*SCOPES[1:], *COMPREHENSIONS}
_WHOLE = Kinds(cst.BaseStatement)
_DIVIDED = {cst.Param, cst.CompFor}  # one part of them is evaluated outside of the scope they stand in
_PATTERNS = (cst.MatchAs, cst.MatchStar, cst.MatchMapping)
_HANDLERS = (cst.ExceptHandler, cst.ExceptStarHandler)
_BINDERS = {
    cst.Assign, cst.AnnAssign, cst.NamedExpr, cst.AugAssign, cst.For, cst.CompFor, cst.WithItem, *_HANDLERS,
    cst.FunctionDef, cst.ClassDef, cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal, *_PATTERNS,
}  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Binding:
    """One place that gives a name (or an attribute) a value.

    ``value`` is the expression the value comes from, ``path`` the indices that lead through tuple
    unpacking to it; ``node`` is the target, the parameter, the import alias or the definition;
    ``statement`` the statement (or comprehension) that binds.
    """

    how: How
    node: cst.CSTNode
    statement: cst.CSTNode
    value: cst.BaseExpression | None = None
    path: tuple[int, ...] = ()
    name: str = ""

    @property
    def piece(self) -> cst.BaseExpression | None:
        """The part of the value that is taken, where the tuple is written out."""
        value = self.value
        for step in self.path:
            if not isinstance(value, cst.Tuple) or step >= len(value.elements):
                return value
            value = value.elements[step].value
        return value


@dataclass(eq=False)
class Scope:
    """A module, function, class, lambda or comprehension with the names it binds."""

    node: cst.CSTNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    module_names: set[str] = field(default_factory=set)  # declared ``global`` here
    outer_names: set[str] = field(default_factory=set)  # declared ``nonlocal`` here

    @property
    def root(self) -> Scope:
        return [self, *self.enclosing][-1]

    def owner(self, name: str) -> Scope | None:
        """The scope in which a name used here is bound, by Python's rules."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.module_names:
                scope = scope.root
            visible = scope is self or type(scope.node) is not cst.ClassDef
            if visible and name not in scope.outer_names and scope.bindings.get(name):
                return scope
            scope = scope.parent
        return None

    def binder(self, name: str) -> Scope:
        """The scope in which an assignment written here binds a name."""
        if name in self.module_names:
            return self.root
        if name not in self.outer_names:
            return self
        around = [s for s in self.enclosing if isinstance(s.node, FUNCTIONS) and name not in s.outer_names]
        return next((s for s in around if s.bindings.get(name)), around[0] if around else self)

    @property
    def enclosing(self) -> Iterator[Scope]:
        """The scopes around this one, the nearest first."""
        scope = self.parent
        while scope is not None:
            yield scope
            scope = scope.parent


@dataclass(frozen=True, slots=True)
class Branch:
    """A way of an ``if`` in which nodes stand (its body, or what follows it), with the one around it."""

    statement: cst.If
    in_body: bool
    outer: Branch | None


@dataclass(frozen=True, slots=True)
class Around:
    """What holds a node: its module, a statement, the way of an ``if``. All of an expression share one."""

    index: ModuleIndex
    statement: cst.CSTNode | None = None
    branch: Branch | None = None


# What directly holds a node, what holds it further out, the scope it is looked up in, how many are in front.
# By ``id``: the nodes live as long as their module, and hashing one costs a call into Python.
Parents = dict[int, tuple[cst.CSTNode, Around, "Scope", int]]


class ModuleIndex(Ordered):
    """Parents, scopes and bindings of one module."""

    def __init__(
        self,
        source: Source,
        name: str = "__main__",
        parents: Parents | None = None,
    ) -> None:
        super().__init__()
        self.source = source
        self.name = name
        self._parents: Parents = {} if parents is None else parents
        self.scopes: dict[cst.CSTNode, Scope] = {}
        self.attributes: dict[str, list[Binding]] = defaultdict(list)
        self._owned: dict[str, dict[Scope | None, list[cst.Name]]] = {}
        self._held: dict[int, list[tuple[Binding, set[int]]]] = {}
        self._top = Around(self)
        self._statements: list[cst.CSTNode] = []  # those that hold others first, in the order of the text
        self._index()
        source.indexed(self.parent, self._statements)

    def _index(self) -> None:
        root: cst.CSTNode = self.source.module
        top = self.scopes[root] = Scope(root, None)
        self._put(root, 0)
        stack = [(child, root, 0, top, self._top) for child in reversed(children(root))]
        number = 0
        while stack:
            node, parent, above, scope, around = stack.pop()
            kind = type(node)
            number += 1
            self._parents[id(node)] = parent, around, scope, number
            self._put(node, above)
            if kind in _BINDERS:
                _bind(self, node, scope)
            inner, divides = scope, kind in _DIVIDED
            if kind in _OPENING:
                divides = True
                inner = self.scopes[node] = Scope(node, scope)
                _bind_parameters(node, inner)
            if STATEMENTS[kind]:
                if kind is not cst.SimpleStatementLine:
                    self._statements.append(node)
                around = Around(self, node, around.branch)
            for child in reversed(children(node)):
                held = _way(node, child, around) if kind is cst.If else around
                looked_up = _scope_for(node, child, inner) if divides else scope
                stack.append((child, node, number, looked_up, held))

    def number(self, node: cst.CSTNode) -> int:
        held = self._parents.get(id(node))
        return held[3] if held is not None else 0

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        held = self._parents.get(id(node))
        return held[0] if held is not None else None

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        parents = self._parents
        held = parents.get(id(node))
        while held is not None:
            yield held[0]
            held = parents.get(id(held[0]))

    def statements(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The statements (small ones and lines among them) around a node, the innermost first."""
        parents = self._parents
        held = parents.get(id(node))
        while held is not None and (statement := held[1].statement) is not None:
            yield statement
            held = parents.get(id(statement))

    def branch(self, node: cst.CSTNode) -> Branch | None:
        """The innermost way of an ``if`` in which a node stands."""
        return self._around(node).branch

    def _around(self, node: cst.CSTNode) -> Around:
        held = self._parents.get(id(node))
        return held[1] if held is not None else self._top

    def scope_of(self, node: cst.CSTNode) -> Scope:
        """The scope in which a name written at this node is looked up."""
        held = self._parents.get(id(node))
        return held[2] if held is not None and held[1].index is self else self.scopes[self.source.module]

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function whose body holds the node (lambdas and classes in between are passed)."""
        return next((a for a in self.ancestors(node) if type(a) is cst.FunctionDef), None)

    def function_name(self, node: cst.CSTNode) -> str:
        """The name of the function that holds the node, ``main`` for what the module itself runs."""
        function = self.function_of(node)
        return function.name.value if function is not None else "main"

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        return next((a for a in self.ancestors(node) if type(a) is cst.ClassDef), None)

    def statement_of(self, node: cst.CSTNode) -> cst.BaseStatement | None:
        """The innermost statement line or compound statement that holds the node."""
        around = (a for a in (node, *self.ancestors(node)) if _WHOLE[type(a)])
        return cast("cst.BaseStatement | None", next(around, None))

    def statement_at(self, offset: int) -> cst.CSTNode | None:
        """The innermost statement on lines of its own that holds an offset.

        An ``elif`` is a part of its ``if``; decorators are a part of what they decorate.
        """
        found: cst.CSTNode | None = None
        inside: Sequence[cst.CSTNode] = self.source.module.body
        while inside:
            position = bisect.bisect_right(inside, offset, key=self._start) - 1
            if position < 0 or self.source.offsets(inside[position])[1] <= offset:
                break
            found = inside[position]
            inside = [s for block in blocks_of(found) for s in block.body]
        return found

    def place(self, statement: cst.CSTNode) -> int:
        """How many statements stand in front of one or around it: the order of the text."""
        return self._order[id(statement)]

    @cached_property
    def _order(self) -> dict[int, int]:
        return {id(statement): number for number, statement in enumerate(self._statements)}

    def _start(self, statement: cst.CSTNode) -> int:
        return self.source.offsets(next(iter(getattr(statement, "decorators", ())), statement))[0]

    @cached_property
    def uses(self) -> dict[tuple[object, str], set[str]]:
        """The attributes used on each name, by (scope, name), and on ``self.x``, by (class, x)."""
        found: dict[tuple[object, str], set[str]] = defaultdict(set)
        for node in self.all(cst.Attribute):
            assert isinstance(node, cst.Attribute)
            base = node.value
            if isinstance(base, cst.Name):
                scope = self.scope_of(base).owner(base.value)
                found[(scope, base.value)].add(node.attr.value)
            elif dotted(base).startswith("self.") and isinstance(base, cst.Attribute):
                found[(self.class_of(node), base.attr.value)].add(node.attr.value)
        return found

    def attributed(self, name: str) -> list[cst.Attribute]:
        """Every place where ``.name`` is written."""
        return self._attributed.get(name, [])

    @cached_property
    def _attributed(self) -> dict[str, list[cst.Attribute]]:
        found: dict[str, list[cst.Attribute]] = defaultdict(list)
        for node in self.all(cst.Attribute):
            assert isinstance(node, cst.Attribute)
            found[node.attr.value].append(node)
        return found

    def named(self, name: str) -> list[cst.Name]:
        """Every place where a name is written, attribute names and keywords left out."""
        return self._named.get(name, [])

    def names(self) -> Iterator[cst.Name]:
        """Every place of ``named``, by name."""
        for places in self._named.values():
            yield from places

    def imported(self) -> Iterator[cst.Name]:
        """The places of ``named`` whose name an import may bind, by name."""
        for name, places in self._named.items():
            for node in places:
                owner = self.scope_of(node).owner(name)
                if owner is not None and any(b.how is How.IMPORT for b in owner.bindings[name]):
                    yield node

    def named_of(self, scope: Scope | None, name: str) -> list[cst.Name]:
        """The places of ``named`` that mean the name a scope binds; with ``None`` those that none binds."""
        if name not in self._owned:
            places = self._owned[name] = defaultdict(list)
            for node in self.named(name):
                places[self.scope_of(node).owner(name)].append(node)
        return self._owned[name].get(scope, [])

    @cached_property
    def _named(self) -> dict[str, list[cst.Name]]:
        found: dict[str, list[cst.Name]] = defaultdict(list)
        for node in self.all(cst.Name):
            assert isinstance(node, cst.Name)
            parent = self.parent(node)
            if type(parent) is cst.Attribute and parent.attr is node:
                continue
            if type(parent) is cst.Arg and parent.keyword is node:
                continue
            if type(parent) is not cst.Param or parent.name is not node:
                found[node.value].append(node)
        return found

    def around(self, scope: Scope, bindings: list[Binding]) -> list[tuple[Binding, set[int]]]:
        """The bindings (all of one name of a scope) that are made in the scope itself, each with the ``id``
        of its statement and of all that holds this."""
        key = id(bindings)
        if key not in self._held:
            own = [b for b in bindings if self.scope_of(b.node) is scope]
            self._held[key] = [(b, {id(n) for n in (b.statement, *self.ancestors(b.statement))}) for b in own]
        return self._held[key]

    def within(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether a node of the program is another one, or stands in it."""
        held, around = self._parents.get(id(node)), self._parents.get(id(outer))
        if held is None or around is None:
            return node is outer or (held is not None and outer is held[1].index.source.module)
        index = held[1].index
        return index is around[1].index and around[3] <= held[3] <= index.last(outer)


def _way(statement: cst.CSTNode, child: cst.CSTNode, around: Around) -> Around:
    """What holds a part of an ``if``: its condition stands in neither way."""
    assert isinstance(statement, cst.If)
    if child is statement.test:
        return around
    branch = Branch(statement, child is statement.body, around.branch)
    return Around(around.index, statement, branch)


def _scope_for(parent: cst.CSTNode, child: cst.CSTNode, inner: Scope) -> Scope:
    """Defaults, annotations, decorators, bases and the first iterable are evaluated outside their scope."""
    outer = inner.parent or inner
    if isinstance(parent, FUNCTIONS):
        return inner if child is parent.body or isinstance(child, cst.Parameters) else outer
    if isinstance(parent, cst.ClassDef):
        return inner if child is parent.body else outer
    if isinstance(parent, cst.Param):
        return inner if child is parent.name else outer
    if isinstance(parent, cst.CompFor) and child is parent.iter:
        return outer if getattr(inner.node, "for_in", None) is parent else inner
    return inner


def _bind(index: ModuleIndex, node: cst.CSTNode, scope: Scope) -> None:
    if isinstance(node, cst.Assign):
        for assign_target in node.targets:
            _bind_target(index, scope, assign_target.target, node, How.ASSIGN, node.value)
    elif isinstance(node, cst.AnnAssign):
        if node.value is not None:
            _bind_target(index, scope, node.target, node, How.ASSIGN, node.value)
        elif isinstance(node.target, cst.Name):
            _add(scope, node.target.value, Binding(How.OTHER, node.target, node))
    elif isinstance(node, cst.NamedExpr):
        outside = next(s for s in (scope, *scope.enclosing) if not isinstance(s.node, COMPREHENSIONS))
        _bind_target(index, outside, node.target, node, How.ASSIGN, node.value)
    elif isinstance(node, cst.AugAssign):
        _bind_target(index, scope, node.target, node, How.AUGMENT, node.value)
    elif isinstance(node, (cst.For, cst.CompFor)):
        _bind_target(index, scope, node.target, node, How.ITERATE, node.iter)
    elif isinstance(node, cst.WithItem) and node.asname is not None:
        _bind_target(index, scope, node.asname.name, node, How.ENTER, node.item)
    elif isinstance(node, _HANDLERS) and node.name is not None:
        _bind_target(index, scope, node.name.name, node, How.OTHER, None)
    elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        _add(scope, node.name.value, Binding(How.DEFINE, node, node))
    elif isinstance(node, (cst.Import, cst.ImportFrom)):
        _bind_imports(scope, node)
    elif isinstance(node, (cst.Global, cst.Nonlocal)):
        declared = scope.module_names if isinstance(node, cst.Global) else scope.outer_names
        declared.update(item.name.value for item in node.names)
    elif isinstance(node, _PATTERNS):
        name = node.rest if isinstance(node, cst.MatchMapping) else node.name
        if name is not None:
            _bind_target(index, scope, name, node, How.OTHER, None)


def _bind_target(
    index: ModuleIndex,
    scope: Scope,
    target: cst.CSTNode,
    statement: cst.CSTNode,
    how: How,
    value: cst.BaseExpression | None,
    path: tuple[int, ...] = (),
) -> None:
    if isinstance(target, cst.Name):
        binding = Binding(how, target, statement, value, path)
        _add(scope.binder(target.value), target.value, binding)
    elif isinstance(target, cst.Attribute):
        named = Binding(how, target, statement, value, path, target.attr.value)
        index.attributes[target.attr.value].append(named)
    elif isinstance(target, (cst.Tuple, cst.List)):
        for position, element in enumerate(target.elements):
            how_inner = How.OTHER if isinstance(element, cst.StarredElement) else how
            step = (*path, position)
            _bind_target(index, scope, element.value, statement, how_inner, value, step)


def _bind_parameters(node: cst.CSTNode, scope: Scope) -> None:
    if not isinstance(node, FUNCTIONS):
        return
    for param in parameters(node):
        _add(scope, param.name.value, Binding(How.PARAMETER, param, node))


def parameters(function: cst.FunctionDef | cst.Lambda) -> list[cst.Param]:
    """All parameters in the order of the signature, ``*args`` and ``**kwargs`` last."""
    params = function.params
    found = [*params.posonly_params, *params.params, *params.kwonly_params]
    if isinstance(params.star_arg, cst.Param):
        found.append(params.star_arg)
    if params.star_kwarg is not None:
        found.append(params.star_kwarg)
    return found


def _bind_imports(scope: Scope, node: cst.Import | cst.ImportFrom) -> None:
    if isinstance(node.names, cst.ImportStar):
        return
    prefix = ""
    if isinstance(node, cst.ImportFrom):
        prefix = "." * len(node.relative) + dotted(node.module)
    for alias in node.names:
        full = dotted(alias.name)
        if isinstance(node, cst.ImportFrom):
            path = f"{prefix}{full}" if prefix.endswith(".") else f"{prefix}.{full}"
            bound = dotted(alias.asname.name) if alias.asname else full
        elif alias.asname:
            path, bound = full, dotted(alias.asname.name)
        else:
            path = bound = full.split(".")[0]
        _add(scope, bound, Binding(How.IMPORT, alias, node, name=path))


def _add(scope: Scope, name: str, binding: Binding) -> None:
    scope.bindings[name].append(binding)
