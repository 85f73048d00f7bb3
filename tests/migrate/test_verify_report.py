"""What the terminal and the page say of a verdict, and that nothing in it can break them."""

from __future__ import annotations

import dataclasses
import io
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
import verdicts

from xla_migrate.reports import verify_facts as facts
from xla_migrate.reports.terminal import Printer
from xla_migrate.reports.verify_html import page
from xla_migrate.reports.verify_text import lines
from xla_migrate.verify.judge import judge
from xla_migrate.verify.trace import Failure, HostRead
from xla_migrate.verify.verdict import Performance, Verdict
from xla_transforms.findings import Finding, Severity, Span

EMPTY_ELEMENTS = {"meta", "link", "br", "hr", "img", "input"}


def told(verdict: Verdict, colour: bool = False) -> str:
    stream = io.StringIO()
    Printer(stream, colour).print(lines(verdict))
    return stream.getvalue()


class Page(HTMLParser):
    """The elements and texts of a page; fails where one is not closed as it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in EMPTY_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1:] == [tag]:
            self.open.pop()
        else:  # an element of SVG that closed itself
            assert tag not in self.open or self.open.pop() == tag, (tag, self.open)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def test_the_answer_comes_first() -> None:
    firsts = {name: told(verdicts.ALL[name]()).splitlines()[0] for name in verdicts.ALL if name != "long"}
    missing = "ModuleNotFoundError: No module named 'flash_attn'"
    nothing = "no optimizer step was taken and no loss computed: there is nothing to compare"
    assert firsts == {
        "equal": "equal: 40 losses and the final parameters are the same numbers",
        "within": "within tolerance: 40 losses agree within 1e-06, final parameters within 1e-06",
        "diverged": "diverged: first in parameter of blocks.0.attention.query.weight, step 1 of 40",
        "broken": f"diverged: first in parameter of {verdicts.NASTY}, step 1 of 7",
        "failed": f"not comparable: could not run natively: {missing}",
        "failed_migrated": f"diverged: the migrated run ended with {missing}",
        "one_step": "equal: 1 loss and the final parameters are the same numbers",
        "blank": f"not comparable: {nothing}",
        "one_sided": "diverged: first in optimizer steps, at step 1",
    }


def test_a_divergence_is_told_with_its_size_and_bound() -> None:
    text = told(verdicts.diverged())
    assert "first divergence\n  parameter of blocks.0.attention.query.weight, step 1 of 40\n" in text
    assert "    relative difference  7.5e-04\n    bound                1.0e-04\n" in text
    assert "what else differs\n  loss, backward 8 of 40: native 1.60245079, migrated 1.60265189" in text


def test_a_cause_is_told() -> None:
    text = told(verdicts.one_sided())
    assert "likely cause  the step of optimizer 0 after loss 1 is missing" in text
    assert "Likely cause: the step of optimizer 0" in Page(page(verdicts.one_sided())).text


def test_the_cost_is_told() -> None:
    text = told(verdicts.diverged())
    for line in (
        "  problem: 6 compilations in the second half of the steps (0 allowed)",
        "  compilations stopped growing at step 37",
        "  executions per step: 2 (80 in all for 40 iterations)",
        "  computed by the CPU: aten::nonzero, 40 calls",
        "  host reads per step, by line of the migrated script: 1.1",
        "    train.py:42  item    40 reads in 40 of 40 steps, 40 executions",
        "    train.py:57  tolist  4 reads in 4 of 40 steps, 0 executions",
    ):
        assert line + "\n" in text


def test_what_is_compiled_again_for_one_reason_is_told_once() -> None:
    text = told(verdicts.diverged())
    assert text.count("compiled again") == 1
    assert "compiled again: steps 22, 25, 28, 31, 34, 37: the inputs kept their shapes" in text
    assert facts.recompiled(Performance(1, 1, recompiled=["step 3: a", "no step", "step 4: b"])) == [
        "step 3: a", "no step", "step 4: b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("performance", "expected"),
    [
        (Performance(4, 4, [1, 1], [1, 0], 2), "compilations stopped growing at step 2"),
        (Performance(4, 4, [1, 1], [1, 1]), "compilations grew to the end"),
        (Performance(4, 4, [1, 1], [0, 0], 1), "nothing was compiled while it trained"),
        (Performance(0, 0), "no optimizer step was taken: nothing can be said of compilations"),
    ],
)
def test_compilations_in_words(performance: Performance, expected: str) -> None:
    assert facts.settled(performance) == expected


def test_uneven_executions_are_told_as_such() -> None:
    performance = Performance(5, 8, [1, 1, 1, 5], [1, 0, 0, 0], 1)
    assert facts.all_executions(performance) == "8 in all for 5 iterations"
    assert facts.executions(performance) == "1 in 3 of 4 steps, 1 to 5 (8 in all for 5 iterations)"


def test_reads_that_make_the_device_compute_come_first() -> None:
    cheap, dear = HostRead("a.py:1", "item", 99, 0, 9), HostRead("a.py:2", "item", 1, 1, 1)
    assert facts.reads(Performance(1, 1, reads=[cheap, dear])) == [dear, cheap]


def test_a_failure_is_told_with_its_last_frames() -> None:
    for name, run in (("failed", "native"), ("failed_migrated", "migrated")):
        text = told(verdicts.ALL[name]())
        assert f"the {run} run ended with ModuleNotFoundError\n  No module named 'flash_attn'\n" in text
        assert "    train.py:3 in <module>: import flash_attn\n" in text
        assert "first divergence" not in text
        assert f"The {run} run ended with ModuleNotFoundError" in Page(page(verdicts.ALL[name]())).text


def test_a_long_message_keeps_its_end() -> None:
    verdict = verdicts.failed()
    message = "\n".join(f"line {number}" for number in range(100))
    native = dataclasses.replace(verdict.native, failure=Failure("ValueError", message))
    shown = told(dataclasses.replace(verdict, native=native))
    assert "  (88 lines before)\n  line 88\n" in shown


def test_what_the_runs_share_is_told_once() -> None:
    text = told(verdicts.equal())
    assert text.count("torch ") == 1
    assert "  native: CPU in the place of CUDA\n  migrated: XLA on CPU\n" in text


@pytest.mark.parametrize("name", verdicts.ALL)
@pytest.mark.parametrize("colour", [False, True])
def test_nothing_in_a_trace_steers_the_terminal(name: str, colour: bool) -> None:
    text = told(verdicts.ALL[name](), colour)
    if not colour:
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert "\x1b[31m\udcff" not in text


@pytest.mark.parametrize("name", verdicts.ALL)
def test_a_page_is_well_formed_and_alone(name: str) -> None:
    text = page(verdicts.ALL[name]())
    parsed = Page(text)
    assert text.encode()
    assert len(parsed.ids) == len(set(parsed.ids))
    assert "script" not in parsed.tags
    links = [value for key, value in parsed.attributes if key in ("src", "href", "action", "data")]
    assert links == ["data:,"]
    assert not [key for key, _ in parsed.attributes if key.startswith("on")]
    assert not re.search(r"url\(|@import", text)
    drawings = re.findall(r'<svg class="(?:plot|scale)".*?(?:</svg>(?=</div>|</td>))', text, re.DOTALL)
    assert len(drawings) == text.count('<svg class="')
    for drawing in drawings:
        ET.fromstring(drawing)


def test_texts_of_the_user_stay_texts() -> None:
    finding = Finding("XLA1", "n", Severity.ERROR, verdicts.NASTY, Span(0, 1, 3, 5, 3, 6), verdicts.NASTY)
    diff = f"+{verdicts.NASTY}\n"
    text = page(verdicts.broken(), diff=diff, findings=[finding], script=verdicts.NASTY)
    assert "<script" not in text
    assert "<b>op" not in text
    assert Page(text).text.count(verdicts.NASTY) > 10
    assert "caf\u00e9\\x00\\x1b[31m\\udcff\\x0a two lines" in Page(text).text


def test_the_page_tells_what_the_terminal_tells() -> None:
    text = Page(page(verdicts.diverged())).text
    for part in (
        "Diverged First in parameter of blocks.0.attention.query.weight, step 1 of 40",
        "relative difference 7.5e-04 bound 1.0e-04",
        "First beyond its bound at backward 8.",
        "train.py:42 item 40 1 40 40",
        "aten::nonzero 40",
        "Steps 22, 25, 28, 31, 34, 37",
        "device CPU in the place of CUDA XLA on CPU XLA on CPU",
    ):
        assert part in text


def test_a_parameter_beyond_its_bound_is_marked_by_more_than_colour() -> None:
    assert Page(page(verdicts.diverged())).text.count("▲") == 5
    assert "▲" not in Page(page(verdicts.within())).text


def test_equal_runs_need_no_empty_plots() -> None:
    text = Page(page(verdicts.equal())).text
    assert "40 losses, each the same number in both runs." in text
    assert "12 parameters, each the same numbers in both runs." in text
    assert "10⁻" not in text


def test_a_parameter_that_was_left_out_is_marked() -> None:
    losses = verdicts.falling(5)
    verdict = judge(verdicts.run("native", losses), verdicts.run("xla", losses, 1e-6), ignore=["0.0"])
    assert "blocks.0.attention.query.weight (not compared)" in Page(page(verdict)).text


def test_losses_far_apart_are_drawn_by_decades() -> None:
    losses = [10.0**-number for number in range(6)]
    assert "10⁻⁵" in page(judge(verdicts.run("native", losses), verdicts.run("xla", losses)))


def test_a_diff_is_coloured_line_by_line() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n same\n--- gone\n+++ come\n\n"
    text = page(verdicts.equal(), diff=diff)
    assert '<span class="head">--- a/x.py</span><span class="head">+++ b/x.py</span>' in text
    assert '<span class="hunk">@@ -1,2 +1,2 @@</span><span> same</span>' in text
    assert '<span class="removed">--- gone</span><span class="added">+++ come</span>' in text
    assert "<span> </span></pre>" in text
    assert '<pre class="diff"' not in page(verdicts.equal())


def test_findings_are_listed_with_place_and_advice() -> None:
    finding = Finding("XLA701", "n", Severity.WARNING, "waits", Span(0, 1, 42, 5, 42, 6), "log less", True)
    text = Page(page(verdicts.equal(), findings=[finding], script="src/train.py")).text
    assert "src/train.py:42:5 warning XLA701 waits (done) log less" in text


def test_ten_thousand_steps_fit_in_a_small_page() -> None:
    assert len(page(verdicts.ALL["long"]())) < 250_000


def test_the_reports_import_nothing_heavy_before_they_are_made() -> None:
    code = "import sys; import xla_migrate.reports.verify_html, xla_migrate.reports.verify_text; " + (
        "import xla_migrate.reports.verify_json, xla_migrate.reports.progress; print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "jinja2", "rich", "libcst"} & set(ran.stdout.split()) == set()
