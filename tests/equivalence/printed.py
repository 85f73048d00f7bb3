"""Comparing what two runs print: the same lines, the numbers in them alike."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
_PLACE = re.compile(r"\b(?:cuda|xla|cpu)(?::\d+)?\b")


def first_difference(native: str, migrated: str, bound: float) -> str | None:
    """The first pair of lines that differ in words, or in a number by more than ``bound`` (relative, and
    absolute below one) and the rounding of its last printed digit; ``None`` where there is none."""
    left, right = native.splitlines(), migrated.splitlines()
    for one, other in zip(left, right, strict=False):
        if not _alike(_PLACE.sub("DEVICE", one), _PLACE.sub("DEVICE", other), bound):
            return f"{one!r} became {other!r}"
    if len(left) != len(right):
        return f"{len(left)} lines became {len(right)}"
    return None


def _alike(one: str, other: str, bound: float) -> bool:
    if _NUMBER.sub("N", one) != _NUMBER.sub("N", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(_close(a, b, bound) for a, b in pairs)


def _close(one: str, other: str, bound: float) -> bool:
    digits = len(one.partition(".")[2].partition("e")[0])
    rounding = 1.01 * 10.0**-digits if "." in one else 0.0
    a, b = float(one), float(other)
    return abs(a - b) <= bound * max(abs(a), 1.0) + rounding
