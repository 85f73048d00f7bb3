"""Scripts around transformers' Trainer get the function that launchers call in each process.

Sources: transformers, ``examples/pytorch/xla_spawn.py`` (it imports the script and calls ``_mp_fn``);
SageMaker's guide (its launcher pytorchxla does the same, at module level).
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.replicas.reach import comes_to
from xla_transforms.replicas.scripts import Layout, main_guard
from xla_transforms.tree import walk
from xla_transforms.wrapping import Wrapping, shared_names

ENTRY = Rule(
    "XLA923",
    "trainer-entry-point",
    "A script around transformers' Trainer gets a function _mp_fn(index) that does what the script does.",
    "The launchers of transformers' examples and of SageMaker import the script and call _mp_fn in each "
    "process (transformers, examples/pytorch/xla_spawn.py).",
)
RULES = (ENTRY,)

_NAME = "_mp_fn"
_EXITS = ("sys.exit", "builtins.exit", "builtins.quit")


def run(context: Context) -> None:
    index = context.index
    homes = {context.roles.index(call) for call in context.frameworks.trainers}
    launched = context.distributed and any(e.index is index for e in context.replicas.starts.entries)
    if not homes or launched or index.scopes[index.source.module].bindings.get(_NAME):
        return
    guard = main_guard(index)
    if guard is None and _trains_at_top(context):
        _enclose(context, Layout.of(context.roles, index, None), None)
    elif guard is None:
        scripts = (m for m in context.program.modules.values() if main_guard(m) is not None)
        started_elsewhere = any(index in context.program.reachable(script) for script in scripts)
        if index in homes and not started_elsewhere:
            _report(context, next(c for c in context.frameworks.trainers if context.roles.index(c) is index))
    elif homes.intersection(context.program.reachable(index)):
        layout = Layout.of(context.roles, index, guard)
        if layout.moved and guard.orelse is None:
            _enclose(context, layout, guard)
        else:
            _add(context, guard)


def _trains_at_top(context: Context) -> bool:
    """Whether a script, which nothing imports, trains from its top on, without a main guard."""
    index = context.index
    if index.source.is_notebook or context.program.imported(index.name):
        return False
    made = frozenset(context.frameworks.trainers)
    top = (s for s in index.source.module.body if not isinstance(s, (cst.FunctionDef, cst.ClassDef)))
    return any(comes_to(context.roles, part, made) for part in top)


def _enclose(context: Context, layout: Layout, guard: cst.If | None) -> None:
    """What each process has to run becomes the function, which the script then calls."""
    source = context.index.source
    if layout.obstacle:
        _report(context, guard.test if guard is not None else layout.moved[0], layout.obstacle)
        return
    change = context.plan.change(ENTRY, guard or layout.moved[0], "launchers call _mp_fn in each process")
    opening = f"if {source.code(guard.test)}:" if guard is not None else 'if __name__ == "__main__":'
    context.plan.imports.moving |= set(layout.moved)
    tail = [opening, f"{source.indent}{_NAME}(0)"]
    Wrapping(context, layout.moved, guard, f"def {_NAME}(index):", tail).write(change)


def _add(context: Context, guard: cst.If) -> None:
    index, body = context.index, list(context.index.source.module.body)
    call = _main_call(context, guard)
    if call is None or body[0] is guard:
        _wrap(context, guard)
        return
    indent = index.source.module.default_indent
    change = context.plan.change(ENTRY, guard, "launchers call _mp_fn in each process")
    before = body[body.index(guard) - 1]
    change.after(before, "", "", f"def {_NAME}(index):", f"{indent}{index.source.code(call)}")


def _wrap(context: Context, guard: cst.If) -> None:
    """What a main guard holds becomes the function, which it then calls."""
    source = context.index.source
    if guard.orelse is not None or _defines_for_others(context, guard):
        _report(context, guard.test)
        return
    change = context.plan.change(ENTRY, guard, "launchers call _mp_fn in each process")
    change.cut(source.offsets(guard)[0], context.plan.bracketed(guard.test)[1], f"def {_NAME}(index)")
    if shared := shared_names(context.roles, context.index, guard):
        change.before(guard.body.body[0], "global " + ", ".join(shared))
    change.after(guard, "", "", f"if {source.code(guard.test)}:", f"{source.indent}{_NAME}(0)")


def _defines_for_others(context: Context, guard: cst.If) -> bool:
    """Whether a function or class in a main guard is used outside of it, or all of a module is imported."""
    index = context.index
    scope = index.scopes[index.source.module]
    inside = [n for n in walk(guard.body) if isinstance(n, (cst.FunctionDef, cst.ClassDef))]
    ours = [n.name.value for n in inside if index.scope_of(n) is scope]
    named = (n for name in ours for n in index.named_of(scope, name))
    everything = any(isinstance(n, cst.ImportStar) for n in walk(guard.body))
    return everything or any(not index.within(n, guard) for n in named)


def _report(context: Context, node: cst.CSTNode, why: str = "") -> None:
    what = "what the script does in a function main(), called below if __name__ == '__main__'"
    if context.index.source.is_notebook:
        what = "what the notebook does in a module: a function main(), which the notebook calls"
    advice = f"for several processes: have {what}, and def {_NAME}(index): main()"
    message = "launchers find no function to call in each process" + (f": {why}" if why else "")
    context.plan.report(ENTRY, node, message, advice)


def _main_call(context: Context, guard: cst.If) -> cst.Call | None:
    """The call without arguments that is all a guarded block does, be it within ``sys.exit``."""
    lines = guard.body.body if guard.orelse is None else ()
    line = lines[0] if len(lines) == 1 else None
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else line
    call = small.value if isinstance(small, cst.Expr) else None
    if isinstance(call, cst.Call) and context.roles.path(call.func) in _EXITS and len(call.args) == 1:
        inner = call.args[0].value
        call = inner if isinstance(inner, cst.Call) else None
    plain = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and not call.args
    return call if plain and isinstance(call, cst.Call) else None
