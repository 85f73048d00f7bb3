"""Programs that compute on several devices at once: by constant numbers, or by a number that varies.

A rank is no such number: each process has its own, and with it one device. What is counted through in one
process (``for i in range(n): parts[i].to(i)``), or computed from a rank in two ways, names several devices.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import libcst as cst

from xla_transforms.naming import is_word, reads, words
from xla_transforms.placing.moves import is_move, numbered
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.scopes import Binding, How, ModuleIndex, parameters
from xla_transforms.tree import dotted, method, number_value, numbers_device, value_of

_WHOLE = (cst.FormattedString, cst.BinaryOperation, cst.Call)
_NAMES = re.compile(r"dev|gpu|cuda", re.IGNORECASE)
_CHOOSERS = frozenset({"torch.cuda.device", "torch.cuda.set_device"})
_SHOWS = ("torch.cuda.", "builtins.print", "logging.", "torch.load")
_STEPS = 12


def several(roles: Roles, index: ModuleIndex) -> list[cst.CSTNode]:
    """The places where a module names one of several devices; none where it has one."""
    if index not in roles.several:
        named = numbered(roles, index)
        found = [node for node, _ in named] if len({number for _, number in named}) > 1 else []
        found += [site for site in _varying(roles, index) if site not in found]
        roles.several[index] = found
    return roles.several[index]


def _varying(roles: Roles, index: ModuleIndex) -> list[cst.CSTNode]:
    """The places whose device is counted through, or computed in several ways from one number."""
    ways: dict[str, dict[str, list[cst.CSTNode]]] = defaultdict(lambda: defaultdict(list))
    found: list[cst.CSTNode] = []
    for site, number in _sites(roles, index):
        origin = _Origin(roles, number)
        made = isinstance(site, cst.Call) and roles.path(site.func).startswith("torch.")
        if origin.counted or (origin.recorded and not made):
            found.append(site)
        for family, text in origin.ways:
            ways[family][text].append(site)
    for texts in ways.values():
        if len(texts) > 1:
            found += [site for sites in texts.values() for site in sites if site not in found]
    return sorted(found, key=index.source.offsets)


def _sites(roles: Roles, index: ModuleIndex) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Every device with a number that is no constant, and the expression of that number."""
    for word in words(index):
        number = _number_in(word)
        if number is not None and not _only_shown(roles, index, word):
            yield word, number
    for node in index.all(cst.FormattedString):
        if isinstance(node, cst.FormattedString) and numbers_device(node) and len(node.parts) == 3:
            number = node.parts[2].expression if isinstance(
                node.parts[2], cst.FormattedStringExpression) else None
            if number is not None and not _only_shown(roles, index, node) and roles.places(node) == {"cuda"}:
                yield node, number
    for call in index.all(cst.Call):
        number = _given(roles, call) if isinstance(call, cst.Call) else None
        if number is not None and not roles.dead(call):
            yield call, number


def _number_in(word: cst.BaseExpression) -> cst.BaseExpression | None:
    """``i`` of ``f"cuda:{i}"``, ``"cuda:%d" % i``, ``"cuda:{}".format(i)`` and ``"cuda:" + str(i)``."""
    if isinstance(word, cst.FormattedString) and len(word.parts) == 2:
        part = word.parts[1]
        return part.expression if isinstance(part, cst.FormattedStringExpression) else None
    if isinstance(word, cst.BinaryOperation):
        return word.right
    return word.args[0].value if isinstance(word, cst.Call) and len(word.args) == 1 else None


def _only_shown(roles: Roles, index: ModuleIndex, word: cst.CSTNode) -> bool:
    """Whether a word is printed, asked of torch.cuda, or says where a file's tensors go."""
    for parent in index.ancestors(word):
        if isinstance(parent, cst.Assign):
            return _shown_later(roles, index, parent)
        if isinstance(parent, (cst.BaseStatement, cst.BaseSmallStatement)):
            return False
        path = roles.path(parent.func) if isinstance(parent, cst.Call) else ""
        if path.startswith(_SHOWS) and path not in _CHOOSERS:
            return True
    return False


def _shown_later(roles: Roles, index: ModuleIndex, assign: cst.Assign) -> bool:
    """Whether a list of devices by name is only shown: ``names = [f"cuda:{i}" for i in found]``."""
    target = assign.targets[0].target if len(assign.targets) == 1 else None
    if not isinstance(target, cst.Name) or not isinstance(assign.value, (cst.ListComp, cst.List)):
        return False
    used = list(reads(roles, target, target.value))
    return bool(used) and all(_only_shown(roles, index, read) for read in used)


def _given(roles: Roles, call: cst.Call) -> cst.BaseExpression | None:
    """The number of a device that a call gets, where it is one or has a device's name."""
    path = roles.path(call.func)
    if path == "torch.device":
        given = value_of(call, "index", 1) or value_of(call, "type", 0) or value_of(call, "device", 0)
    elif path in _CHOOSERS or is_move(roles, call) or (method(call) == "to" and call.args):
        given = value_of(call, "device", 0)
    else:
        given = value_of(call, "device") if path.startswith("torch.") else None
    if given is None or is_word(given) or number_value(given) is not None:
        return None
    kinds = roles.kinds(given)
    if kinds == {Kind.NUMBER} or (is_move(roles, call) and not kinds):
        return given
    return given if not kinds and _names_devices(given) else None


def _names_devices(node: cst.BaseExpression) -> bool:
    """Whether an unknown expression has the name of a device, or is taken from what has: ``devices[1]``."""
    base = node.value if isinstance(node, cst.Subscript) else node
    return bool(_NAMES.search(dotted(base).rpartition(".")[2]))


class _Origin:
    """Where the number of a device comes from."""

    def __init__(self, roles: Roles, number: cst.BaseExpression) -> None:
        self.roles = roles
        self.counted = False  # it takes one value after the other in one process
        self.recorded = False  # so it does as a field of records
        self.ways: set[tuple[str, str]] = set()  # the computations it comes from, by what they start from
        self._seen: set[cst.CSTNode] = set()
        self._follow(number, 0)

    def _follow(self, node: cst.BaseExpression, depth: int) -> None:
        if node in self._seen or depth > _STEPS:
            return
        self._seen.add(node)
        if isinstance(node, cst.Name):
            for binding in self.roles.bindings(node):
                self._binding(binding, depth)
        elif isinstance(node, cst.Attribute):
            for binding in self.roles.program.attributes.get(node.attr.value, ()):
                if not binding.path and binding.value is not None:
                    self._follow(binding.value, depth + 1)
        else:
            self._compound(node, depth)

    def _compound(self, node: cst.BaseExpression, depth: int) -> None:
        if isinstance(node, (cst.BinaryOperation, cst.Subscript)):
            self._way(node)
        parts: list[cst.BaseExpression] = []
        if isinstance(node, cst.BinaryOperation):
            parts = [node.left, node.right]
        elif isinstance(node, cst.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, cst.Subscript):
            parts = [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]
        elif isinstance(node, cst.Call) and self.roles.path(node.func) in ("builtins.int", "builtins.str"):
            parts = [a.value for a in node.args[:1]]
        for part in parts:
            self._follow(part, depth + 1)

    def _binding(self, binding: Binding, depth: int) -> None:
        if binding.how is How.PARAMETER:
            for value in _arguments(self.roles, binding):
                self._follow(value, depth + 1)
        elif binding.how in (How.ITERATE, How.AUGMENT):
            record = _of_record(self.roles, binding)
            self.recorded = self.recorded or record
            self.counted = self.counted or not (record or _of_words(self.roles, binding))
        elif binding.how is How.ASSIGN and not binding.path and binding.value is not None:
            self._follow(binding.value, depth + 1)

    def _way(self, node: cst.BinaryOperation | cst.Subscript) -> None:
        """Note ``rank * 2 + 1`` as a way to go from ``rank``, ``ids[1]`` as one from ``ids``."""
        text = self.roles.index(node).source.code(node)
        if isinstance(node, cst.Subscript):
            index = node.slice[0].slice if len(node.slice) == 1 else None
            if isinstance(index, cst.Index) and isinstance(number_value(index.value), int):
                self.ways.add((dotted(node.value) + "[]", text))
        elif any(isinstance(n.operator, (cst.Add, cst.Multiply)) for n in _operations(node)):
            self.ways.add((_start(node), text))


def _operations(node: cst.BaseExpression) -> Iterator[cst.BinaryOperation]:
    if isinstance(node, cst.BinaryOperation):
        yield node
        yield from _operations(node.left)
        yield from _operations(node.right)


def _start(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.BinaryOperation):
        node = node.left
    return dotted(node)


def _of_words(roles: Roles, binding: Binding) -> bool:
    """Whether what is iterated are devices by name, as in ``for device in ("cpu", "cuda")``."""
    if binding.how is not How.ITERATE or binding.value is None:
        return False
    kinds = {f.kind for f in roles.element(binding.value, binding.path)}
    return bool(kinds) and kinds <= {Kind.STRING, Kind.DEVICE}


def _of_record(roles: Roles, binding: Binding) -> bool:
    """Whether what is iterated are records, and the device a field in them: tensors by shape and device.

    What is made in ``for (shape, device), tensors in groups`` goes where the tensors are;
    ``enumerate(zip(devices, parts))`` counts devices.
    """
    value = binding.value
    pairs = isinstance(value, cst.Call) and roles.path(value.func) in ("builtins.zip", "builtins.enumerate")
    return binding.how is How.ITERATE and len(binding.path) > 1 and not pairs


def _arguments(roles: Roles, binding: Binding) -> Iterator[cst.BaseExpression]:
    """What the calls of a function give one of its parameters."""
    function, param = binding.statement, binding.node
    if not isinstance(function, cst.FunctionDef) or not isinstance(param, cst.Param):
        return
    position = next((i for i, p in enumerate(parameters(function)) if p is param), 0)
    for site, taken in callers(roles, function):
        value = value_of(site, param.name.value, position - taken)
        if value is not None:
            yield value
