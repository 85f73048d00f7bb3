"""ELU, SELU and CELU are computed in place on a copy: their plain form has a wrong gradient on XLA.

For a negative input x PyTorch/XLA's backward pass takes the input for the output: its gradient is x + alpha
in the place of alpha * exp(x). In place it is right. CELU's alpha is ignored besides.
Source: run on torch_xla 2.1 and 2.9, gradients compared with torch's.
"""

from __future__ import annotations

from collections import defaultdict

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.plan import Planned
from xla_transforms.statements import define, live_calls
from xla_transforms.tree import argument, has_star, value_of, walk

UNIT = Rule(
    "XLA265",
    "exponential-unit",
    "ELU, SELU and CELU are computed in place, on a copy of their input.",
    "Else their gradient below zero is x + alpha instead of alpha * exp(x) (run on torch_xla 2.1 and 2.9).",
)
LEFT = Rule(
    "XLA266",
    "exponential-unit-left",
    "An ELU, SELU or CELU is left, whose gradient is wrong on XLA unless it is computed in place.",
    "Below zero it is x + alpha instead of alpha * exp(x) (run on torch_xla 2.1 and 2.9).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (UNIT, LEFT)

_KINDS = ("elu", "selu", "celu")
_FUNCTIONS = {f"torch.{place}{kind}": kind for kind in _KINDS for place in ("nn.functional.", "")}
_CLASSES = {
    f"torch.nn.{place}{kind.upper()}": kind for kind in _KINDS for place in ("", "modules.activation.")
}
_PARAMETERS = {"elu": ("input", "alpha", "inplace"), "selu": ("input", "inplace")}
_FORWARDS = {
    "elu": "{torch}.nn.functional.elu(input.clone(), self.alpha, inplace=True)",
    "selu": "{torch}.nn.functional.selu(input.clone(), inplace=True)",
    "celu": "{torch}.nn.functional.elu(input / self.alpha, inplace=True) * self.alpha",
}
_OUTER = (cst.Attribute, cst.ImportAlias, cst.AsName, cst.AssignTarget, cst.Annotation)
_ADVICE = "call torch.nn.functional.elu(x.clone(), alpha, inplace=True)"


def run(context: Context) -> None:
    named = (*_KINDS, *(kind.upper() for kind in _KINDS))
    if not context.uses_cuda or context.already_xla or not context.program.says(*named):
        return
    for call, path in live_calls(context):
        if path in _FUNCTIONS:
            _function(context, call, _FUNCTIONS[path])
    meant = _meant(context)
    for path_of_class, kind in _CLASSES.items():
        if path_of_class in meant:
            _class(context, kind, meant[path_of_class])


def _is(node: cst.BaseExpression | None, word: str) -> bool:
    return isinstance(node, cst.Name) and node.value == word


def _function(context: Context, call: cst.Call, kind: str) -> None:
    names = _PARAMETERS.get(kind, _PARAMETERS["elu"])
    inplace = argument(call, "inplace", names.index("inplace"))
    if inplace is not None and _is(inplace.value, "True"):
        return
    given, alpha = value_of(call, "input", 0), value_of(call, "alpha", 1) if "alpha" in names else None
    known = inplace is None or _is(inplace.value, "False")
    plain = alpha is None or isinstance(alpha, (cst.Integer, cst.Float, cst.Name, cst.Attribute))
    if given is None or has_star(call) or not known or not plain:
        context.plan.report(LEFT, call, f"the gradient of this {kind} is wrong below zero", _ADVICE)
        return
    change = context.plan.change(UNIT, call, "in place its gradient is right")
    home = f"{change.use('torch')}.nn.functional"
    tight = isinstance(given, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or bool(given.lpar)
    text = "{0}" if tight else "({0})"
    if kind == "celu" and alpha is not None:
        change.replace(call, f"({home}.elu({text} / {{1}}, inplace=True) * {{1}})", given, alpha)
    elif alpha is not None:
        change.replace(call, f"{home}.{kind}({text}.clone(), {{1}}, inplace=True)", given, alpha)
    else:
        change.replace(call, f"{home}.{kind}({text}.clone(), inplace=True)", given)


def _class(context: Context, kind: str, found: list[cst.CSTNode]) -> None:
    """Modules, and classes that are handed on: they become a class of the script's own."""
    change = context.plan.change(UNIT, found[0], "in place its gradient is right")
    name = _define(context, change, kind)
    for node in found:
        change.replace(node, name)


def _meant(context: Context) -> dict[str, list[cst.CSTNode]]:
    """Where a class is named whose gradient is wrong, by the path of the class."""
    found: dict[str, list[cst.CSTNode]] = defaultdict(list)
    for node in context.index.all(cst.Name, cst.Attribute):
        spelled = context.roles.spelled(node)
        if len(spelled) == 1 and spelled <= _CLASSES.keys() and _used(context, node):
            found[next(iter(spelled))].append(node)
    return found


def _used(context: Context, node: cst.CSTNode) -> bool:
    """Whether a class is made use of as it is."""
    outer = context.index.parent(node)
    if isinstance(outer, _OUTER) or not context.plan.free(node):
        return False
    around = context.index.parent(outer) if isinstance(outer, cst.Arg) else None
    if isinstance(around, cst.ClassDef):  # a class that computes it by itself
        defined = (n.name.value for n in walk(around.body) if isinstance(n, cst.FunctionDef))
        return "forward" not in defined
    if isinstance(around, cst.Call) and context.roles.path(around.func) == "builtins.isinstance":
        return False
    inplace = argument(outer, "inplace") if isinstance(outer, cst.Call) and outer.func is node else None
    return not (inplace is not None and _is(inplace.value, "True")) and not context.roles.dead(node)


def _define(context: Context, change: Planned, kind: str) -> str:
    """The name of a module that computes in place on a copy; it is written below the imports."""
    bound = {name for scope in context.index.scopes.values() for name in scope.bindings}
    name, torch = f"Xla{kind.upper()}", change.use("torch")
    while name in bound:
        name += "_"
    one = context.index.source.indent
    lines = [
        f"class {name}({torch}.nn.{kind.upper()}):",
        f"{one}# PyTorch/XLA derives it wrongly where it is not computed in place",
        f"{one}def forward(self, input):",
        f"{one}{one}return {_FORWARDS[kind].format(torch=torch)}",
    ]
    define(context, change, lines)
    return name
