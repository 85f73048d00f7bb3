"""Statements of a script's top level, and its main guard, as the body of a function."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence

import libcst as cst

from xla_transforms import check
from xla_transforms.context import Context
from xla_transforms.plan import Planned, Render, Site, line_extent
from xla_transforms.roles import Roles
from xla_transforms.scopes import How, ModuleIndex

_OPENS, _CLOSES = ("FSTRING_START", "TSTRING_START"), ("FSTRING_END", "TSTRING_END")


class Wrapping:
    """Writes one function: ``head`` opens it, ``tail`` are the lines behind it."""

    def __init__(
        self, context: Context, moved: Sequence[cst.CSTNode], guard: cst.If | None, head: str, tail: list[str]
    ) -> None:
        self.context, self.source = context, context.index.source
        self.moved, self.guard, self.head, self.tail = list(moved), guard, head, tail
        parts = [*self.moved, *([guard] if guard is not None else [])]
        body: list[cst.CSTNode] = list(self.source.module.body)
        places = [body.index(part) for part in parts]
        self.region = body[min(places) : max(places) + 1]
        self.start = self._starts(self.region[0])
        above = body[: min(places)]
        # with the statement above, whose own removal takes the end of its line
        self.before = line_extent(context.index, above[-1])[0] if above else 0
        self.end = self.source.lines_end(self.region[-1])

    def write(self, change: Planned) -> None:
        """Plan the function in the place of all lines from its first statement to its last."""
        self.change = change.id
        change.rewrite(self.before, self.end, self._text, lines=True)

    def _starts(self, statement: cst.CSTNode) -> int:
        """The start of a statement's lines, of the comments right above it as well."""
        first = next(iter(getattr(statement, "decorators", ())), statement)
        start = self.source.line_start(self.source.offsets(first)[0])
        while start > 0:
            above = self.source.line_start(start - 1)
            if not self.source.text[above:start].lstrip().startswith("#"):
                break
            start = above
        return start

    def _text(self, render: Render) -> str:
        above = render((self.before, self.start)) if self.before < self.start else ""
        newline, unit = self.source.newline, self.source.indent
        kept, moved = self._parted(render)
        kept = _below(above, kept, newline)
        body = indented(moved.strip("\r\n") + newline, unit) if moved.strip() else ""
        if self.guard is not None:
            spoken = body.rstrip().rpartition(newline)[2].lstrip().startswith("#")
            body += (newline if body and not spoken else "") + _block(render(self.guard.body))
        if not body.strip():
            body = f"{unit}pass{newline}"
        shared = self._shared(body)
        line = f"{unit}global {', '.join(shared)}{newline}" if shared else ""
        kept = kept.rstrip() + newline * 3 if kept.strip() else _below(above, newline * 2, newline)
        tail = newline.join(["", "", *self.tail, ""])
        ended = self.source.text[: self.end].endswith(("\n", "\r"))
        text = f"{above}{kept}{self.head}{newline}{line}{body.rstrip()}{newline}{tail}"
        return text if ended else text.removesuffix(newline)

    def _parted(self, render: Render) -> tuple[str, str]:
        """The texts of what stays and of what moves, with blank lines as they are between such lines."""
        kept, moved, defined = "", "", False
        for statement, piece in self._pieces():
            if statement is self.guard:
                piece = (piece[0], self.source.offsets(statement)[0])
            text = render(piece)
            lines = text.lstrip("\r\n")
            blank = text[: len(text) - len(lines)].count(self.source.newline)
            if not lines:
                continue
            if statement in self.moved or statement is self.guard:
                moved += self.source.newline * min(blank, 1) + lines
            else:
                defines = isinstance(statement, (cst.FunctionDef, cst.ClassDef))
                kept += self.source.newline * (2 if defines or defined else min(blank, 1)) + lines
                defined = defines
        return kept, moved

    def _pieces(self) -> Iterator[tuple[cst.CSTNode, tuple[int, int]]]:
        """Each statement of the region with its lines, the comments and blank lines above it among them."""
        start = self.start
        for statement in self.region:
            end = self.source.lines_end(statement)
            yield statement, (start, end)
            start = end

    def _shared(self, body: str) -> list[str]:
        """The names that the function binds and something else of the module uses, or binds too."""
        tree = check.parse(f"def f():\n{indented(body, ' ') if not body[:1].isspace() else body}")
        if tree is None:
            return []
        bound = set(_own(tree.body[0].body))  # type: ignore[attr-defined]
        parts = [*self.moved, *([self.guard.body] if self.guard is not None else [])]
        if reads_all(self.context.roles, self.context.index, parts):
            return sorted(bound)
        declared = {n for node in ast.walk(tree) if isinstance(node, ast.Global) for n in node.names}
        return sorted((bound & self._elsewhere(bound)) | (declared & bound))

    def _elsewhere(self, names: set[str]) -> set[str]:
        index = self.context.index
        module = index.scopes[self.source.module]
        parts = [*self.moved, *([self.guard] if self.guard is not None else [])]
        found = {
            name
            for name in names & module.bindings.keys()
            if any(not any(index.within(n, part) for part in parts) for n in index.named_of(module, name))
            or any(b.statement in index.source.module.body and b.statement not in parts
                   for b in module.bindings[name])
        }  # fmt: skip
        added = " ".join(
            site.write(lambda piece: "")
            for site in self.context.plan.sites()
            if site.change != self.change and not self._inside(site)
        )
        return found | {n for n in names - found if re.search(rf"(?<![\w.]){n}\b(?!=)", added)}

    def _inside(self, site: Site) -> bool:
        """Whether a site is in what moves; what comes behind a statement belongs to it."""
        offset = site.start - (site.start == site.end and site.rank <= 0)
        return any(
            piece[0] <= offset < piece[1]
            for statement, piece in self._pieces()
            if statement in self.moved or statement is self.guard
        )


def _below(above: str, text: str, newline: str) -> str:
    """A text with as many blank lines at its head as it has, those that end the text above among them."""
    if not above.strip():
        return text.lstrip("\r\n")
    lines = text.lstrip("\r\n")
    missing = text[: len(text) - len(lines)].count(newline)
    ends = above[len(above.rstrip("\r\n")) :].count(newline)
    return newline * max(missing - max(ends - 1, 0), 0) + lines


def _block(text: str) -> str:
    """The lines of an indented block, without what stood on the line of its head."""
    return text.lstrip("\r\n") if text.startswith(("\r", "\n")) else text


def _own(body: Sequence[ast.AST]) -> Iterator[str]:
    """The names that statements bind in their own scope."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
            continue
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.split(".")[0]
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        stack.extend(ast.iter_child_nodes(node))


def indented(text: str, unit: str) -> str:
    """The lines of a text one step to the right, those that begin within a string as they are."""
    lines = text.splitlines(keepends=True)
    inside = _in_strings(text)
    return "".join(
        unit + line if line.strip() and number not in inside else line for number, line in enumerate(lines, 1)
    )


def _in_strings(text: str) -> set[int]:
    """The numbers of the lines that begin within a string."""
    found: set[int] = set()
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            found.update(range(token.start[0] + 1, token.end[0] + 1))
        elif kind in _OPENS:
            opened.append(token.start[0])
        elif kind in _CLOSES:
            found.update(range(opened.pop() + 1, token.end[0] + 1))
    return found


def reads_all(roles: Roles, index: ModuleIndex, moved: Sequence[cst.CSTNode]) -> bool:
    """Whether any name of the module may be read by its text: by what moves, or by a function of it."""
    for name in ("globals", "eval"):
        for call in roles.program.calls.get(name, ()):
            if roles.index(call) is not index or roles.path(call.func) != f"builtins.{name}":
                continue
            inside = index.function_of(call) is not None
            if inside or (name == "globals" and any(index.within(call, part) for part in moved)):
                return True
    return False


def shared_names(roles: Roles, index: ModuleIndex, guard: cst.If) -> list[str]:
    """The names that a main guard binds and functions of the module read."""
    module = index.scopes[index.source.module]
    everything = reads_all(roles, index, [guard.body])
    found = []
    for name, bindings in module.bindings.items():
        inside = [b for b in bindings if index.within(b.statement, guard) and b.how is not How.DEFINE]
        elsewhere = [n for n in index.named_of(module, name) if not index.within(n, guard)]
        if inside and (everything or elsewhere or len(inside) < len(bindings)):
            found.append(name)
    return sorted(found)
