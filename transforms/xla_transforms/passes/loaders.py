"""Loaders: batches come to the device through an ``MpDeviceLoader``, which also is the loop's barrier.

It gives nothing but iteration and ``len()``, so it takes a loader's name only where nothing else is asked
of it; elsewhere the loader keeps its name and the loop gets the device loader.
Source: pytorch/xla v2.9.0, ``torch_xla/distributed/parallel_loader.py``, ``MpDeviceLoader``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety
from xla_transforms.loops import Loop
from xla_transforms.loops.travels import travel
from xla_transforms.placing import device_at, may_be_cpu, xla_test
from xla_transforms.plan import Planned
from xla_transforms.roles import Kind
from xla_transforms.scopes import How
from xla_transforms.tree import method, value_of

WRAP = Rule(
    "XLA501",
    "device-loader",
    "A loader whose batches go to the device is driven through MpDeviceLoader.",
    "It uploads the next batches in the background and marks the step at each batch "
    "(pytorch/xla guide: PyTorch on XLA devices).",
)
UNWRAPPED = Rule(
    "XLA503",
    "loader-not-wrapped",
    "A loader stays a plain DataLoader; its loop keeps its transfers and gets an explicit barrier.",
    "MpDeviceLoader moves every tensor of a batch; code that needs one on the host would fail.",
    safety=Safety.DISPLAY,
)
RULES = (WRAP, UNWRAPPED)

_BY_HAND = "it is right as it is; in pl.MpDeviceLoader, where device tensors will do, it would load ahead"


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for loop in context.loops.all:
        if loop.wrapped and _undecidable(context, loop):
            loop.wrapped = False
            loop.reason = "the user's flags choose the device, and no device variable is at hand here"
    made = _at_creation(context)
    for call in sorted(made, key=context.index.source.offsets):
        users = [loop for loop in context.loops.all if call in _origins(context, loop)]
        with context.plan.together(*users):
            _wrap_where_made(context, call, [loop for loop in users if loop.wrapped])
    for loop in context.loops.all:
        if loop.wrapped and not _origins(context, loop) & made:
            with context.plan.together(loop):
                _wrap_at_loop(context, loop)
        elif loop.reason and not loop.wrapped:
            context.plan.report(UNWRAPPED, loop.node, f"the loader is not wrapped: {loop.reason}", _BY_HAND)


def _undecidable(context: Context, loop: Loop) -> bool:
    return _conditional(context, loop) and xla_test(context, loop.node) is None


def _conditional(context: Context, loop: Loop) -> bool:
    """Whether the user's flags may send the loop's batches to the CPU."""
    if _sure(context, loop):
        return False
    targets = [value_of(call, "device", 0) for call in loop.batches.transfers if method(call) == "to"]
    chosen = any(t is not None and "cpu" in context.roles.places(t) for t in targets)
    return chosen or may_be_cpu(context, loop.node)


def _sure(context: Context, loop: Loop) -> bool:
    """Whether the loop moves something of each batch whatever the flags are; there is no device variable."""
    own = [call for call in context.loops.own_transfers(loop) if method(call) == "cuda"]
    moved = any(context.placing.flags.guard_of(call) is None for call in own)
    return moved and context.placing.visible(loop.node) is None


def _origins(context: Context, loop: Loop) -> Set[cst.CSTNode]:
    return context.roles.origins(loop.loader, Kind.LOADER) if loop.loader is not None else set()


def _at_creation(context: Context) -> set[cst.CSTNode]:
    """The DataLoader calls whose every use is iteration by a wrapped loop, or ``len()``."""
    wrapped = {loop.node for loop in context.loops.all if loop.wrapped}
    loops = [loop for loop in context.loops.all if loop.wrapped]
    made: set[cst.CSTNode] = set()
    users_of: dict[cst.CSTNode, list[Loop]] = defaultdict(list)
    for loop in loops:
        for call in _origins(context, loop):
            users_of[call].append(loop)
    kept = context.replicas.feeds.kept if context.distributed else set()
    for call, users in users_of.items():
        if isinstance(call, cst.Call) and call not in kept and _placeable(context, call, users):
            uses = travel(context.roles, call)
            if uses.loops and not uses.others and all(node in wrapped for node in uses.loops):
                made.add(call)
    while True:  # a loop over several loaders takes all of them wrapped, or none
        mixed = {c for loop in loops for c in _origins(context, loop) if _origins(context, loop) - made}
        if not mixed & made:
            return made
        made -= mixed


def _placeable(context: Context, call: cst.Call, users: list[Loop]) -> bool:
    if context.roles.index(call) is not context.index or _before_launch(context, call):
        return False
    if not _chosen(context, call, users):
        return not any(_conditional(context, loop) for loop in users)
    return xla_test(context, call) is not None and _assigned(context, call) is not None


def _chosen(context: Context, call: cst.Call, users: list[Loop]) -> bool:
    """Whether the user's flags may leave the batches of a loader on the CPU."""
    sure = all(_sure(context, loop) for loop in users) and context.placing.visible(call) is None
    return may_be_cpu(context, call) and not sure


def _before_launch(context: Context, node: cst.CSTNode) -> bool:
    """Whether a node runs where no device may be asked for: before there are processes."""
    return context.distributed and context.replicas.starts.before(node)


def _assigned(context: Context, call: cst.Call) -> str | None:
    """The text of the one target of ``name = DataLoader(...)``, a statement of its own."""
    assign = context.index.parent(call)
    line = context.index.parent(assign) if assign is not None else None
    if not isinstance(assign, cst.Assign) or not isinstance(line, cst.SimpleStatementLine):
        return None
    if len(assign.targets) != 1 or len(line.body) != 1:
        return None
    target = assign.targets[0].target
    return context.index.source.code(target) if isinstance(target, (cst.Name, cst.Attribute)) else None


def _wrap_where_made(context: Context, call: cst.CSTNode, users: list[Loop]) -> None:
    assert isinstance(call, cst.Call)
    change = context.plan.change(WRAP, call, "batches come to the device through MpDeviceLoader")
    name, line = _assigned(context, call), context.index.statement_of(call)
    if name is None or line is None:
        device = device_at(context, call, change)
        change.wrap(call, change.spell(context.target.device_loader), device)
        return
    made = _loader_of(context, change, name, call)
    if _chosen(context, call, users):
        change.after(line, f"if {xla_test(context, call)}:", f"{context.index.source.indent}{name} = {made}")
    else:
        change.after(line, f"{name} = {made}")


def _loader_of(context: Context, change: Planned, loader: str, node: cst.CSTNode) -> str:
    text = change.spell(context.target.device_loader)
    return text.format(loader, device_at(context, node, change))


def _wrap_at_loop(context: Context, loop: Loop) -> None:
    loader = loop.loader
    assert loader is not None
    if any(site.wraps for p in context.plan.planned for site in p.sites if p.node is loader):
        return
    change = context.plan.change(WRAP, loader, "the loop takes its batches from the device loader")
    conditional = _conditional(context, loop)
    made = _creation_line(context, loader)
    if made is not None and not conditional:
        name = _new_name(context, loader)
        change.after(made, f"{name} = {_loader_of(context, change, context.index.source.code(loader), made)}")
        change.replace(loader, name)
    elif conditional:
        _before_loop(context, loop, loader, change)
    else:
        device = device_at(context, loop.node, change)
        change.wrap(loader, change.spell(context.target.device_loader), device)


def _creation_line(context: Context, loader: cst.BaseExpression) -> cst.CSTNode | None:
    """The line that makes the loader, where it stands in the loop's own scope and is the only one."""
    if not isinstance(loader, cst.Name):
        return None
    bindings = context.roles.bindings(loader)
    scope = context.index.scope_of(loader)
    if len(bindings) != 1 or bindings[0].how is not How.ASSIGN or bindings[0].path:
        return None
    value = bindings[0].value
    if value not in context.roles.origins(loader, Kind.LOADER) or scope.owner(loader.value) is not scope:
        return None
    line = context.index.statement_of(bindings[0].statement)
    single = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    alone = sum(1 for loop in context.loops.all if loop.wrapped and _same_name(loop, loader)) == 1
    early = line is not None and _before_launch(context, line)
    return line if single and alone and not early else None


def _same_name(loop: Loop, loader: cst.Name) -> bool:
    return isinstance(loop.loader, cst.Name) and loop.loader.value == loader.value


def _before_loop(
    context: Context, loop: Loop, loader: cst.BaseExpression, change: Planned
) -> None:
    name, code = _new_name(context, loader), context.index.source.code(loader)
    made = _loader_of(context, change, code, loop.node)
    anchor = _statement_around(context, loader, loop)
    lines = [f"{name} = {code}", f"if {xla_test(context, loop.node)}:"]
    change.before(anchor, *lines, f"{context.index.source.indent}{name} = {made}")
    change.replace(loader, name)


def _statement_around(context: Context, loader: cst.BaseExpression, loop: Loop) -> cst.CSTNode:
    """The statement before which the device loader is made: the loop, or the line of ``bar = tqdm(...)``."""
    if context.index.within(loader, loop.node):
        return loop.node
    return context.index.statement_of(loader) or loop.node


def _new_name(context: Context, loader: cst.BaseExpression) -> str:
    code = loader.value if isinstance(loader, cst.Name) else ""
    if isinstance(loader, cst.Attribute):
        code = loader.attr.value
    stem = code.removesuffix("loader").removesuffix("_")
    name = f"{stem}_device_loader" if stem else "device_loader"
    bound = {n for scope in context.index.scopes.values() for n in scope.bindings}
    while name in bound:
        name += "_"
    return name

