"""The report as a page in a real browser: it fits, can be read, asks for nothing, and obeys the keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import verdicts
from browser import FAINT, WIDTHS, Browser, executable
from running import Cli

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(executable() is None, reason="needs Chromium (Debian's package chromium)"),
]
GOLDEN = Path(__file__).parents[2] / "golden"
FOCUS = """(() => {
  const one = document.activeElement;
  return [one.tagName, one.getAttribute("href") || one.getAttribute("aria-label") || one.textContent.trim()];
})()"""


@pytest.fixture
def page(cli: Cli, here: Path) -> Path:
    """A page on three files, one of them with a nasty name and long lines, and on two runs that part."""
    from xla_migrate.reports import verify_json

    for name in ("ddp_torchrun", "hf_dynamic_padding"):
        (here / f"{name}.py").write_bytes((GOLDEN / name / "native.py").read_bytes())
    long = f"# {verdicts.NASTY} {'x' * 900}"
    (here / "<b>&.py").write_text(f"import torch\nx = torch.ones(2).cuda()  {long}\n")
    (here / "v.json").write_text(verify_json.report(verdicts.ALL["diverged"]()))
    ran = cli("ddp_torchrun.py", "hf_dynamic_padding.py", "<b>&.py", "--verified", "v.json",
              "--output-format", "html")  # fmt: skip
    assert ran.code == 1, ran.err
    (here / "page.html").write_bytes(ran.out)
    return here / "page.html"


@pytest.mark.parametrize("width", [360, 800, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window_and_can_be_read(
    browser: Browser, page: Path, width: int, scheme: str
) -> None:
    browser.open(page, width, scheme)
    whole, window = browser.evaluate(WIDTHS)
    assert whole <= window == width
    assert browser.evaluate(FAINT) == []
    assert browser.evaluate("document.querySelectorAll('b').length") == 0
    names = browser.evaluate("[...document.querySelectorAll('section h2.mono')].map(one => one.textContent)")
    assert names == ["ddp_torchrun.py", "hf_dynamic_padding.py", "<b>&.py"]
    assert browser.evaluate("document.querySelectorAll('#verify figure svg.plot').length") >= 2


def test_the_page_asks_for_nothing_and_reports_no_error(browser: Browser, page: Path) -> None:
    browser.open(page, 1280, "light")
    assert browser.evaluate("document.scripts.length") == 0
    asked: list[Any] = [
        event["params"]["request"]["url"]
        for event in browser.events
        if event.get("method") == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]
    told = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    assert [event for event in browser.events if event.get("method") in told] == []


def test_both_sides_show_the_files_as_they_were_and_will_be(browser: Browser, page: Path) -> None:
    browser.open(page, 1280, "light")
    for number, side in ((2, "native"), (4, "expected_2_9")):
        shown = browser.evaluate(
            f"[...document.querySelectorAll('#file-1 tbody tr')].map(row => "
            f"[row.children[{number - 2}].textContent, row.children[{number - 1}].textContent])"
        )
        lines = (GOLDEN / "ddp_torchrun" / f"{side}.py").read_text().split("\n")
        told = [(int(line), text) for line, text in shown if line]
        assert len(told) > 40
        assert [text for _, text in told] == [lines[line - 1] for line, _ in told]


def test_everything_is_reached_and_unfolded_with_the_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page, 1280, "light")
    reached = []
    for _ in range(200):
        browser.press("Tab")
        one = browser.evaluate(FOCUS)
        if one[0] == "BODY" or one in reached[:1]:
            break
        reached.append(one)
    assert reached[0] == ["A", "#content"]
    for wanted in (["A", "#verify"], ["A", "#findings"], ["A", "#file-3"], ["DIV", "Diff of <b>&.py"]):
        assert wanted in reached
    assert [tag for tag, _ in reached].count("SUMMARY") == browser.evaluate(
        "document.querySelectorAll('summary').length"
    )
    browser.evaluate("document.querySelector('#file-1 summary').focus()")
    browser.press("Enter")
    assert browser.evaluate("document.querySelector('#file-1 details').open") is False
    outline = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
