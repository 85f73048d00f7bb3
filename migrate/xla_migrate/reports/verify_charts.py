"""Which plots the page on two runs shows, and what they say."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from xla_migrate.reports import charts
from xla_migrate.reports import verify_facts as facts
from xla_migrate.reports.axes import drawable, logarithmic
from xla_migrate.reports.plots import Plot, Point, Series
from xla_migrate.verify.drift import Curve, Drift, loss_differences
from xla_migrate.verify.verdict import Performance, Verdict

CURVES = 5
"""Parameters whose drift is drawn over the steps: so many lines can be told apart."""

LONGEST = 60
"""Characters of a name in a legend."""


def losses(verdict: Verdict) -> Plot:
    """The losses of both runs."""
    return charts.losses(verdict.native.losses, verdict.migrated.losses)


def loss_difference(verdict: Verdict) -> Plot:
    """How far they are apart, and how far they may be."""
    curve = loss_differences(verdict)
    return charts.loss_difference(curve.at, curve.differences, curve.bounds)


def worst_drifts(found: Sequence[Drift]) -> Plot | None:
    """The drift over the steps of the parameters that end furthest apart, None where none has steps."""
    worst = [drift for drift in found if drift.by_step.at][:CURVES]
    if not worst:
        return None
    series = [
        Series(shortened(drift.name), _points(drift.by_step, drift.by_step.differences), f"s{number}")
        for number, drift in enumerate(worst)
    ]
    longest = max((drift.by_step for drift in worst), key=lambda curve: len(curve.at))
    series.append(Series("bound", _points(longest, longest.bounds), "bound"))
    if not any(size for drift in worst for size in drift.by_step.differences):
        return Plot("drift", "Drift over the steps", [], note="After each step they were the same numbers.")
    few = f"the {len(worst)} parameters" if len(worst) > 1 else "the parameter"
    note = f"Relative difference of norm and digest after each step, for {few} furthest apart at the end."
    return Plot("drift", "Drift over the steps", series, log=True, note=note)


def costs(performance: Performance) -> list[Plot]:
    """Executions and compilations a step."""
    return charts.costs(performance.executions_by_step, performance.compilations_by_step)


def shortened(name: str) -> str:
    """A name that leaves room for others; the tables have it in full."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[-LONGEST // 2 :]}"


def _points(curve: Curve, numbers: Sequence[float]) -> list[Point]:
    return list(zip(curve.at, numbers, strict=True))


class Bars:
    """The final drift of parameters on one logarithmic scale, a row each, with the bound marked."""

    def __init__(self, found: Sequence[Drift]) -> None:
        bounds = [drift.bound for drift in found]
        self.same = bool(found) and all(drift.final == 0 for drift in found)
        """Whether no parameter differs at all."""
        self._count = len(found)
        self._bound = max(bounds, default=0.0)
        self._axis = logarithmic([*(drift.final for drift in found), *bounds])

    @property
    def caption(self) -> str:
        """What the column says of its scale."""
        ends = [text for _, text in self._axis.ticks]
        return f"{ends[-1]} to {ends[0]}" if ends else ""

    @property
    def note(self) -> str:
        if self.same:
            return f"{facts.count(self._count, 'parameter')}, each the same numbers in both runs."
        return (
            f"Relative difference of each final parameter, on a logarithmic scale; the dashed line is the"
            f" bound, {facts.relative(self._bound)}."
        )

    def svg(self, drift: Drift) -> str:
        """One row: a stem with a dot, and the bound."""
        root = ET.Element("svg", {"class": "scale", "aria-hidden": "true", "width": "100%", "height": "16"})
        limit = self._percent(drift.bound)
        ET.SubElement(root, "line", {"class": "limit", "x1": limit, "x2": limit, "y1": "-3", "y2": "19"})
        if drift.final is None:
            return ET.tostring(root, encoding="unicode")
        end = self._percent(drift.final if drawable(drift.final) else math.inf)
        prefix = "over-" if drift.exceeds else ""
        ET.SubElement(root, "line", {"class": f"{prefix}stem", "x1": "0", "x2": end, "y1": "8", "y2": "8"})
        ET.SubElement(root, "circle", {"class": f"{prefix}dot", "cx": end, "cy": "8", "r": "3.5"})
        return ET.tostring(root, encoding="unicode")

    def _percent(self, number: float) -> str:
        return f"{100 * self._axis.place(min(number, 1e300)):.2f}%"
