"""The loops over epochs: in each iteration a data loader is gone through anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.elsewhere import given, text_at
from xla_transforms.roles.structure import loaders_behind
from xla_transforms.tree import LOOPS, body_of, walk

_DEEP = 5


@dataclass(eq=False)
class Epoch:
    """A loop over epochs, seen from a loader.

    ``loader`` is what the loader is called at the head of the loop, ``name`` the same as a node; empty where
    it has no name there. ``number`` is the script's own count of epochs, if it has one.
    """

    loop: cst.For | cst.While
    loader: str
    name: cst.BaseExpression
    number: str


class Epochs:
    """Finds the loops over epochs of one program."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles

    def around(self, loop: cst.For, loader: cst.BaseExpression) -> list[Epoch]:
        """The loops over epochs around one over a loader, here or where its function is called."""
        return list(self._around(loop, loader, 0))

    def _around(self, node: cst.CSTNode, loader: cst.BaseExpression, depth: int) -> Iterator[Epoch]:
        loop, index = self._loop(node), self.roles.index(node)
        if loop is not None:
            yield Epoch(loop, self._called(loader, loop), loader, self.number(loop))
            return
        function = index.function_of(node)
        for site, taken in callers(self.roles, function) if function is not None and depth < _DEEP else ():
            value = given(self.roles, loader, function, site, taken) if function is not None else None
            behind = loaders_behind(self.roles, value) if value is not None else []
            if len(behind) == 1:
                yield from self._around(site, behind[0], depth + 1)

    def _loop(self, node: cst.CSTNode) -> cst.For | cst.While | None:
        """The loop around a node in its function; one over a few words (phases) does not count."""
        for parent in self.roles.index(node).ancestors(node):
            if isinstance(parent, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
                return None
            if isinstance(parent, LOOPS) and not _over_words(parent):
                assert isinstance(parent, (cst.For, cst.While))
                return parent
        return None

    def _called(self, loader: cst.BaseExpression, loop: cst.For | cst.While) -> str:
        index = self.roles.index(loop)
        here = self.roles.index(loader) is index
        names = [n for n in walk(loader) if isinstance(n, cst.Name)] if here else []
        if any(index.within(b.node, loop) for n in names for b in self.roles.bindings(n)):
            return ""
        return text_at(self.roles, loader, loop.body)

    def number(self, loop: cst.For | cst.While) -> str:
        """The variable that counts the iterations: of ``range``, or what a ``while`` asks for and raises."""
        if isinstance(loop, cst.For):
            target = loop.target
            counts = isinstance(target, cst.Name) and self.roles.kinds(target) == {Kind.NUMBER}
            return target.value if counts and isinstance(target, cst.Name) else ""
        asked = {n.value for n in walk(loop.test) if isinstance(n, cst.Name)}
        lines = (s for s in body_of(loop) if isinstance(s, cst.SimpleStatementLine))
        smalls = (small for line in lines for small in line.body)
        return next((name for small in smalls if (name := _raised(small)) in asked), "")


def _raised(small: cst.CSTNode) -> str:
    """``epoch`` for ``epoch += 1``."""
    raises = isinstance(small, cst.AugAssign) and isinstance(small.operator, cst.AddAssign)
    target = small.target if isinstance(small, cst.AugAssign) and raises else None
    return target.value if isinstance(target, cst.Name) else ""


def _over_words(loop: cst.CSTNode) -> bool:
    """``for phase in ["train", "val"]``."""
    iterable = loop.iter if isinstance(loop, cst.For) else None
    elements = iterable.elements if isinstance(iterable, (cst.List, cst.Tuple)) else ()
    return bool(elements) and all(isinstance(e.value, cst.SimpleString) for e in elements)
