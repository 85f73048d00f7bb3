"""Where each node of a module stands in its text.

libcst knows no places: they come from printing. Only the statements whose places are asked for are printed;
where one begins is known from Python's own parser, and its print has to be what stands there. Else, as with a
form feed or a lone carriage return, the whole module is printed, and where print and text differ the places
are mapped back through the characters that libcst left out.
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable, Iterator, Sequence

import libcst as cst
from libcst._nodes.internal import CodegenState

from xla_transforms import check
from xla_transforms.encoding import SourceError
from xla_transforms.tree import Kinds

Place = tuple[int, int]
_COMPOUND = Kinds(cst.BaseCompoundStatement)
_LINES = Kinds(cst.SimpleStatementLine)


class _Recorder(CodegenState):
    """Prints nodes and notes the offset at which each starts and ends."""

    # CodegenState is a slotted dataclass; this subclass only adds attributes.
    def __init__(self, newline: str, indent: str) -> None:
        super().__init__(indent, newline)
        self.offset = 0
        self.places: dict[int, Place] = {}
        self._starts: list[int] = []

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.add_token(token)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.offset += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._starts.append(self.offset)

    def after_codegen(self, node: cst.CSTNode) -> None:
        self.places.setdefault(id(node), (self._starts.pop(), self.offset))

    def record_syntactic_position(  # type: ignore[override]
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> _Extent:
        return _Extent(self, node, start_node, end_node)


class _Extent:
    """Notes a node's own extent, without the blanks around it. (A generator here costs a tenth of a run.)"""

    __slots__ = ("first", "last", "node", "recorder", "start")

    def __init__(
        self, recorder: _Recorder, node: cst.CSTNode, first: cst.CSTNode | None, last: cst.CSTNode | None
    ) -> None:
        self.recorder, self.node, self.first, self.last = recorder, node, first, last

    def __enter__(self) -> None:
        self.start = self.recorder.offset

    def __exit__(self, *_: object) -> None:
        places = self.recorder.places
        start = self.start if self.first is None else places[id(self.first)][0]
        end = self.recorder.offset if self.last is None else places[id(self.last)][1]
        places[id(self.node)] = (start, end)


class Places:
    """The places of one module's nodes, found as they are asked for.

    ``parent`` gives what holds a node, ``statements`` all statements of the module, those that hold others
    first; a line of small statements is none, each of them is one. ``lines`` are the offsets of lines.
    """

    def __init__(
        self,
        module: cst.Module,
        text: str,
        lines: Sequence[int],
        parent: Callable[[cst.CSTNode], cst.CSTNode | None],
        statements: Sequence[cst.CSTNode],
    ) -> None:
        self._module, self._text, self._parent = module, text, parent
        self._known: dict[int, Place] = {}
        self._starts = _starts(text, lines, statements)
        self._whole = False

    def of(self, node: cst.CSTNode) -> Place:
        """Start and end of a node. Raises ``SourceError`` where print and text cannot be brought together."""
        place = self._known.get(id(node))
        if place is None and not self._whole:
            around = self._around(node)
            if around is None or not self._printed(around) or id(node) not in self._known:
                self._print_all()
        return place or self._known[id(node)]

    def _around(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The innermost line or compound statement of a node; an ``elif`` is no statement of its own."""
        current: cst.CSTNode | None = node
        while current is not None:
            kind, above = type(current), self._parent(current)
            if _LINES[kind] or (_COMPOUND[kind] and not (kind is cst.If and type(above) is cst.If)):
                return current
            current = above
        return None

    def _printed(self, statement: cst.CSTNode) -> bool:
        """Print a statement and take its places over, if it stands in the text as it is printed."""
        first = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement
        start = self._starts.get(id(first))
        if start is None:
            return False
        indent = self._text[self._text.rfind("\n", 0, start) + 1 : start]
        recorder = _Recorder(self._module.default_newline, self._module.default_indent)
        recorder.indent_tokens = [indent] if indent and indent.isspace() else []
        statement._codegen(recorder)
        base = start - recorder.places[id(statement)][0]
        printed = "".join(recorder.tokens)
        if base < 0 or not self._stands(printed, base):
            return False
        self._known.update({key: (a + base, b + base) for key, (a, b) in recorder.places.items()})
        return True

    def _stands(self, printed: str, at: int) -> bool:
        if self._text.startswith(printed, at):
            return True
        rest = self._text[at:]  # the last line of a file may have no end
        return printed.startswith(rest) and not printed[len(rest) :].strip("\r\n")

    def _print_all(self) -> None:
        self._whole = True
        self._known = printed(self._module, self._text)


def printed(module: cst.Module, text: str) -> dict[int, Place]:
    """The places of all nodes, by ``id``. Raises ``SourceError`` where the print is not that of the text."""
    recorder = _Recorder(module.default_newline, module.default_indent)
    module._codegen(recorder)
    code = "".join(recorder.tokens)
    if code == text:
        return recorder.places
    shift = _Alignment(code, text)
    return {key: (shift(start), shift.end(end)) for key, (start, end) in recorder.places.items()}


def _starts(text: str, lines: Sequence[int], statements: Sequence[cst.CSTNode]) -> dict[int, int]:
    """Where statements start, by ``id``, as Python's parser has them; empty where that sees others."""
    tree = check.parse(text)
    found = list(_statements(tree)) if tree is not None else []
    if len(found) != len(statements):
        return {}
    starts = {}
    for node, twin in zip(statements, found, strict=True):
        start, column = lines[twin.lineno - 1], twin.col_offset
        if column and not text.isascii():  # it counts bytes
            column = len(text[start : start + column].encode()[:column].decode("utf-8", "ignore"))
        starts[id(node)] = start + column
    return starts


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements, those that hold others first, in the order of the text."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            yield node
        inner: list[ast.AST] = []
        for name in ("body", "handlers", "cases", "orelse", "finalbody"):
            held = getattr(node, name, ())
            inner += held if isinstance(held, list) else ()
        stack += reversed(inner)


class _Alignment:
    """Maps offsets of libcst's print to offsets of the text it came from.

    Only characters that carry no meaning (blanks, form feeds, line ends, a byte-order mark) may be missing
    from the print; anything else raises ``SourceError`` (``XLA003``).
    """

    _MEANINGLESS = " \t\f\r\n\ufeff\0\x1a"

    def __init__(self, printed: str, text: str) -> None:
        self._printed_at: list[int] = []
        self._skipped: list[int] = []
        position = skipped = 0
        for char in text:
            if position < len(printed) and printed[position] == char:
                position += 1
                continue
            if char not in self._MEANINGLESS:
                raise SourceError("XLA003", "the parser does not give this file back as it is")
            skipped += 1
            self._printed_at.append(position)
            self._skipped.append(skipped)
        if position != len(printed):
            raise SourceError("XLA003", "the parser does not give this file back as it is")

    def __call__(self, offset: int) -> int:
        index = bisect.bisect_right(self._printed_at, offset)
        return offset + (self._skipped[index - 1] if index else 0)

    def end(self, offset: int) -> int:
        """The same for the end of a node: what was left out right behind it does not belong to it."""
        return self(offset - 1) + 1 if offset else self(offset)
