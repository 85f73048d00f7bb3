"""The plan: what is to become of which node, asked for by the passes, rendered in one go.

A pass reads the original tree and asks for changes by node. Each change holds *sites*: a piece of the
original text with a function that writes its new text, in which other pieces may appear through
``render``; so an inner and an outer change compose, whichever pass asked for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import libcst as cst

from xla_transforms.comments import lost
from xla_transforms.findings import Change, Finding, Rule, Safety, Severity, Span
from xla_transforms.imports import ImportTable
from xla_transforms.scopes import ModuleIndex
from xla_transforms.targets.base import Spelling
from xla_transforms.tree import STATEMENTS, walk

Piece = cst.CSTNode | tuple[int, int]
Render = Callable[[Piece], str]
Part = cst.CSTNode | str


ABOVE = 1
"""The rank of what goes before a statement, and above the comments that speak of it."""


@dataclass(frozen=True)
class Site:
    """A place of the text and how its new text is made.

    ``rank`` and ``order`` sort insertions at one offset: what goes behind a statement comes first, the
    deepest block's lines foremost, then what goes before the next one (``ABOVE``). ``lines`` says that the
    place is of whole statements: what goes behind the last one belongs to it. ``drops`` are the items of a
    list and those that go: what several changes take out of one list goes in one piece.
    """

    start: int
    end: int
    write: Callable[[Render], str]
    change: int
    order: int
    wraps: bool = False
    removes: cst.CSTNode | None = None
    rank: int = 0
    lines: bool = False
    drops: tuple[tuple[cst.CSTNode, ...], frozenset[cst.CSTNode]] | None = None


@dataclass
class Planned:
    """A change under construction; see ``Plan.change``."""

    plan: Plan
    id: int
    rule: Rule
    message: str
    node: cst.CSTNode
    safety: Safety
    sites: list[Site] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    units: frozenset[Hashable] = frozenset()
    needs: frozenset[Hashable] = frozenset()

    def use(self, module: str) -> str:
        """A module's local name (``torch_xla.core.xla_model`` -> ``xm``); imported if this is applied."""
        self.imports.append(module)
        return self.plan.imports.name_of(module)

    def spell(self, spelling: Spelling) -> str:
        """The target's text for something, the modules' local names filled in, their imports wanted."""
        text = spelling.text
        if spelling.module:
            text = text.replace("{m}", self.use(spelling.module))
        return text.replace("{n}", self.use(spelling.also)) if spelling.also else text

    def replace(
        self, node: cst.CSTNode, template: str, *parts: Part, brackets: bool = False
    ) -> Planned:
        """Write ``template`` for a node; ``{0}``, ``{1}`` ... stand for the parts (nodes or text).

        A part keeps the brackets it stands in; with ``brackets`` those around the node itself go.
        """
        start, end = self.plan.bracketed(node) if brackets else self.plan.offsets(node)
        self._claim(node)
        return self._site(start, end, _filled(template, parts))

    def wrap(
        self, node: cst.CSTNode, template: str, *parts: Part, brackets: bool = False
    ) -> Planned:
        """Write ``template`` around a node, ``{0}`` being the node with all its own changes."""
        start, end = self.plan.bracketed(node) if brackets else self.plan.offsets(node)
        return self._site(start, end, _filled(template, (node, *parts), bare=node), wraps=True)

    def remove(self, statement: cst.CSTNode) -> Planned:
        """Take out a statement (with its line) or one small statement of a line."""
        self._claim(statement)
        start, end, keep = self.plan.extent(statement)
        return self._site(start, end, lambda render: keep, removes=statement)

    def close(self, node: cst.CSTNode) -> Planned:
        """Have nobody write anything of an expression that goes or stays as it is, nor import for it."""
        for part in walk(node):
            if not self.plan.claims(part):
                self._claim(part)
        return self

    def cut(self, start: int, end: int, text: str = "") -> Planned:
        """Write ``text`` for a piece of the text, for heads of statements that are no nodes."""
        return self._site(start, end, lambda render: text)

    def rewrite(
        self,
        start: int,
        end: int,
        write: Callable[[Render], str],
        *,
        wraps: bool = False,
        lines: bool = False,
    ) -> Planned:
        """Write a piece of the text anew, with all that is planned inside of it.

        With ``wraps`` also with what is planned for the whole of it; with ``lines``, for whole statements,
        with what goes behind the last one.
        """
        return self._site(start, end, write, wraps=wraps, lines=lines)

    def drop(self, items: Sequence[cst.CSTNode], gone: Collection[cst.CSTNode]) -> Planned:
        """Take some items out of a list separated by commas: arguments, parameters, entries."""
        drops = tuple(items), frozenset(item for item in items if item in gone)
        for item in items:
            if item in drops[1]:
                self._claim(item)
        for start, end, text in dropped(self.plan.index, *drops):
            self._site(start, end, _always(text), drops=drops)
        return self

    def append(self, whole: cst.CSTNode, items: Sequence[cst.CSTNode], text: str) -> Planned:
        """Write one more item into a list separated by commas: arguments of a call, entries of a dict.

        It gets a line of its own where the last item has one.
        """
        source, offsets = self.plan.index.source, self.plan.offsets
        if not items:
            end = offsets(whole)[1] - 1
            return self.cut(end, end, text)
        start, end = offsets(items[-1])
        line, line_end = source.line_start(start), source.line_end(end)
        indent, rest = source.text[line:start], source.text[end:line_end].strip()
        remark = rest.removeprefix(",").strip()
        if indent.strip() or (remark and not remark.startswith("#")) or not source.text[:line].strip():
            return self.wrap(items[-1], "{0}, {1}", text)
        if not rest.startswith(","):
            self.wrap(items[-1], "{0},")
        comma = "," if rest.startswith(",") else ""
        return self.cut(line_end, line_end, f"{indent}{text}{comma}{source.newline}")

    def replace_statements(
        self, first: cst.CSTNode, last: cst.CSTNode, write: Callable[[Render], str]
    ) -> Planned:
        """Write whole lines for the lines from statement ``first`` to ``last`` of one block."""
        source = self.plan.index.source
        start = source.line_start(self.plan.offsets(first)[0])
        return self._site(start, source.lines_end(last), write)

    def before(self, statement: cst.CSTNode, *lines: str) -> Planned:
        """Insert lines above a statement, at its indentation, and above the comments that speak of it."""
        start = self.plan.index.source.line_start(self.plan.offsets(statement)[0])
        return self._insert(start, self.plan.indentation(statement), lines, rank=ABOVE)

    def after(self, statement: cst.CSTNode, *lines: str) -> Planned:
        """Insert lines below a statement, at its indentation."""
        end = self.plan.index.source.lines_end(statement)
        indent = self.plan.indentation(statement)
        return self._insert(end, indent, lines, rank=-len(indent.expandtabs()))

    def _insert(self, offset: int, indent: str, lines: Sequence[str], *, rank: int) -> Planned:
        source = self.plan.index.source
        text = "".join(f"{indent}{line}{source.newline}" if line else source.newline for line in lines)
        if offset == len(source.text) and not source.text.endswith(("\n", "\r")):
            text = source.newline + text.removesuffix(source.newline)
        return self._site(offset, offset, lambda render: text, rank=rank)

    def _claim(self, node: cst.CSTNode) -> None:
        self.plan.claim(node, self.id)

    def _site(
        self,
        start: int,
        end: int,
        write: Callable[[Render], str],
        *,
        wraps: bool = False,
        removes: cst.CSTNode | None = None,
        rank: int = 0,
        lines: bool = False,
        drops: tuple[tuple[cst.CSTNode, ...], frozenset[cst.CSTNode]] | None = None,
    ) -> Planned:
        order = self.plan.next_order()
        self.sites.append(Site(start, end, write, self.id, order, wraps, removes, rank, lines, drops))
        return self


def _holds(site: Site, other: Site) -> bool:
    """Whether a site is a part of one that takes out what it would write."""
    return site.start <= other.start < other.end <= site.end or site.start < other.start < site.end


def _own(change: int) -> Hashable:
    """The unit that a change alone belongs to."""
    return "change", change


class Conflict(Exception):
    """Two passes want to write the same node; the first one keeps it."""


class Plan:
    """All that the passes ask for in one module."""

    def __init__(self, index: ModuleIndex) -> None:
        self.index = index
        self.imports = ImportTable(index)
        self._claimed: dict[int, int] = {}  # the change that writes a node, by the node's ``id``
        self._gone: list[tuple[int, int]] = []  # what stands in such statements: the first number, the last
        self.planned: list[Planned] = []
        self.findings: list[Finding] = []
        self._order = 0
        self._units: frozenset[Hashable] = frozenset()
        self._needs: frozenset[Hashable] = frozenset()

    def change(
        self, rule: Rule, node: cst.CSTNode, message: str, safety: Safety | None = None
    ) -> Planned:
        """Start a change of a rule at a node; add to it what is to be written."""
        made = Planned(self, len(self.planned) + 1, rule, message, node, safety or rule.safety)
        made.units, made.needs = self._units | {_own(made.id)}, self._needs
        self.planned.append(made)
        return made

    @contextmanager
    def together(self, *units: Hashable, needs: Iterable[Hashable] = ()) -> Iterator[None]:
        """Changes that are started inside belong to each of the units: whoever applies one applies all.

        They bring the units that they need with them, but do not come with those.
        """
        before = self._units, self._needs
        self._units, self._needs = before[0].union(units), before[1].union(needs)
        try:
            yield
        finally:
            self._units, self._needs = before

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Changes that are started inside belong to nothing: several others share what they write."""
        before = self._units, self._needs
        self._units = self._needs = frozenset()
        try:
            yield
        finally:
            self._units, self._needs = before

    def writers(self, node: cst.CSTNode) -> set[Hashable]:
        """What a change has to need that makes no sense without those which write a node, or parts of it."""
        return {_own(self._claimed[id(n)]) for n in walk(node) if id(n) in self._claimed}

    def completed(self, ids: Collection[int]) -> set[int]:
        """The changes with all that they belong to or need."""
        chosen = set(ids)
        while True:
            units = {u for p in self.planned if p.id in chosen for u in p.units | p.needs}
            more = {p.id for p in self.planned if p.id in chosen or p.units & units}
            if more == chosen:
                return chosen
            chosen = more

    def binding(self, names: Collection[str]) -> set[int]:
        """The changes whose new text binds one of some names."""
        word = "|".join(map(re.escape, names))
        defined = rf"\b(?:as|def|class|import|for)\s+(?:{word})\b"
        bound = re.compile(rf"(?m)^\s*(?:{word})\s*(?::[^=\n]*)?=(?!=)|{defined}")
        return {site.change for site in self.sites() if bound.search(site.write(lambda part: ""))}

    def about(self, names: Collection[str]) -> set[int]:
        """The changes that write one of some names, or something where it stood."""
        word = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
        source = self.index.source.text
        texts = {s: source[s.start : s.end] + s.write(lambda part: "") for s in self.sites()}
        return {site.change for site, text in texts.items() if word.search(text)}

    def taken(self, node: cst.CSTNode) -> bool:
        """Whether an earlier pass already writes or removes this node (or something around it)."""
        if not self._claimed:
            return False
        return id(node) in self._claimed or any(id(a) in self._claimed for a in self.index.ancestors(node))

    def claims(self, node: cst.CSTNode) -> bool:
        """Whether a change writes or removes this very node."""
        return id(node) in self._claimed

    def claim(self, node: cst.CSTNode, change: int) -> None:
        """Note that a change writes a node; raises ``Conflict`` where another one does."""
        if id(node) in self._claimed:
            raise Conflict(self._claimed[id(node)])
        self._claimed[id(node)] = change
        if STATEMENTS[type(node)]:
            self._gone.append((self.index.number(node), self.index.last(node)))

    def free(self, node: cst.CSTNode) -> bool:
        """Whether an expression may still be written: nobody writes it, nor removes its statement.

        A change of an expression around it does not count: both compose.
        """
        if id(node) in self._claimed:
            return False
        number = self.index.number(node) if self._gone else 0
        return not any(first <= number <= last for first, last in self._gone)

    def report(
        self,
        rule: Rule,
        node: cst.CSTNode,
        message: str,
        advice: str = "",
        *,
        severity: Severity | None = None,
        fixed: bool = False,
    ) -> None:
        """Tell the reader something about a node, once for each rule and place."""
        span = self.index.source.span(node)
        level = severity or rule.severity
        found = Finding(rule.code, rule.name, level, message, span, advice, fixed, rule.once)
        if not any((f.code, f.span, f.message) == (found.code, span, message) for f in self.findings):
            self.findings.append(found)

    def changes(self) -> tuple[Change, ...]:
        span = self.index.source.span
        return tuple(
            Change(p.id, p.rule.code, p.rule.name, p.message, p.safety, _spans(self, p, span(p.node)))
            for p in self.planned
            if p.sites
        )

    def sites(self, ids: Collection[int] | None = None) -> list[Site]:
        """The sites of the chosen changes (of all by default), import lines not among them."""
        return [s for p in self.planned if ids is None or p.id in ids for s in p.sites]

    def wanted_imports(self, ids: Collection[int] | None = None, gone: Sequence[Site] = ()) -> list[str]:
        """The modules that the chosen changes use; not what they write within sites that are ``gone``."""
        kept = {s.change for s in self.sites(ids) if not any(_holds(site, s) for site in gone)}
        chosen = [p for p in self.planned if p.id in kept]
        return sorted({module for p in chosen for module in p.imports})

    def offsets(self, node: cst.CSTNode) -> tuple[int, int]:
        return self.index.source.offsets(node)

    def bracketed(self, node: cst.CSTNode) -> tuple[int, int]:
        """Start and end of an expression with the brackets around it."""
        return _bracketed(self.index, node)

    def next_order(self) -> int:
        self._order += 1
        return self._order

    def indentation(self, statement: cst.CSTNode) -> str:
        return _indentation(self.index, statement)

    def extent(self, statement: cst.CSTNode) -> tuple[int, int, str]:
        """What goes when a statement goes: start, end and the text to leave."""
        line = self.index.parent(statement)
        if isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            if len(line.body) > 1:
                return self._one_of_many(line.body, statement)
            if isinstance(line, cst.SimpleStatementSuite):
                return (*self.offsets(statement), "pass")
            statement = line
        return line_extent(self.index, statement)

    def _one_of_many(
        self, body: Sequence[cst.CSTNode], statement: cst.CSTNode
    ) -> tuple[int, int, str]:
        position = next(i for i, item in enumerate(body) if item is statement)
        start, end = self.offsets(statement)
        if position + 1 < len(body):
            return start, self.offsets(body[position + 1])[0], ""
        return self.offsets(body[position - 1])[1], end, ""


def dropped(
    index: ModuleIndex, items: Sequence[cst.CSTNode], gone: Collection[cst.CSTNode]
) -> Iterator[tuple[int, int, str]]:
    """The pieces of text that go with some items of a list, each with what stays of it."""
    first: int | None = None
    for position, item in enumerate(items):
        if item not in gone:
            first = None
            continue
        first = position if first is None else first
        if position + 1 == len(items) or items[position + 1] not in gone:
            yield _dropped_run(index, items, first, position)


def _dropped_run(
    index: ModuleIndex, items: Sequence[cst.CSTNode], first: int, last: int
) -> tuple[int, int, str]:
    source = index.source
    start, end = source.offsets(items[first])[0], _item_end(index, items[last])
    rest = source.text[end:].lstrip()
    behind = len(source.text) - len(rest) + 1 if rest.startswith(",") else end
    line, line_end = source.line_start(start), source.line_end(behind)
    remark = source.text[behind:line_end].strip()
    if not source.text[line:start].strip() and (not remark or remark.startswith("#")):
        said = lost(source.comments_between(line, line_end), "")
        return line, line_end, "".join(f"{source.text[line:start]}{text}{source.newline}" for text in said)
    if last + 1 < len(items):
        following = source.offsets(items[last + 1])[0]
        if first > 0 and "\n" in source.text[behind:following] and source.text[line:start].strip():
            return line + len(source.text[line:start].rstrip()), behind, ""  # the line ends before them now
        return start, following, ""
    return (_item_end(index, items[first - 1]), end, "") if first > 0 else (start, behind, "")


def _item_end(index: ModuleIndex, item: cst.CSTNode) -> int:
    """Where an item ends; its own extent leaves out annotation and default, or the name behind ``as``."""
    named = getattr(getattr(item, "asname", None), "name", None)
    parts = [item, getattr(item, "annotation", None), getattr(item, "default", None), named]
    return max(_bracketed(index, part)[1] for part in parts if part is not None)


def _bracketed(index: ModuleIndex, node: cst.CSTNode) -> tuple[int, int]:
    left, right = getattr(node, "lpar", ()), getattr(node, "rpar", ())
    offsets = index.source.offsets
    start, end = offsets(node)  # first: a bracket's place is found with what it stands around
    return offsets(left[0])[0] if left else start, offsets(right[-1])[1] if right else end


def _always(text: str) -> Callable[[Render], str]:
    return lambda render: text


def line_extent(index: ModuleIndex, statement: cst.CSTNode) -> tuple[int, int, str]:
    """Start and end of the lines of a statement, and the text to leave: none."""
    source = index.source
    start = source.line_start(source.offsets(next(iter(getattr(statement, "decorators", ())), statement))[0])
    return start, source.lines_end(statement), ""


def _indentation(index: ModuleIndex, statement: cst.CSTNode) -> str:
    source = index.source
    start = source.offsets(statement)[0]
    line = source.text[source.line_start(start) : start]
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def _spans(plan: Plan, planned: Planned, first: Span) -> tuple[Span, ...]:
    own = [plan.index.source.span_of(s.start, s.end) for s in planned.sites if s.end > s.start]
    return tuple(sorted({first, *own}))


def _filled(
    template: str, parts: Sequence[Part], bare: cst.CSTNode | None = None
) -> Callable[[Render], str]:
    def text(part: Part, render: Render) -> str:
        if isinstance(part, str):
            return part
        depth = 0 if part is bare else len(getattr(part, "lpar", ()))
        return "(" * depth + render(part) + ")" * depth

    def write(render: Render) -> str:
        texts = [text(part, render) for part in parts]
        return template.format(*texts) if parts else template

    return write
