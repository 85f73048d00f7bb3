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
RULES = (TRACED,)

_PICTURES = ("torchvision.models.", "timm.")
_TRACERS = {"torch.jit.trace": "example_inputs", "torch.jit.trace_module": "inputs"}


def run(context: Context) -> None:
    if not migrating(context) or context.already_xla:
        return
    own = any(name.startswith("Conv") for name in context.program.calls)
    for call, path in live_calls(context):
        name = _TRACERS.get(path) or ("input_to_model" if _draws_graph(context, call) else "")
        inputs = value_of(call, name, 1) if name else None
        if inputs is not None and _on_device(context, inputs) and (own or _of_a_library(context, call)):
            model = context.index.source.code(call.args[0].value)
            advice = f"trace a copy on the CPU: copy.deepcopy({model}).cpu(), with inputs on the CPU"
            name = context.index.source.code(call.func)
            message = f"{name} traces convolutions on the XLA device, which raises"
            context.plan.report(TRACED, call, message, advice)


def _draws_graph(context: Context, call: cst.Call) -> bool:
    return method(call) == "add_graph" and context.roles.is_a(receiver(call), Kind.WRITER)


def _of_a_library(context: Context, call: cst.Call) -> bool:
    """Whether what is traced is a model of a library of pictures, whose layers are not in sight."""
    facts = context.roles.facts(call.args[0].value)
    return any(f.kind is Kind.MODEL and f.detail.startswith(_PICTURES) for f in facts)


def _on_device(context: Context, inputs: cst.BaseExpression) -> bool:
    """Whether an input is certainly on the device; of a tuple the first that is known decides."""
    values = [e.value for e in inputs.elements] if isinstance(inputs, (cst.Tuple, cst.List)) else [inputs]
    facts = [fact for value in values for fact in context.roles.facts(value)]
    return any(fact.kind is Kind.TENSOR and fact.detail == "device" for fact in facts)
