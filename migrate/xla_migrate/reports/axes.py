"""Scales of plots: where a number stands between 0 and 1, and which numbers are named on the axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

HUGE = 1e300
"""Beyond it a number is drawn as if it were infinite: its difference to another one may be."""

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """A scale from ``low`` to ``high`` with its named numbers, as (number, text)."""

    low: float
    high: float
    log: bool = False
    zero: bool = False
    """A logarithmic scale whose lowest decade stands for zero."""
    ticks: list[tuple[float, str]] = field(default_factory=list)

    def place(self, number: float) -> float:
        """From 0 at the low end to 1 at the high one."""
        if self.log:
            number = math.log10(number) if number > 0 else self.low
        return min(1.0, max(0.0, (number - self.low) / (self.high - self.low)))


def drawable(number: float | None) -> bool:
    return number is not None and math.isfinite(number) and abs(number) <= HUGE


def linear(numbers: Iterable[float | None], *, whole: bool = False, from_zero: bool = False) -> Axis:
    """An axis around what can be drawn, with about five round ticks."""
    found = [number for number in numbers if number is not None and drawable(number)]
    low, high = min(found, default=0.0), max(found, default=1.0)
    low = min(low, 0.0) if from_zero else low
    if low == high:
        low, high = (0.0, high) if low > 0 and from_zero else (low - _margin(low), high + _margin(high))
    step = _step((high - low) / 5)
    step = max(1.0, round(step)) if whole else step
    if whole or from_zero:
        high = math.ceil(high / step) * step
    else:
        low, high = low - (high - low) * 0.04, high + (high - low) * 0.04
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = [number * step for number in range(first, last + 1)]
    return Axis(low, high, ticks=[(tick, _text(tick, step)) for tick in ticks])


def _margin(number: float) -> float:
    return max(abs(number) * 0.1, 1e-6) if number else 1.0


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def _text(number: float, step: float) -> str:
    if abs(number) >= 1e6 or 0 < step < 1e-4:
        return f"{number:.3g}"
    return f"{number:,.{max(0, -math.floor(math.log10(step)))}f}".replace("-", "\N{MINUS SIGN}")


def logarithmic(numbers: Iterable[float | None]) -> Axis:
    """An axis of whole decades; where there are zeros one more at its foot, for them."""
    found = [number for number in numbers if number is not None and drawable(number)]
    positive = [math.log10(number) for number in found if number > 0] or [-7.0]
    low, high = math.floor(min(positive)), math.ceil(max(positive))
    high = max(high, low + 1)
    zero = any(number <= 0 for number in found)
    stride = max(1, math.ceil((high - low) / 6))
    powers = range(high, low - 1, -stride)
    ticks = [(10.0**power, "10" + str(power).translate(SUPERSCRIPT)) for power in powers]
    if zero:
        low -= stride
        ticks.append((0.0, "0"))
    return Axis(low, high, True, zero, ticks)


def along(first: int, last: int) -> Axis:
    """The horizontal axis of numbered steps, with round ticks and the first one."""
    if first >= last:
        return Axis(first - 0.5, first + 0.5, ticks=[(first, f"{first:,}")])
    step = max(1, round(_step((last - first) / 5)))
    ticks = [n for n in range((first // step + 1) * step, last + 1, step) if n - first >= step / 2]
    return Axis(first, last, ticks=[(tick, f"{tick:,}") for tick in [first, *ticks]])
