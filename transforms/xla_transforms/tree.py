"""Walking a libcst tree without visitors, and small questions about single nodes.

A visitor walk enters every comma and blank; this one enters only what carries meaning, which makes it
several times cheaper, so that every stage may walk. The questions that are put to every node compare exact
types: libcst's classes are abstract, which makes ``isinstance`` slow.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields

import libcst as cst

_LAYOUT = {
    "asname_whitespace", "colon", "comma", "dot", "encoding", "equal", "footer", "has_trailing_newline",
    "header", "indent", "lbrace", "lbracket", "leading_lines", "lines_after_decorators", "lpar", "newline",
    "operator", "rbrace", "rbracket", "rpar", "semicolon", "trailing_whitespace", "default_indent",
    "default_newline",
}  # fmt: skip
FUNCTIONS = (cst.FunctionDef, cst.Lambda)
SCOPES = (cst.Module, cst.FunctionDef, cst.Lambda, cst.ClassDef)
LOOPS = (cst.For, cst.While)
CODE_OF_ITS_OWN = frozenset({cst.FunctionDef, cst.Lambda, cst.ClassDef})
_WAYS = (cst.If, cst.Else, cst.ExceptHandler, cst.ExceptStarHandler, cst.Finally, cst.MatchCase)
COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


class _Fields(dict[type, tuple[str, ...]]):
    """The fields of a node type that carry meaning; with ``nodes`` only those that may hold nodes."""

    def __init__(self, *, nodes: bool) -> None:
        self._nodes = nodes

    def __missing__(self, kind: type) -> tuple[str, ...]:
        self[kind] = tuple(
            field.name
            for field in fields(kind)
            if field.name not in _LAYOUT
            and not field.name.startswith("whitespace")
            and not (self._nodes and field.type in (str, "str"))
        )
        return self[kind]


_meaning = _Fields(nodes=False)
_inner = _Fields(nodes=True)


class Kinds(dict[type, bool]):
    """Whether a type is one of some kinds of node, subclasses included: ``STATEMENTS[type(node)]``."""

    def __init__(self, *kinds: type) -> None:
        self._kinds = kinds

    def __missing__(self, kind: type) -> bool:
        self[kind] = issubclass(kind, self._kinds)
        return self[kind]


STATEMENTS = Kinds(cst.BaseStatement, cst.BaseSmallStatement)
_is_node = Kinds(cst.CSTNode)


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The meaningful children of a node, in source order for all but a few node types."""
    found: list[cst.CSTNode] = []
    for name in _inner[type(node)]:
        value = getattr(node, name)
        kind_of_value = type(value)
        if kind_of_value is tuple or kind_of_value is list:
            found.extend(value)
        elif _is_node[kind_of_value]:
            found.append(value)
    return found


def walk(node: cst.CSTNode, *, into_functions: bool = True) -> Iterator[cst.CSTNode]:
    """The node and everything below it, parents first, in source order.

    With ``into_functions=False`` the bodies of nested functions, lambdas and classes are left out.
    """
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if not into_functions and current is not node and type(current) in CODE_OF_ITS_OWN:
            continue
        stack.extend(reversed(children(current)))


def dotted(node: cst.CSTNode | None) -> str:
    """``a.b.c`` for a chain of plain names and attributes, else the empty string."""
    parts: list[str] = []
    while type(node) is cst.Attribute:
        parts.append(node.attr.value)
        node = node.value
    if type(node) is not cst.Name:
        return ""
    return ".".join([node.value, *reversed(parts)])


def string_value(node: cst.CSTNode | None) -> str | None:
    """The value of a plain string literal (also of adjacent ones), else ``None``."""
    if type(node) is cst.ConcatenatedString:
        left, right = string_value(node.left), string_value(node.right)
        return None if left is None or right is None else left + right
    if type(node) is not cst.SimpleString:
        return None
    literal = node.value
    if "\\" not in literal and literal[0] in "'\"" and literal[:3] not in ("\"\"\"", "'''"):
        return literal[1:-1]
    try:
        value = ast.literal_eval(literal)
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(value, str) else None


def string_key(node: cst.Subscript) -> str | None:
    """The key of ``state["key"]``, where it is a plain string."""
    first = node.slice[0].slice if len(node.slice) == 1 else None
    return string_value(first.value) if isinstance(first, cst.Index) else None


def number_value(node: cst.CSTNode | None) -> int | float | None:
    """The number that a literal is, with a minus before it too; ``None`` for what is no literal."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = number_value(node.expression)
        return -inner if inner is not None else None
    if isinstance(node, cst.Integer):
        return int(node.value, 0)
    return float(node.value) if isinstance(node, cst.Float) else None


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.Arg | None:
    """The argument that a call passes for a parameter, by keyword or by position (from 0)."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg
    if position is not None and 0 <= position < len(call.args):
        leading = call.args[: position + 1]
        if all(arg.keyword is None and not arg.star for arg in leading):
            return leading[-1]
    return None


def value_of(call: cst.Call, name: str, position: int | None = None) -> cst.BaseExpression | None:
    arg = argument(call, name, position)
    return arg.value if arg else None


def given(call: cst.Call, name: str) -> cst.Arg | None:
    """The argument of a name; ``None`` also for one whose value is ``None``."""
    found = argument(call, name)
    written_none = found is not None and getattr(found.value, "value", "") == "None"
    return None if written_none else found


def has_star(call: cst.Call) -> bool:
    return any(arg.star for arg in call.args)


def method(node: cst.CSTNode | None) -> str:
    """``step`` for the call ``anything.step(...)``, else the empty string."""
    if type(node) is cst.Call and type(node.func) is cst.Attribute:
        return node.func.attr.value
    return ""


def receiver(node: cst.CSTNode) -> cst.BaseExpression | None:
    """``anything`` for the call ``anything.step(...)``."""
    if type(node) is cst.Call and type(node.func) is cst.Attribute:
        return node.func.value
    return None


def body_of(statement: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements of a compound statement's (or a module's) own block."""
    body = getattr(statement, "body", ())
    if isinstance(body, (cst.IndentedBlock, cst.SimpleStatementSuite)):
        body = body.body
    return list(body) if isinstance(body, (tuple, list)) else []


def is_docstring(statement: cst.CSTNode) -> bool:
    """Whether a line is nothing but a string; the first one of a body documents it."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Expr) and isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString))


def head_of(function: cst.CSTNode) -> cst.CSTNode:
    """The statement before which lines go that are to run first: a docstring stays the first one."""
    body = body_of(function)
    return body[1] if len(body) > 1 and is_docstring(body[0]) else body[0]


def numbers_device(node: cst.CSTNode | None) -> bool:
    """Whether a string may put a number behind a device: ``f"{device_type}:{rank}"``."""
    parts = node.parts if isinstance(node, cst.FormattedString) else ()
    if len(parts) not in (2, 3) or not isinstance(parts[0], cst.FormattedStringExpression):
        return False
    text = parts[1].value if isinstance(parts[1], cst.FormattedStringText) else ""
    return text == ":" if len(parts) == 3 else text[:1] == ":" and text[1:].isdigit()


def blocks_of(statement: cst.CSTNode) -> Iterator[cst.IndentedBlock]:
    """The indented blocks of a compound statement: of an ``if`` those of all its ways."""
    for part in children(statement):
        if isinstance(part, cst.IndentedBlock):
            yield part
        elif isinstance(part, _WAYS):
            yield from blocks_of(part)


def same(left: object, right: object) -> bool:
    """Whether two expressions are written alike, blanks and brackets aside."""
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    kind = type(left)
    if kind is not type(right):
        return False
    if not _is_node[kind]:
        return left == right
    names = _meaning[kind]
    operator = type(getattr(left, "operator", None)) is type(getattr(right, "operator", None))
    return operator and all(same(getattr(left, name), getattr(right, name)) for name in names)


def destination(add: cst.Call) -> str:
    """The attribute an ``add_argument`` call stores to: ``no_cuda`` for ``"--no-cuda"``."""
    explicit = string_value(value_of(add, "dest"))
    if explicit:
        return explicit
    names = [string_value(a.value) or "" for a in add.args if a.keyword is None]
    long = [n for n in names if n.startswith("--")]
    chosen = (long or names or [""])[0]
    return chosen.lstrip("-").replace("-", "_")


def is_main_guard(statement: cst.If) -> bool:
    """``if __name__ == "__main__":``."""
    test = statement.test
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    target = test.comparisons[0]
    sides = (test.left, target.comparator)
    named = any(isinstance(side, cst.Name) and side.value == "__name__" for side in sides)
    return (
        named
        and isinstance(target.operator, cst.Equal)
        and any(string_value(side) == "__main__" for side in sides)
    )
