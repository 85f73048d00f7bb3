"""Names that a value chooses: ``getattr(torch.optim, args.opt)``, ``models.__dict__[args.arch]``.

Where the value is one of some constants (an option with ``choices``, say) it is one of those names. Else all
that stands below a package of one kind is of that kind, be the name what it may: ``torch.optim.?``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles import classes
from xla_transforms.roles import evaluate as ev
from xla_transforms.roles.catalog import result_of
from xla_transforms.roles.facts import UNKNOWN, Fact, Facts, Kind, fact
from xla_transforms.scopes import How
from xla_transforms.tree import string_value, value_of

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

ANY = "?"
_PACKAGES = frozenset(
    {"torch.optim", "torch.optim.lr_scheduler", "torch.nn", "torchvision.models", "torchvision.datasets"}
)
_MOST = 64


def attribute(roles: Roles, call: cst.Call) -> Facts:
    """What ``getattr(base, name)`` gives."""
    base, name = call.args[0].value, call.args[1].value
    names = constants(roles, name)
    found: set[Fact] = set()
    for item in roles.facts(base):
        if names:
            found |= frozenset().union(*(classes.attribute_of(roles, item, n, call) for n in names))
        elif item.kind is Kind.NAME:
            found |= below(roles, item.detail, call)
        else:
            found |= UNKNOWN
    if len(call.args) > 2:
        found |= roles.facts(call.args[2].value)
    return frozenset(found) or UNKNOWN


def below(roles: Roles, path: str, node: cst.CSTNode) -> Facts:
    """What any name below a package or a module of the program stands for."""
    if path in _PACKAGES and result_of(f"{path}.{ANY}")[0] is not Kind.UNKNOWN:
        return fact(Kind.NAME, f"{path}.{ANY}")
    module = roles.program.module(path, roles.index(node)) or roles.program.modules.get(path)
    if module is None:
        return UNKNOWN
    scope = module.scopes[module.source.module]
    own = [b for found in scope.bindings.values() for b in found if b.how is How.DEFINE]
    return frozenset().union(*(ev.bound(roles, b) for b in own)) if 0 < len(own) <= _MOST else UNKNOWN


def entry(roles: Roles, node: cst.Subscript) -> Facts:
    """What ``package.__dict__[name]`` and ``vars(package)[name]`` give; nothing for other subscripts."""
    base = node.value
    if not isinstance(base, cst.Attribute) or base.attr.value != "__dict__" or len(node.slice) != 1:
        return frozenset()
    path, index = roles.path(base.value), node.slice[0].slice
    if not path or not isinstance(index, cst.Index):
        return frozenset()
    names = constants(roles, index.value)
    chosen = (ev.named(roles, f"{path}.{name}", node) for name in names)
    return frozenset().union(*chosen) or below(roles, path, node)


def constants(roles: Roles, node: cst.BaseExpression) -> list[str]:
    """The constants that a string may be; none where it may be anything."""
    found: set[str] = set()
    for item in roles.facts(node):
        if item.kind is Kind.OPTION and isinstance(item.node, cst.Call):
            choices = value_of(item.node, "choices")
            texts = [string_value(e.value) for e in getattr(choices, "elements", ())]
            if not texts or None in texts:
                return []
            found |= {text for text in texts if text}
        elif item.kind is Kind.STRING and item.detail:
            found.add(item.detail)
        elif item.kind is not Kind.NONE:
            return []
    return sorted(found)
