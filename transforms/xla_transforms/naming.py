"""How a script names the CUDA device in words, and where each such word goes.

A word is a string that says ``cuda``: a literal, an f-string, ``"cuda:{}".format(i)``, ``"cuda:" + str(i)``.
Its way is followed through variables, attributes, parameters, returns and dictionaries to its uses, since
``"cuda"`` becomes a device where only a device is wanted and ``"xla"`` where somebody reads the word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

import libcst as cst

from xla_transforms.lightning import makes
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import arriving_parameter, callers
from xla_transforms.roles.classes import find_method
from xla_transforms.scopes import Binding, How, ModuleIndex
from xla_transforms.tree import (
    dotted,
    method,
    numbers_device,
    receiver,
    same,
    string_key,
    string_value,
    value_of,
)

_WORD = re.compile(r"cuda(?::\d+)?\Z")
_AMP = ("autocast", "GradScaler", "custom_fwd", "custom_bwd", "is_autocast_enabled")
_TEXT_METHODS = frozenset(
    {
        "startswith",
        "endswith",
        "split",
        "replace",
        "lower",
        "upper",
        "strip",
        "format",
        "join",
        "find",
        "partition",
    }
)
_SHOWN = ("builtins.print", "builtins.format", "logging.")
KEEPERS = frozenset({"builtins.dict", "types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict"})
_MAX_DEPTH = 8


class Use(Enum):
    """What is done with the name of a device."""

    PLACE = "place"  # a device is wanted: .to(...), device=...
    EITHER = "either"  # a device or a string will do: torch.device(...), a print
    TEXT = "text"  # read as a string: compared, searched, given to autocast
    LOADED = "loaded"  # where a checkpoint's tensors go: map_location
    OPTION = "option"  # declared as the value of a command-line option
    OTHER = "other"  # another pass's business: autocast("cuda"), a dictionary's key
    UNKNOWN = "unknown"


def is_word(node: cst.CSTNode | None) -> bool:
    """Whether an expression spells the CUDA device as a string."""
    text = string_value(node)
    if text is not None:
        return bool(_WORD.match(text))
    if isinstance(node, cst.FormattedString):
        first = node.parts[0] if node.parts else None
        return isinstance(first, cst.FormattedStringText) and first.value == "cuda:"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Modulo)):
        return (string_value(node.left) or "") in ("cuda:", "cuda:%d", "cuda:%s", "cuda:%i")
    if isinstance(node, cst.Call) and method(node) == "format":
        return (string_value(receiver(node)) or "").startswith("cuda:{")
    return False


def number_of(node: cst.CSTNode | None) -> int | None:
    """The constant number in ``"cuda:1"``, ``None`` where the word has none or computes it."""
    text = string_value(node)
    digits = text.partition(":")[2] if text is not None and is_word(node) else ""
    return int(digits) if digits.isdigit() else None


def words(index: ModuleIndex) -> Iterator[cst.BaseExpression]:
    """Every expression of a module that spells the CUDA device as a string, the outermost ones."""
    kinds = (cst.SimpleString, cst.FormattedString, cst.BinaryOperation, cst.Call)
    for node in index.all(*kinds):
        if is_word(node) and not any(is_word(a) for a in _expressions_around(index, node)):
            yield node  # type: ignore[misc]


def _expressions_around(index: ModuleIndex, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for parent in index.ancestors(node):
        if isinstance(parent, (cst.BaseStatement, cst.BaseSmallStatement)):
            return
        yield parent


class Uses:
    """Follows the names of devices through a program."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self._seen: set[cst.CSTNode] = set()

    def of(self, node: cst.CSTNode) -> set[Use]:
        """What is done with the value of an expression, wherever it goes."""
        self._seen = set()
        return self._of(node, 0)

    def _of(self, node: cst.CSTNode, depth: int) -> set[Use]:
        if node in self._seen:
            return set()
        self._seen.add(node)
        if depth > _MAX_DEPTH:
            return {Use.UNKNOWN}
        parent = self.roles.index(node).parent(node)
        if isinstance(parent, cst.IfExp) and parent.test is not node:
            return self._of(parent, depth)
        if isinstance(parent, cst.BooleanOperation) and isinstance(parent.operator, cst.Or):
            return self._of(parent, depth)
        if isinstance(parent, (cst.If, cst.IfExp, cst.BooleanOperation, cst.UnaryOperation, cst.Expr)):
            return {Use.EITHER}
        return self._at(node, parent, depth)

    def _at(self, node: cst.CSTNode, parent: cst.CSTNode | None, depth: int) -> set[Use]:
        if isinstance(parent, cst.Arg):
            return self._argument(parent, depth)
        if isinstance(parent, cst.Attribute):
            return self._attribute(parent)
        if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)):
            return self._compared(node, parent)
        if isinstance(parent, (cst.Assign, cst.AnnAssign, cst.NamedExpr)):
            return self._assigned(node, parent, depth)
        if isinstance(parent, cst.Param):
            return self._parameter(parent, depth)
        if isinstance(parent, cst.Return):
            return self._returned(parent, depth)
        if isinstance(parent, (cst.Element, cst.DictElement)):
            return self._element(node, parent, depth)
        if isinstance(parent, cst.FormattedStringExpression):
            string = self.roles.index(parent).parent(parent)
            return {Use.TEXT if numbers_device(string) else Use.EITHER}
        if isinstance(parent, cst.BinaryOperation):
            return {Use.TEXT}
        return {Use.OTHER if isinstance(parent, cst.Index) else Use.UNKNOWN}

    def _argument(self, arg: cst.Arg, depth: int) -> set[Use]:
        call = self.roles.index(arg).parent(arg)
        if not isinstance(call, cst.Call):
            return {Use.UNKNOWN}
        if self.roles.path(call.func) in KEEPERS and arg.keyword is not None:
            key = arg.keyword.value
            return self._reads_of_key(key, arg, depth) | self._reads_of_attribute(key, None, depth)
        known = self._by_callee(call, arg)
        if known is not None:
            return {known}
        found = self._followed(call, arg, depth)
        if found is not None:
            return found
        keyword = arg.keyword.value if arg.keyword else ""
        return {Use.PLACE if keyword == "device" else Use.UNKNOWN}

    def _by_callee(self, call: cst.Call, arg: cst.Arg) -> Use | None:
        path, name = self.roles.path(call.func), method(call)
        keyword = arg.keyword.value if arg.keyword else ""
        if name == "add_argument":
            return Use.OPTION
        if name in _TEXT_METHODS or makes(path) or (keyword == "device_map" and name == "from_pretrained"):
            return Use.OTHER
        if keyword == "device_type" or path.split(".")[-1] in _AMP:
            return Use.OTHER if is_word(arg.value) else Use.TEXT
        if keyword == "map_location" or path == "torch.load":
            return Use.OTHER if is_word(arg.value) else Use.LOADED
        if path == "torch.Generator":
            return Use.OTHER if is_word(arg.value) else Use.EITHER
        if path == "torch.device" or path.startswith(("torch.cuda.", "torch.accelerator.", *_SHOWN)):
            return Use.EITHER
        if path == "torch.set_default_device" or (path.startswith("torch.") and keyword == "device"):
            return Use.PLACE
        if name in ("to", "cuda", "to_empty") and (keyword == "device" or call.args[0] is arg):
            return Use.PLACE
        if path == "builtins.str":
            return Use.EITHER
        return Use.UNKNOWN if path.startswith("builtins.") else None

    def _followed(self, call: cst.Call, arg: cst.Arg, depth: int) -> set[Use] | None:
        """The uses of the parameters that an argument arrives in, if functions of the program are called."""
        found: set[Use] | None = None
        for item in self.roles.facts(call.func):
            function = item.node
            if item.kind is Kind.CLASS and isinstance(function, cst.ClassDef):
                function = find_method(self.roles, function, "__init__")
            if isinstance(function, cst.FunctionDef):
                param = arriving_parameter(self.roles, function, call, arg)
                found = (found or set()) | (
                    self._parameter(param, depth + 1) if param is not None else {Use.UNKNOWN}
                )
        return found

    def _attribute(self, parent: cst.Attribute) -> set[Use]:
        name = parent.attr.value
        if name in ("type", "index"):
            return {Use.PLACE}
        return {Use.TEXT if name in _TEXT_METHODS else Use.UNKNOWN}

    def _compared(self, node: cst.CSTNode, parent: cst.CSTNode) -> set[Use]:
        comparison = parent
        if isinstance(parent, cst.ComparisonTarget):
            above = self.roles.index(node).parent(parent)
            comparison = above if above is not None else parent
        if not isinstance(comparison, cst.Comparison):
            return {Use.UNKNOWN}
        if any(isinstance(t.operator, (cst.Is, cst.IsNot)) for t in comparison.comparisons):
            return {Use.EITHER}
        others = [comparison.left, *(t.comparator for t in comparison.comparisons)]
        device = any(o is not node and Kind.DEVICE in self.roles.kinds(o) for o in others)
        return {Use.PLACE if device else Use.TEXT}

    def _assigned(self, node: cst.CSTNode, parent: cst.CSTNode, depth: int) -> set[Use]:
        found: set[Use] = set()
        if isinstance(parent, cst.NamedExpr):
            found |= self._of(parent, depth)
            targets: list[cst.BaseExpression] = [parent.target]
        elif isinstance(parent, cst.Assign):
            targets = [t.target for t in parent.targets]
        else:
            assert isinstance(parent, cst.AnnAssign)
            targets = [parent.target]
        for target in targets:
            found |= self._target(target, parent, depth)
        return found

    def _target(self, target: cst.BaseExpression, statement: cst.CSTNode, depth: int) -> set[Use]:
        if isinstance(target, cst.Name):
            return self._name(target, statement, depth)
        if isinstance(target, cst.Attribute):
            return self._reads_of_attribute(target.attr.value, target, depth)
        if isinstance(target, cst.Subscript):
            key = string_key(target)
            return self._reads_of_key(key, target, depth) if key is not None else {Use.UNKNOWN}
        return {Use.UNKNOWN}

    def _name(self, target: cst.Name, statement: cst.CSTNode, depth: int) -> set[Use]:
        found: set[Use] = set()
        for read in reads(self.roles, target, target.value):
            found |= self._of(read, depth + 1)
        index = self.roles.index(target)
        owner = index.class_of(target)
        if owner is not None and index.function_of(target) is None:
            found |= self._reads_of_attribute(target.value, None, depth)
        if isinstance(index.parent(index.parent(statement) or statement), cst.Module):
            found |= self._imported(target.value, index, depth)
        return found

    def _imported(self, name: str, index: ModuleIndex, depth: int) -> set[Use]:
        """The uses of a module's variable in the program's other modules."""
        found: set[Use] = set()
        for other in self.roles.program.modules.values():
            if other is index:
                continue
            for read in other.named(name):
                bindings = self.roles.bindings(read)
                if any(b.how is How.IMPORT and b.name.endswith(f"{index.name}.{name}") for b in bindings):
                    found |= self._of(read, depth + 1)
        return found

    def _parameter(self, param: cst.Param, depth: int) -> set[Use]:
        found: set[Use] = set()
        for read in reads(self.roles, param, param.name.value):
            found |= self._of(read, depth + 1)
        return found

    def _returned(self, parent: cst.CSTNode, depth: int) -> set[Use]:
        function = self.roles.index(parent).function_of(parent)
        if function is None:
            return {Use.UNKNOWN}
        sites = [site for site, _ in callers(self.roles, function)]
        return set().union(*(self._of(site, depth + 1) for site in sites)) if sites else {Use.UNKNOWN}

    def _element(self, node: cst.CSTNode, parent: cst.CSTNode, depth: int) -> set[Use]:
        index = self.roles.index(node)
        if isinstance(parent, cst.DictElement):
            key = string_value(parent.key)
            if parent.key is node or key is None:
                return {Use.OTHER}
            return self._reads_of_key(key, parent, depth)
        literal = index.parent(parent)
        above = index.parent(literal) if literal is not None else None
        if isinstance(above, cst.ComparisonTarget):
            return {Use.TEXT}
        if isinstance(above, cst.Arg):
            return {Use.OTHER}
        if isinstance(above, cst.Assign) and isinstance(literal, cst.Tuple):
            return self._unpacked(above, literal, parent, depth)
        return {Use.UNKNOWN}

    def _unpacked(self, assign: cst.Assign, literal: cst.Tuple, element: cst.CSTNode, depth: int) -> set[Use]:
        position = next(i for i, e in enumerate(literal.elements) if e is element)
        found: set[Use] = set()
        for item in assign.targets:
            target = item.target
            if not isinstance(target, cst.Tuple) or len(target.elements) != len(literal.elements):
                return {Use.UNKNOWN}
            found |= self._target(target.elements[position].value, assign, depth)
        return found

    def _reads_of_attribute(self, name: str, target: cst.Attribute | None, depth: int) -> set[Use]:
        """The uses of ``self.device`` in its class, of ``cfg.device`` wherever it is written alike."""
        found: set[Use] = set()
        for index in self.roles.program.modules.values():
            for node in index.attributed(name):
                written = isinstance(index.parent(node), cst.AssignTarget)
                if not written and self._alike(node, target):
                    found |= self._of(node, depth + 1)
        return found

    def _alike(self, node: cst.Attribute, target: cst.Attribute | None) -> bool:
        if target is not None and same(node.value, target.value):
            return True
        kinds = self.roles.kinds(node.value)
        if target is None or dotted(target.value) == "self":
            return bool(kinds & {Kind.INSTANCE, Kind.MODEL, Kind.CLASS})
        return bool(kinds & {Kind.ARGUMENTS}) and Kind.ARGUMENTS in self.roles.kinds(target.value)

    def _reads_of_key(self, key: str, near: cst.CSTNode, depth: int) -> set[Use]:
        """The uses of ``config["device"]`` and ``config.get("device")`` anywhere in the program."""
        found: set[Use] = set()
        for index in self.roles.program.modules.values():
            for node in index.all(cst.Subscript):
                written = isinstance(index.parent(node), cst.AssignTarget)
                if isinstance(node, cst.Subscript) and string_key(node) == key and not written:
                    found |= self._of(node, depth + 1)
        for call in self.roles.program.calls.get("get", ()):
            if string_value(value_of(call, "key", 0)) == key:
                found |= self._of(call, depth + 1)
        return found


def reads(roles: Roles, target: cst.CSTNode, name: str) -> Iterator[cst.Name]:
    """The reads of a name that see the value which ``target`` (a name or a parameter) binds."""
    index = roles.index(target)
    scope = index.scopes.get(target) or index.scope_of(target)
    owner = scope.owner(name)
    if owner is None:
        return
    targets = {b.node for b in owner.bindings[name]}
    binding: Binding | None = next((b for b in owner.bindings[name] if b.node is target), None)
    for node in index.named(name):
        if node in targets or index.scope_of(node).owner(name) is not owner:
            continue
        if binding is None or binding in roles.bindings(node):
            yield node
