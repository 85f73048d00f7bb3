"""The plots of two runs, from their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xla_migrate.reports.axes import drawable
from xla_migrate.reports.plots import Plot, Point, Series

SPREAD = 1000.0
"""Losses further apart than this factor are drawn on a logarithmic scale."""

Numbers = Sequence[float | None]


def losses(native: Numbers, migrated: Numbers) -> Plot:
    """The losses of both runs, by backward pass."""
    series = [
        Series(label if numbers else f"{label} (no loss)", numbered(numbers), label)
        for label, numbers in (("native", native), ("migrated", migrated))
    ]
    found = [number for one in series for _, number in one.points if number is not None and drawable(number)]
    log = bool(found) and min(found) > 0 and max(found) > SPREAD * min(found)
    return Plot("losses", "Losses of both runs", series, "backward", log)


def loss_difference(at: Sequence[int], differences: Numbers, bounds: Numbers) -> Plot:
    """How far they are apart, and how far they may be."""
    series = [
        Series("relative difference", list(zip(at, differences, strict=True)), "difference"),
        Series("bound", list(zip(at, bounds, strict=True)), "bound"),
    ]
    note = ""
    beyond = [n for n, d, b in zip(at, differences, bounds, strict=True) if _exceeds(d, b)]
    if at and not any(differences):
        series = []
        note = f"{len(at)} {'loss' if len(at) == 1 else 'losses'}, each the same number in both runs."
    elif beyond:
        note = f"First beyond its bound at backward {beyond[0]:,}."
    return Plot("difference", "Their difference", series, "backward", True, note=note)


def _exceeds(difference: float | None, bound: float | None) -> bool:
    return difference is not None and bound is not None and not difference <= bound


def costs(executions: Numbers, compilations: Numbers) -> list[Plot]:
    """Executions and compilations a step."""
    shown = (
        ("executions", "Executions a step", executions),
        ("compilations", "Compilations a step", compilations),
    )
    return [
        Plot(key, title, [Series(key, numbered(numbers), "counted")], bars=True, height=120)
        for key, title, numbers in shown
    ]


def numbered(numbers: Iterable[float | None]) -> list[Point]:
    return list(enumerate(numbers, 1))
