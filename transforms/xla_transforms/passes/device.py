"""Device: every name of the CUDA device becomes the XLA device.

``torch.device("cuda")`` and its kin become ``torch_xla.device()``. A bare ``"cuda"`` becomes the device
where only a device is wanted, and the string ``"xla"`` where somebody reads it as a string.
Source: pytorch/xla v2.9.0, ``torch_xla/torch_xla.py``, ``device``; the guide "PyTorch on XLA devices".
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.naming import KEEPERS, Use, Uses, is_word, reads, words
from xla_transforms.placing import VARIABLE, device_here
from xla_transforms.plan import Planned
from xla_transforms.roles import Kind
from xla_transforms.tree import has_star, method, numbers_device, string_value, value_of

NAME = Rule(
    "XLA101",
    "device-name",
    "torch.device of CUDA becomes the process's XLA device.",
    "torch.device('cuda') raises without CUDA, and a guarded one silently takes the CPU.",
)
WORD = Rule(
    "XLA102",
    "device-word",
    'The string "cuda" becomes the XLA device, or the string "xla" where it is read as a string.',
    'Both name the same device: torch.device("xla").type is "xla" as torch_xla.device().type is.',
)
LEFT = Rule(
    "XLA190",
    "cuda-left",
    "A name of the CUDA device stays, because it is not known what becomes of it.",
    "What receives it may raise without CUDA or silently take the CPU.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (NAME, WORD, VARIABLE, LEFT)

_CONSTRUCTOR = "torch.device"
_TYPES = frozenset({"cpu", "hpu", "mps", "npu", "xpu"})
_ACCELERATOR = "torch.accelerator.current_accelerator"
_SHOWS = frozenset(
    f"builtins.{name}" for name in ("print", "repr", "len", "format", "ValueError", "RuntimeError")
)


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for call in list(context.index.all(cst.Call)):
        assert isinstance(call, cst.Call)
        path = context.roles.path(call.func)
        if path == _CONSTRUCTOR and context.plan.free(call):
            _constructor(context, call)
        elif path == _ACCELERATOR and context.plan.free(call):
            change = context.plan.change(NAME, call, "the accelerator is the XLA device")
            change.replace(call, _device(context, call, change))
    for string in list(context.index.all(cst.FormattedString)):
        assert isinstance(string, cst.FormattedString)
        _joined_string(context, string)
    uses = Uses(context.roles)
    for word in list(words(context.index)):
        if context.plan.free(word) and not _in_constructor(context, word) and not context.roles.dead(word):
            _word(context, word, uses)


def _constructor(context: Context, call: cst.Call) -> None:
    """``torch.device(...)`` as a whole, a choice inside it as a choice between two devices."""
    given = value_of(call, "type", 0) or value_of(call, "device", 0)
    if given is None or has_star(call) or context.roles.dead(call) or _compared(context, call):
        return
    change = context.plan.change(NAME, call, "the CUDA device becomes the XLA device")
    parts: list[cst.CSTNode | str] = [_device(context, call, change), call.func]
    template = _choice(context, given, parts)
    if template is None:
        return
    nested = isinstance(context.index.parent(call), (cst.Attribute, cst.BooleanOperation, cst.Comparison))
    if " if " in template and nested:
        template = f"({template})"
    change.replace(call, template, *parts, brackets=_alone(context, call) and len(parts) == 2)


def _device(context: Context, node: cst.CSTNode, change: Planned) -> str:
    """The device; its mere name where there are no processes yet, since that does not touch the runtime."""
    if _early(context, node):
        return f'{change.use("torch")}.device("{context.target.device_type}")'
    return change.spell(context.target.device)


def _early(context: Context, node: cst.CSTNode) -> bool:
    """Whether a node runs before there are processes, when nothing may ask the runtime for its device."""
    return context.distributed and context.replicas.starts.before(node)


def _alone(context: Context, node: cst.CSTNode) -> bool:
    """Whether the brackets around an expression only held its lines together."""
    return isinstance(context.index.parent(node), (cst.Assign, cst.Return, cst.Arg, cst.AnnAssign))


def _choice(context: Context, node: cst.BaseExpression, parts: list[cst.CSTNode | str]) -> str | None:
    """A template for the device that an argument of ``torch.device`` names; ``None`` to leave it."""
    if is_word(node) or context.roles.kinds(node) == {Kind.NUMBER} or _joined(context, node):
        return "{0}"
    if not isinstance(node, cst.IfExp):
        return None
    decided = context.roles.fold(node.test)
    if decided is not None:
        return _choice(context, node.body if decided else node.orelse, parts)
    ways = [_choice(context, way, parts) for way in (node.body, node.orelse)]
    if ways == [None, None]:
        return None
    for position, way in enumerate((node.body, node.orelse)):
        if ways[position] is None:
            parts.append(way)
            ways[position] = f"{{1}}({{{len(parts) - 1}}})"
    parts.append(node.test)
    return f"{ways[0]} if {{{len(parts) - 1}}} else {ways[1]}"


def _joined(context: Context, node: cst.BaseExpression) -> bool:
    """Whether a string joins a device and its number: ``f"{accelerator}:{rank}"``."""
    return isinstance(node, cst.FormattedString) and context.roles.places(node) == {"cuda"}


def _joined_string(context: Context, node: cst.FormattedString) -> None:
    """``f"{accelerator}:{rank}"`` elsewhere: ``str(torch.device("cuda"))`` has no number, XLA's has one."""
    first = node.parts[0] if numbers_device(node) else None
    if not isinstance(first, cst.FormattedStringExpression) or _shown(context, node):
        return
    device = context.roles.kinds(first.expression) == {Kind.DEVICE}
    if device and context.roles.places(node) == {"cuda"} and context.plan.free(node):
        change = context.plan.change(NAME, node, "an XLA device is written with its number, its type is not")
        change.wrap(first.expression, "{0}.type")


def _word(context: Context, word: cst.BaseExpression, uses: Uses) -> None:
    """Write a bare name of the device anew, by what is done with it."""
    if _keys_table(context, word):
        message = f'this table by types of devices has no entry "{context.target.device_type}"'
        context.plan.report(LEFT, word, message, "add one, or look this one up for the XLA device")
        return
    found = uses.of(word)
    if found & {Use.OTHER, Use.OPTION} or _compared(context, word) or _shown(context, word):
        return
    if Use.UNKNOWN in found and not found & {Use.PLACE, Use.TEXT}:
        advice = f'write "xla" or {context.target.device.shown()} if it chooses a device'
        context.plan.report(LEFT, word, "this CUDA name stays: it is not known what becomes of it", advice)
        return
    change = context.plan.change(WORD, word, "the CUDA device becomes the XLA device")
    if found == {Use.LOADED}:
        change.replace(word, _quoted(context, word, "cpu"))
    elif _early(context, word):
        change.replace(word, _quoted(context, word, context.target.device_type))
    elif Use.TEXT not in found and Use.PLACE in found and _handed_on(context, word):
        change.replace(word, device_here(context, word, change))
    elif not found & {Use.TEXT, Use.UNKNOWN} and _only_cuda(context, word):
        change.replace(word, change.spell(context.target.device))
    else:
        change.replace(word, _quoted(context, word, context.target.device_type))


def _keys_table(context: Context, word: cst.BaseExpression) -> bool:
    """Whether a word is a key beside other types of devices: ``{"cuda": "nccl", "cpu": "gloo"}``."""
    element = context.index.parent(word)
    table = context.index.parent(element) if isinstance(element, cst.DictElement) else None
    if not isinstance(table, cst.Dict) or element.key is not word:  # type: ignore[union-attr]
        return False
    keys = {string_value(e.key) for e in table.elements if isinstance(e, cst.DictElement)}
    return bool(keys & _TYPES) and context.target.device_type not in keys and _looked_up(context, table)


def _looked_up(context: Context, table: cst.Dict) -> bool:
    """Whether a table is asked for what a variable says: ``{...}[device.type]``, ``names.get(kind)``."""
    index = context.index
    assign = index.parent(table)
    places: list[cst.CSTNode] = [table]
    if isinstance(assign, cst.Assign) and isinstance(assign.targets[0].target, cst.Name):
        target = assign.targets[0].target
        places += reads(context.roles, target, target.value)
    for place in places:
        outer = index.parent(place)
        call = index.parent(outer) if outer is not None else None
        key: cst.BaseExpression | None = None
        if isinstance(outer, cst.Subscript) and isinstance(outer.slice[0].slice, cst.Index):
            key = outer.slice[0].slice.value
        elif isinstance(call, cst.Call) and method(call) == "get":
            key = value_of(call, "key", 0)
        if key is not None and string_value(key) is None:
            return True
    return False


def _compared(context: Context, word: cst.BaseExpression) -> bool:
    return isinstance(context.index.parent(word), (cst.ComparisonTarget, cst.Comparison, cst.Expr))


def _quoted(context: Context, word: cst.BaseExpression, text: str) -> str:
    """A text in the quotes of the word itself, so that the file's style stays."""
    code = context.index.source.code(word).lstrip("fFrRbBuU")
    quote = "'" if code.startswith("'") else '"'
    return f"{quote}{text}{quote}"


def _in_constructor(context: Context, word: cst.BaseExpression) -> bool:
    """Whether a word is written anew with the ``torch.device`` around it."""
    return any(
        isinstance(a, cst.Call) and context.plan.claims(a) and context.roles.path(a.func) == _CONSTRUCTOR
        for a in context.index.ancestors(word)
    )


def _callee(context: Context, word: cst.BaseExpression) -> tuple[cst.Call | None, str]:
    """The call that takes a word as its argument, and the dotted path of what it calls."""
    parent = context.index.parent(word)
    call = context.index.parent(parent) if isinstance(parent, cst.Arg) else None
    return (call, context.roles.path(call.func)) if isinstance(call, cst.Call) else (None, "")


def _handed_on(context: Context, word: cst.BaseExpression) -> bool:
    """Whether a word is an argument of a call that uses it at once (``dict(device="cuda")`` keeps it)."""
    call, path = _callee(context, word)
    return call is not None and path not in KEEPERS


def _shown(context: Context, word: cst.BaseExpression) -> bool:
    """Whether a word is only shown to the reader, or asked of torch.cuda itself."""
    path = _callee(context, word)[1]
    if path in KEEPERS:
        return False
    shown = path.startswith(("logging.", "torch.cuda.", "torch.backends.")) or path in _SHOWS
    return shown or path.endswith((".info", ".debug", ".warning"))


def _only_cuda(context: Context, word: cst.BaseExpression) -> bool:
    """Whether a word is assigned to a variable that names nothing but the CUDA device."""
    statement = next(
        (a for a in context.index.ancestors(word) if isinstance(a, (cst.BaseSmallStatement, cst.Param))), None
    )
    if not isinstance(statement, (cst.Assign, cst.AnnAssign)) or statement.value is None:
        return False
    if context.roles.places(statement.value) != {"cuda"} or _in_class(context, statement):
        return False
    targets = (
        [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
    )
    return all(_holds_only_cuda(context, target) for target in targets)


def _in_class(context: Context, statement: cst.CSTNode) -> bool:
    return context.index.class_of(statement) is not None and context.index.function_of(statement) is None


def _holds_only_cuda(context: Context, target: cst.BaseExpression) -> bool:
    if isinstance(target, cst.Name):
        found = [context.roles.places(r) for r in reads(context.roles, target, target.value)]
        return all(places == {"cuda"} for places in found)
    if isinstance(target, cst.Attribute):
        bindings = context.program.attributes.get(target.attr.value, [])
        values = [b.value for b in bindings if b.value is not None]
        return all(context.roles.places(value) == {"cuda"} for value in values)
    return False
