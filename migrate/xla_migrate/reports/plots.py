"""Plots of numbered series as inline SVG.

The lines are drawn in a box that stretches with the page while texts keep their size, so a plot is as
legible on a telephone as on a wide screen. Colours and dashes are those of the page's stylesheet, by
class. What cannot be drawn (not a number, infinite) is marked at the upper edge; None is a gap.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from xla_migrate.reports.axes import Axis, along, drawable, linear, logarithmic

Point = tuple[int, float | None]
BINS = 400
"""A series of more than two points a bin is drawn by the lowest and highest point of each bin."""

CROSS, NOTHING = "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"
BARS, MARKS, ROWS = 150, 60, 40
SIDE = 1000.0
"""The units of the box that stretches."""


@dataclass(frozen=True)
class Series:
    """One line: its numbers by step. ``style`` is its class in the stylesheet."""

    label: str
    points: Sequence[Point]
    style: str


@dataclass(frozen=True)
class Plot:
    """What is to be drawn. ``key`` is unique on the page; ``unit`` names what the horizontal axis counts."""

    key: str
    title: str
    series: Sequence[Series]
    unit: str = "step"
    log: bool = False
    bars: bool = False
    note: str = ""
    height: int = 220

    @property
    def empty(self) -> bool:
        return not any(number is not None for one in self.series for _, number in one.points)

    @cached_property
    def x(self) -> Axis:
        numbers = [at for one in self.series for at, _ in one.points]
        axis = along(min(numbers, default=1), max(numbers, default=1))
        return replace(axis, low=axis.low - 0.5, high=axis.high + 0.5) if self.bars else axis

    @cached_property
    def y(self) -> Axis:
        numbers = [number for one in self.series for _, number in one.points]
        if self.bars:
            return linear(numbers, whole=True, from_zero=True)
        return logarithmic(numbers) if self.log else linear(numbers)


def svg(plot: Plot) -> str:
    """The plot as one ``svg`` element with a title and a description."""
    names = f"{plot.key}-title {plot.key}-text"
    root = ET.Element("svg", {
        "class": "plot", "role": "img", "aria-labelledby": names, "width": "100%", "height": str(plot.height),
    })  # fmt: skip
    ET.SubElement(root, "title", {"id": f"{plot.key}-title"}).text = plot.title
    ET.SubElement(root, "desc", {"id": f"{plot.key}-text"}).text = description(plot)
    _draw_axes(root, plot)
    box = ET.SubElement(root, "svg", {
        "viewBox": f"0 0 {SIDE:g} {SIDE:g}", "preserveAspectRatio": "none", "width": "100%", "height": "100%",
        "class": "box",
    })  # fmt: skip
    for one in plot.series:
        for kind, path in _paths(plot, one):
            ET.SubElement(box, "path", {"class": f"{kind} {one.style}", "d": path})
    for one in plot.series:
        _mark_undrawable(root, plot, one)
    return ET.tostring(root, encoding="unicode")


def description(plot: Plot) -> str:
    """The plot in words, for those who do not see it."""
    return " ".join([plot.note, *(_described(one, plot.unit) for one in plot.series)]).strip()


def _described(one: Series, unit: str) -> str:
    drawn = [(at, number) for at, number in one.points if number is not None and drawable(number)]
    if not drawn:
        return f"{one.label}: nothing to draw."
    (first, start), (last, end) = drawn[0], drawn[-1]
    values = [number for _, number in drawn]
    return (
        f"{one.label}: {start:.4g} at {unit} {first}, {end:.4g} at {unit} {last},"
        f" lowest {min(values):.4g}, highest {max(values):.4g}."
    )


def undrawable(one: Series, unit: str) -> str:
    """A word on the numbers that are none, empty where there are none of them."""
    found = [at for at, number in one.points if number is not None and not drawable(number)]
    if not found:
        return ""
    what = "is not a finite number" if len(found) == 1 else f"is {len(found):,} times not a finite number"
    return f"{one.label} {what}, first at {unit} {found[0]:,} (marked {CROSS} above)."


def table(plot: Plot) -> list[list[str]]:
    """The numbers behind a plot: a row a step or, where these are many, a row a range of steps."""
    numbers = sorted({at for one in plot.series for at, _ in one.points})
    size = max(1, math.ceil(len(numbers) / ROWS))
    held = [dict(one.points) for one in plot.series]
    rows = []
    for start in range(0, len(numbers), size):
        part = numbers[start : start + size]
        steps = f"{part[0]:,}" if len(part) == 1 else f"{part[0]:,} to {part[-1]:,}"
        rows.append([steps, *(_range([one.get(at) for at in part]) for one in held)])
    return rows


def _range(numbers: Sequence[float | None]) -> str:
    found = [number for number in numbers if number is not None]
    finite = [number for number in found if math.isfinite(number)]
    texts = dict.fromkeys(f"{number:.5g}" for number in (min(finite), max(finite))) if finite else {}
    broken = dict.fromkeys(f"{number}" for number in found if not math.isfinite(number))
    return ", ".join(filter(None, [" to ".join(texts), *broken])) or NOTHING


def decimate(points: Sequence[Point], bins: int = BINS) -> list[Point]:
    """The lowest and the highest point of each bin, in their order; a gap stays where a bin holds
    nothing to draw. Short series stay as they are."""
    if len(points) <= 2 * bins:
        return list(points)
    first, last = points[0][0], points[-1][0]
    width = max(1, last - first) / bins
    groups: dict[int, list[tuple[int, float]]] = {}
    for at, number in points:
        group = groups.setdefault(min(bins - 1, int((at - first) / width)), [])
        if number is not None and drawable(number):
            group.append((at, number))
    kept: list[Point] = []
    for number, group in sorted(groups.items()):
        ends = {min(group, key=lambda p: p[1]), max(group, key=lambda p: p[1])} if group else ()
        kept += sorted(ends) or [(int(first + number * width), None)]
    return kept


def _draw_axes(root: ET.Element, plot: Plot) -> None:
    for number, text in plot.y.ticks:
        place = _percent(1 - (plot.y.place(number)))
        ET.SubElement(root, "line", {"class": "grid", "x1": "0", "x2": "100%", "y1": place, "y2": place})
        label = {"class": "tick y", "x": "-8", "y": place, "dy": "0.32em", "text-anchor": "end"}
        ET.SubElement(root, "text", label).text = text
    for number, text in plot.x.ticks:
        place = _percent(plot.x.place(number))
        label = {"class": "tick x", "x": place, "y": "100%", "dy": "1.5em", "text-anchor": "middle"}
        ET.SubElement(root, "text", label).text = text


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _paths(plot: Plot, one: Series) -> list[tuple[str, str]]:
    """Class and path of what is drawn: bars, or connected points with those that stand alone as dots
    (lines of no length with round ends, which the stretching of the box leaves round)."""
    if plot.bars:
        return [("bar", _bars(plot, one))]
    runs = list(_runs(plot, one))
    lines = "".join("M" + "L".join(run) for run in runs if len(run) > 1)
    dots = "".join(f"M{run[0]}l0 0" for run in runs if len(run) == 1)
    return [(kind, path) for kind, path in (("line", lines), ("dot", dots)) if path]


def _runs(plot: Plot, one: Series) -> Iterator[list[str]]:
    """The places of points that follow each other without a gap."""
    run: list[str] = []
    for at, number in [*decimate(one.points), (0, None)]:
        if number is not None and drawable(number):
            run.append(f"{SIDE * plot.x.place(at):.1f} {SIDE * (1 - plot.y.place(number)):.1f}")
        elif run:
            yield run
            run = []


def _bars(plot: Plot, one: Series) -> str:
    return "".join(
        f"M{left:.2f} {SIDE:g}V{SIDE * (1 - plot.y.place(number)):.1f}H{right:.2f}V{SIDE:g}z"
        for left, right, number in _columns(plot, one)
        if number > 0
    )


def _columns(plot: Plot, one: Series) -> Iterator[tuple[float, float, float]]:
    """Left, right and height; many steps share a column, which is as high as the highest of them."""
    first, last = math.ceil(plot.x.low), math.floor(plot.x.high)
    size = max(1, math.ceil((last - first + 1) / BARS))
    highest: dict[int, float] = {}
    for at, number in one.points:
        if number is not None and drawable(number):
            column = (at - first) // size
            highest[column] = max(highest.get(column, 0.0), number)
    gap = 0.1 if size == 1 else 0.0
    for column, number in highest.items():
        start = first + column * size - 0.5
        end = min(start + size, last + 0.5)
        yield SIDE * plot.x.place(start + gap), SIDE * plot.x.place(end - gap), number


def _mark_undrawable(root: ET.Element, plot: Plot, one: Series) -> None:
    wrong = [plot.x.place(at) for at, number in one.points if number is not None and not drawable(number)]
    for place in sorted({round(place * MARKS) / MARKS for place in wrong}):
        mark = {"class": f"mark {one.style}", "x": _percent(place), "y": "0", "text-anchor": "middle"}
        ET.SubElement(root, "text", mark).text = CROSS
