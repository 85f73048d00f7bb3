"""Text of strangers stays text in Markdown, HTML and code."""

from __future__ import annotations

import re

import pytest

from xla_migrate import escape


@pytest.mark.parametrize(
    "text",
    ["@everyone", "@acme/team", "acme/train#1", "#12", "!7", "~bug", "%1", "GH-12", "&5", "a@b.example"],
)
def test_nobody_and_nothing_is_mentioned(text: str) -> None:
    shown = escape.inline(text).replace("\\", "").replace("&amp;", "&")
    assert not re.search(r"[@#!~%&][\w/]", shown.replace("&#8288;", "\N{WORD JOINER}"))
    assert "GH-" not in shown


@pytest.mark.parametrize(
    "text", ["<script>x</script>", "<!-- mark -->", "</details>", "<img src=x onerror=y>", "&lt;"]
)
def test_no_html_comes_of_it(text: str) -> None:
    for shown in (escape.inline(text), escape.code(text), escape.path(text)):
        inner = shown.removeprefix("<code>").removesuffix("</code>")
        assert "<" not in inner
        assert ">" not in inner


@pytest.mark.parametrize("sign", list("\\`*_{}[]()#|~$!"))
def test_no_markup_comes_of_it(sign: str) -> None:
    assert (
        re.search(
            r"(?<!\\)" + re.escape(sign),
            escape.inline(f"a{sign}b").replace("\\\\", "").replace("&#8288;", ""),
        )
        is None
    )


@pytest.mark.parametrize("text", ["https://example.org", "www.example.org", "[a](http://b)"])
def test_no_link_comes_of_it(text: str) -> None:
    assert "://" not in escape.inline(text)
    assert "www." not in escape.inline(text)


def test_a_table_cell_holds_no_line_and_no_bar() -> None:
    assert "\n" not in escape.inline("a\n| b |\r\n---")
    assert "|" not in escape.code("a|b").replace("&#124;", "")


def test_direction_and_control_characters_are_shown_as_such() -> None:
    assert escape.visible("a\u202eb\x1b[31m\x00") == "a\ufffdb\ufffd[31m\ufffd"


def test_a_long_text_is_cut_and_says_so() -> None:
    assert escape.visible("a" * 50, 10) == "a" * 9 + "…"
    assert len(escape.path("a/" * 2000)) < 400


@pytest.mark.parametrize("text", ["```\nout\n```\n", "`````", "no fence"])
def test_a_fence_is_longer_than_any_within(text: str) -> None:
    lines = escape.fenced(text, "diff").split("\n")
    assert lines[0].removesuffix("diff") == lines[-1]
    assert all(lines[-1] not in line for line in lines[1:-1])
