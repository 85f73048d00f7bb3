"""A module's text: decoding by PEP 263, and where each node stands in the text as it was written."""

from __future__ import annotations

import libcst as cst
import pytest

from xla_transforms.encoding import SourceError, decode
from xla_transforms.source import Source
from xla_transforms.tree import walk

WORDS = "device = 'cuda'\n"


def named(source: Source, name: str) -> list[cst.Name]:
    return [n for n in walk(source.module) if isinstance(n, cst.Name) and n.value == name]


def test_plain_bytes_are_utf_8() -> None:
    assert decode(WORDS.encode()) == (WORDS, "utf-8")
    assert decode(b"") == ("", "utf-8")


def test_a_byte_order_mark_stays_in_the_text() -> None:
    assert decode(b"\xef\xbb\xbf" + WORDS.encode()) == ("\ufeff" + WORDS, "utf-8")


@pytest.mark.parametrize(
    ("first", "second", "encoding"),
    [
        ("# -*- coding: latin-1 -*-", "", "iso-8859-1"),
        ("#!/usr/bin/env python", "# vim: set fileencoding=latin-1 :", "iso-8859-1"),
        ("# coding: cp1252", "", "cp1252"),
    ],
)
def test_a_declared_encoding_counts_in_the_first_two_lines(first: str, second: str, encoding: str) -> None:
    text = f"{first}\n{second}\n# caf\u00e9\n"
    assert decode(text.encode(encoding)) == (text, encoding)


def test_a_declaration_below_the_second_line_is_a_comment() -> None:
    data = b"\n\n# coding: latin-1\n# caf\xe9\n"
    with pytest.raises(SourceError) as caught:
        decode(data)
    assert (caught.value.code, caught.value.line) == ("XLA002", 4)


def test_bytes_that_do_not_fit_name_the_line_and_the_byte() -> None:
    with pytest.raises(SourceError) as caught:
        decode(b"import torch\nx = 1\ny = '\xff'\n")
    assert (caught.value.code, caught.value.line) == ("XLA002", 3)
    assert "0xff" in caught.value.message


def test_an_encoding_that_does_not_exist() -> None:
    with pytest.raises(SourceError) as caught:
        decode(b"# coding: martian\n")
    assert caught.value.code == "XLA002"


@pytest.mark.parametrize(
    "text",
    [
        "x = model(data)\n",
        "\ufeffx = model(data)\n",
        "import a\r\nx = model(data)\r\n",
        "import a\n\f\nx = model(data)\n",
        "\fx = model(data)\n",
        "import a\n\f\n\f\n@wraps\ndef f():\n    x = model(data)\n",
        "if a:\n    b = 1\n\f\n    x = model(data)\n",
        "if a:\n\f    x = model(data)\n",
        "if a:\n\tb = 1\n\tx = model(data)  # kept\n",
        "x = model(data)",
        "s = '\u00e9\U0001f600\u4e2d'; x = model(data)\n",
        "if a:\r\n    x = model(data)\n",
        "a = 1\rb = 2\rx = model(data)\r",
        "# first\r# second\r\nx = model(data)\n",
        "y = 1 \\\n    + 2\nx = model(data)\n",
        "'''doc\r\nstring'''\nx = model(data)\n",
        "x = model(data)\n\n\n# the end\n",
        "x = model(data)\n    \n\t\n",
    ],
)  # fmt: skip
def test_nodes_stand_where_they_are_written(text: str) -> None:
    source = Source(text)
    call = next(n for n in walk(source.module) if isinstance(n, cst.Call))
    assert source.code(call) == "model(data)"
    assert source.code(named(source, "x")[0]) == "x"
    assert source.code(named(source, "data")[0]) == "data"


def test_a_statement_ends_before_its_comment_and_starts_behind_those_above() -> None:
    source = Source("# why\nx = 1  # how\n")
    assert source.code(source.module.body[0]) == "x = 1"


def test_two_statements_between_form_feeds_keep_apart() -> None:
    source = Source("a = 1\n\f\nb = 2\n\f\nc = 3\n")
    assert [source.code(statement) for statement in source.module.body] == ["a = 1", "b = 2", "c = 3"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_and_columns_count_from_one(newline: str) -> None:
    source = Source(newline.join(["a = 1", "", "    ", "if a:", "    bc = 2", ""]))
    span = source.span(named(source, "bc")[0])
    assert (span.line, span.column, span.end_line, span.end_column) == (5, 5, 5, 7)
    assert source.text[span.start : span.end] == "bc"


def test_columns_count_characters_not_bytes() -> None:
    source = Source("s = '\u4e2d\u6587'; x = 1\n")
    assert source.span(named(source, "x")[0]).column == 11


def test_the_end_of_a_text_belongs_to_its_last_line() -> None:
    source = Source("a = 1\nb = 2")
    assert source.position(len(source.text)) == (2, 6)
    assert source.line_start(8) == 6
    assert source.line_end(8) == len(source.text)


def test_a_form_feed_ends_no_line() -> None:
    source = Source("a = 1\n\f\nb = 2\n")
    assert source.span(named(source, "b")[0]).line == 3


def test_newline_and_indent_are_the_files_own() -> None:
    assert Source("if a:\r\n  b = 1\r\n").newline == "\r\n"
    assert Source("if a:\n  b = 1\n").indent == "  "
    assert Source("if a:\n\tb = 1\n").indent == "\t"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\nprint 'python 2'\n", 2),
        ("exec code in scope\n", 1),
        ("if a:\nb = 1\n", 2),
        ("def f(:\n    pass\n", 1),
        ("print 'a'\nraise E, 'x'\n", 1),
        ("a = 1\nb = (\nc = 2\n", 2),
    ],
)
def test_what_is_not_python_3_has_a_line(text: str, line: int) -> None:
    with pytest.raises(SourceError) as caught:
        Source(text)
    assert (caught.value.code, caught.value.line) == ("XLA001", line)
    assert caught.value.column >= 1


def test_text_the_tokenizer_refuses_is_an_error_of_ours() -> None:
    for text in ("x = '\n", "\0\n", "x = (1\n", "a = $\n", "\x1a x"):
        with pytest.raises(SourceError):
            Source(text)
