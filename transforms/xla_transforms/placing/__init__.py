"""Where a device is at hand: the expression to write for "the device" at a place of the script.

A variable that holds the script's device is used where one is visible. Elsewhere the target's own
expression is written, or, where a function needs it twice, one new ``device = ...`` line above its uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.placing.flags import Flags
from xla_transforms.placing.introduced import NEW, VARIABLE, Introduced
from xla_transforms.placing.moves import is_move
from xla_transforms.placing.several import several
from xla_transforms.placing.variables import Variable, Variables
from xla_transforms.plan import Planned
from xla_transforms.scopes import Binding, How, ModuleIndex

if TYPE_CHECKING:
    from xla_transforms.context import Context

__all__ = [
    "VARIABLE", "Placing", "Variable", "device_at", "device_here", "is_move", "is_test", "may_be_cpu",
    "several_devices", "sharding", "shares_several", "xla_test",
]  # fmt: skip


_SHARDING = tuple(
    f"torch.distributed.{name}."
    for name in ("tensor", "_tensor", "_composable", "_shard", "pipelining", "pipeline", "rpc")
)


def device_at(context: Context, node: cst.CSTNode, change: Planned) -> str:
    """An expression that is the script's device at ``node``: a visible variable, else the target's own."""
    placing = context.placing
    found = placing.visible(node)
    if found is not None:
        return found.text
    if placing.introduced(node):
        return NEW
    return change.spell(context.target.device)


def device_here(context: Context, node: cst.CSTNode, change: Planned) -> str:
    """The device for an unconditional use of CUDA: a variable that a flag can make the CPU will not do.

    Inside ``if use_cuda:`` the variable is the XLA device and may stand for it.
    """
    found = context.placing.visible(node)
    if found is not None and found.may_be_cpu and not context.placing.guarded(node):
        return change.spell(context.target.device)
    return device_at(context, node, change)


def several_devices(context: Context) -> list[cst.CSTNode]:
    """The places where the module names one of several CUDA devices, by constants or by counting."""
    return several(context.roles, context.index)


def shares_several(context: Context) -> bool:
    """Whether the module, or one that it is imported with, computes on several devices.

    What tests do with a module says nothing of those who train with it.
    """
    related = context.program.related(context.index)
    return any(
        several(context.roles, index) for index in related if index is context.index or not is_test(index)
    )


def is_test(index: ModuleIndex) -> bool:
    """Whether a module is a test: nothing else imports the frameworks for tests."""
    bindings = (b for found in index.scopes[index.source.module].bindings.values() for b in found)
    return any(b.how is How.IMPORT and b.name.split(".")[0] in ("pytest", "unittest") for b in bindings)


def sharding(index: ModuleIndex) -> list[tuple[str, Binding]]:
    """What a module imports, in any case, to part a model among processes."""
    found = []
    for bindings in index.scopes[index.source.module].bindings.values():
        for binding in bindings:
            path = binding.name
            line = index.statement_of(binding.statement)
            plain = line is not None and isinstance(index.parent(line), cst.Module)
            if binding.how is How.IMPORT and plain and f"{path}.".startswith(_SHARDING):
                found.append((path, binding))
    return sorted(found, key=lambda f: index.source.offsets(f[1].node))


def may_be_cpu(context: Context, node: cst.CSTNode) -> bool:
    """Whether the user's own flags can make the device at ``node`` the CPU."""
    found = context.placing.visible(node)
    if found is not None:
        return found.may_be_cpu
    return bool(context.placing.flags.guards)


def xla_test(context: Context, node: cst.CSTNode) -> str | None:
    """A condition that holds where the device at ``node`` is the XLA device: ``device.type == "xla"``.

    ``None`` where neither a device variable nor the flag that chooses the device is visible there.
    """
    found = context.placing.visible(node)
    kind = context.target.device_type
    if found is not None:
        test = f'{found.text} == "{kind}"' if found.word else f'{found.text}.type == "{kind}"'
        return f'str({found.text}).startswith("{kind}")' if found.mixed else test
    return context.placing.flags.flag_at(node)


class Placing:
    """The device variables of one module, those it has and those it gets."""

    def __init__(self, context: Context) -> None:
        self.variables = Variables(context.roles, context.index)
        self.flags = Flags(self.variables)
        self._introduced = Introduced(context, self.variables, self.flags)

    def visible(self, node: cst.CSTNode) -> Variable | None:
        """The script's own device variable at a place, the nearest one."""
        return self.variables.visible(node)

    def declare(self, statement: cst.CSTNode, text: str) -> None:
        """Note that a pass binds a device variable, the CPU where the user says so, above a statement."""
        self.variables.declare(statement, text)

    def guarded(self, node: cst.CSTNode) -> bool:
        """Whether a flag of the user lets ``node`` run with the device only."""
        return self.flags.guard_of(node) is not None

    def introduced(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` may use a new variable; plans the line that binds it."""
        return self._introduced.at(node)
