"""The page on two runs in a real browser: nothing overflows, nothing is asked for, all can be read."""

from __future__ import annotations

from pathlib import Path

import pytest
import verdicts
from browser import FAINT, WIDTHS, Browser, executable

from xla_migrate.reports.verify_html import page
from xla_transforms.findings import Finding, Severity, Span

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(executable() is None, reason="needs Chromium (Debian's package chromium)"),
]

DIFF = f"""--- a/train.py
+++ b/train.py
@@ -1,3 +1,3 @@
 import torch
-device = torch.device("cuda")  # {"a long comment " * 20}
+device = torch_xla.device()  {verdicts.NASTY}
"""
FINDINGS = [
    Finding("XLA7", "x", severity, f"message {verdicts.NASTY}", Span(0, 1, 3, 1, 3, 2), "advice")
    for severity in Severity
]

# Labels of a plot that run into each other or out of the window.
CROWDED = """(() => {
  const wrong = [];
  for (const plot of document.querySelectorAll("svg.plot")) {
    for (const kind of ["x", "y"]) {
      const boxes = [...plot.querySelectorAll(`text.tick.${kind}`)].map(t => t.getBoundingClientRect())
        .sort((a, b) => kind == "x" ? a.left - b.left : a.top - b.top);
      boxes.forEach((box, i) => {
        const outside = box.left < 0 || box.right > innerWidth;
        if (outside) wrong.push(`${plot.textContent}: ${kind} ${i} is outside`);
        const next = boxes[i + 1];
        if (next && (kind == "x" ? box.right > next.left : box.bottom > next.top + 1))
          wrong.push(`${plot.textContent}: ${kind} ${i} runs into the next`);
      });
    }
  }
  return wrong;
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    written = {name: folder / f"{name}.html" for name in verdicts.ALL}
    for name, path in written.items():
        path.write_text(page(verdicts.ALL[name](), diff=DIFF, findings=FINDINGS), encoding="utf-8")
    return written


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", verdicts.ALL)
def test_a_page_fits_its_window_and_can_be_read(
    browser: Browser, pages: dict[str, Path], name: str, width: int
) -> None:
    for scheme in ("light", "dark"):
        browser.open(pages[name], width, scheme)
        browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        whole, window = browser.evaluate(WIDTHS)
        assert whole <= window == width
        assert browser.evaluate(FAINT) == []
        assert browser.evaluate(CROWDED) == []


@pytest.mark.parametrize("name", verdicts.ALL)
def test_a_page_asks_for_nothing_and_reports_no_error(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    browser.open(pages[name], 1280, "light")
    assert browser.evaluate("document.scripts.length") == 0
    asked = [
        event["params"]["request"]["url"]
        for event in browser.events
        if event.get("method") == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith("data:")] == [pages[name].as_uri()]
    told = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    assert [event for event in browser.events if event.get("method") in told] == []


def test_the_reader_s_colour_scheme_is_followed(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    shots, backgrounds = [], []
    for scheme in ("light", "dark"):
        browser.open(pages["diverged"], 1280, scheme)
        shots.append(browser.screenshot(tmp_path / f"{scheme}.png"))
        backgrounds.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert shots[0].startswith(b"\x89PNG")
    assert shots[0] != shots[1]
    assert backgrounds == ["rgb(255, 255, 255)", "rgb(21, 23, 26)"]


def test_the_curves_are_drawn_where_the_numbers_say(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["equal"], 1280, "light")
    boxes = browser.evaluate(
        "[...document.querySelectorAll('svg.box .line')].slice(0, 2).map(p => p.getBoundingClientRect())"
        ".map(b => [b.width, b.height].map(Math.round))"
    )
    frame = browser.evaluate("document.querySelector('svg.plot').getBoundingClientRect().width")
    assert boxes[0] == boxes[1]
    assert boxes[0][0] == pytest.approx(frame, abs=2)
    assert boxes[0][1] > 150
