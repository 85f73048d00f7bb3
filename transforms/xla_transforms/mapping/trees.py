"""What a program does from its entry on, in its order: functions, loops, and the parts in them."""

from __future__ import annotations

import libcst as cst

from xla_transforms.loops.effects import Effect, Effects
from xla_transforms.mapping.feeds import sources
from xla_transforms.mapping.makers import Makers, text_of
from xla_transforms.mapping.parts import Node
from xla_transforms.mapping.reach import Code, Reach, own
from xla_transforms.roles import Kind
from xla_transforms.tree import FUNCTIONS, LOOPS, children

_WORDS = {Effect.FORWARD: "forward", Effect.BACKWARD: "backward", Effect.STEP: "step"}
_SILENT = frozenset({"rank"})  # asked everywhere, and no step of what a program does
_TOLD = 40  # functions deep is deeper than anybody reads, and than Python recurses gladly


class Trees:
    """Builds them for one program; what holds no part is left out."""

    def __init__(self, reach: Reach, makers: Makers, effects: Effects) -> None:
        self.reach, self.makers, self.effects = reach, makers, effects
        self._holding: set[cst.CSTNode] | None = None
        self._told: set[cst.CSTNode] = set()

    def grow(self, at: cst.CSTNode, started: str, code: tuple[cst.CSTNode, ...]) -> Node:
        """The tree of one entry."""
        self._told = set()
        self._holding = self._holders(self.reach.everything(*code))
        root = Node("entry", self.makers.place(at), started)
        for piece in code:
            self._grow(piece, root, 0)
        return root

    def _holders(self, reached: list[cst.CSTNode]) -> set[cst.CSTNode]:
        """The pieces of code in which a part stands, and those that come to run one."""
        found = {code for code in reached if any(map(self._shown, self.reach.calls(code)))}
        size = -1
        while size != len(found):
            size = len(found)
            found |= {code for code in reached if not found.isdisjoint(self.reach.direct(code))}
        return found

    def _shown(self, call: cst.Call) -> bool:
        part = self.makers.at.get(call)
        return part is not None and part.role not in _SILENT

    def _grow(self, code: cst.CSTNode, parent: Node, depth: int) -> None:
        if isinstance(code, FUNCTIONS):
            self._inside(code.body, parent, depth)
        else:
            self._inside(code, parent, depth)

    def _inside(self, node: cst.CSTNode, parent: Node, depth: int) -> None:
        """Walk one piece of code in the order in which it runs, as near as the text shows it."""
        if isinstance(node, (*FUNCTIONS, cst.ClassDef)) or self.reach.roles.dead(node):
            return
        if isinstance(node, LOOPS):
            self._loop(node, parent, depth)
            return
        for child in children(node):
            self._inside(child, parent, depth)
        if isinstance(node, cst.Call):
            self._call(node, parent, depth)

    def _call(self, call: cst.Call, parent: Node, depth: int) -> None:
        part = self.makers.at.get(call)
        if part is not None and self._shown(call):
            parent.children.append(Node("part", part.place, part.text, part.role, part.id))
        for function in self.reach.called(call):
            if function in (self._holding or ()) and depth < _TOLD:
                self._function(function, parent, depth)

    def _function(self, function: Code, parent: Node, depth: int) -> None:
        name = function.name.value if isinstance(function, cst.FunctionDef) else "lambda"
        owner = self.reach.roles.index(function).class_of(function)
        shown = f"{owner.name.value}.{name}" if owner is not None else name
        node = Node("function", self.makers.place(function), f"{shown}()", again=function in self._told)
        parent.children.append(node)
        if not node.again:
            self._told.add(function)
            self._grow(function, node, depth + 1)

    def _loop(self, loop: cst.CSTNode, parent: Node, depth: int) -> None:
        assert isinstance(loop, (cst.For, cst.While))
        effect = self.effects.of_loop(loop)
        head = loop.test if isinstance(loop, cst.While) else loop.iter
        words = [word for flag, word in _WORDS.items() if effect & flag]
        loaders = sources(self.reach, loop) if effect else []
        fed = [i for loader in loaders for i in self.makers.origins(loader, Kind.LOADER)]
        node = Node("loop", self.makers.place(loop), self._head(loop), ", ".join(words), uses=tuple(fed))
        self._inside(head, parent, depth)
        for part in (loop.body, *([loop.orelse] if loop.orelse is not None else [])):
            self._inside(part, node, depth)
        if effect or any(n.kind != "part" for n in node.children):
            parent.children.append(node)
        else:  # a loop that only makes things, one after the other
            parent.children.extend(node.children)

    def _head(self, loop: cst.For | cst.While) -> str:
        roles = self.reach.roles
        if isinstance(loop, cst.While):
            return f"while {text_of(roles, loop.test)}"
        return f"for {text_of(roles, loop.target)} in {text_of(roles, loop.iter)}"


def loops_in(code: cst.CSTNode) -> list[cst.For | cst.While]:
    """The loops of a piece of code itself."""
    return [node for node in own(code) if isinstance(node, (cst.For, cst.While))]
