from __future__ import annotations

import builtins
import contextlib
import subprocess
import sys
from typing import Any

import black
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_transforms import formatting
from xla_transforms.formatting import BlackSettings, format_changed

DEFAULTS = BlackSettings()
CLEAN = """\
import torch

x = [1, 2, 3]


def train(model, loader):
    for data, target in loader:
        loss = model(data.to("cuda"), target.to("cuda"))
        loss.backward()
    return loss


train(None, [])
"""


def formatted(original: str, old: str, new: str, settings: BlackSettings | None = DEFAULTS) -> str:
    assert old in original
    return format_changed(original, original.replace(old, new), settings)


def untouched(original: str, old: str, new: str, settings: BlackSettings | None = DEFAULTS) -> None:
    assert formatted(original, old, new, settings) == original.replace(old, new)


LONG = "model(data_on_the_device_of_the_model, target_on_the_device_of_the_model, reduction='mean')"
LONG_FORMATTED = """\
        loss = model(
            data_on_the_device_of_the_model,
            target_on_the_device_of_the_model,
            reduction="mean",
        )
"""


def test_without_settings_nothing_is_formatted() -> None:
    untouched(CLEAN, "x = [1, 2, 3]", "x=[1,2]", None)


def test_code_in_blacks_style_stays() -> None:
    untouched(CLEAN, '"cuda"', '"xla"')


def test_no_change_stays() -> None:
    untouched(CLEAN, "x", "x")


@pytest.mark.parametrize(
    "line",
    [
        "y = 'single'",
        "y=1",
        "y = [1,2]",
        "y = ( 1, 2)",
        "y = 1 ",
        "y = 1  + 2",
        "#comment",
        "y = 1 # comment",
        "if x :\n    pass",
        "y = f(a = 1)",
        "y = x[1 :2]",
        "if x:\n  y = 1",
        "if x:\n\ty = 1",
        "y = f(\n  1)",
        "class A: pass",
        "y = 0XFF",
    ],
)
def test_a_file_that_was_not_in_blacks_style_stays(line: str) -> None:
    original = CLEAN + line + "\n"
    assert black.format_str(original, mode=black.Mode()) != original
    untouched(original, "x = [1, 2, 3]", "x=[1,2]")


def test_a_changed_line_gets_blacks_style() -> None:
    assert formatted(CLEAN, "x = [1, 2, 3]", "x=[ 1,2 ]") == CLEAN.replace("[1, 2, 3]", "[1, 2]")


def test_a_changed_line_that_became_too_long_is_split() -> None:
    result = formatted(CLEAN, 'model(data.to("cuda"), target.to("cuda"))', LONG)
    start = CLEAN.index("        loss = ")
    assert result == CLEAN[:start] + LONG_FORMATTED + CLEAN[CLEAN.index("        loss.back") :]


def test_the_users_line_length_counts() -> None:
    untouched(CLEAN, 'model(data.to("cuda"), target.to("cuda"))', LONG.replace("'", '"'),
              BlackSettings(line_length=120))  # fmt: skip


def test_the_users_quotes_count() -> None:
    original = CLEAN.replace('"', "'")
    settings = BlackSettings(skip_string_normalization=True)
    result = formatted(original, "x = [1, 2, 3]", "x=['a']", settings)
    assert result == original.replace("[1, 2, 3]", "['a']")


def test_the_users_trailing_commas_count() -> None:
    original = CLEAN.replace("[1, 2, 3]", "f(\n    1,\n)")
    untouched(original, "x = f(\n    1,\n)", "x=f(\n    1,\n)", BlackSettings(line_length=1))
    skipping = BlackSettings(skip_magic_trailing_comma=True)
    assert formatted(CLEAN, "x = [1, 2, 3]", "x = [\n    1,\n]", skipping) == CLEAN.replace(
        "[1, 2, 3]", "[1]"
    )


def test_a_line_without_an_edit_stays_even_in_a_statement_with_one() -> None:
    original = CLEAN.replace("[1, 2, 3]", "f(\n    a_long_name_for_one_thing,\n    second=2,\n)")
    new = "    second = 2,\n    third=[ ],\n)\ny = (\n    1\n"
    expected = new.replace("second = 2", "second=2").replace("[ ]", "[]")
    assert formatted(original, "    second=2,\n", new) == original.replace("    second=2,\n", expected)


def test_a_change_that_cannot_be_formatted_does_not_keep_others_from_it() -> None:
    original = CLEAN + "f(\n    1,\n    2,\n)\n"
    code = original.replace("    2,\n", "    2\n").replace("[1, 2, 3]", "[1,2]")
    assert format_changed(original, code, DEFAULTS) == code.replace("[1,2]", "[1, 2]")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_endings_and_byte_order_mark_stay(newline: str, mark: str) -> None:
    original = mark + CLEAN.replace("\n", newline)
    assert formatted(original, "x = [1, 2, 3]", "x=[1]") == original.replace("[1, 2, 3]", "[1]")


def test_mixed_line_endings_are_not_blacks_style() -> None:
    untouched(CLEAN.replace("\n", "\r\n", 1), "x = [1, 2, 3]", "x=[1]")


def test_code_that_black_refuses_stays() -> None:
    untouched(CLEAN, "x = [1, 2, 3]", "x = [1, 2, 3")


def test_without_black_the_code_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "black":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    formatting._mode.cache_clear()
    untouched(CLEAN, "x = [1, 2, 3]", "x=[1]")


def test_a_result_of_black_that_means_something_else_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = black.format_str

    def wrong(text: str, **options: Any) -> str:
        return real(text, **options).replace("[1]", "[2]")

    monkeypatch.setattr(black, "format_str", wrong)
    untouched(CLEAN, "x = [1, 2, 3]", "x=[1]")


def test_versions_that_black_does_not_know_are_passed_over() -> None:
    settings = BlackSettings(target_versions=frozenset({"py310", "py399"}))
    assert formatted(CLEAN, "x = [1, 2, 3]", "x=[1]", settings) == CLEAN.replace("[1, 2, 3]", "[1]")


def test_black_is_not_imported_where_the_file_is_surely_not_in_its_style() -> None:
    code = (
        "import sys; from xla_transforms.formatting import *;"
        "format_changed(\"x = 'a'\\n\", \"x = 'b'\\n\", BlackSettings());"
        "format_changed('x = 1\\n', 'x = 1\\n', BlackSettings());"
        "format_changed('x = 1\\n', 'x=2\\n', None);"
        "assert 'black' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "code",
    [
        CLEAN,
        'x = "it\'s"\n',
        "x = 'say \"a\"'\n",
        'x = """a  b \n,c\t\'d\' #e\n"""\n',
        "#!/usr/bin/env python\n#: marked\n#' quoted\n#\n# fine\n",
        "@decorator(\n    1,\n)\ndef f(): ...\n",
        "# about f\ndef f():\n    pass\n",
        "@overload\ndef f(a: int) -> int: ...\n@overload\ndef f(a: str) -> str: ...\n",
        "x = 1  # two blanks\n",
        "x = a[1:2, None]\ny = (1,)\n",
        "# fmt: off\nx = [1,2,  3]\n# fmt: on\n",
        "x = [1,2]  # fmt: skip\n",
        "x = 'a\\\\\"'\n",
        'x = f"{a["b"]}, {c}"\n',
        "import a\n\nb = 1\n",
        "from a import (\n    b,\n)\n\nb()\n",
        "import a\n\n\n@a.b\ndef f(): ...\n",
        "import a\n\n\nclass A: ...\n",
        "import a\n\n\nasync def f(): ...\n",
        "if a:\n    import b\n\n\nclass A: ...\n",
    ],
)
def test_the_quick_look_does_not_condemn_what_black_would_leave(code: str) -> None:
    assert black.format_str(code, mode=black.Mode()) == code
    assert not formatting._surely_unclean(code, DEFAULTS)


lines = st.sampled_from(
    [
        "x = 1",
        "y=2",
        "def f(a,b):",
        "    pass",
        "    return  a",
        "",
        "f(",
        "    1,",
        ")",
        "# c",
        "#d",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(lines, max_size=12), st.lists(lines, max_size=4), st.integers(0, 12))
def test_lines_that_were_there_before_stay(before: list[str], new: list[str], at: int) -> None:
    original = "".join(line + "\n" for line in before)
    with contextlib.suppress(black.InvalidInput):
        original = black.format_str(original, mode=black.Mode())
    kept = original.splitlines(keepends=True)
    code = "".join([*kept[:at], *(line + "\n" for line in new), *kept[at:]])
    result = format_changed(original, code, DEFAULTS).splitlines(keepends=True)
    assert result[: len(kept[:at])] == kept[:at]
    assert not kept[at:] or result[-len(kept[at:]) :] == kept[at:]


@pytest.mark.parametrize(
    "head", ["import a", "from a import b  # (c)", "from a import (\n    b,\n    c,\n)  # d"]
)
@pytest.mark.parametrize(
    "below", ["b = 1", "if b:\n    c()", "for x in b:\n    c()", "importing()", "async_ = 1"]
)
def test_two_blank_lines_below_imports_count_where_black_takes_one_away(head: str, below: str) -> None:
    code = f"{head}\n\n\n{below}\n"
    altered = black.format_str(code, mode=black.Mode()) != code
    assert formatting._surely_unclean(code, DEFAULTS) is altered


# ---- the look at the changed lines alone

FILLER = "\n\n" + "\n\n".join(f"def helper{i}(x):\n    y = x + {i}\n    return y\n" for i in range(12))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"cuda"', '"xla"'),
        ("import torch\n", "import torch\nimport torch_xla\n"),
        ("\nx = [1, 2, 3]", "import torch_xla\nx = [1, 2, 3]"),
        ("x = [1, 2, 3]", "x=[1, 2]"),
        ("x = [1, 2, 3]", "x = [1,\n    2]"),
        ("x = [1, 2, 3]\n", "x = [1, 2, 3]\n\n\n\n\nz = 1\n"),
        ("        loss.backward()\n", "        loss.backward()\n        @mark\n        def step(): ...\n"),
        ("        loss.backward()\n", "        loss.backward()\n\n\n"),
        ("def train", "@torch_xla.step\ndef train"),
        ("def train", "z = 1\ndef train"),
        ("    return loss\n", "    return loss\ndef test(): pass\n"),
        ('model(data.to("cuda"), target.to("cuda"))', LONG),
        ("train(None, [])\n", ""),
    ],
)
@pytest.mark.parametrize("first", [CLEAN, CLEAN.replace("x = [1", "y  = 1\nx = [1")])
def test_it_comes_to_the_same_as_black_over_the_whole_file(
    first: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = formatted(first + FILLER, old, new)
    monkeypatch.setattr(formatting, "_surely_styled", lambda *_: False)
    assert short == formatted(first + FILLER, old, new)


def test_black_reads_the_changed_lines_alone_where_it_leaves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formatting, "_format", lambda *_: pytest.fail("black read the whole file"))
    untouched(CLEAN + FILLER, '"cuda"', '"xla"')
