"""Tied weights: two layers that share a parameter are tied again after the model moved to the device.

``module.to(device)`` makes a parameter for each place that holds one, so on XLA a tie comes apart: twice the
parameters, and embedding and head drift apart. Sources: pytorch/xla#2719, #7042; the Neuron BERT sample,
which calls ``model.tie_weights()`` after ``.to(device)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.models import Move, keep_identity, moves
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.classes import find_method, is_self, lineage, role_of
from xla_transforms.scopes import How, parameters
from xla_transforms.tree import argument, dotted, method, receiver, walk

RETIED = Rule(
    "XLA421",
    "weights-retied",
    "Weights that a model ties are tied again after it moved to the device.",
    "On XLA a move makes a new parameter for each place that held one (pytorch/xla#2719).",
)
KEPT = Rule(
    "XLA422",
    "weights-tied-on-condition",
    "A model that may tie weights is moved so that its parameters keep their identity.",
    "Whether the weights are tied is not known where the model is moved; "
    "set_swap_module_params_on_conversion keeps a tie that is there.",
    Severity.WARNING,
)
ELSEWHERE = Rule(
    "XLA423",
    "tied-weights-moved-elsewhere",
    "A model ties weights, and the program does not show who moves it to the device.",
    "Whoever does has to tie them again after the move and before the optimizer is built.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (RETIED, KEPT, ELSEWHERE)

_AGAIN = "tie them again after the move and before the optimizer"
_SWAP = "; or move under torch.__future__.set_swap_module_params_on_conversion(True)"
_PARAMETERS = ("weight", "bias")


@dataclass(frozen=True)
class Tie:
    """``self.left = self.right`` in a model; ``tied_by`` a method without arguments that does it."""

    left: str
    right: str
    statement: cst.Assign
    certain: bool
    tied_by: str = ""


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    every = moves(context.roles)
    moved: set[cst.CSTNode] = set()
    for move in every:
        found = _ties_of(context.roles, move)
        moved.update(tie.statement for tie in found)
        if found and context.roles.index(move.call) is context.index:
            _retie(context, move, found)
        elif not found and _pretrained(context, move):
            _retie_pretrained(context, move)
    _not_moved(context, moved)
    _handed(context)


def _ties_of(roles: Roles, move: Move) -> list[Tie]:
    found: list[Tie] = []
    for origin in roles.origins(move.model, Kind.MODEL):
        if isinstance(origin, cst.ClassDef):
            found += ties(roles, origin)
    return found


def ties(roles: Roles, owner: cst.ClassDef) -> list[Tie]:
    """The ties between parameters that the methods of a class (or of its bases) make."""
    return roles.remembered(("ties", id(owner)), lambda: _made(roles, owner))


def _made(roles: Roles, owner: cst.ClassDef) -> list[Tie]:
    found: list[Tie] = []
    for part in lineage(roles, owner):
        for function in part.body.body:
            if isinstance(function, cst.FunctionDef):
                found += [t for t in _in_method(roles, function, owner) if t not in found]
    return found


def _in_method(roles: Roles, function: cst.FunctionDef, owner: cst.ClassDef) -> Iterator[Tie]:
    for node in roles.index(function).inside(function.body, cst.Assign):
        if len(node.targets) != 1:
            continue
        left, right = node.targets[0].target, node.value
        if not _parameter_of_part(roles, left) or not _parameter_of_part(roles, right):
            continue
        certain = _certain(roles, node, function, owner)
        if certain is None or roles.dead(node):
            continue
        names = [dotted(side).partition(".")[2] for side in (left, right)]
        alone = function.name.value != "__init__" and len(parameters(function)) == 1
        runs = function.name.value == "__init__" or _called_by_constructor(roles, function, owner)
        if runs:
            yield Tie(names[0], names[1], node, certain, function.name.value if alone else "")


def _parameter_of_part(roles: Roles, node: cst.BaseExpression) -> bool:
    """``self.head.weight``"""
    parts = dotted(node).split(".")
    if len(parts) < 3 or parts[-1] not in _PARAMETERS:
        return False
    root = node
    while isinstance(root, cst.Attribute):
        root = root.value
    return is_self(roles, root)


def _called_by_constructor(roles: Roles, function: cst.FunctionDef, owner: cst.ClassDef) -> bool:
    constructor = find_method(roles, owner, "__init__")
    for node in walk(constructor) if constructor is not None else ():
        if method(node) == function.name.value and is_self(roles, receiver(node)):  # type: ignore[arg-type]
            return True
    return False


def _certain(
    roles: Roles, node: cst.CSTNode, function: cst.FunctionDef, owner: cst.ClassDef
) -> bool | None:
    """Whether a tie is made for sure; ``None`` where it is never made."""
    child = node
    for parent in roles.index(node).ancestors(node):
        if parent is function:
            return True
        if isinstance(parent, cst.If) and child is parent.body:
            value = _default(roles, parent.test, function, owner)
            if value is None:
                return False
            if not value:
                return None
        elif isinstance(parent, (cst.If, cst.Else, cst.For, cst.While, cst.Try)):
            return False
        child = parent
    return False


def _default(
    roles: Roles, test: cst.BaseExpression, function: cst.FunctionDef, owner: cst.ClassDef
) -> bool | None:
    """What a parameter always is, because no call of the class gives it another value than its default."""
    params = parameters(function)
    param = next((p for p in params if isinstance(test, cst.Name) and p.name.value == test.value), None)
    default = getattr(param.default, "value", None) if param is not None else None
    if param is None or default not in ("True", "False"):
        return None
    position = next(i for i, p in enumerate(params) if p is param) - 1
    calls = roles.program.calls.get(owner.name.value, ())
    values = {default}
    for call in calls:
        given = argument(call, param.name.value, position)
        if any(a.star for a in call.args):
            return None
        if given is not None:
            values = (values - {default}) | {getattr(given.value, "value", "?")}
    return values == {"True"} if values <= {"True"} or values <= {"False"} else None


def _retie(context: Context, move: Move, found: list[Tie]) -> None:
    line = context.index.statement_of(move.call)
    plain = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    text = context.index.source.code(move.holder) if move.holder is not None else ""
    if not plain or not text or not all(tie.certain for tie in found) or _wrapped(context, move):
        _keep(context, move, found)
        return
    assert line is not None
    done = _behind(context, line)
    wanted = [one for one in dict.fromkeys(_tying(tie, text) for tie in found) if one not in done]
    if wanted:
        change = context.plan.change(RETIED, move.call, "the move takes the tie apart")
        change.after(line, *wanted)


def _tying(tie: Tie, model: str) -> str:
    return f"{model}.{tie.tied_by}()" if tie.tied_by else f"{model}.{tie.left} = {model}.{tie.right}"


def _wrapped(context: Context, move: Move) -> bool:
    """Whether the moved thing is a wrapper around the model that ties."""
    return any(
        context.roles.path(n.func).endswith("DataParallel")
        for n in walk(move.small)
        if isinstance(n, cst.Call)
    )


def _keep(context: Context, move: Move, found: list[Tie]) -> None:
    line = context.index.statement_of(move.call)
    assert line is not None
    pairs = ", ".join(f"{tie.left} and {tie.right}" for tie in found)
    if not context.target.swaps_parameters:
        message = f"{pairs} may share one parameter, which the move takes apart"
        context.plan.report(KEPT, move.call, message, "tie them again after the move, before the optimizer")
        return
    change = context.plan.change(KEPT, move.call, "the move keeps the identity of parameters, and so the tie")
    keep_identity(change, line)
    message = f"{pairs} may share one parameter; the move is told to keep it shared"
    context.plan.report(KEPT, move.call, message, fixed=True)


def _pretrained(context: Context, move: Move) -> bool:
    facts = context.roles.facts(move.model)
    return any(f.detail.endswith(".from_pretrained") for f in facts)


def _retie_pretrained(context: Context, move: Move) -> None:
    line = context.index.statement_of(move.call)
    if context.roles.index(move.call) is not context.index or move.holder is None or line is None:
        return
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        tying = f"{context.index.source.code(move.holder)}.tie_weights()"
        if tying not in _behind(context, line):
            change = context.plan.change(RETIED, move.call, "transformers' models tie head and embedding")
            change.after(line, tying)


def _behind(context: Context, line: cst.CSTNode) -> list[str]:
    """The small statements behind a move in its block, as text: the script may tie by itself."""
    block = context.index.parent(line)
    statements = list(getattr(block, "body", ()))
    later = statements[statements.index(line) + 1 :] if line in statements else []
    return [
        context.index.source.code(small)
        for statement in later
        if isinstance(statement, cst.SimpleStatementLine)
        for small in statement.body
    ]


def _not_moved(context: Context, moved: set[cst.CSTNode]) -> None:
    for node in context.index.all(cst.ClassDef):
        assert isinstance(node, cst.ClassDef)
        if role_of(context.roles, node) is not Kind.MODEL:
            continue
        for tie in ties(context.roles, node):
            if tie.statement not in moved and context.roles.index(tie.statement) is context.index:
                message = f"{tie.left} and {tie.right} share one parameter until the model is moved"
                advice = f"after the move: model.{tie.left} = model.{tie.right}"
                context.plan.report(ELSEWHERE, tie.statement, message, advice)


def _handed(context: Context) -> None:
    """Parameters of other parts that a constructor is handed: ``self.decoder.weight = embedding_weight``."""
    for node in context.index.all(cst.Assign):
        assert isinstance(node, cst.Assign)
        left, owner = node.targets[0].target, context.index.class_of(node)
        if len(node.targets) != 1 or not isinstance(owner, cst.ClassDef) or context.roles.dead(node):
            continue
        bound = context.roles.bindings(node.value) if isinstance(node.value, cst.Name) else ()
        handed = bool(bound) and all(b.how is How.PARAMETER for b in bound)
        if handed and _parameter_of_part(context.roles, left) and role_of(context.roles, owner) is Kind.MODEL:
            name = dotted(left).partition(".")[2]
            message = f"{name} is shared with the part that hands it over until the model is moved"
            advice = _AGAIN + (_SWAP if context.target.swaps_parameters else "")
            context.plan.report(ELSEWHERE, node, message, advice)
