"""Which parser of the command line an expression is, where a program makes several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.scopes import Binding
from xla_transforms.tree import argument, method, receiver

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

_PARSER = "argparse.ArgumentParser"


def made_by(roles: Roles, node: cst.CSTNode | None) -> cst.Call | None:
    """The call that makes a parser, or the one that a group or a command of it is added to; ``None`` where
    that is not known, and for one that takes the options of others (``parents=``)."""
    if isinstance(node, cst.Call):
        if method(node).startswith("add_"):
            return made_by(roles, receiver(node))
        own = roles.path(node.func) == _PARSER and argument(node, "parents") is None
        return node if own else None
    binding = _in_effect(roles, node) if isinstance(node, cst.Name) else None
    return made_by(roles, binding.value) if binding is not None and not binding.path else None


def _in_effect(roles: Roles, name: cst.Name) -> Binding | None:
    """What a name was last bound by, where all that binds it stands in one block with the place that reads
    it, line by line."""
    bindings = roles.bindings(name)
    if len(bindings) == 1:
        return bindings[0]
    index = roles.index(name)
    around = [name, *index.ancestors(name)]
    blocks = {index.parent(index.statement_of(b.statement) or b.statement) for b in bindings}
    if len(blocks) != 1 or not blocks <= set(around):
        return None
    earlier = [b for b in bindings if index.source.offsets(b.statement)[1] <= index.source.offsets(name)[0]]
    return max(earlier, key=lambda b: index.source.offsets(b.statement), default=None)
