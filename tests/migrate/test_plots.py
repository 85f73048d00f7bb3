"""Plots as SVG: what is drawn where, and what becomes of numbers that are none."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest

from xla_migrate.reports.axes import along, linear, logarithmic
from xla_migrate.reports.plots import BARS, ROWS, Plot, Series, decimate, svg, table, undrawable


def plot(*numbers: float | None, **options) -> Plot:
    return Plot("key", "Title", [Series("native", list(enumerate(numbers, 1)), "native")], **options)


def drawn(found: Plot) -> ET.Element:
    return ET.fromstring(svg(found))


def paths(found: Plot) -> dict[str, str]:
    return {path.get("class", ""): path.get("d", "") for path in drawn(found).iter("path")}


def ticks(axis) -> list[str]:
    return [text for _, text in axis.ticks]


def test_a_line_runs_from_edge_to_edge() -> None:
    path = paths(plot(3.0, 2.0, 1.0))["line native"]
    points = [tuple(map(float, pair.split())) for pair in re.findall(r"[\d.]+ [\d.]+", path)]
    assert [x for x, _ in points] == [0, 500, 1000]
    assert [y for _, y in points] == sorted(y for _, y in points)
    assert all(0 <= y <= 1000 for _, y in points)


def test_one_step_is_a_dot_and_no_line() -> None:
    assert paths(plot(0.5)) == {"dot native": "M500.0 500.0l0 0"}


def test_gaps_stay_gaps() -> None:
    path = paths(plot(1.0, 2.0, None, 3.0, 4.0, math.nan, 5.0))
    assert path["line native"].count("M") == 2
    assert path["dot native"].count("M") == 1


def test_what_cannot_be_drawn_is_marked_and_told() -> None:
    found = plot(1.0, math.nan, math.inf, 1e308)
    marks = [text for text in drawn(found).iter("text") if text.get("class", "").startswith("mark")]
    assert len(marks) == 3
    assert undrawable(found.series[0], "step") == (
        "native is 3 times not a finite number, first at step 2 (marked \N{MULTIPLICATION SIGN} above)."
    )
    assert undrawable(plot(1.0, None).series[0], "step") == ""


@pytest.mark.parametrize("numbers", [[], [None], [math.nan], [0.0], [-1.0], [math.inf, -math.inf], [1e-320]])
@pytest.mark.parametrize("options", [{}, {"log": True}, {"bars": True}])
def test_whatever_the_numbers_the_plot_is_whole(numbers, options) -> None:
    root = drawn(plot(*numbers, **options))
    coordinates = " ".join(value for node in root.iter() for value in node.attrib.values())
    assert "nan" not in coordinates
    assert "inf" not in coordinates.replace("infinite", "")


def test_a_plot_has_a_title_and_tells_its_numbers_in_words() -> None:
    root = drawn(plot(2.5, 1.0, note="A note."))
    assert root.get("role") == "img"
    names = (root.get("aria-labelledby") or "").split()
    texts = {node.get("id"): node.text for node in root if node.tag in ("title", "desc")}
    assert [texts[name] for name in names] == [
        "Title", "A note. native: 2.5 at step 1, 1 at step 2, lowest 1, highest 2.5.",
    ]  # fmt: skip


def test_texts_are_escaped() -> None:
    found = Plot("key", "<b>&", [Series('"<script>', [(1, 1.0)], "native")])
    assert drawn(found)[0].text == "<b>&"
    assert "<script>" not in svg(found)


def test_ten_thousand_steps_keep_their_peaks_and_few_points() -> None:
    numbers = [0.0] * 10_000
    numbers[1234], numbers[7777] = 5.0, -5.0
    kept = decimate(list(enumerate(numbers, 1)))
    assert len(kept) <= 800
    assert (1235, 5.0) in kept
    assert (7778, -5.0) in kept
    assert [at for at, _ in kept] == sorted(at for at, _ in kept)
    assert len(svg(plot(*numbers))) < 30_000


def test_a_long_gap_survives_decimation() -> None:
    numbers = [1.0] * 4000 + [None] * 2000 + [2.0] * 4000
    assert paths(plot(*numbers))["line native"].count("M") == 2


def test_few_points_are_not_decimated() -> None:
    points = [(1, 1.0), (2, None), (3, 2.0)]
    assert decimate(points) == points


def test_bars_stand_on_the_axis_and_many_share_a_column() -> None:
    assert paths(plot(2, 0, 1, bars=True))["bar native"].count("z") == 2
    assert paths(plot(*[1] * 10_000, bars=True))["bar native"].count("z") <= BARS


def test_a_peak_survives_in_its_column() -> None:
    numbers = [1] * 10_000
    numbers[5000] = 9
    tops = {float(top) for top in re.findall(r"V([\d.]+)H", paths(plot(*numbers, bars=True))["bar native"])}
    assert len(tops) == 2
    assert min(tops) < max(tops)


def test_the_table_has_each_step_or_ranges_of_many() -> None:
    assert table(plot(1.0, None, math.nan)) == [["1", "1"], ["2", "\N{EN DASH}"], ["3", "nan"]]
    rows = table(plot(*map(float, range(10_000))))
    assert len(rows) == ROWS
    assert rows[0] == ["1 to 250", "0 to 249"]
    assert rows[-1][0].endswith("10,000")


def test_linear_ticks_are_round_and_few() -> None:
    assert ticks(linear([0.2, 2.4])) == ["0.5", "1.0", "1.5", "2.0"]
    assert ticks(linear([-10.0, 10.0])) == ["\N{MINUS SIGN}10", "\N{MINUS SIGN}5", "0", "5", "10"]
    assert ticks(linear([3], whole=True, from_zero=True)) == ["0", "1", "2", "3"]
    for numbers in ([1e-9, 2e-9], [1e12, 3e12], [5.0, 5.0], [0.0], [1e300, -1e300]):
        assert 2 <= len(linear(numbers).ticks) <= 8


def test_logarithmic_ticks_are_decades_and_zero_has_a_place_below() -> None:
    axis = logarithmic([3e-6, 1e-4])
    assert ticks(axis) == ["10⁻⁴", "10⁻⁵", "10⁻⁶"]
    assert not axis.zero
    axis = logarithmic([0.0, 1e-4, 1e-3])
    assert ticks(axis)[-1] == "0"
    assert axis.place(0.0) == 0
    assert axis.place(1e-4) > 0
    assert len(logarithmic([1e-300, 1e300]).ticks) <= 8


def test_the_horizontal_axis_counts_from_the_first_step() -> None:
    assert ticks(along(1, 1)) == ["1"]
    assert ticks(along(1, 3)) == ["1", "2", "3"]
    assert ticks(along(1, 10_000)) == ["1", "2,000", "4,000", "6,000", "8,000", "10,000"]
