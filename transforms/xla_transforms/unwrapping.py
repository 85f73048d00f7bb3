"""Taking a model out of its wrapper: the call goes, ``.module`` is the model itself."""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.plan import Planned
from xla_transforms.statements import write_part
from xla_transforms.tree import same, value_of
from xla_transforms.wrappers import Wrappers


def unwrap(context: Context, change: Planned, call: cst.Call) -> str | None:
    """Write the model for a wrapper; gives the text of what holds it afterwards, if a statement names it.

    ``model = DDP(model)`` goes as a whole.
    """
    inner, assign = value_of(call, "module", 0), _assignment(context, call)
    assert inner is not None
    targets = [t.target for t in assign.targets] if assign is not None else []
    alone = assign is not None and assign.value is call and len(targets) == 1 and same(targets[0], inner)
    if alone and assign is not None:
        change.remove(assign)
    else:
        change.replace(call, "{0}", inner)
    return context.index.source.code(targets[0]) if len(targets) == 1 else None


def _assignment(context: Context, call: cst.Call) -> cst.Assign | None:
    """The assignment of a wrapper, also of ``nn.DataParallel(model).cuda()``."""
    for parent in context.index.ancestors(call):
        if isinstance(parent, cst.Assign):
            return parent
        if not isinstance(parent, (cst.Attribute, cst.Call, cst.IfExp)):
            return None
    return None


def unwrap_modules(context: Context, wrappers: Wrappers, rule: Rule) -> None:
    """Write the model for every ``.module`` of what may be wrapped."""
    for node in context.index.attributed("module") if wrappers.calls else ():
        if context.plan.free(node) and wrappers.holds(node.value):
            choice = context.index.parent(node)
            if choice is not None and context.plan.claims(choice):  # of a model that has two wrappers
                continue
            change = context.plan.change(rule, node, "the model is no longer wrapped")
            write_part(context, change, node, node.value)

