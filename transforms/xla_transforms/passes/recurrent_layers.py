"""LSTM and GRU compute wrong numbers on a release whose functionalization breaks ``torch.unsafe_chunk``.

By it they part their gates; what is computed of its chunks is wrong there, forward and backward.
Source: run on torch_xla 2.1.0 against torch, right with XLA_DISABLE_FUNCTIONALIZATION=1; right on 2.9; the
layers' tests that functionalization broke: pytorch/xla#4711.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.statements import live_calls

RECURRENT = Rule(
    "XLA270",
    "recurrent-layer",
    "An LSTM or GRU computes wrong numbers on torch_xla 2.1.",
    "Its gates are parted by unsafe_chunk, which functionalization gets wrong there: losses and gradients "
    "are others, and nothing fails (run on torch_xla 2.1.0; pytorch/xla#4711).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (RECURRENT,)

_LAYERS = ("LSTM", "GRU", "LSTMCell", "GRUCell")
_PATHS = {f"torch.nn.{place}{name}": name for name in _LAYERS for place in ("", "modules.rnn.")}
_PATHS |= {"torch.unsafe_chunk": "unsafe_chunk"}
_ADVICE = "set XLA_DISABLE_FUNCTIONALIZATION=1 in the environment of the run, or train on a later release"


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla or not context.target.chunks_wrongly:
        return
    for call, path in live_calls(context):
        if path in _PATHS:
            _report(context, call, _PATHS[path])
    for owner in context.index.all(cst.ClassDef):
        assert isinstance(owner, cst.ClassDef)
        for base in owner.bases:
            if context.roles.path(base.value) in _PATHS:
                _report(context, base.value, _PATHS[context.roles.path(base.value)])


def _report(context: Context, node: cst.CSTNode, name: str) -> None:
    message = f"{name} computes wrong numbers on torch_xla {context.target.name}, and nothing fails"
    context.plan.report(RECURRENT, node, message, _ADVICE)
