"""apex's mixed precision becomes autocast around the forward pass, and its loss scaling goes.

Levels O1 and O2 keep float32 weights (O2 as copies) and compute in half precision what bears it, as
autocast does; bfloat16 needs no scaled loss. Written where all of the program's use is understood.
Source: NVIDIA apex, ``apex/amp/frontend.py``; pytorch/xla guide "Automatic mixed precision".
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.apex import Amp, Scaled
from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.plan import Render
from xla_transforms.roles.calls import initialized
from xla_transforms.tree import body_of, dotted, method, receiver, same, string_value, value_of, walk
from xla_transforms.wrapping import indented

MIXED = Rule(
    "XLA317",
    "apex-amp",
    "apex's mixed precision becomes autocast in bfloat16 around the forward pass.",
    "apex runs on CUDA alone; bfloat16 has the range of float32 and needs no scaled loss.",
)
LEVEL = Rule(
    "XLA318",
    "apex-level",
    "The levels O1 and O2 of apex compute alike, and O3 does not compute in half precision alone.",
    "Autocast keeps the weights in float32 and casts operation by operation, as O1 did (apex, frontend.py).",
    Severity.WARNING,
    Safety.DISPLAY,
)
LEFT = Rule(
    "XLA319",
    "apex-amp-left",
    "apex's mixed precision is used in a way that is not understood; it is left.",
    "apex runs on CUDA alone: the script fails without it.",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (MIXED, LEVEL, LEFT)

_UNIT = "apex"
_ADVICE = (
    'put torch.autocast("xla", dtype=torch.bfloat16) around the forward pass and the loss, call '
    "loss.backward() on the loss itself, and leave the rest of apex.amp out"
)


def run(context: Context) -> None:
    amp = context.apex
    if not context.uses_cuda or context.already_xla or not amp.calls["initialize"]:
        return
    doubts = list(amp.doubts)
    if not context.target.autocast_device:
        reason = "this target computes in float16, which needs a scaled loss"
        doubts.append((reason, amp.calls["initialize"][0]))
    if doubts:
        reason, node = doubts[0]
        if context.roles.index(node) is context.index:
            context.plan.report(LEFT, node, reason, _ADVICE)
        return
    with context.plan.together(_UNIT):
        _Writing(context, amp).write()


class _Writing:
    """Writes one module without ``apex.amp``."""

    def __init__(self, context: Context, amp: Amp) -> None:
        self.context, self.amp, self.plan = context, amp, context.plan

    def write(self) -> None:
        for call in self._ours("initialize"):
            self._initialize(call)
        for scaled in self.amp.scaled:
            if self.context.roles.index(scaled.statement) is self.context.index:
                self._forward(scaled)
                self._backward(scaled)
        for call in self._ours("master_params"):
            change = self.plan.change(MIXED, call, "the optimizer's parameters are the model's own")
            optimizer = value_of(call, "optimizer", 0)
            assert optimizer is not None
            change.replace(call, '[p for group in {0}.param_groups for p in group["params"]]', optimizer)
        for name in ("state_dict", "load_state_dict"):
            for call in self._ours(name):
                self._state(call)
        self._imports()

    def _imports(self) -> None:
        """Note that no use of the imported name is left, and take out what only tried to import it."""
        uses = [n for n in self.amp.uses if self.context.roles.index(n) is self.context.index]
        gone = self.plan.change(MIXED, self.context.index.source.module, "autocast stands for it").id
        for use in uses:
            self.plan.claim(use, gone)
        for guard in self.context.index.all(cst.Try):
            assert isinstance(guard, cst.Try)
            if self._only_imported(guard):
                change = self.plan.change(MIXED, guard, "nothing of apex is used any more")
                change.remove(guard)

    def _ours(self, name: str) -> list[cst.Call]:
        return [c for c in self.amp.calls[name] if self.context.roles.index(c) is self.context.index]

    def _initialize(self, call: cst.Call) -> None:
        change = self.plan.change(MIXED, call, "model and optimizer stay as they are")
        given = initialized(call)
        assign = self.context.index.parent(call)
        targets = [t.target for t in assign.targets] if isinstance(assign, cst.Assign) else []
        several = targets[0] if targets and isinstance(targets[0], cst.Tuple) else None
        names = [e.value for e in several.elements] if several is not None else targets
        alike = len(targets) == 1 and len(names) == len(given) and all(map(same, names, given))
        if assign is not None and (alike or isinstance(assign, cst.Expr)):
            change.remove(assign)
        else:
            text = ", ".join(f"{{{i}}}" for i in range(len(given)))
            change.replace(call, text if len(given) == 1 or targets else f"({text})", *given)
        self._tell(call)

    def _tell(self, call: cst.Call) -> None:
        level = value_of(call, "opt_level")
        text = string_value(level)
        if level is not None and text not in ("O0", "O1"):
            message = "O2 and O3 compute as O1 does: in bfloat16 by autocast, the weights in float32"
            self.plan.report(LEVEL, level, message, "the option itself stays; O0 still means float32")

    def _forward(self, scaled: Scaled) -> None:
        enabled = self.amp.enabled(scaled)
        if enabled == "False":
            return
        first, last = scaled.forward[0], scaled.forward[-1]
        change = self.plan.change(MIXED, first, "the forward pass and the loss compute in bfloat16")
        target, source = self.context.target, self.context.index.source
        dtype = f"{change.use('torch')}.{target.autocast_dtype}"
        told = f", enabled={enabled}" if enabled else ""
        head = f'with {change.spell(target.autocast)}("{target.autocast_device}", dtype={dtype}{told}):'
        start, end = source.line_start(source.offsets(first)[0]), source.lines_end(last)
        indent = self.plan.indentation(first)

        def write(render: Render) -> str:
            return f"{indent}{head}{source.newline}{indented(render((start, end)), source.indent)}"

        change.rewrite(start, end, write)

    def _backward(self, scaled: Scaled) -> None:
        if scaled.ways and self._alike(scaled):
            message = "without a scaled loss both ways are the same"
            Branches(self.context).decide(MIXED, scaled.ways[0][0], lambda test: False, message)
            return
        statement, loss = scaled.statement, scaled.loss
        change = self.plan.change(MIXED, statement, "bfloat16 needs no scaled loss")
        uses = [n for n in walk(statement.body) if isinstance(n, cst.Name) and n.value == scaled.name]
        plain = isinstance(loss, (cst.Name, cst.Attribute))
        for use in uses:
            if len(uses) == 1 or plain:
                change.replace(use, "{0}" if plain or loss.lpar else "({0})", loss)
        if len(uses) > 1 and not plain:
            change.before(body_of(statement)[0], f"{scaled.name} = {self.context.index.source.code(loss)}")
        if not Branches(self.context).keep_block(change, statement, statement.body):
            change.replace(statement.items[0].item, f"{change.use('contextlib')}.nullcontext({{0}})", loss)

    def _alike(self, scaled: Scaled) -> bool:
        """``else: loss.backward()``: the other way of the one condition around does the same."""
        guard, answer = scaled.ways[0]
        above = self.context.index.parent(guard)
        answer = answer and not (isinstance(above, cst.If) and above.orelse is guard)
        other = guard.orelse.body if isinstance(guard.orelse, cst.Else) else None
        if not answer or other is None or body_of(guard) != [scaled.statement]:
            return False
        here, there = self._sole(scaled.statement.body), self._sole(other)
        if here is None or there is None or len(here.args) != len(there.args):
            return False
        mine, theirs = receiver(here), receiver(there)
        named = isinstance(mine, cst.Name) and mine.value == scaled.name and theirs is not None
        return named and method(here) == method(there) and same(theirs, scaled.loss) and all(
            same(a.value, b.value) for a, b in zip(here.args, there.args, strict=True)
        )

    def _sole(self, block: cst.BaseSuite) -> cst.Call | None:
        """The call that is all of a block."""
        lines = body_of(block) if not isinstance(block, cst.IndentedBlock) else list(block.body)
        smalls = body_of(lines[0]) if len(lines) == 1 else []
        small = smalls[0] if len(smalls) == 1 else None
        return small.value if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) else None

    def _only_imported(self, guard: cst.Try) -> bool:
        """Whether a ``try`` does nothing but import names of apex that are not used any more."""
        smalls = [s for line in body_of(guard) for s in body_of(line)]
        imports = [s for s in smalls if isinstance(s, (cst.Import, cst.ImportFrom))]
        names = [name for statement in imports for name in _aliases(statement)]
        if guard.orelse or guard.finalbody or len(names) < len(smalls) or not names:
            return False
        index = self.context.index
        uses = [n for name in names for n in index.named(name) if not index.within(n, guard)]
        return all(map(self.plan.taken, uses)) and all(_of_apex(s) for s in smalls)

    def _state(self, call: cst.Call) -> None:
        change = self.plan.change(MIXED, call, "there is no scaler whose state could be stored")
        index = self.context.index
        holder = index.parent(call)
        stored = isinstance(holder, cst.Assign) and isinstance(holder.targets[0].target, cst.Subscript)
        if holder is not None and (isinstance(holder, cst.Expr) or stored):
            change.remove(holder)
        elif isinstance(holder, cst.DictElement):
            whole = index.parent(holder)
            assert isinstance(whole, cst.Dict)
            change.drop(list(whole.elements), [holder])
        else:
            change.replace(call, "{}")


def _aliases(statement: cst.Import | cst.ImportFrom) -> list[str]:
    """The names that an import binds; none for a star."""
    names = () if isinstance(statement.names, cst.ImportStar) else statement.names
    found = [alias.asname.name if alias.asname is not None else alias.name for alias in names]
    return [dotted(name).partition(".")[0] for name in found]


def _of_apex(statement: cst.CSTNode) -> bool:
    if isinstance(statement, cst.ImportFrom):
        return dotted(statement.module).partition(".")[0] == "apex"
    names = statement.names if isinstance(statement, cst.Import) else ()
    return all(dotted(alias.name).partition(".")[0] == "apex" for alias in names)
