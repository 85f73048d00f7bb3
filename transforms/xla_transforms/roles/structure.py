"""Looking into containers: elements of tuples, values of dictionaries, what an iteration yields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles import by_value, calls, classes, declared, generators, options, ranks
from xla_transforms.roles.additions import held
from xla_transforms.roles.catalog import BUILTIN_WRAPPERS, ITERATION_WRAPPERS
from xla_transforms.roles.facts import NOTHING, UNKNOWN, Fact, Facts, Kind, fact, known
from xla_transforms.tree import method, number_value, receiver, string_value

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

Path = tuple["int | str", ...]


def at(roles: Roles, facts: Facts, path: Path) -> Facts:
    """What stands at ``path`` inside something with the given facts."""
    for step in path:
        found: set[Fact] = set()
        for item in facts:
            found |= _step(roles, item, step)
        facts = frozenset(found)
    return facts


def _step(roles: Roles, item: Fact, step: int | str) -> Facts:
    if item.kind in (Kind.TENSOR, Kind.DATASET, Kind.MODEL, Kind.STATE):
        return frozenset({item})
    if item.kind is Kind.ARGUMENTS and method(item.node) == "parse_known_args":
        return frozenset({item}) if step == 0 else UNKNOWN
    if item.kind is Kind.SEQUENCE and isinstance(item.node, (cst.Tuple, cst.List)):
        return _of_literal(roles, item.node, step)
    if item.kind is Kind.SEQUENCE and isinstance(item.node, (cst.ListComp, cst.GeneratorExp)):
        return roles.facts(item.node.elt)
    if item.kind in (Kind.SEQUENCE, Kind.MAPPING) and isinstance(item.node, cst.Subscript):
        return declared.element(roles, item.node, step)
    if item.kind is Kind.MAPPING and isinstance(item.node, cst.Dict):
        return _of_dict(roles, item.node, step)
    if item.kind is Kind.MAPPING and isinstance(item.node, cst.DictComp):
        return roles.facts(item.node.value)
    if item.kind is Kind.MAPPING and isinstance(item.node, cst.Call):
        return (options.value(roles, item.node, step) if isinstance(step, str) else NOTHING) or UNKNOWN
    return UNKNOWN


def _of_literal(roles: Roles, node: cst.Tuple | cst.List, step: int | str) -> Facts:
    elements = [e.value for e in node.elements]
    if any(isinstance(e, cst.StarredElement) for e in node.elements):
        return UNKNOWN
    if isinstance(step, int) and 0 <= step < len(elements):
        return roles.facts(elements[step])
    more = held(roles, node) if isinstance(node, cst.List) else frozenset()
    if isinstance(step, int) and -len(elements) <= step < 0 and not more:
        return roles.facts(elements[step])
    return more.union(*(roles.facts(e) for e in elements)) or UNKNOWN


def _of_dict(roles: Roles, node: cst.Dict, step: int | str) -> Facts:
    pairs = [e for e in node.elements if isinstance(e, cst.DictElement)]
    exact = [e.value for e in pairs if isinstance(step, str) and string_value(e.key) == step]
    chosen = exact or ([] if isinstance(step, str) and step != "*" else [e.value for e in pairs])
    more = held(roles, node, step if isinstance(step, str) and step != "*" else None)
    return more.union(*(roles.facts(e) for e in chosen)) or UNKNOWN


def entered(roles: Roles, facts: Facts) -> Facts:
    """What ``with value as name`` gives the name, where ``value`` has the given facts."""
    found: set[Fact] = set()
    for item in facts:
        if item.kind is Kind.SEQUENCE and item.detail == "yields":
            found |= at(roles, frozenset({item}), ("*",))
        elif item.kind is Kind.INSTANCE and isinstance(item.node, cst.ClassDef):
            enter = classes.find_method(roles, item.node, "__enter__")
            found |= calls.returns(roles, enter) if enter is not None else UNKNOWN
        else:
            found.add(item)
    return frozenset(found)


def subscript(roles: Roles, node: cst.Subscript) -> Facts:
    if ranked := ranks.of_subscript(roles, node):
        return ranked
    if named := by_value.entry(roles, node):
        return named
    base = roles.facts(node.value)
    if any(f.kind is Kind.TENSOR for f in base):
        return frozenset(f for f in base if f.kind is Kind.TENSOR)
    first = node.slice[0].slice if len(node.slice) == 1 else None
    step: int | str = "*"
    if isinstance(first, cst.Index):
        text, number = string_value(first.value), number_value(first.value)
        step = text if text is not None else number if isinstance(number, int) and number >= 0 else "*"
    return at(roles, base, (step,))


def is_wrapper(roles: Roles, node: cst.CSTNode) -> bool:
    """Whether a call yields what its argument yields: ``enumerate``, ``zip``, ``tqdm`` and the like."""
    if not isinstance(node, cst.Call) or not node.args:
        return False
    path = roles.path(node.func)
    return path in ITERATION_WRAPPERS or path.removeprefix("builtins.") in BUILTIN_WRAPPERS


def iterated(roles: Roles, node: cst.CSTNode, path: Path) -> Facts:
    """What ``for target in node`` gives the part of ``target`` that ``path`` leads to."""
    if isinstance(node, cst.Call):
        name = roles.path(node.func).removeprefix("builtins.")
        if name == "enumerate" and node.args:
            if not path:
                return UNKNOWN
            rest = path[1:]
            return fact(Kind.NUMBER) if path[0] == 0 else iterated(roles, node.args[0].value, rest)
        if name == "zip" and path and isinstance(path[0], int) and path[0] < len(node.args):
            return iterated(roles, node.args[path[0]].value, path[1:])
        if name in ("range", "tqdm.trange", "itertools.count"):
            return fact(Kind.NUMBER)
        if is_wrapper(roles, node):
            return iterated(roles, node.args[0].value, path)
        passed = generators.passed_on(roles, node)
        if passed is not None:
            return iterated(roles, passed, path)
        if method(node) in ("items", "values", "keys") and not node.args:
            return _of_mapping(roles, node, path)
    found: set[Fact] = set()
    for item in roles.facts(node):
        found |= _iterate(roles, item, path)
    return frozenset(found)


def _of_mapping(roles: Roles, node: cst.Call, path: Path) -> Facts:
    base = receiver(node)
    assert base is not None
    if method(node) == "keys" or (method(node) == "items" and path[:1] == (0,)):
        return fact(Kind.STRING)
    rest = path[1:] if method(node) == "items" else path
    return at(roles, at(roles, roles.facts(base), ("*",)), rest)


def _iterate(roles: Roles, item: Fact, path: Path) -> Facts:
    if item.kind is Kind.LOADER:
        return fact(Kind.TENSOR, "batch")
    if item.kind is Kind.PARAMETERS:
        named = item.detail == "named" and path[:1] == (0,)
        return fact(Kind.STRING) if named else fact(Kind.TENSOR, "device")
    if item.kind is Kind.TENSOR:
        return frozenset({item})
    if item.kind is Kind.DATASET:
        return fact(Kind.TENSOR, "host")
    if item.kind is Kind.MAPPING:
        return fact(Kind.STRING)
    if item.kind is Kind.ITERATOR and item.node is not None:
        with roles.guarded(("iterate", item.node)) as free:
            return iterated(roles, item.node, path) if free else UNKNOWN
    if item.kind is Kind.SEQUENCE:
        return at(roles, frozenset({item}), ("*", *path))
    return UNKNOWN


def loaders_behind(roles: Roles, node: cst.CSTNode) -> list[cst.BaseExpression]:
    """The expressions of loader kind that an iterable draws from, wrappers taken off."""
    if isinstance(node, cst.Call) and is_wrapper(roles, node):
        return [e for arg in node.args if not arg.keyword for e in loaders_behind(roles, arg.value)]
    passed = generators.passed_on(roles, node) if isinstance(node, cst.Call) else None
    if passed is not None:
        return loaders_behind(roles, passed)
    if isinstance(node, cst.BaseExpression) and Kind.LOADER in roles.kinds(node):
        return [node]
    iterators = [f.node for f in known(roles.facts(node)) if f.kind is Kind.ITERATOR and f.node]
    found: list[cst.BaseExpression] = []
    for origin in iterators:
        with roles.guarded(("behind", origin)) as free:
            if free:
                found.extend(loaders_behind(roles, origin))
    return found
