"""Generators: the state of the device's random numbers, and generators that live on the device.

XLA's state is one integer, read by ``xm.get_rng_state()`` and set by ``xm.set_rng_state(state)``; a
``torch.Generator`` cannot live on an XLA device, but tensors on one draw from a generator on the CPU.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``: ``get_rng_state``, ``fork_rng``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.statements import bare, live_calls, migrating, sole_target
from xla_transforms.targets.base import XM
from xla_transforms.tree import argument, has_star, method, receiver, same, value_of, walk

STATE = Rule(
    "XLA223",
    "rng-state",
    "The state of CUDA's generator becomes the state of the XLA device's, an integer.",
    "torch.cuda.get_rng_state raises without CUDA (pytorch/xla v2.9.0, xla_model.py, get_rng_state).",
)
GENERATOR = Rule(
    "XLA224",
    "device-generator",
    "A generator on the GPU becomes one on the CPU, from which XLA tensors draw.",
    'torch.Generator(device="xla") raises: "XLA device type not an accelerator" (torch 2.9).',
)
FORK = Rule(
    "XLA225",
    "fork-rng",
    "Beside torch's generators the XLA device's is forked.",
    "torch.random.fork_rng does not know the XLA device (pytorch/xla v2.9.0, xla_model.py, fork_rng).",
)
NOT_FORKED = Rule(
    "XLA226",
    "fork-rng-left",
    "A fork of the random state names CUDA devices and could not be rewritten.",
    "With CUDA devices torch.random.fork_rng raises without CUDA.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (STATE, GENERATOR, FORK, NOT_FORKED)

_MOVES = frozenset({"cpu", "to", "byte", "type", "clone"})


def run(context: Context) -> None:
    if not migrating(context):
        return
    for call, path in live_calls(context):
        name = path.removeprefix("torch.cuda.")
        if path == "torch.Generator":
            _generator(context, call)
        elif path in ("torch.random.fork_rng", "torch.fork_rng"):
            _fork(context, call)
        elif name in ("get_rng_state", "get_rng_state_all"):
            change = context.plan.change(STATE, call, "the XLA device's state is one integer")
            text = change.spell(context.target.get_rng_state)
            change.replace(call, f"[{text}]" if name.endswith("all") else text)
        elif name == "set_rng_state" and (state := value_of(call, "new_state", 0)) is not None:
            change = context.plan.change(STATE, call, "the XLA device's state is one integer")
            change.replace(call, change.spell(context.target.set_rng_state), _plain(state))
            _report_foreign(context, call)
        elif name == "set_rng_state_all" and (states := value_of(call, "new_states", 0)) is not None:
            _set_all(context, call, states)


def _set_all(context: Context, call: cst.Call, states: cst.BaseExpression) -> None:
    line = context.index.statement_of(call)
    if bare(context, call) is None or not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
        return
    change = context.plan.change(STATE, call, "the XLA device's state is one integer")
    set_one = change.spell(context.target.set_rng_state).replace("{0}", "rng_state")
    inner = context.plan.indentation(line) + context.index.source.indent
    newline = context.index.source.newline
    change.replace(call, f"for rng_state in {{0}}:{newline}{inner}{set_one}", _plain_list(states))
    _report_foreign(context, call)


def _report_foreign(context: Context, call: cst.Call) -> None:
    message = "a checkpoint written on CUDA holds CUDA's generator state, which XLA cannot take"
    advice = "restore it from checkpoints of the migrated script"
    context.plan.report(STATE, call, message, advice, fixed=True)


def _plain(state: cst.BaseExpression) -> cst.BaseExpression:
    """``state`` for ``state.cpu()``: an integer has no device."""
    while method(state) in _MOVES and (base := receiver(state)) is not None:
        state = base
    return state


def _plain_list(states: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(states, cst.ListComp):
        clause, element = states.for_in, _plain(states.elt)
        alike = isinstance(element, cst.Name) and isinstance(clause.target, cst.Name)
        if alike and element.deep_equals(clause.target) and not clause.ifs and not clause.inner_for_in:
            return clause.iter
    return states


def _generator(context: Context, call: cst.Call) -> None:
    device = argument(call, "device", 0)
    if device is None or has_star(call) or context.roles.places(device.value) == {"cpu"}:
        return
    if _is_compared(context, call):
        message = "on the CPU, where it has to be, this generator would be made and seeded anew in every step"
        advice = "make the generator once, on the CPU, and take the condition out"
        context.plan.report(GENERATOR, call, message, advice, severity=Severity.ERROR)
        return
    message = "the generator lives on the CPU; tensors on the XLA device draw from it"
    change = context.plan.change(GENERATOR, call, message)
    change.drop(call.args, [device])
    advice = "each draw comes from the host: seed the device itself where that is too slow"
    context.plan.report(GENERATOR, call, message, advice, fixed=True)


def _is_compared(context: Context, call: cst.Call) -> bool:
    """``if generator.device != x.device: generator = torch.Generator(x.device)``."""
    assign = next((a for a in context.index.ancestors(call) if isinstance(a, cst.BaseSmallStatement)), None)
    target = sole_target(assign)
    tests = [a.test for a in context.index.ancestors(call) if isinstance(a, cst.If)]
    asked = [n for test in tests for n in walk(test) if isinstance(n, cst.Attribute)]
    return target is not None and any(n.attr.value == "device" and same(n.value, target) for n in asked)


def _fork(context: Context, call: cst.Call) -> None:
    enabled = value_of(call, "enabled", 1)
    item = context.index.parent(call)
    if isinstance(item, cst.WithItem) and _beside_fork(context, item):
        return
    known = context.target.fork_rng
    if known is None or not isinstance(item, cst.WithItem) or item.asname is not None or has_star(call):
        by_hand = "put xm.get_rng_state() back by xm.set_rng_state(...)"
        advice = "fork that too: with ..., xm.fork_rng():" if known is not None else by_hand
        message = "this fork of the random state leaves the XLA device out"
        context.plan.report(NOT_FORKED, call, message, advice)
        return
    change = context.plan.change(FORK, call, "the XLA device's generator is forked too")
    fork = change.spell(known)
    if enabled is None:
        change.replace(call, f"{{0}}(devices=[]), {fork}()", call.func)
    else:
        change.replace(call, f"{{0}}(devices=[], enabled={{1}}), {fork}(enabled={{1}})", call.func, enabled)


def _beside_fork(context: Context, item: cst.WithItem) -> bool:
    """Whether the same ``with`` forks the XLA device's generator already."""
    items = getattr(context.index.parent(item), "items", ())
    calls = [i.item for i in items if isinstance(i.item, cst.Call)]
    return any(context.roles.path(c.func) == f"{XM}.fork_rng" for c in calls)
