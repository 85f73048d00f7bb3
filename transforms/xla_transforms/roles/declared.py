"""What annotations declare: ``torch.Tensor``, a class of the program, ``Sequence[Optimizer]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles import classes
from xla_transforms.roles.catalog import ANNOTATIONS
from xla_transforms.roles.facts import NOTHING, UNKNOWN, Facts, Kind, fact, of_kind
from xla_transforms.tree import string_value

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

_EITHER = frozenset({"Optional", "Union"})
_HOLDS = frozenset(
    {
        "List", "list", "Sequence", "Iterable", "Iterator", "Collection", "Tuple", "tuple", "Set", "set",
        "Generator",
    }
)  # fmt: skip
_MAPS = frozenset({"Dict", "dict", "Mapping", "MutableMapping", "OrderedDict", "DefaultDict"})
_HOMES = ("typing.", "builtins.", "collections.")


def annotation(roles: Roles, node: cst.Annotation | None) -> Facts:
    """What a type annotation says; nothing where it says nothing of interest."""
    return expression(roles, node.annotation) if node is not None else NOTHING


def expression(roles: Roles, node: cst.BaseExpression) -> Facts:
    """The same for a part of one."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
        return expression(roles, node.left) | expression(roles, node.right)
    if isinstance(node, cst.Subscript):
        return _parametrised(roles, node)
    text = string_value(node)
    path = text if text is not None else roles.path(node)
    kind = ANNOTATIONS.get(path.removeprefix("builtins."))
    if kind is not None:
        return fact(kind[0], kind[1])
    found = {classes.instance(roles, f.node) for f in of_kind(roles.facts(node), Kind.CLASS) if f.node}
    return frozenset().union(*found)


def _parametrised(roles: Roles, node: cst.Subscript) -> Facts:
    path = roles.path(node.value)
    name = path.rpartition(".")[2] if path.startswith(_HOMES) else ""
    if name in _EITHER:
        return frozenset().union(*(expression(roles, part) for part in parts(node)))
    if name in _HOLDS:
        return fact(Kind.SEQUENCE, "declared", node)
    return fact(Kind.MAPPING, "declared", node) if name in _MAPS else NOTHING


def parts(node: cst.Subscript) -> list[cst.BaseExpression]:
    """``int`` and ``str`` for ``Tuple[int, str]``."""
    return [element.slice.value for element in node.slice if isinstance(element.slice, cst.Index)]


def element(roles: Roles, node: cst.Subscript, step: int | str) -> Facts:
    """What stands in a container that is declared so."""
    inner = parts(node)
    is_tuple = roles.path(node.value).rpartition(".")[2].lower() == "tuple"
    fixed = is_tuple and not isinstance(inner[-1], cst.Ellipsis)
    if fixed and isinstance(step, int) and -len(inner) <= step < len(inner):
        return expression(roles, inner[step]) or UNKNOWN
    chosen = inner if fixed else inner[-1:] if len(inner) == 2 and isinstance(step, str) else inner[:1]
    return frozenset().union(*(expression(roles, part) for part in chosen)) or UNKNOWN
