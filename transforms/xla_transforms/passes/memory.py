"""Memory statistics: what a script prints about CUDA's memory is asked of the XLA device.

``xm.get_memory_info()`` is not implemented for every device (it raises on a CPU), so that a script gets
one small function that answers with zeros there, as torch.cuda does without CUDA.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``get_memory_info``; before v2.4 it told
``kb_free`` and ``kb_total``, before v2.6 no peak.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.plan import Planned
from xla_transforms.statements import bare, define, in_double_quotes, live_calls, migrating, path_of, reads_of
from xla_transforms.tree import string_value

MEMORY = Rule(
    "XLA211",
    "memory-statistics",
    "Memory statistics come from the XLA device, in bytes as before.",
    "torch.cuda.memory_allocated() is 0 without CUDA, its kin raise (pytorch/xla v2.9.0, get_memory_info).",
)
PEAK = Rule(
    "XLA212",
    "memory-meaning",
    "A memory statistic means something a little different on XLA.",
    "XLA counts what the runtime holds since the process began; there is no cache and no reset.",
    safety=Safety.DISPLAY,
)
NO_COUNTERPART = Rule(
    "XLA213",
    "memory-statistic-left",
    "A memory statistic has no counterpart on XLA and is left.",
    "xm.get_memory_info knows bytes_used, bytes_limit and peak_bytes_used, nothing else.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (MEMORY, PEAK, NO_COUNTERPART)

_USED, _PEAK, _LIMIT = "bytes_used", "peak_bytes_used", "bytes_limit"
_KEYS = {
    "memory_allocated": _USED,
    "memory_reserved": _USED,
    "memory_cached": _USED,
    "max_memory_allocated": _PEAK,
    "max_memory_reserved": _PEAK,
    "max_memory_cached": _PEAK,
}
_STATS = {
    "allocated_bytes.all.current": _USED,
    "reserved_bytes.all.current": _USED,
    "allocated_bytes.all.peak": _PEAK,
    "reserved_bytes.all.peak": _PEAK,
}
_FUNCTION = """\
def {name}():
{indent}# not every device tells: a CPU does not
{indent}try:
{indent}{indent}return {call}
{indent}except RuntimeError:
{indent}{indent}return {{"bytes_used": 0, "bytes_limit": 0, "peak_bytes_used": 0}}"""

_FUNCTION_IN_KB = """\
def {name}():
{indent}# not every device tells: a CPU does not
{indent}try:
{indent}{indent}info = {call}
{indent}except RuntimeError:
{indent}{indent}return {{"bytes_used": 0, "bytes_limit": 0, "peak_bytes_used": 0}}
{indent}if "kb_total" in info:
{indent}{indent}used = info["kb_total"] - info["kb_free"]
{indent}{indent}info = {{"bytes_used": 1024 * used, "bytes_limit": 1024 * info["kb_total"]}}
{indent}return {{"peak_bytes_used": info["bytes_used"], **info}}"""


def run(context: Context) -> None:
    if not migrating(context):
        return
    found: list[tuple[cst.BaseExpression, str]] = []
    for read in _total(context):
        found.append((read, f'{{m}}["{_LIMIT}"]'))
    for call, path in live_calls(context):
        if path.startswith(("torch.cuda.", "torch.accelerator.")):
            found += _statistic(context, call, path.split(".")[-1])
    if not found:
        return
    change = context.plan.change(MEMORY, found[0][0], "the XLA device tells how much memory is used")
    name = _define(context, change)
    for node, template in found:
        text = template.replace("{m}", f"{name}()")
        change.replace(node, text.replace('"', "'") if in_double_quotes(context, node) else text)


def _statistic(
    context: Context, call: cst.Call, name: str
) -> list[tuple[cst.BaseExpression, str]]:
    """What to write for a call, or for the expression around it that picks one number."""
    outer = context.index.parent(call)
    if name in _KEYS:
        if _KEYS[name] == _PEAK:
            told = "what is used now" if context.target.memory_in_kb else "the peak since the process began"
            context.plan.report(PEAK, call, f"it is {told}: XLA cannot reset it", fixed=True)
        return [(call, f'{{m}}["{_KEYS[name]}"]')]
    if name == "mem_get_info":
        return [(call, f'({{m}}["{_LIMIT}"] - {{m}}["{_USED}"], {{m}}["{_LIMIT}"])')]
    if name == "memory_summary":
        return [(call, "str({m})")]
    if name in ("memory_stats", "memory_stats_as_nested_dict"):
        key = _key(outer)
        if key in _STATS and isinstance(outer, cst.Subscript):
            return [(outer, f'{{m}}["{_STATS[key]}"]')]
        _without(context, call, name)
    elif name == "memory_snapshot" and bare(context, call) is None:
        _without(context, call, name)
    return []


def _total(context: Context) -> list[cst.Attribute]:
    """Where the size of the GPU's memory is read from its properties."""
    found: list[cst.Attribute] = []
    for call in context.index.all(cst.Call):
        if isinstance(call, cst.Call) and path_of(context, call.func) == "torch.cuda.get_device_properties":
            reads = reads_of(context, call)
            known = all(r.attr.value in ("name", "major", "minor", "total_memory") for r in reads)
            found += [r for r in reads if r.attr.value == "total_memory" and known]
    return [read for read in found if not context.roles.dead(read)]


def _key(outer: cst.CSTNode | None) -> str:
    if not isinstance(outer, cst.Subscript) or not isinstance(outer.slice[0].slice, cst.Index):
        return ""
    return string_value(outer.slice[0].slice.value) or ""


def _without(context: Context, call: cst.Call, name: str) -> None:
    known = context.target.memory_info.shown()
    message = f"torch.cuda.{name} has no counterpart on XLA and is left: it raises without CUDA"
    context.plan.report(NO_COUNTERPART, call, message, f"read {known} instead, or take it out")


def _define(context: Context, change: Planned) -> str:
    """The name of the function that asks the device; it is written below the imports."""
    bound = {name for scope in context.index.scopes.values() for name in scope.bindings}
    name = "memory_info"
    while name in bound:
        name = f"xla_{name}"
    source = context.index.source
    call = change.spell(context.target.memory_info)
    function = _FUNCTION_IN_KB if context.target.memory_in_kb else _FUNCTION
    text = function.format(name=name, indent=source.indent, call=call)
    define(context, change, text.split("\n"))
    return name
