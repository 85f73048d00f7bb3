from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_migrate.diff import bytes_diff, place_after, text_diff
from xla_transforms.findings import Edit


def patched(source: str, edits: list[Edit]) -> str:
    for edit in reversed(edits):
        source = source[: edit.start] + edit.text + source[edit.end :]
    return source


def edit(source: str, old: str, new: str) -> Edit:
    return Edit(source.index(old), source.index(old) + len(old), new)


def diff(source: str, *edits: Edit, path: str = "a.py", context: int = 3) -> str:
    return text_diff(source, patched(source, list(edits)), edits, path, context)


LINES = "".join(f"line{n}\n" for n in range(1, 21))


def test_no_edit_gives_no_diff() -> None:
    assert diff(LINES) == ""


def test_an_edit_that_changes_nothing_gives_no_diff() -> None:
    assert diff(LINES, edit(LINES, "line7\n", "line7\n")) == ""


def test_one_line_is_shown_with_three_lines_around_it() -> None:
    assert diff(LINES, edit(LINES, "line10", "ten")) == (
        "--- a/a.py\n+++ b/a.py\n@@ -7,7 +7,7 @@\n"
        " line7\n line8\n line9\n-line10\n+ten\n line11\n line12\n line13\n"
    )


def test_far_changes_are_apart_and_near_ones_together() -> None:
    far = diff(LINES, edit(LINES, "line2\n", ""), edit(LINES, "line19", "x\ny"))
    assert [line for line in far.split("\n") if line.startswith("@@")] == [
        "@@ -1,5 +1,4 @@",
        "@@ -16,5 +15,6 @@",
    ]
    near = diff(LINES, edit(LINES, "line5", "x"), edit(LINES, "line12", "y"))
    assert near.count("@@ ") == 1


def test_unchanged_lines_inside_an_edit_are_not_shown_as_changed() -> None:
    shown = diff(LINES, edit(LINES, "line5\nline6\nline7\n", "line5\nsix\nline7\n"), context=0)
    assert shown.split("\n")[2:] == ["@@ -6 +6 @@", "-line6", "+six", ""]


def test_only_a_newline_ends_a_line() -> None:
    source = "a\fb\x1cc\rd\u2028e\n"
    assert diff(source, edit(source, "e", "f")).split("\n")[3:] == [
        "-a\fb\x1cc\rd\u2028e",
        "+a\fb\x1cc\rd\u2028f",
        "",
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/a.py", "b/src/a.py"),
        ("/abs/a.py", "b/abs/a.py"),
        ("sp ace.py", "b/sp ace.py\t"),
        ('q"uo\\te.py', '"b/q\\042uo\\134te.py"'),
        ("new\nline.py", '"b/new\\012line.py"'),
        ("käse.py", "b/käse.py"),
    ],
)
def test_a_path_is_written_as_git_reads_it(path: str, name: str) -> None:
    assert diff("x\n", Edit(0, 1, "y"), path=path).split("\n")[1] == f"+++ {name}"


@pytest.mark.parametrize(
    ("offset", "place"),
    [(0, (1, 1)), (3, (1, 4)), (4, (2, 1)), (6, (2, 1)), (8, (4, 1)), (9, (4, 2))],
)
def test_a_place_is_followed_through_the_edits(offset: int, place: tuple[int, int]) -> None:
    source, edits = "abc\ndef\nghi\n", [Edit(4, 7, "x\ny")]
    assert place_after(source, patched(source, edits), edits, offset) == place


def apply_patch(folder: Path, patch: bytes) -> None:
    subprocess.run(["git", "apply", "-"], cwd=folder, input=patch, check=True, capture_output=True)


texts = st.text(st.sampled_from("ab\n\r\f "), max_size=60)


@st.composite
def sources_and_edits(draw: st.DrawFn) -> tuple[str, list[Edit]]:
    source = draw(texts)
    bounds = sorted(draw(st.sets(st.integers(0, len(source)), max_size=8)))
    pairs = list(zip(bounds[::2], bounds[1::2], strict=False))
    return source, [Edit(start, end, draw(texts)) for start, end in pairs]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(sources_and_edits())
def test_git_makes_the_new_text_of_any_diff(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[str, list[Edit]]
) -> None:
    source, edits = case
    code = patched(source, edits)
    folder = tmp_path_factory.mktemp("patched")
    (folder / "a.py").write_bytes(source.encode())
    patch = bytes_diff(source.encode(), code.encode(), source, code, edits, "a.py")
    assert patch.decode() == text_diff(source, code, edits, "a.py")
    assert bool(patch) == (source != code)
    if patch and source and code:  # git takes a patch from or to nothing for a new or deleted file
        apply_patch(folder, patch)
        assert (folder / "a.py").read_bytes() == code.encode()


def test_the_bytes_of_a_file_are_those_of_its_own_encoding() -> None:
    source = "# latin-1 é\ncuda\n"
    code = source.replace("cuda", "xla")
    raw, new = source.encode("latin-1"), code.encode("latin-1")
    patch = bytes_diff(raw, new, source, code, [edit(source, "cuda", "xla")], "a.py")
    assert b" # latin-1 \xe9\n-cuda\n+xla\n" in patch


def test_the_place_of_a_line_that_moved_into_a_function_is_known() -> None:
    source = "a = 1\nb = f(a)\nc = 3\n"
    edits = [Edit(0, len(source), "def g():\n    a = 2\n    b = f(a)\n    c = 3\n")]
    assert place_after(source, edits[0].text, edits, source.index("f(a)")) == (3, 9)


def test_the_place_of_a_line_that_is_laid_out_anew_is_where_its_word_is() -> None:
    source = "a = 1\nx = make(data, size=8)\nc = 3\nd = 4\n"
    made = "where = f()\nx = make(\n    data, size=8, sampler=g()\n)\nx = wrap(x, where)\n"
    new = f"a = 1\n{made}c = 3\nd = 5\n"
    edits = [Edit(0, len(source), new)]
    assert place_after(source, new, edits, source.index("make")) == (3, 5)
    assert place_after(source, new, edits, source.index("size")) == (2, 1)
