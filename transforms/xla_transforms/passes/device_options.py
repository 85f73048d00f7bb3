"""Options: ``--device cuda`` keeps its name, its values and its meaning.

The option's value is turned into the XLA device's name once, behind ``parse_args()``; so the command lines
of before still run, ``--device cpu`` among them.
Source: pytorch v2.9, ``torch.device``: ``"xla"`` is a device type of torch itself.
"""

from __future__ import annotations

from typing import NamedTuple

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.naming import Use, Uses, is_word
from xla_transforms.roles import Kind
from xla_transforms.roles.calls import callers
from xla_transforms.roles.classes import find_method
from xla_transforms.roles.parsers import made_by
from xla_transforms.tree import destination, head_of, method, receiver, string_value, value_of, walk

OPTION = Rule(
    "XLA110",
    "device-option",
    "A command-line option that names the CUDA device is read as the XLA device.",
    "The user's command lines keep working; torch.device('cuda') would raise.",
)
OPTION_LEFT = Rule(
    "XLA195",
    "device-option-left",
    "A command-line option names a device, and there is no line behind which to read it as XLA's.",
    "With its value cuda the script raises without CUDA.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (OPTION, OPTION_LEFT)


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    options = context.once(_options)
    done: set[tuple[cst.CSTNode, str]] = set()  # several parsers may have an option of one name
    for add in options:
        _normalise(context, add, destination(add), done)


def _options(context: Context) -> list[cst.Call]:
    """The options of the program whose values are devices' names."""
    found = []
    for add in context.program.calls.get("add_argument", ()):
        name = destination(add)
        reads = _reads(context, name)
        if reads and _names_device(context, add, name, reads):
            found.append(add)
    return found


def _reads(context: Context, name: str) -> list[cst.Attribute]:
    found = []
    for index in context.program.modules.values():
        for node in index.attributed(name):
            written = isinstance(index.parent(node), cst.AssignTarget)
            if Kind.ARGUMENTS in context.roles.kinds(node.value) and not written:
                found.append(node)
    return found


def _names_device(context: Context, add: cst.Call, name: str, reads: list[cst.Attribute]) -> bool:
    """Whether an option's value is a device's name: by its default and choices, and by its uses."""
    given = context.roles.path(value_of(add, "type")).removeprefix("builtins.")
    if given not in ("", "str", "torch.device") or value_of(add, "action") is not None:
        return False
    spelt = any(is_word(node) for arg in add.args for node in walk(arg.value))
    uses = Uses(context.roles)
    found = set().union(*(uses.of(read) for read in reads))
    if spelt:
        return bool(found & {Use.PLACE, Use.EITHER, Use.TEXT})
    return Use.PLACE in found or (Use.EITHER in found and "device" in name and _constructed(context, reads))


def _constructed(context: Context, reads: list[cst.Attribute]) -> bool:
    for read in reads:
        for parent in context.index.ancestors(read):
            if isinstance(parent, cst.Call) and context.roles.path(parent.func) == "torch.device":
                return True
            if isinstance(parent, (cst.BaseSmallStatement, cst.BaseStatement)):
                break
    return False


def _normalise(context: Context, add: cst.Call, name: str, done: set[tuple[cst.CSTNode, str]]) -> None:
    """Read an option as XLA's behind each line of this module that names the parsed arguments."""
    own = made_by(context.roles, receiver(add))
    parsed = [place for place in _places(context) if place.parser in (own, None) or own is None]
    places = list(dict.fromkeys((place.statement, place.holder) for place in parsed))
    if not places and context.roles.index(add) is context.index:
        message = f'the value of the option {name} may be "cuda", and no line names the parsed arguments'
        advice = f'where {name} is used, turn "cuda" into "{context.target.device_type}"'
        context.plan.report(OPTION_LEFT, add, message, advice)
    for statement, holder in places:
        option = f"{holder}.{name}"
        if context.roles.index(statement) is not context.index or _done(context, option):
            continue
        if (statement, option) in done:
            continue
        done.add((statement, option))
        change = context.plan.change(OPTION, statement, f"{option} names the XLA device where it said cuda")
        lines = _lines(context, add, option)
        if isinstance(statement, cst.FunctionDef):
            change.before(head_of(statement), *lines)
        else:
            change.after(statement, *lines)


def _lines(context: Context, add: cst.Call, option: str) -> tuple[str, str]:
    indent, kind = context.index.source.indent, context.target.device_type
    if context.roles.path(value_of(add, "type")) == "torch.device":
        return f'if {option}.type == "cuda":', f'{indent}{option} = torch.device("{kind}")'
    default = value_of(add, "default")
    required = (
        string_value(value_of(add, "required")) or getattr(value_of(add, "required"), "value", "") == "True"
    )
    positional = not any((string_value(a.value) or "").startswith("-") for a in add.args if a.keyword is None)
    never_none = required or positional or (default is not None and getattr(default, "value", "") != "None")
    test = f'{option}.startswith("cuda")'
    return f"if {test}:" if never_none else f"if {option} and {test}:", f'{indent}{option} = "{kind}"'


def _done(context: Context, option: str) -> bool:
    """Whether the module reads the option as XLA's already."""
    for node in context.index.all(cst.Assign):
        assert isinstance(node, cst.Assign)
        if context.index.source.code(node.targets[0].target) == option:
            texts = [string_value(n) for n in walk(node.value)]
            if context.target.device_type in texts:
                return True
    return False


class Place(NamedTuple):
    """A statement that gives the parsed arguments a name (a function takes them so, too), that name, and
    the call that makes their parser, where it is known."""

    statement: cst.CSTNode
    holder: str
    parser: cst.Call | None


def _places(context: Context) -> list[Place]:
    found: list[Place] = []
    for name in ("parse_args", "parse_known_args", "parse_intermixed_args"):
        for call in context.program.calls.get(name, ()):
            if Kind.ARGUMENTS in context.roles.kinds(call):
                parser = made_by(context.roles, receiver(call))
                found += [Place(*place, parser) for place in _holders(context, call, 0)]
    return found


def _holders(context: Context, call: cst.CSTNode, depth: int) -> list[tuple[cst.CSTNode, str]]:
    index = context.roles.index(call)
    parent = index.parent(call)
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        target: cst.BaseExpression = parent.targets[0].target
        if isinstance(target, cst.Tuple) and method(call) == "parse_known_args" and target.elements:
            target = target.elements[0].value
        line = index.statement_of(parent)
        if isinstance(target, (cst.Name, cst.Attribute)) and line is not None:
            return [(line, index.source.code(target))]
    if isinstance(parent, cst.Return) and depth < 3:
        function = index.function_of(parent)
        sites = [site for site, _ in callers(context.roles, function)] if function is not None else []
        return [place for site in sites for place in _holders(context, site, depth + 1)]
    if isinstance(parent, cst.Arg) and depth < 3:
        return _parameters(context, parent)
    return []


def _parameters(context: Context, arg: cst.Arg) -> list[tuple[cst.CSTNode, str]]:
    """``main(parser.parse_args())``, ``Trainer(parser.parse_args())``: the parameter of the function or of
    the constructor, read at the head of its body."""
    call = context.roles.index(arg).parent(arg)
    if not isinstance(call, cst.Call) or arg.keyword is not None:
        return []
    position = next((i for i, a in enumerate(call.args) if a is arg), 0)
    found: list[tuple[cst.CSTNode, str]] = []
    for item in context.roles.facts(call.func):
        function, taken = (item.node, 0) if item.kind is Kind.FUNCTION else (None, 1)
        if item.kind is Kind.CLASS and isinstance(item.node, cst.ClassDef):
            function = find_method(context.roles, item.node, "__init__")
        if isinstance(function, cst.FunctionDef) and isinstance(function.body, cst.IndentedBlock):
            found += [(function, p.name.value) for p in function.params.params[position + taken :][:1]]
    return found
