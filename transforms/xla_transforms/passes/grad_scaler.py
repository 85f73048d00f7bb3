"""Gradient scalers: gone where bfloat16 is computed in, the XLA one where a target has it.

On a target with a scaler for XLA all calls stay and only the class is written anew: that one looks for
infinite gradients on the device. Elsewhere, where every use is understood, the scaler is taken out:
``scaler.scale(loss).backward()`` becomes ``loss.backward()``, ``unscale_`` and ``update`` go, backward, clip
and step stay in their order (the step itself is written by the steps pass); where one is not understood,
the object stays, switched off.
Sources: pytorch/xla guide "Automatic mixed precision" (no scaling with bfloat16); torch_xla 2.9.0 has no
``torch_xla.amp.GradScaler`` any more (commit 647804ca96); pytorch v2.9, ``torch/amp/grad_scaler.py``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.naming import is_word
from xla_transforms.plan import Planned
from xla_transforms.roles.classes import bases
from xla_transforms.scalers import CUDA_PATHS, PATHS, SCALERS, Group, groups
from xla_transforms.tree import argument, has_star, method

UNWOUND = Rule(
    "XLA311",
    "scaler-unwound",
    "A gradient scaler is taken out, with all its calls.",
    "bfloat16 has the range of float32: gradients do not underflow and need no scaling.",
)
KEPT = Rule(
    "XLA312",
    "scaler-switched-off",
    "A gradient scaler whose uses are not all understood stays, switched off.",
    "An enabled one reads the gradients on the host at every step: two executions instead of one.",
)
STATE = Rule(
    "XLA313",
    "scaler-state",
    "Checkpoints are written without the scaler's state.",
    "There is no scaler whose state could be stored; old checkpoints can still be read.",
    safety=Safety.DISPLAY,
)
XLA_SCALER = Rule(
    "XLA314",
    "scaler-of-xla",
    "A gradient scaler becomes the one of torch_xla.",
    "torch_xla.amp.GradScaler decides on the device whether a step is skipped (torch_xla up to 2.8).",
)
DERIVED = Rule(
    "XLA315",
    "scaler-derived",
    "A class derives from a gradient scaler.",
    "Its instances stay switched on beside torch_xla, at the price of a host read at every step.",
    Severity.WARNING,
    Safety.DISPLAY,
)
SCALE_READ = Rule(
    "XLA316",
    "scale-read-in-step",
    "The scale of a gradient scaler is read in a training loop.",
    "It lives on the device: each get_scale() is an execution of its own (torch_xla up to 2.8).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (UNWOUND, KEPT, STATE, XLA_SCALER, DERIVED, SCALE_READ)

_NO_STATE = "checkpoints no longer hold the scaler's state; old ones can still be read"
_PARAMETERS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")


def run(context: Context) -> None:
    items: list[cst.CSTNode] = []
    for group in groups(context):
        if context.target.has_grad_scaler:
            _rename(context, group)
        elif group.understood:
            with context.plan.together(SCALERS):
                _Unwinding(context, group).write()
            listed = [n for n in group.removed if isinstance(n, (cst.Arg, cst.Param, cst.DictElement))]
            items += [n for n in listed if _ours(context, n)]
        else:
            _keep(context, group)
    with context.plan.together(SCALERS):
        _drop_items(context, items)
    if context.uses_cuda:
        _derived(context)


def _ours(context: Context, node: cst.CSTNode) -> bool:
    return context.roles.index(node) is context.index


class _Unwinding:
    """Takes the scalers of one group out of one module."""

    def __init__(self, context: Context, group: Group) -> None:
        self.context = context
        self.group = group

    def write(self) -> None:
        for guard, kept in self.group.choices.items():
            if _ours(self.context, guard):
                self._choose(guard, kept)
        for node in self.group.removed:
            if _ours(self.context, node) and isinstance(node, cst.BaseSmallStatement):
                self._remove(node)
        for call, loss in self.group.scaled.items():
            if _ours(self.context, call):
                self._unscale(call, loss)
        for maker in self.group.makers:
            if _ours(self.context, maker):
                message = "the gradient scaler is taken out: bfloat16 needs none"
                self.context.plan.report(UNWOUND, maker, message, fixed=True)

    def _choose(self, guard: cst.If, kept: bool) -> None:
        if guard.orelse is None:
            change = self.context.plan.change(UNWOUND, guard, "without a scaler there is nothing to do")
            change.remove(guard)
        else:
            message = "without the scaler both ways are the same"
            Branches(self.context).decide(UNWOUND, guard, lambda test: kept, message)

    def _remove(self, statement: cst.BaseSmallStatement) -> None:
        if not self.context.plan.taken(statement):
            change = self.context.plan.change(UNWOUND, statement, "bfloat16 needs no gradient scaler")
            change.remove(statement)
            if isinstance(statement, cst.Assign) and self._stores(statement):
                self.context.plan.report(STATE, statement, _NO_STATE, fixed=True)

    def _stores(self, statement: cst.Assign) -> bool:
        return isinstance(statement.targets[0].target, cst.Subscript)

    def _unscale(self, call: cst.CSTNode, loss: cst.BaseExpression) -> None:
        if self.context.plan.free(call):
            change = self.context.plan.change(UNWOUND, call, "the loss is not scaled")
            plain = isinstance(loss, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or bool(loss.lpar)
            nested = isinstance(self.context.index.parent(call), cst.Attribute)
            change.replace(call, "{0}" if plain or not nested else "({0})", loss)


def _drop_items(context: Context, removed: list[cst.CSTNode]) -> None:
    """Parameters, arguments and dictionary entries, the ones of one list together."""
    done: set[cst.CSTNode] = set()
    for node in removed:
        holder = context.index.parent(node)
        if holder is None or holder in done or context.plan.taken(node):
            continue
        done.add(holder)
        change = context.plan.change(UNWOUND, node, "bfloat16 needs no gradient scaler")
        for items in _lists(holder):
            change.drop(items, [n for n in items if n in removed])
        if isinstance(node, cst.DictElement) or _in_dict(context, node):
            context.plan.report(STATE, node, _NO_STATE, fixed=True)


def _in_dict(context: Context, node: cst.CSTNode) -> bool:
    call = context.index.parent(node)
    return isinstance(call, cst.Call) and context.roles.path(call.func) == "builtins.dict"


def _lists(holder: cst.CSTNode) -> list[list[cst.CSTNode]]:
    """The lists separated by commas in a call, a dictionary or a function's parameters."""
    if isinstance(holder, cst.Call):
        return [list(holder.args)]
    if isinstance(holder, cst.Dict):
        return [list(holder.elements)]
    if isinstance(holder, cst.Parameters):
        return [list(holder.posonly_params), list(holder.params), list(holder.kwonly_params)]
    return []


def _keep(context: Context, group: Group) -> None:
    reason, culprit = group.doubts[0]
    line = context.program.line_of(culprit, context.index)
    for call in group.makers:
        if _ours(context, call) and context.plan.free(call):
            _switch_off(context, call)
            message = f"the gradient scaler stays, switched off: {reason} (line {line})"
            context.plan.report(KEPT, call, message, fixed=True)


def _switch_off(context: Context, call: cst.Call) -> None:
    change = context.plan.change(KEPT, call, "a scaler switched off costs nothing and changes nothing")
    word = f'"{context.target.device_type}"'
    paths = context.roles.spelled(call.func)
    first = call.args[0] if call.args else None
    by_device = argument(call, "device") or (first if first is not None and _is_text(first) else None)
    if has_star(call) or not call.args:
        change.replace(call, f"{change.spell(context.target.grad_scaler)}({word}, enabled=False)")
        return
    if paths & CUDA_PATHS:
        change.replace(call.func, change.spell(context.target.grad_scaler))
    if by_device is not None and is_word(by_device.value):
        change.replace(by_device.value, word)
    elif by_device is None and first is not None and (paths <= CUDA_PATHS or first.keyword):
        change.wrap(first, f"{word}, {{0}}")
    _disable(change, call, by_position=_PARAMETERS if paths <= CUDA_PATHS else ("device", *_PARAMETERS))


def _disable(change: Planned, call: cst.Call, by_position: tuple[str, ...]) -> None:
    enabled = argument(call, "enabled", by_position.index("enabled"))
    if enabled is not None:
        change.replace(enabled.value, "False")
    else:
        change.wrap(call.args[-1], "{0}, enabled=False")


def _is_text(arg: cst.Arg) -> bool:
    return arg.keyword is None and isinstance(arg.value, (cst.SimpleString, cst.FormattedString))


def _rename(context: Context, group: Group) -> None:
    if _all_written(context):
        context.plan.imports.twins[context.target.grad_scaler.module] = PATHS
    for call in group.makers:
        if not _ours(context, call) or not context.plan.free(call):
            continue
        change = context.plan.change(XLA_SCALER, call, "the scaler of torch_xla works on the device")
        change.replace(call.func, change.spell(context.target.grad_scaler))
        device = _device(context, call)
        if device is not None:
            change.drop(list(call.args), [device])
    for node in group.uses:
        if _ours(context, node):
            _scale_read(context, context.index.parent(context.index.parent(node) or node))


def _scale_read(context: Context, call: cst.CSTNode | None) -> None:
    if isinstance(call, cst.Call) and method(call) == "get_scale" and context.loops.of(call) is not None:
        message = "the scale is on the device: reading it is one more execution"
        context.plan.report(SCALE_READ, call, message, "read it once an epoch, or in a step closure")


def _all_written(context: Context) -> bool:
    """Whether all scalers that the module makes are written anew, so that the class's name is free."""
    makers = {call for group in groups(context) for call in group.makers}
    calls = context.program.calls.get("GradScaler", ())
    return all(call in makers for call in calls if context.roles.index(call) is context.index)


def _device(context: Context, call: cst.Call) -> cst.Arg | None:
    """The argument that names the device, which the scaler of torch_xla does not take."""
    first = call.args[0] if call.args and call.args[0].keyword is None and not call.args[0].star else None
    for_any = not context.roles.spelled(call.func) & CUDA_PATHS
    return argument(call, "device") or (first if first is not None and (for_any or _is_text(first)) else None)


def _derived(context: Context) -> None:
    for node in context.index.all(cst.ClassDef):
        assert isinstance(node, cst.ClassDef)
        if node.bases and PATHS & {b for b in bases(context.roles, node) if isinstance(b, str)}:
            message = f"{node.name.value} is a gradient scaler of its own: it stays as it is"
            advice = 'call super().__init__("xla", enabled=False) of torch.amp.GradScaler'
            if context.target.has_grad_scaler:
                advice = "derive it from torch_xla.amp.GradScaler"
            context.plan.report(DERIVED, node.bases[0], message, advice)
