"""The nodes of a module in the order of its text, found by their type in any part of it without a walk."""

from __future__ import annotations

import bisect
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeVar, overload

import libcst as cst

from xla_transforms.tree import CODE_OF_ITS_OWN

Node = TypeVar("Node", bound=cst.CSTNode)
Kind = type[cst.CSTNode]


class Ordered:
    """Those that hold others stand before them. A node's number is how many stand in front of it."""

    def __init__(self) -> None:
        self.nodes: dict[type, list[cst.CSTNode]] = defaultdict(list)
        self._nodes: list[cst.CSTNode] = []
        self._above: list[int] = []  # the number of what directly holds each
        self._by_kinds: dict[tuple[type, ...], tuple[list[int], list[cst.CSTNode]]] = {}

    @abstractmethod
    def number(self, node: cst.CSTNode) -> int: ...

    def _put(self, node: cst.CSTNode, above: int) -> None:
        self.nodes[type(node)].append(node)
        self._nodes.append(node)
        self._above.append(above)

    def all(self, *kinds: Kind) -> Iterator[cst.CSTNode]:
        """Every node of the given types, in source order within a type."""
        for kind in kinds:
            yield from self.nodes[kind]

    def below(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """A part of the module and everything below it: what ``walk`` gives."""
        first = self.number(node)
        return self._nodes[first : self._last[first] + 1]

    @overload
    def inside(self, node: cst.CSTNode, kind: type[Node], /) -> list[Node]: ...
    @overload
    def inside(self, node: cst.CSTNode, /, *kinds: Kind) -> list[cst.CSTNode]: ...
    def inside(self, node: cst.CSTNode, /, *kinds: Kind) -> Sequence[cst.CSTNode]:
        """The nodes of some types in a part of the module, that part among them, in source order.

        What ``walk`` would find, at the cost of what is found and not of all that is looked through.
        """
        numbers, found = self._of(kinds)
        number = self.number(node)
        first = bisect.bisect_left(numbers, number)
        return found[first : bisect.bisect_right(numbers, self._last[number], first)]

    @overload
    def own(self, node: cst.CSTNode, kind: type[Node], /) -> Iterator[Node]: ...
    @overload
    def own(self, node: cst.CSTNode, /, *kinds: Kind) -> Iterator[cst.CSTNode]: ...
    def own(self, node: cst.CSTNode, /, *kinds: Kind) -> Iterator[cst.CSTNode]:
        """The same without what stands in the functions, lambdas and classes further in."""
        behind = -1
        for inner in self.inside(node, *kinds, *CODE_OF_ITS_OWN):
            kind, number = type(inner), self.number(inner)
            if number > behind:
                if kind in kinds:
                    yield inner
                if kind in CODE_OF_ITS_OWN and inner is not node:
                    behind = self._last[number]

    def last(self, node: cst.CSTNode) -> int:
        """The number of the last node below one, or its own."""
        return self._last[self.number(node)]

    def _of(self, kinds: tuple[Kind, ...]) -> tuple[list[int], list[cst.CSTNode]]:
        """All nodes of some types, in source order, behind their numbers."""
        if kinds not in self._by_kinds:
            found = self.nodes[kinds[0]]
            if len(kinds) > 1:
                found = sorted((node for kind in {*kinds} for node in self.nodes[kind]), key=self.number)
            self._by_kinds[kinds] = [self.number(node) for node in found], found
        return self._by_kinds[kinds]

    @cached_property
    def _last(self) -> list[int]:
        """The number of the last node below each."""
        found = list(range(len(self._nodes)))
        for number in range(len(found) - 1, 0, -1):
            above = self._above[number]
            if found[above] < found[number]:
                found[above] = found[number]
        return found
