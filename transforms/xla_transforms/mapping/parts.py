"""What a map of a project consists of: plain data, fit for JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

QUESTIONS = ("entry", "loader", "step", "save", "device")
"""What has to be known of a program before it can be trusted to be migrated as a whole."""


@dataclass(frozen=True, order=True)
class Place:
    """A place in a file; lines and columns count from 1."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Part:
    """One thing with a role: where it stands, what is written there, and what it belongs to.

    ``role`` is a word of ``makers.ROLES`` or ``loss``, ``wrapper``, ``step``, ``backward``, ``save``,
    ``load``, ``log``, ``rank``, ``collective``; ``name`` what it is assigned to, ``detail`` its class or
    its kind, ``uses`` the numbers of other parts: of a step those of its optimizers, of an optimizer those
    of its models, of a loader its sampler.
    """

    id: int
    role: str
    place: Place
    function: str
    text: str
    name: str = ""
    detail: str = ""
    uses: tuple[int, ...] = ()


@dataclass(frozen=True)
class Unknown:
    """Something that does not resolve: which of the questions it leaves open, and why."""

    question: str
    place: Place
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place} {self.text}: {self.reason}"


@dataclass
class Node:
    """A piece of what a program does, in the order in which it does it.

    ``kind`` is ``entry``, ``function``, ``loop`` (``text`` its head, ``detail`` what an iteration does,
    ``uses`` the numbers of the loaders that feed it) or ``part`` (``part`` its number); ``again`` tells that
    a function is told of further up.
    """

    kind: str
    place: Place
    text: str
    detail: str = ""
    part: int | None = None
    uses: tuple[int, ...] = ()
    again: bool = False
    children: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """Whether one of the questions resolves: with what it resolves to, else with what is unknown.

    ``needed`` is false where a program has nothing of the kind: one that saves nothing, say.
    """

    resolved: bool
    told: str
    needed: bool = True
    unknown: tuple[Unknown, ...] = ()


@dataclass
class ProgramMap:
    """What one program does from its entry on; ``entry`` is ``None`` where nothing in the project starts it.

    ``started`` says how a person starts it, ``answers`` has an answer to each of ``QUESTIONS``.
    """

    name: str
    started: str
    tree: Node
    answers: dict[str, Answer]

    @property
    def resolved(self) -> bool:
        return all(answer.resolved for answer in self.answers.values())


@dataclass
class ProjectMap:
    """The programs of a project that train, all parts that were found, and the files that train nothing."""

    programs: list[ProgramMap] = field(default_factory=list)
    parts: dict[int, Part] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def share(self) -> tuple[int, int]:
        """How many of the programs resolve in every question, of how many."""
        return sum(program.resolved for program in self.programs), len(self.programs)
