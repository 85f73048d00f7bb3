"""One parsed module: its text, its libcst tree and where each node stands in the text.

libcst prints most files back unchanged, but not all (a form feed before a statement, a lone carriage
return). The printed tree is therefore never written: it only serves to find each node's place, and where
print and text differ the places are mapped back through the characters that libcst left out.
"""

from __future__ import annotations

import ast
import bisect
import io
import warnings
from collections.abc import Callable
from functools import cached_property

import libcst as cst
from libcst._nodes.internal import CodegenState

from xla_transforms.comments import comments, divides
from xla_transforms.encoding import SourceError
from xla_transforms.findings import Span
from xla_transforms.old_python import advice


class _PlaceRecorder(CodegenState):
    """Prints a module and notes the offset at which each node starts and ends."""

    # CodegenState is a slotted dataclass; this subclass only adds attributes.
    def __init__(self, newline: str, indent: str) -> None:
        super().__init__(indent, newline)
        self.offset = 0
        self.places: dict[int, tuple[int, int]] = {}
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
        self,
        recorder: _PlaceRecorder,
        node: cst.CSTNode,
        first: cst.CSTNode | None,
        last: cst.CSTNode | None,
    ) -> None:
        self.recorder, self.node, self.first, self.last = recorder, node, first, last

    def __enter__(self) -> None:
        self.start = self.recorder.offset

    def __exit__(self, *_: object) -> None:
        places = self.recorder.places
        start = self.start if self.first is None else places[id(self.first)][0]
        end = self.recorder.offset if self.last is None else places[id(self.last)][1]
        places[id(self.node)] = (start, end)


class Source:
    """A module as text and tree. Offsets count characters of ``text``."""

    def __init__(self, text: str, path: str = "<unknown>") -> None:
        self.text = text
        self.path = path
        self.module = _parse(text)

    @property
    def is_notebook(self) -> bool:
        """Whether the text is that of a notebook's cells, one behind the other."""
        return self.path.endswith(".ipynb")

    @property
    def newline(self) -> str:
        return self.module.default_newline

    @property
    def indent(self) -> str:
        return self.module.default_indent

    @cached_property
    def _places(self) -> Callable[[cst.CSTNode], tuple[int, int]]:
        recorder = _PlaceRecorder(self.module.default_newline, self.module.default_indent)
        self.module._codegen(recorder)
        places = recorder.places
        printed = "".join(recorder.tokens)
        if printed == self.text:
            return lambda node: places[id(node)]
        shift = _Alignment(printed, self.text)
        return lambda node: (shift(places[id(node)][0]), shift.end(places[id(node)][1]))

    def offsets(self, node: cst.CSTNode) -> tuple[int, int]:
        """Start and end of a node in ``text``: a statement without its comments above and its newline."""
        return self._places(node)

    def code(self, node: cst.CSTNode) -> str:
        start, end = self.offsets(node)
        return self.text[start:end]

    @cached_property
    def _comments(self) -> list[tuple[int, str]]:
        return comments(self.text)

    def comments_between(self, start: int, end: int) -> list[str]:
        """The comments that start in a piece of the text, in their order."""
        first, last = (bisect.bisect_left(self._comments, (offset, "")) for offset in (start, end))
        return [comment for _, comment in self._comments[first:last]]

    @cached_property
    def _line_starts(self) -> list[int]:
        starts, offset = [0], 0
        for line in io.StringIO(self.text, newline=""):
            offset += len(line)
            starts.append(offset)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column (both from 1) of an offset."""
        line = bisect.bisect_right(self._line_starts, offset)
        if offset == len(self.text) and line > 1 and self._line_starts[line - 1] == offset:
            line -= 1 if not self.text.endswith(("\n", "\r")) else 0
        return line, offset - self._line_starts[line - 1] + 1

    def span(self, node: cst.CSTNode) -> Span:
        return self.span_of(*self.offsets(node))

    def span_of(self, start: int, end: int) -> Span:
        line, column = self.position(start)
        end_line, end_column = self.position(end)
        return Span(start, end, line, column, end_line, end_column)

    def line_start(self, offset: int) -> int:
        return self._line_starts[bisect.bisect_right(self._line_starts, offset) - 1]

    def blank_start(self, offset: int) -> int:
        """Where the blank lines above a line begin."""
        start = self.line_start(offset)
        while start and not self.text[self.line_start(start - 1) : start].strip():
            start = self.line_start(start - 1)
        return start

    def above_comments(self, offset: int) -> int:
        """Where the comments begin that stand right above a line, at its indentation; not those that head the
        file."""
        start = place = self.line_start(offset)
        indent = self._indentation(start)
        while place and self._indentation(above := self.line_start(place - 1)) == indent:
            line = self.text[above:place].strip()
            if not line.startswith("#") or divides(line):
                return place
            place = above
        return place or start

    def _indentation(self, start: int) -> str:
        line = self.text[start : self.line_end(start)]
        return line[: len(line) - len(line.lstrip())]

    def line_end(self, offset: int) -> int:
        """Offset just behind the newline that ends the line of ``offset``."""
        index = bisect.bisect_right(self._line_starts, offset)
        return self._line_starts[index] if index < len(self._line_starts) else len(self.text)

    def lines_end(self, statement: cst.CSTNode) -> int:
        """Offset behind the lines of a statement, the comments that end its last block among them."""
        start, end = self.offsets(statement)
        behind = self.line_end(end)
        if not isinstance(statement, cst.BaseCompoundStatement):
            return behind
        return self.comments_end(behind, _width(self.text[self.line_start(start) : start]))

    def comments_end(self, offset: int, width: int) -> int:
        """Offset behind the comment lines from a line's start on that are indented by more than ``width``."""
        found = position = offset
        while position < len(self.text):
            behind = self.line_end(position)
            line = self.text[position:behind]
            if line.strip() and not (line.lstrip().startswith("#") and _width(line) > width):
                break
            position = behind
            found = behind if line.strip() else found
        return found


def _width(line: str) -> int:
    return len(line.expandtabs()) - len(line.expandtabs().lstrip())


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


def _parse(text: str) -> cst.Module:
    body = text.removeprefix("\ufeff")
    try:
        return cst.parse_module(body)
    except cst.ParserSyntaxError as error:
        raise syntax_error(body, error) from error
    except RecursionError as error:
        raise SourceError("XLA003", "nested too deeply for the parser") from error
    except Exception as error:  # the native parser raises bare errors on text it cannot tokenise
        raise syntax_error(body, error) from error


def syntax_error(text: str, error: Exception) -> SourceError:
    """The error with Python's own words and place, which are nearer to the mistake than the parser's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as own:
        line, column = own.lineno or text.count("\n", 0, text.find("\0")) + 1, own.offset or 1
        hint = advice(text, line, own.msg)
        return SourceError("XLA001", f"not Python 3: {own.msg}", max(line, 1), max(column, 1), hint)
    except (ValueError, RecursionError, MemoryError):
        pass
    line, column = getattr(error, "raw_line", 1), getattr(error, "raw_column", 0) + 1
    lines = str(getattr(error, "message", error)).strip().splitlines() or ["syntax error"]
    return SourceError("XLA001", f"not Python 3: {lines[-1]}", max(line, 1), max(column, 1))
