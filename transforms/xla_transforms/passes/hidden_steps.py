"""Steps out of sight: what is handed the optimizer in a loop, is not in the project, and may step it.

Where it is timm's ``NativeScaler`` and the target computes in bfloat16, there is nothing to scale: the
backward pass, the clipping and the step that its call stands for are written in its place, the reduction of
gradients between them. What else is asked of the scaler (its state) stays: without CUDA it is switched off.
Sources: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``optimizer_step``: what replicas reduce, and
where a step ends, is written at the step; pytorch-image-models v1.0.9, ``timm/utils/cuda.py`` and
``timm/utils/clip_grad.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.plan import Planned
from xla_transforms.tree import number_value, value_of

HIDDEN = Rule(
    "XLA619",
    "hidden-step",
    "What is handed the optimizer in a loop is not in the project, and nothing in sight steps it.",
    "If it steps, it must reduce the gradients of replicas before, and use nothing of CUDA: neither can be "
    "seen (pytorch/xla v2.9.0, torch_xla/core/xla_model.py).",
    Severity.WARNING,
    Safety.DISPLAY,
)
WRITTEN = Rule(
    "XLA620",
    "library-scaler",
    "A call of timm's NativeScaler becomes the backward pass, the clipping and the step that it stands for.",
    "bfloat16 needs no scaled loss, and the gradients of replicas are reduced before they are clipped "
    "(pytorch-image-models v1.0.9, timm/utils/cuda.py).",
)
RULES = (HIDDEN, WRITTEN)

_PARAMETERS = ("loss", "optimizer", "clip_grad", "clip_mode", "parameters", "create_graph", "need_update")


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    hidden = context.loops.effects.hidden
    for call in hidden.calls:
        if context.roles.index(call) is not context.index or context.plan.taken(call):
            continue
        if hidden.known(call) and not context.target.has_grad_scaler:
            _write(context, call)
        else:
            _tell(context, call, hidden.origin(call))


def _tell(context: Context, call: cst.Call, origin: str) -> None:
    name = context.index.source.code(call.func)
    of_what = f", {origin}," if origin and origin != name else ""
    handed = "is handed an optimizer that nothing in sight steps"
    message = f"{name}(){of_what} is not in the project, and {handed}"
    advice = "migrate what holds it along; or write the backward pass and the step here, in its place"
    severity = Severity.ERROR if context.replicas.asked else None
    context.plan.report(HIDDEN, call, message, advice, severity=severity)


def _write(context: Context, call: cst.Call) -> None:
    statement = context.index.parent(call)
    assert isinstance(statement, cst.Expr)
    given = {name: value_of(call, name, position) for position, name in enumerate(_PARAMETERS)}
    parts = {name: value for name, value in given.items() if value is not None and not _off(value)}
    change = context.plan.change(WRITTEN, call, "bfloat16 needs no scaled loss: backward, reduce, clip, step")
    template = f"{context.index.source.newline}{context.plan.indentation(statement)}".join(
        _lines(context, change, parts)
    )
    numbers = {f"{{{name}}}": f"{{{number}}}" for number, name in enumerate(parts)}
    for named, numbered in numbers.items():
        template = template.replace(named, numbered)
    change.replace(statement, template, *parts.values())


def _off(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Name) and value.value in ("None", "False")


def _lines(context: Context, change: Planned, parts: dict[str, cst.BaseExpression]) -> Iterator[str]:
    """What the scaler does, a line each; ``{loss}`` and the like stand for what it is given."""
    loss = "{loss}" if isinstance(parts["loss"], (cst.Name, cst.Attribute, cst.Call)) else "({loss})"
    indent = context.index.source.indent
    yield f"{loss}.backward({'create_graph={create_graph}' if 'create_graph' in parts else ''})"
    clip = list(_clipping(change, parts, indent))
    step = change.spell(context.target.optimizer_step).replace("{0}", "{optimizer}")
    if clip:
        reduce = change.spell(context.target.reduce_gradients).replace("{0}", "{optimizer}")
        steps = [reduce, *clip, "{optimizer}.step()"]
    else:
        steps = [step]
    asked = parts.get("need_update")
    if asked is None or (isinstance(asked, cst.Name) and asked.value == "True"):
        yield from steps
    else:
        yield "if {need_update}:"
        yield from (indent + line for line in steps)


def _clipping(change: Planned, parts: dict[str, cst.BaseExpression], indent: str) -> Iterator[str]:
    """``clip_mode`` is ``"norm"`` unless another one is given; without parameters timm refuses to clip."""
    if "clip_grad" not in parts or "parameters" not in parts:
        return
    if "clip_mode" in parts:
        given = "({parameters}, {clip_grad}, mode={clip_mode})"
        clip = change.use("timm.utils.dispatch_clip_grad") + given
    else:
        clip = f"{change.use('torch')}.nn.utils.clip_grad_norm_({{parameters}}, {{clip_grad}})"
    if number_value(parts["clip_grad"]) is not None:
        yield clip
    else:
        yield "if {clip_grad} is not None:"
        yield indent + clip
