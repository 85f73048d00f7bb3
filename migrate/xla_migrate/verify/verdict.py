"""What comparing two runs came to. Plain data, made by ``compare`` and shown by the reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from xla_migrate.verify.trace import HostRead, Trace

if TYPE_CHECKING:
    from xla_migrate.api import Result
    from xla_migrate.verify.compare import Bounds


class Outcome(Enum):
    """The answer in a word, and the exit status that stands for it."""

    EQUAL = "equal"
    WITHIN = "within tolerance"
    DIVERGED = "diverged"
    NOT_COMPARABLE = "not comparable"

    @property
    def status(self) -> int:
        """0 the same training, 1 another one, 2 no answer."""
        return {"diverged": 1, "not comparable": 2}.get(self.value, 0)


@dataclass(frozen=True)
class Divergence:
    """Something in which two runs differ.

    ``kind`` is the quantity (``loss``, ``gradient norm``, ``parameter``, ``learning rate``, ``batch``,
    ``steps``, ...); ``where`` says at which step, in words; ``name`` is that of a parameter, else empty.
    ``difference`` and ``bound`` are relative, None where there is no number to compare. ``cause`` is
    what such a difference means, where that is known: what to look for in the migrated script.
    """

    kind: str
    where: str
    native: object
    migrated: object
    difference: float | None = None
    bound: float | None = None
    name: str = ""
    cause: str = ""

    @property
    def exceeds(self) -> bool:
        """Whether this is a real divergence: no number to compare, or a difference beyond its bound
        (or not a number)."""
        return self.difference is None or self.bound is None or not self.difference <= self.bound

    def __str__(self) -> str:
        what = f"{self.kind} of {self.name}" if self.name else self.kind
        text = f"{what}, {self.where}: native {self.native}, migrated {self.migrated}"
        if self.difference is not None:
            text += f" (relative difference {self.difference:.2g}, bound {self.bound:.2g})"
        return f"{text}: {self.cause}" if self.cause else text


@dataclass(frozen=True)
class Comparison:
    """The numbers of two runs side by side: ``first`` is None where they agree, ``others`` are the
    first divergences of other quantities. The worst differences are relative, over all that was compared."""

    first: Divergence | None
    others: tuple[Divergence, ...] = ()
    worst_loss: float = 0.0
    worst_parameters: float = 0.0
    losses: int = 0

    @property
    def agree(self) -> bool:
        """Whether nothing differs beyond its bound."""
        return self.first is None

    def __str__(self) -> str:
        if self.first is not None:
            return f"first divergence: {self.first}"
        return (
            f"{self.losses} losses agree within {self.worst_loss:.1g}, "
            f"final parameters within {self.worst_parameters:.1g}"
        )


@dataclass(frozen=True)
class Performance:
    """What the migrated run cost, and what is wrong with that, in words (``problems``).

    Entry k of the lists by step belongs to what happened between the optimizer steps k + 1 and k + 2.
    ``settled`` is the step after which nothing was compiled any more, None where it never stopped or no
    step was taken; ``fallbacks`` are the calls of operators that the CPU computed, by name;
    ``recompiled`` says what had changed when something was compiled again.
    """

    iterations: int
    executions: int
    executions_by_step: list[int] = field(default_factory=list)
    compilations_by_step: list[int] = field(default_factory=list)
    settled: int | None = None
    reads: list[HostRead] = field(default_factory=list)
    fallbacks: dict[str, int] = field(default_factory=dict)
    recompiled: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """The outcome with everything it rests on; ``reason`` is one sentence. ``counted`` is the run
    in which executions were counted, ``performance`` what it showed; both None where there was none.
    ``floor`` is the largest relative difference of the losses of two native runs that differ only in
    rounding, None where it was not measured. ``replicas`` lists what is wrong between replicas. ``bounds``
    are those that the comparison used, ``ignored`` the parameters that it was told to leave out."""

    outcome: Outcome
    reason: str
    native: Trace
    migrated: Trace
    comparison: Comparison | None = None
    counted: Trace | None = None
    performance: Performance | None = None
    floor: float | None = None
    replicas: tuple[str, ...] = ()
    bounds: Bounds | None = None
    ignored: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    """What else the user must know: files that stayed native, what to do about a run that failed."""
    results: Mapping[str, Result] = field(default_factory=dict)
    """The migration of each file of the program, by path; empty where nothing was migrated."""
