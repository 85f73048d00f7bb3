"""What a migration has to say: findings, rules, severities and the places they point at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum


class Severity(IntEnum):
    """How much a finding matters; the order is meaningful (``ERROR`` is the greatest)."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def label(self) -> str:
        return self.name.lower()


class Safety(str, Enum):
    """Whether a rule's change keeps the behaviour, may alter it, or is only shown."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


class Effort(str, Enum):
    """What it takes a person to deal with what a rule tells: a line, a place in the script, or its design."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True)
class Rule:
    """One thing that the tool does or reports.

    ``code`` is stable (``XLA101``), ``name`` is the readable twin (``device-name``), ``summary`` one
    sentence, ``why`` the reason with its upstream source. ``severity`` is that of its findings; ``once`` says
    that a run reports it at one place alone; ``by_hand`` is its effort where that is not the usual one.
    """

    code: str
    name: str
    summary: str
    why: str
    severity: Severity = Severity.INFO
    safety: Safety = Safety.SAFE
    once: bool = False
    by_hand: Effort | None = None

    @property
    def effort(self) -> Effort:
        """What is left to do by hand: little where the tool makes the change itself, else by severity."""
        if self.by_hand is not None:
            return self.by_hand
        if self.safety is not Safety.DISPLAY:
            return Effort.LOW if self.safety is Safety.SAFE else Effort.MEDIUM
        return {Severity.INFO: Effort.LOW, Severity.WARNING: Effort.MEDIUM}.get(self.severity, Effort.HIGH)


@dataclass(frozen=True, order=True)
class Span:
    """A piece of the decoded source text.

    ``start`` and ``end`` are offsets in characters, ``end`` exclusive. Lines and columns count from 1;
    ``end_column`` is exclusive.
    """

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Finding:
    """Something the reader of the migrated script must know.

    ``fixed`` tells whether the tool already wrote the change that the message describes; ``advice`` says
    what to do where it did not. ``once`` is that of the rule.
    """

    code: str
    name: str
    severity: Severity
    message: str
    span: Span
    advice: str = ""
    fixed: bool = False
    once: bool = False


@dataclass(frozen=True)
class Edit:
    """Replace ``source[start:end]`` by ``text``; offsets count characters of the decoded text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Change:
    """One planned change, made by one rule at one or more places of the source."""

    id: int
    code: str
    name: str
    message: str
    safety: Safety
    spans: tuple[Span, ...]
