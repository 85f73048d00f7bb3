"""Tracing on the device: ``torch.jit.trace`` takes no convolution on XLA, nor what traces for TensorBoard.

Source: run on torch_xla 2.9 ("Cannot insert a Tensor that requires grad as a constant" for each kind of
convolution, transposed ones too; linear, recurrent, normalising, pooling and attention layers are traced);
pytorch v2.9, ``torch/utils/tensorboard/_pytorch_graph.py``, ``graph``, which traces.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Kind
from xla_transforms.statements import live_calls, migrating
from xla_transforms.tree import method, receiver, value_of

TRACED = Rule(
    "XLA268",
    "traced-on-device",
    "A model with convolutions is traced on the XLA device.",
    "torch.jit.trace loses their weights on the way and raises (run on torch_xla 2.9).",
    Severity.ERROR,
    Safety.DISPLAY,
)
DRAWN = Rule(
    "XLA269",
    "graph-drawn-on-cpu",
    "The graph of a model that has convolutions is drawn from a copy of it on the CPU.",
    "add_graph traces the model, and convolutions cannot be traced on XLA (run on torch_xla 2.9). Natively "
    "the trace counted in the running statistics of BatchNorm; that of a copy does not.",
)
RULES = (TRACED, DRAWN)

_PICTURES = ("torchvision.models.", "timm.")
_UNCOPIED = frozenset({"weight_norm", "spectral_norm"})  # deepcopy refuses their weights
_PLAIN = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
_TRACERS = {"torch.jit.trace": "example_inputs", "torch.jit.trace_module": "inputs"}


def run(context: Context) -> None:
    if not migrating(context) or context.already_xla:
        return
    own = any(name.startswith("Conv") for name in context.program.calls)
    for call, path in live_calls(context):
        drawn = _draws_graph(context, call)
        name = "input_to_model" if drawn else _TRACERS.get(path, "")
        inputs = value_of(call, name, 1) if name else None
        if inputs is None or not _on_device(context, inputs) or not (own or _of_a_library(context, call)):
            continue
        model = call.args[0].value
        if drawn and context.plan.free(call) and _copied(context, model, inputs):
            _draw(context, model, inputs)
        else:
            _tell(context, call)


def _tell(context: Context, call: cst.Call) -> None:
    model = context.index.source.code(call.args[0].value)
    advice = f"trace a copy on the CPU: copy.deepcopy({model}).cpu(), with inputs on the CPU"
    name = context.index.source.code(call.func)
    message = f"{name} traces convolutions on the XLA device, which raises"
    context.plan.report(TRACED, call, message, advice)


def _draw(context: Context, model: cst.BaseExpression, inputs: cst.BaseExpression) -> None:
    change = context.plan.change(DRAWN, model, "traced on the CPU, where convolutions can be")
    change.wrap(model, change.use("copy") + ".deepcopy({0}).cpu()")
    for value in _several(inputs):
        if _places(context, value) != {"host"}:
            change.wrap(value, "{0}.cpu()")


def _copied(context: Context, model: cst.BaseExpression, inputs: cst.BaseExpression) -> bool:
    """Whether a model and its inputs are certainly what has ``.cpu()``."""
    facts = context.roles.facts(model)
    plain = all(isinstance(value, _PLAIN) and _places(context, value) for value in _several(inputs))
    is_model = bool(facts) and all(fact.kind is Kind.MODEL for fact in facts)
    return plain and is_model and not _UNCOPIED & set(context.program.calls)


def _draws_graph(context: Context, call: cst.Call) -> bool:
    return method(call) == "add_graph" and context.roles.is_a(receiver(call), Kind.WRITER)


def _of_a_library(context: Context, call: cst.Call) -> bool:
    """Whether what is traced is a model of a library of pictures, whose layers are not in sight."""
    facts = context.roles.facts(call.args[0].value)
    return any(f.kind is Kind.MODEL and f.detail.startswith(_PICTURES) for f in facts)


def _on_device(context: Context, inputs: cst.BaseExpression) -> bool:
    """Whether an input is certainly on the device; of a tuple the first that is known decides."""
    return any("device" in _places(context, value) for value in _several(inputs))


def _places(context: Context, value: cst.BaseExpression) -> set[str]:
    """Where a tensor may be natively; empty for what may be something else."""
    facts = context.roles.facts(value)
    return {fact.detail for fact in facts} if all(fact.kind is Kind.TENSOR for fact in facts) else set()


def _several(inputs: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(inputs, (cst.Tuple, cst.List)):
        return [element.value for element in inputs.elements]
    return [inputs]
