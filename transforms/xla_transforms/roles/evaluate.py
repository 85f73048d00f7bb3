"""From an expression to its facts, one small function for each kind of expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import libcst as cst

from xla_transforms.roles import calls, classes, declared, ranks, structure
from xla_transforms.roles.facts import NOTHING, UNKNOWN, Fact, Facts, Kind, fact, known, of_kind, says
from xla_transforms.scopes import Binding, How
from xla_transforms.tree import numbers_device, string_value

if TYPE_CHECKING:
    from xla_transforms.roles import Roles


def expression(roles: Roles, node: cst.CSTNode) -> Facts:
    handler = _HANDLERS.get(type(node))
    return handler(roles, node) if handler else UNKNOWN


def _name(roles: Roles, node: cst.Name) -> Facts:
    if node.value in ("True", "False"):
        return fact(Kind.BOOLEAN)
    if node.value == "None":
        return fact(Kind.NONE)
    bindings = roles.bindings(node)
    if not bindings:
        return fact(Kind.NAME, f"builtins.{node.value}")
    found: set[Fact] = set()
    for binding in bindings:
        found |= bound(roles, binding)
    return frozenset(found) or UNKNOWN


def bound(roles: Roles, binding: Binding) -> Facts:
    """What a binding gives its name."""
    if binding.how is How.DEFINE:
        kind = Kind.CLASS if isinstance(binding.node, cst.ClassDef) else Kind.FUNCTION
        return fact(kind, "", binding.node)
    if binding.how is How.IMPORT:
        return _imported(roles, binding)
    if binding.how is How.PARAMETER:
        assert isinstance(binding.node, cst.Param)
        return calls.parameter(roles, binding.node, binding.statement)
    if binding.value is None:
        return UNKNOWN
    if binding.how is How.ITERATE:
        return structure.iterated(roles, binding.value, binding.path) or UNKNOWN
    if binding.how is How.AUGMENT:
        return _augmented(roles, binding)
    annotated = _annotation(roles, binding.statement)
    whole = roles.facts(binding.value)
    given = structure.entered(roles, whole) if binding.how is How.ENTER else whole
    facts = structure.at(roles, given, binding.path)
    return facts if says(facts) or not annotated else annotated


def _augmented(roles: Roles, binding: Binding) -> Facts:
    assert binding.value is not None
    if isinstance(binding.statement, cst.AugAssign) and (ranked := ranks.augmented(roles, binding.statement)):
        return ranked
    facts = roles.facts(binding.value)
    numbers = of_kind(facts, Kind.NUMBER)  # what is computed from a rank or a size is neither
    return of_kind(facts, Kind.TENSOR) or (fact(Kind.NUMBER) if numbers else NOTHING)


def _annotation(roles: Roles, statement: cst.CSTNode) -> Facts:
    if isinstance(statement, cst.AnnAssign):
        return declared.annotation(roles, statement.annotation)
    return NOTHING


def _imported(roles: Roles, binding: Binding) -> Facts:
    return named(roles, binding.name, binding.node)


def named(roles: Roles, path: str, node: cst.CSTNode) -> Facts:
    """What a dotted path names at a node: something of the program's own modules, or from outside."""
    importer = roles.index(node)
    ours = roles.program.definition(path, importer)
    if not ours:
        module = roles.program.module(path, importer)
        return fact(Kind.NAME, module.name if module is not None else path)
    with roles.guarded(("named", node)) as free:
        found = [bound(roles, b) for b in ours] if free else []
    return frozenset().union(*found)


def _attribute(roles: Roles, node: cst.Attribute) -> Facts:
    return _data_type(roles, node, _of_attribute(roles, node))


def _of_attribute(roles: Roles, node: cst.Attribute) -> Facts:
    found: set[Fact] = set()
    for item in roles.facts(node.value):
        found |= classes.attribute_of(roles, item, node.attr.value, node)
    if classes.is_self(roles, node.value):
        found |= classes.overridden(roles, node)
    given = known(frozenset(found))
    told = [ranks.of_attribute(item, node) for item in given]
    if any(told):
        return NOTHING.union(*told)
    if given and any(f.kind is not Kind.NUMBER for f in given):
        optional = any(f.kind is Kind.OPTION for f in given)
        return frozenset(found) | (_listed(roles, node) if optional else NOTHING)
    assigned = classes.assigned_elsewhere(roles, node)
    if given:  # an option that each process sets to a number of its own
        assigned = frozenset(f for f in assigned if f.detail in ranks.PLACES | ranks.SIZES)
    return frozenset(found) | assigned or UNKNOWN


_SETTINGS = {Kind.ARGUMENTS, Kind.INSTANCE, Kind.CLASS}  # their ``dtype`` is whatever the program puts there


def _data_type(roles: Roles, node: cst.Attribute, facts: Facts) -> Facts:
    """What is not understood has a ``dtype`` that is none of a device, be it a tensor's or an array's."""
    if node.attr.value != "dtype" or not facts & UNKNOWN or roles.kinds(node.value) & _SETTINGS:
        return facts
    return (facts - UNKNOWN) | fact(Kind.DTYPE)


def _listed(roles: Roles, node: cst.Attribute) -> Facts:
    """The list that a script makes of an option: ``opt.gpu_ids = []`` for ``--gpu_ids 0,1``."""
    return of_kind(classes.assigned_elsewhere(roles, node), Kind.SEQUENCE)


def _either(roles: Roles, node: cst.IfExp) -> Facts:
    decided = roles.fold(node.test)
    if decided is not None:
        return roles.facts(node.body if decided else node.orelse)
    return roles.facts(node.body) | roles.facts(node.orelse)


def _boolean(roles: Roles, node: cst.BooleanOperation) -> Facts:
    return roles.facts(node.left) | roles.facts(node.right)


def _binary(roles: Roles, node: cst.BinaryOperation) -> Facts:
    if ranked := ranks.of_arithmetic(roles, node):
        return ranked
    sides = roles.facts(node.left) | roles.facts(node.right)
    tensors = of_kind(sides, Kind.TENSOR)
    if tensors:
        best = next((p for p in ("device", "", "batch", "host") if any(f.detail == p for f in tensors)), "")
        return fact(Kind.TENSOR, best)
    kinds = {f.kind for f in known(sides)}
    if Kind.STRING in kinds and isinstance(node.operator, (cst.Add, cst.Modulo)):
        left = string_value(node.left)
        return fact(Kind.STRING, _prefix(left) if left else "")
    if Kind.NUMBER in kinds:
        return fact(Kind.NUMBER)
    sequences = of_kind(sides, Kind.SEQUENCE)
    return sequences or UNKNOWN


def _comparison(roles: Roles, node: cst.Comparison) -> Facts:
    operators = [t.operator for t in node.comparisons]
    if any(isinstance(o, (cst.Is, cst.IsNot, cst.In, cst.NotIn)) for o in operators):
        return fact(Kind.BOOLEAN)
    sides = [node.left, *(t.comparator for t in node.comparisons)]
    tensors = [f for side in sides for f in of_kind(roles.facts(side), Kind.TENSOR)]
    return frozenset(tensors[:1]) or fact(Kind.BOOLEAN)


def _unary(roles: Roles, node: cst.UnaryOperation) -> Facts:
    return fact(Kind.BOOLEAN) if isinstance(node.operator, cst.Not) else roles.facts(node.expression)


_DEVICES = {Kind.DEVICE, Kind.STRING}


def _formatted(roles: Roles, node: cst.FormattedString) -> Facts:
    first = node.parts[0] if node.parts else None
    text = first.value if isinstance(first, cst.FormattedStringText) else ""
    if isinstance(first, cst.FormattedStringExpression) and numbers_device(node):
        known = roles.facts(first.expression)
        text = "cuda:" if known and {f.kind for f in known} <= _DEVICES and places(known) == {"cuda"} else ""
    return fact(Kind.STRING, _prefix(text), node)


def _prefix(text: str) -> str:
    """``cuda:`` for a text that goes on with a number; nothing where the rest decides."""
    return text if text.startswith("cuda") else ""


def _subscript(roles: Roles, node: cst.Subscript) -> Facts:
    return structure.subscript(roles, node)


def places(facts: Facts) -> set[str]:
    """The device types that facts allow: ``cuda``, ``cpu``, ...; ``?`` where the user may give any."""
    found: set[str] = set()
    for item in facts:
        if item.kind in (Kind.DEVICE, Kind.STRING):
            found.add(item.detail.split(":")[0] or "?")
        elif item.kind is Kind.NUMBER:
            found.add("cuda")
        elif item.kind is not Kind.NONE:
            found.add("?")
    return found


def _literal(kind: Kind) -> Callable[[Roles, cst.CSTNode], Facts]:
    return lambda roles, node: fact(kind, "", node)


def _string(roles: Roles, node: cst.CSTNode) -> Facts:
    return fact(Kind.STRING, string_value(node) or "")


_HANDLERS: dict[type, Callable[[Roles, Any], Facts]] = {
    cst.Name: _name,
    cst.Attribute: _attribute,
    cst.Call: calls.call,
    cst.IfExp: _either,
    cst.BooleanOperation: _boolean,
    cst.BinaryOperation: _binary,
    cst.Comparison: _comparison,
    cst.UnaryOperation: _unary,
    cst.Subscript: _subscript,
    cst.FormattedString: _formatted,
    cst.SimpleString: _string,
    cst.ConcatenatedString: _string,
    cst.Integer: lambda roles, node: fact(Kind.NUMBER),
    cst.Float: lambda roles, node: fact(Kind.NUMBER),
    cst.Tuple: _literal(Kind.SEQUENCE),
    cst.List: _literal(Kind.SEQUENCE),
    cst.ListComp: _literal(Kind.SEQUENCE),
    cst.GeneratorExp: _literal(Kind.SEQUENCE),
    cst.Dict: _literal(Kind.MAPPING),
    cst.DictComp: _literal(Kind.MAPPING),
    cst.Lambda: _literal(Kind.FUNCTION),
    cst.NamedExpr: lambda roles, node: roles.facts(node.value),
    cst.Await: lambda roles, node: roles.facts(node.expression),
}

