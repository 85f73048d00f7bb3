"""One parsed module: its text, its libcst tree and where each node stands in the text (see ``places``).

libcst prints most files back unchanged, but not all (a form feed before a statement, a lone carriage
return). The printed tree is therefore never written: it only serves to find each node's place.
"""

from __future__ import annotations

import ast
import bisect
import io
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property

import libcst as cst

from xla_transforms import check
from xla_transforms.check import Names
from xla_transforms.comments import comments, divides
from xla_transforms.encoding import SourceError
from xla_transforms.findings import Span
from xla_transforms.old_python import advice
from xla_transforms.places import Places


class Source:
    """A module as text and tree. Offsets count characters of ``text``."""

    def __init__(self, text: str, path: str = "<unknown>") -> None:
        self.text = text
        self.path = path
        self.module = _parse(text)
        self._above: Callable[[cst.CSTNode], cst.CSTNode | None] = lambda node: None
        self._statements: Sequence[cst.CSTNode] = ()

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

    def indexed(
        self, above: Callable[[cst.CSTNode], cst.CSTNode | None], statements: Sequence[cst.CSTNode]
    ) -> None:
        """Take over what holds each node, and all statements: places are found at less cost by them."""
        self._above, self._statements = above, statements

    @cached_property
    def _places(self) -> Places:
        return Places(self.module, self.text, self._line_starts, self._above, self._statements)

    def offsets(self, node: cst.CSTNode) -> tuple[int, int]:
        """Start and end of a node in ``text``: a statement without its comments above and its newline."""
        return self._places.of(node)

    @cached_property
    def names(self) -> Names | None:
        """The names of the text, if Python's parser takes it."""
        tree = check.parse(self.text)
        return check.names(tree) if tree is not None else None

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

    def comment_indentation(self, offset: int) -> str:
        """The indentation of the first line with a comment behind an offset, where there is one."""
        first = bisect.bisect_left(self._comments, (offset, ""))
        return self._indentation(self.line_start(self._comments[first][0]))

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

    def blank_end(self, offset: int) -> int:
        """Where the blank lines from a line's start on end."""
        end = offset
        while end < len(self.text) and not self.text[end : self.line_end(end)].strip():
            end = self.line_end(end)
        return end

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
    except (SyntaxError, ValueError) as own:  # a ValueError of a null byte, up to Python 3.11.3
        line = getattr(own, "lineno", 0) or text.count("\n", 0, text.find("\0")) + 1
        column, words = getattr(own, "offset", 0) or 1, getattr(own, "msg", str(own))
        hint = advice(text, line, words)
        return SourceError("XLA001", f"not Python 3: {words}", max(line, 1), max(column, 1), hint)
    except (RecursionError, MemoryError):
        pass
    line, column = getattr(error, "raw_line", 1), getattr(error, "raw_column", 0) + 1
    lines = str(getattr(error, "message", error)).strip().splitlines() or ["syntax error"]
    return SourceError("XLA001", f"not Python 3: {lines[-1]}", max(line, 1), max(column, 1))
