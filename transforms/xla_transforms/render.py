"""From the sites of a plan to disjoint edits of the original text."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby

import libcst as cst

from xla_transforms.comments import lost
from xla_transforms.edits import apply
from xla_transforms.findings import Edit
from xla_transforms.plan import ABOVE, Conflict, Piece, Render, Site, dropped, line_extent
from xla_transforms.scopes import ModuleIndex

_LINES = (cst.SimpleStatementLine, cst.SimpleStatementSuite)


class Renderer:
    """Writes the new text of any piece of a module under a chosen set of sites."""

    def __init__(self, index: ModuleIndex, sites: Sequence[Site]) -> None:
        self.source = index.source
        self.index = index
        removed = {s.removes: s for s in sites if s.removes is not None}
        filled = [s for s in sites if s.start == s.end]
        found = dict.fromkeys(map(self._block, removed))
        blocks = [b for b in found if isinstance(b, cst.IndentedBlock)]
        added = [self._pass(block, removed, filled) for block in blocks]
        heads = [b for b in found if isinstance(b, (cst.IndentedBlock, cst.Module))]
        added += [site for block in heads for site in self._blanks(block, removed, sites)]
        chosen = [*self._joined(self._merged(sites)), *(site for site in added if site is not None)]
        # outermost first; wraps of one place go outside its replacement, the later wrap outermost
        self.sites = sorted(
            chosen, key=lambda s: (s.start, _extent(s), not s.wraps, s.rank, -s.order if s.wraps else s.order)
        )

    def edits(self) -> list[Edit]:
        """One edit for each outermost site, in order, disjoint."""
        return self._with_comments(self._between(0, len(self.source.text), list(self.sites)))

    def code(self) -> str:
        return apply(self.source.text, self.edits())

    def _between(self, start: int, end: int, sites: list[Site]) -> list[Edit]:
        found: list[Edit] = []
        position, number = start, 0
        while number < len(sites):
            site = sites[number]
            behind = number + 1
            while behind < len(sites) and (sites[behind].start < site.end or _closes(site, sites[behind])):
                behind += 1
            inner = sites[number + 1 : behind]
            if site.start < position or any(s.end > site.end for s in inner):
                raise Conflict(f"overlapping changes at offset {site.start}")
            first, last = site.start, site.end
            if first == last and site.rank == ABOVE:
                above = self.source.above_comments(first)
                first = last = above if above >= position else first
            found.append(Edit(first, last, self._write(site, inner)))
            position, number = last, behind
        return found

    def _write(self, site: Site, inner: list[Site]) -> str:
        def render(piece: Piece) -> str:
            start, end = piece if isinstance(piece, tuple) else self._extent(piece)
            within = [s for s in inner if start <= s.start and s.end <= end]
            if isinstance(piece, tuple):
                within = [s for s in within if _belongs(s, start, end)]
            edits = self._between(start, end, within)
            if self._whole_lines(piece, start, end):
                edits = self._with_comments(edits)
            return apply(self.source.text, edits, start, end)

        return site.write(render)

    def _whole_lines(self, piece: Piece, start: int, end: int) -> bool:
        if isinstance(piece, tuple):
            return self.source.line_start(start) == start and self.source.line_start(end) == end
        return isinstance(piece, cst.IndentedBlock)

    def _with_comments(self, edits: list[Edit]) -> list[Edit]:
        """The edits of a piece of whole lines, and lines with the comments that would go with them.

        They come above the statement, where they do not seem to speak of the one behind it; those of the last
        ways of one stay at its end.
        """
        added: list[Edit] = []
        for edit in edits:
            gone = lost(self.source.comments_between(edit.start, edit.end), edit.text)
            if gone:
                offset, indent = self._tail(edit) or self._head(edit.start)
                text = "".join(f"{indent}{comment}{self.source.newline}" for comment in gone)
                added.append(Edit(offset, offset, text))
        return sorted([*edits, *added], key=lambda e: (e.start, e.end > e.start)) if added else edits

    def _tail(self, edit: Edit) -> tuple[int, str] | None:
        """The place and the indentation of lines that go, where they end a statement that stays."""
        source = self.source
        statement = self.index.statement_at(edit.start) if not edit.text else None
        if statement is None or source.line_start(edit.start) != edit.start:
            return None
        first, last = source.offsets(statement)[0], source.lines_end(statement)
        inside = source.line_start(first) < edit.start and edit.end == last
        return (edit.start, source.comment_indentation(edit.start)) if inside else None

    def _head(self, offset: int) -> tuple[int, str]:
        """Where the first line of the innermost statement around an offset starts, and its indentation."""
        text = self.source.text
        while text[offset] in " \t\f":
            offset += 1
        statement = self.index.statement_at(offset)
        start = self.source.offsets(statement)[0] if statement is not None else offset
        line = self.source.line_start(start)
        return line, text[line:start]

    def _extent(self, node: cst.CSTNode) -> tuple[int, int]:
        """The piece of text that a node stands for: of an indented block, its whole lines."""
        if not isinstance(node, cst.IndentedBlock):
            return self.source.offsets(node)
        _, end = self.source.offsets(node)  # first: the place of its header is found with its own
        return self.source.offsets(node.header)[1], self.source.line_end(end)

    def _merged(self, sites: Sequence[Site]) -> list[Site]:
        """The sites, what several changes take out of one list in common pieces: items share commas."""
        lists: dict[cst.CSTNode, list[Site]] = defaultdict(list)
        for site in sites:
            if site.drops is not None:
                lists[site.drops[0][0]].append(site)
        several = [group for group in lists.values() if len({s.change for s in group}) > 1]
        merged = {site for group in several for site in group}
        found = [site for site in sites if site not in merged]
        for group in several:
            every = [site.drops for site in group if site.drops is not None]
            gone = frozenset().union(*(ours for _, ours in every))
            for start, end, text in dropped(self.index, every[0][0], gone):
                found.append(Site(start, end, _writes(text), group[0].change, group[0].order))
        return found

    def _joined(self, sites: Sequence[Site]) -> list[Site]:
        """The sites, removals of several small statements of a line as one: each takes a semicolon."""
        lines: dict[cst.CSTNode, list[Site]] = defaultdict(list)
        for site in sites:
            line = self.index.parent(site.removes) if site.removes is not None else None
            if isinstance(line, _LINES) and len(line.body) > 1:
                lines[line].append(site)
        several = {line: group for line, group in lines.items() if len(group) > 1}
        joined = {site for group in several.values() for site in group}
        found = [site for site in sites if site not in joined]
        for line, group in several.items():
            for start, end, text in self._gaps(line, {site.removes for site in group}):
                found.append(Site(start, end, _writes(text), group[0].change, group[0].order))
        return found

    def _gaps(
        self, line: cst.CSTNode, gone: Collection[cst.CSTNode | None]
    ) -> Iterator[tuple[int, int, str]]:
        body: Sequence[cst.CSTNode] = line.body  # type: ignore[attr-defined]
        offsets = self.source.offsets
        if all(statement in gone for statement in body):
            whole = isinstance(line, cst.SimpleStatementLine)
            first, last = offsets(body[0])[0], offsets(body[-1])[1]
            yield line_extent(self.index, line) if whole else (first, last, "pass")
            return
        kept = [i for i, statement in enumerate(body) if statement not in gone]
        for before, after in zip([-1, *kept], [*kept, len(body)], strict=True):
            if after - before > 1 and after < len(body):
                yield offsets(body[before + 1])[0], offsets(body[after])[0], ""
            elif after - before > 1:
                yield offsets(body[before])[1], offsets(body[-1])[1], ""

    def _pass(
        self, block: cst.IndentedBlock, removed: Collection[cst.CSTNode], filled: Sequence[Site]
    ) -> Site | None:
        """``pass`` for a block from which all statements are taken out and into which nothing goes."""
        if not all(self._gone(line, removed) for line in block.body):
            return None
        first = self.source.line_start(self.source.offsets(block.body[0])[0])
        last = self.source.line_end(self.source.offsets(block.body[-1])[1])
        indent = self.source.text[first : self.source.offsets(block.body[0])[0]]
        rank = -len(indent.expandtabs())
        if any(first <= s.start < last or (s.start == last and s.rank == rank) for s in filled):
            return None
        return Site(first, first, _writes(f"{indent}pass{self.source.newline}"), 0, 0, rank=rank)

    def _blanks(
        self, block: cst.IndentedBlock | cst.Module, removed: dict[cst.CSTNode, Site], sites: Sequence[Site]
    ) -> Iterator[Site]:
        """Of the blank lines around and between statements that are taken out the most in one place stay.

        At the head of a block only those above do, at its end those below.
        """
        numbered = groupby(enumerate(block.body), lambda item: self._gone(item[1], removed))
        for run in ([number for number, _ in items] for gone, items in numbered if gone):
            start = line_extent(self.index, block.body[run[0]])[0]
            ends = [self.source.lines_end(block.body[number]) for number in run]
            above, below = self.source.blank_start(start), self.source.blank_end(ends[-1])
            outside = [s.start for s in sites if s.removes is None and not _within(s, start, ends[-1])]
            between = range(min(above + 1, start), max(below, ends[-1] + 1))  # not behind the line above
            if len(run) == len(block.body) or any(place in between for place in outside):
                continue
            gaps = [(above, start), *((end, self.source.blank_end(end)) for end in ends)]
            head = run[0] == 0 and not (isinstance(block, cst.Module) and self.source.text[:start].strip())
            if head or run[-1] + 1 == len(block.body):
                gaps = gaps[1:] if head else gaps[:-1]
            else:
                gaps.remove(max(gaps, key=lambda gap: gap[1] - gap[0]))
            yield from (Site(*gap, _writes(""), 0, 0) for gap in gaps)

    def _gone(self, line: cst.CSTNode, removed: Collection[cst.CSTNode]) -> bool:
        if line in removed:
            return True
        return isinstance(line, cst.SimpleStatementLine) and all(s in removed for s in line.body)

    def _block(self, node: cst.CSTNode) -> cst.CSTNode | None:
        parent = self.index.parent(node)
        return self.index.parent(parent) if isinstance(parent, cst.SimpleStatementLine) else parent


def _extent(site: Site) -> int:
    """Insertions come before what is replaced at their offset, wider places before narrower ones."""
    return -sys.maxsize if site.start == site.end else -site.end


def _within(site: Site, start: int, end: int) -> bool:
    """Whether a site writes a part of a piece of text; what is put before or behind that does not."""
    return start <= site.start and site.end <= end and (site.start < site.end or start < site.start < end)


def _closes(site: Site, other: Site) -> bool:
    """Whether something goes behind the last statement of a site that is of whole statements."""
    return site.lines and other.start == other.end == site.end and other.rank <= 0


def _belongs(site: Site, start: int, end: int) -> bool:
    """Whether an insertion at a piece's border is a part of it: behind its end, or before its start."""
    if site.start != site.end:
        return True
    return not (site.start == start and site.rank <= 0) and not (site.start == end and site.rank > 0)


def _writes(text: str) -> Callable[[Render], str]:
    return lambda render: text
