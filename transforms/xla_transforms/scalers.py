"""What becomes of gradient scalers on a target that has none.

A scaler is *unwound*, taken out with all its calls, where every use of it is understood; otherwise it is
kept and switched off, which leaves all calls as they are. A scaler is followed through variables,
attributes of ``self`` and parameters; all that one value may reach is decided together, because half a
scaler does not run. Source: pytorch v2.9, ``torch/amp/grad_scaler.py``: a disabled scaler's ``scale``
gives its argument, its ``step`` calls the optimizer's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.placing import several_devices
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import arriving_parameter, callers
from xla_transforms.roles.classes import is_self, related
from xla_transforms.roles.facts import of_kind
from xla_transforms.scopes import Binding, How, Scope
from xla_transforms.tree import children, method, same, string_value, value_of

if TYPE_CHECKING:
    from xla_transforms.context import Context

PATHS = frozenset(
    {
        "torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler", "torch.amp.GradScaler",
        "torch.amp.grad_scaler.GradScaler", "torch.GradScaler",
    }
)  # fmt: skip
Holder = tuple[object, str]


@dataclass(eq=False)
class Group:
    """The scalers that reach one another's places, and what taking them out means.

    ``removed`` are statements and elements of lists, ``scaled`` the calls of ``scale`` whose argument
    stays, ``choices`` the conditions on the scaler both ways of which come to the same. ``reason`` says
    why the group is not understood, ``culprit`` where.
    """

    makers: list[cst.Call] = field(default_factory=list)
    uses: set[cst.CSTNode] = field(default_factory=set)
    steps: list[cst.Call] = field(default_factory=list)
    removed: list[cst.CSTNode] = field(default_factory=list)
    scaled: list[cst.Call] = field(default_factory=list)
    choices: list[cst.If] = field(default_factory=list)
    holders: set[Holder] = field(default_factory=set)
    reason: str = ""
    culprit: cst.CSTNode | None = None

    @property
    def understood(self) -> bool:
        return not self.reason

    def doubt(self, reason: str, node: cst.CSTNode) -> None:
        if not self.reason:
            self.reason, self.culprit = reason, node


def unwound(context: Context, scaler: cst.BaseExpression) -> bool:
    """Whether the scaler an expression gives is taken out of the script."""
    if context.target.has_grad_scaler:
        return False
    return any(scaler in group.uses and group.understood for group in groups(context))


def groups(context: Context) -> list[Group]:
    """The scalers made in the program; none where its AMP is left as it is."""
    if not context.uses_cuda or several_devices(context):
        return []
    return context.scalers


def find_groups(roles: Roles, *, steps_stay: bool) -> list[Group]:
    """Follow every scaler of a program. ``steps_stay`` tells that nobody rewrites ``scaler.step``."""
    found: list[Group] = []
    for call in roles.program.calls_of(PATHS, roles):
        if not any(call in group.makers for group in found):
            group = Group()
            _Following(roles, group).made(call)
            if steps_stay:
                group.doubt("its steps stay as they are", call)
            found = _merged(found, group)
    return found


def _merged(found: list[Group], group: Group) -> list[Group]:
    """Groups that meet in a holder are one: both go, or none."""
    for other in found:
        if other.holders & group.holders:
            other.makers += group.makers
            other.uses |= group.uses
            other.steps += group.steps
            other.removed += [n for n in group.removed if n not in other.removed]
            other.scaled += [n for n in group.scaled if n not in other.scaled]
            other.choices += [n for n in group.choices if n not in other.choices]
            other.holders |= group.holders
            if group.reason and group.culprit is not None:
                other.doubt(group.reason, group.culprit)
            return found
    return [*found, group]


class _Following:
    """Follows one scaler from the call that makes it to all its uses."""

    def __init__(self, roles: Roles, group: Group) -> None:
        self.roles = roles
        self.group = group
