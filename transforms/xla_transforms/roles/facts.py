"""What can be known about an expression: facts, each a kind with a little detail."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import cache, lru_cache
from typing import NamedTuple
from zlib import crc32

import libcst as cst

from xla_transforms.tree import children

_WORDS = 100  # nodes that are looked at to tell a node from others
_LABELS = 1 << 14  # nodes whose labels are kept


class Kind(Enum):
    """What an expression is, in the field's own words."""

    __hash__ = object.__hash__  # that of Enum is a call into Python, made for every fact

    def __init__(self, word: str) -> None:
        self.number = crc32(word.encode())

    NAME = "name"  # something imported; detail is its dotted path
    FUNCTION = "function"  # defined in the program; node is its definition, detail "bound" for methods
    CLASS = "class"  # defined in the program; node is its definition
    INSTANCE = "instance"  # of a class of the program; node is the class
    MODEL = "model"  # an nn.Module, losses included; detail is the class's dotted path or name
    PARAMETERS = "parameters"  # what model.parameters() gives
    OPTIMIZER = "optimizer"  # detail is the class's dotted path; node the call that makes it
    SCHEDULER = "scheduler"
    SCALER = "scaler"  # a gradient scaler; node the call that makes it
    LOADER = "loader"  # a DataLoader; node the call that makes it
    DATASET = "dataset"
    SAMPLER = "sampler"
    DEVICE = "device"  # a torch.device; detail "cuda", "cpu", ...
    DTYPE = "dtype"  # a torch.dtype that is not written out: ``x.dtype``
    TENSOR = "tensor"  # detail "device", "host", "batch" (fresh from a loader) or "" (unknown place)
    STATE = "state"  # a state_dict or a loaded checkpoint
    OPTION = "option"  # a command-line option; node the add_argument call, detail its destination
    ARGUMENTS = "arguments"  # the namespace that parse_args() gives; node the call
    PARSER = "parser"
    WRITER = "writer"  # TensorBoard, W&B, a logger, a progress bar: something that shows values
    EVENT = "event"  # a torch.cuda.Event
    STREAM = "stream"  # a torch.cuda.Stream
    SEQUENCE = "sequence"  # a tuple, list or set; node the literal or comprehension
    MAPPING = "mapping"  # a dict; node the literal
    ITERATOR = "iterator"  # something that yields the elements of the expression ``node``
    STRING = "string"  # detail is the value where it is constant
    NUMBER = "number"  # detail "host", "shape", or a rank's word (see ``roles.ranks``)
    ENVIRONMENT = "environment"  # the text of a launcher's variable; detail what its number is
    BOOLEAN = "boolean"
    NONE = "none"
    UNKNOWN = "unknown"


class Fact(NamedTuple):
    """One thing an expression may be. Two facts of one expression mean: one or the other.

    Facts are looked at in the order of a set, and what is asked first may be answered without what is asked
    next, so their hash is made of what the source says: of no address, and of no string's own hash.
    """

    kind: Kind
    detail: str = ""
    node: cst.CSTNode | None = None

    def __hash__(self) -> int:
        return hash((self.kind.number, _number(self.detail), _label(self.node)))


@cache
def _number(text: str) -> int:
    return crc32(text.encode())


@lru_cache(_LABELS)
def _label(node: cst.CSTNode | None) -> int:
    """A number for a node that is the same in every run; few other nodes of a program have it, too."""
    if node is None:
        return 0
    words, stack = list[str](), [node]
    for _ in range(_WORDS):
        if stack:
            current = stack.pop()
            inner = children(current)
            stack += reversed(inner)
            words += () if inner else [str(getattr(current, "value", type(current).__name__))]
    return _number(" ".join(words))


Facts = frozenset[Fact]
NOTHING: Facts = frozenset()
UNKNOWN: Facts = frozenset({Fact(Kind.UNKNOWN)})


def fact(kind: Kind, detail: str = "", node: cst.CSTNode | None = None) -> Facts:
    return frozenset({Fact(kind, detail, node)})


def says(facts: Iterable[Fact]) -> bool:
    """Whether any fact says something."""
    return any(f.kind is not Kind.UNKNOWN and f.kind is not Kind.NONE for f in facts)


def known(facts: Facts) -> Facts:
    """The facts that say something; ``None`` as an initial value says nothing about a role."""
    said = [f for f in facts if f.kind is not Kind.UNKNOWN and f.kind is not Kind.NONE]
    return facts if len(said) == len(facts) else frozenset(said)


def of_kind(facts: Facts, kind: Kind) -> Facts:
    found = [f for f in facts if f.kind is kind]
    return facts if len(found) == len(facts) else frozenset(found)


def together(parts: list[Facts]) -> Facts:
    """All facts of the parts: one of these where it has them all, so that it is held once."""
    largest = max(parts, key=len, default=NOTHING)
    return largest if all(part is largest or part <= largest for part in parts) else NOTHING.union(*parts)
