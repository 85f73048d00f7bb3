"""From planned changes to text: nested changes, empty blocks, comments, lines of several statements."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import libcst as cst
import pytest
from transforms.helpers import context_of, expression

from xla_transforms.context import Context
from xla_transforms.edits import apply, line_edits
from xla_transforms.findings import Rule
from xla_transforms.plan import Conflict, Planned
from xla_transforms.render import Renderer

RULE = Rule("XLA000", "test", "Test.", "Test.")
Ask = Callable[[Context, Planned], object]


def rendered(code: str, *asks: Ask) -> str:
    context = context_of(code)
    for ask in asks:
        ask(context, context.plan.change(RULE, context.index.source.module, "test"))
    return Renderer(context.index, context.plan.sites()).code()


def check(code: str, expected: str, *asks: Ask) -> None:
    assert rendered(code, *asks) == dedent(expected)


def replace(text: str, template: str, *parts: str) -> Ask:
    def ask(context: Context, change: Planned) -> None:
        change.replace(expression(context, text), template, *(expression(context, part) for part in parts))

    return ask


def wrap(text: str, template: str) -> Ask:
    return lambda context, change: change.wrap(expression(context, text), template)


def small(context: Context, text: str) -> cst.CSTNode:
    """The small statement that is written as ``text``."""
    source = context.index.source
    kinds = [cst.Expr, cst.Assign, cst.Return, cst.Pass, cst.Import, cst.ImportFrom]
    return next(n for n in context.index.all(*kinds) if source.code(n) == text)


def line(context: Context, text: str) -> cst.CSTNode:
    found = context.index.statement_of(small(context, text))
    assert found is not None
    return found


def remove(text: str) -> Ask:
    return lambda context, change: change.remove(small(context, text))


def before(text: str, *lines: str) -> Ask:
    return lambda context, change: change.before(line(context, text), *lines)


def after(text: str, *lines: str) -> Ask:
    return lambda context, change: change.after(line(context, text), *lines)


# ---- nothing


def test_no_change_is_the_text() -> None:
    code = "a = 1  # one\r\n\f\n\tif_ = 2"
    assert Renderer(context_of("a\n").index, []).edits() == []
    assert rendered("a = 1\n") == "a = 1\n"
    assert apply(code, []) == code


# ---- replacing and nesting


def test_a_part_keeps_how_it_was_written() -> None:
    check("f( a ,b )\n", "g(a; b)\n".replace(";", ","), replace("f( a ,b )", "g({0}, {1})", "a", "b"))
    check("f(a  +  b)\n", "g(a  +  b)\n", replace("f(a  +  b)", "g({0})", "a  +  b"))


def test_a_change_inside_another() -> None:
    check(
        "f(a.x, b)\n", "g(1, b)\n", replace("f(a.x, b)", "g({0}, {1})", "a.x", "b"), replace("a.x", "1")
    )
    check(
        "f(a.x, b)\n", "g(1, b)\n", replace("a.x", "1"), replace("f(a.x, b)", "g({0}, {1})", "a.x", "b")
    )


def test_three_deep() -> None:
    check("f(g(h(x)))\n", "F(G(H(y)))\n", replace("x", "y"), replace("h(x)", "H({0})", "x"),
          replace("f(g(h(x)))", "F({0})", "g(h(x))"), replace("g(h(x))", "G({0})", "h(x)"))  # fmt: skip


def test_a_part_that_is_left_out_takes_its_changes_with_it() -> None:
    check("f(a, b)\n", "f(b)\n", replace("f(a, b)", "f({0})", "b"), replace("a", "c"))


def test_a_part_that_appears_twice_is_changed_twice() -> None:
    check("f(a)\n", "f(c, c)\n", replace("f(a)", "f({0}, {0})", "a"), replace("a", "c"))


def test_brackets_of_a_part_stay() -> None:
    check("x = (a + b).cuda()\n", "x = (a + b)\n", replace("(a + b).cuda()", "{0}", "a + b"))


def test_wraps_go_around_what_replaces() -> None:
    check("x = f(a)\n", "x = W(g(a))\n", wrap("f(a)", "W({0})"), replace("f(a)", "g({0})", "a"))
    check("x = f(a)\n", "x = W(g(a))\n", replace("f(a)", "g({0})", "a"), wrap("f(a)", "W({0})"))


def test_the_later_wrap_is_the_outer_one() -> None:
    check("x = a\n", "x = V(W(a))\n", wrap("a", "W({0})"), wrap("a", "V({0})"))


def test_braces_in_templates_without_parts() -> None:
    check("x = a\n", "x = {1: 2}\n", replace("a", "{1: 2}"))


def test_changes_over_several_lines() -> None:
    code = """
        f(
            a,  # first
            b,
        )
        """
    check(code, "\ng(\n    a,  # first\n    c,\n)\n", replace("f", "g"), replace("b", "c"))


def test_two_replacements_of_one_node_are_a_conflict() -> None:
    with pytest.raises(Conflict):
        rendered("x = a\n", replace("a", "b"), replace("a", "c"))


def test_overlapping_pieces_are_a_conflict() -> None:
    def lines(context: Context, change: Planned) -> None:
        change.replace_statements(line(context, "a = 1"), line(context, "b = 2"), lambda render: "x\n")

    def others(context: Context, change: Planned) -> None:
        change.replace_statements(line(context, "b = 2"), line(context, "c = 3"), lambda render: "y\n")

    with pytest.raises(Conflict):
        rendered("a = 1\nb = 2\nc = 3\n", lines, others)


# ---- removing


def test_a_removed_line_goes_with_its_newline() -> None:
    check("a()\nb()\nc()\n", "a()\nc()\n", remove("b()"))
    check("a()\nb()", "a()\n", remove("b()"))


def test_its_comments_stay() -> None:
    check("a()\n# above\nb()  # beside\nc()\n", "a()\n# above\n# beside\nc()\n", remove("b()"))


def test_a_statement_over_several_lines() -> None:
    check("a()\nf(\n    1,\n)  # why\nc()\n", "a()\n# why\nc()\n", remove("f(\n    1,\n)"))


def test_the_comments_inside_it_stay() -> None:
    code = "a()\nf(  # one\n    1,\n    # two\n    '# no',\n)  # three\nc()\n"
    check(code, "a()\n# one\n# two\n# three\nc()\n", remove("f(  # one\n    1,\n    # two\n    '# no',\n)"))


def test_an_empty_block_gets_pass() -> None:
    check("if a:\n    b()\nc()\n", "if a:\n    pass\nc()\n", remove("b()"))
    check("if a:\n    b()  # why\nc()\n", "if a:\n    pass\n    # why\nc()\n", remove("b()"))
    check("def f():\n\tb()\n\tc()\n", "def f():\n\tpass\n", remove("b()"), remove("c()"))


def test_a_block_that_gets_something_else_needs_no_pass() -> None:
    check("if a:\n    b()\n", "if a:\n    c()\n", remove("b()"), after("b()", "c()"))
    check("if a:\n    b()\n", "if a:\n    c()\n", remove("b()"), before("b()", "c()"))


def test_what_goes_behind_the_block_does_not_fill_it() -> None:
    check("if a:\n    b()\nd()\n", "if a:\n    pass\nc()\nd()\n", remove("b()"), before("d()", "c()"))


def test_a_block_that_keeps_something_needs_no_pass() -> None:
    check("if a:\n    b()\n    c()\n", "if a:\n    c()\n", remove("b()"))


def test_the_blank_lines_below_the_head_of_a_block_go_with_it() -> None:
    check("if a:\n    b()\n\n\n    c()\n", "if a:\n    c()\n", remove("b()"))
    code = "if a:\n    b()\n    c()\n\n    # d\n    d()\n"
    check(code, "if a:\n    # d\n    d()\n", remove("b()"), remove("c()"))
    check("b()\n\nc()\n", "c()\n", remove("b()"))


def test_blank_lines_elsewhere_stay() -> None:
    check("if a:\n    b()\n\n    c()\n    d()\n", "if a:\n    b()\n\n    d()\n", remove("c()"))
    check("if a:\n    b()\n\n    c()\n", "if a:\n    d()\n\n    c()\n", remove("b()"), before("b()", "d()"))
    check("# a\nb()\n\nc()\n", "# a\n\nc()\n", remove("b()"))


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        ("a", "b(); c()  # x\n"), ("b", "a(); c()  # x\n"), ("c", "a(); b()  # x\n"), ("ab", "c()  # x\n"),
        ("bc", "a()  # x\n"), ("ac", "b()  # x\n"), ("abc", "# x\n"), ("cba", "# x\n"),
    ],
)  # fmt: skip
def test_statements_of_one_line(gone: str, left: str) -> None:
    check("a(); b(); c()  # x\n", left, *(remove(f"{name}()") for name in gone))


@pytest.mark.parametrize(
    ("gone", "left"), [("a", "b()"), ("b", "a()"), ("ab", "pass")]
)
def test_statements_of_a_one_line_suite(gone: str, left: str) -> None:
    check("if x: a(); b()  # y\nz()\n", f"if x: {left}  # y\nz()\n", *(remove(f"{n}()") for n in gone))


def test_the_only_statement_of_a_one_line_suite() -> None:
    check("if x: a()  # y\n", "if x: pass  # y\n", remove("a()"))


def test_all_statements_of_a_line_in_a_block() -> None:
    check("if x:\n    a(); b()\n", "if x:\n    pass\n", remove("a()"), remove("b()"))


def test_removing_and_replacing_in_one_line() -> None:
    check("a(); f(b)\n", "g(b)\n", remove("a()"), replace("f(b)", "g({0})", "b"))


# ---- inserting


def test_lines_at_the_statements_own_indentation() -> None:
    code = "if a:\n    # above\n    b()  # beside\nc()\n"
    check(code, "if a:\n    x()\n    # above\n    b()  # beside\nc()\n", before("b()", "x()"))
    check(code, "if a:\n    # above\n    b()  # beside\n    x()\n    y()\nc()\n", after("b()", "x()", "y()"))


@pytest.mark.parametrize(
    ("above", "new"),
    [
        ("a()\n# one\n# two\n", "a()\nx()\ny()\n# one\n# two\n"),
        ("a()\n# another part\n\n", "a()\n# another part\n\nx()\ny()\n"),
        ("if a:\n    a()\n    # inner\n", "if a:\n    a()\n    # inner\nx()\ny()\n"),
        ("# of the file\n", "# of the file\nx()\ny()\n"),
        ("a()\n# %% a cell\n# one\n", "a()\n# %% a cell\nx()\ny()\n# one\n"),
        ("a()\n# fmt: on\n", "a()\n# fmt: on\nx()\ny()\n"),
        ("a()  # beside\n", "a()  # beside\nx()\ny()\n"),
        ("a()\r\n# one\r\n", "a()\r\nx()\r\ny()\r\n# one\r\n"),
    ],
)
def test_what_goes_before_a_statement_goes_above_the_comments_about_it(above: str, new: str) -> None:
    check(f"{above}b()\n", f"{new}b()\n", before("b()", "x()"), before("b()", "y()"))


def test_behind_one_statement_and_above_the_comments_of_the_next() -> None:
    check("a()\n# of b\nb()\n", "a()\nx()\ny()\n# of b\nb()\n", before("b()", "y()"), after("a()", "x()"))


def test_what_goes_before_a_statement_stays_in_the_piece_that_holds_its_comments() -> None:
    def moved(context: Context, change: Planned) -> None:
        start, end = 4, len(context.index.source.text)
        change.rewrite(start, end, lambda render: f"with c:\n{render((start, end))}")

    check("a()\n# of b\nb()\n", "a()\nwith c:\nx()\n# of b\nb()\n", moved, before("b()", "x()"))


def test_indented_lines_with_tabs_and_carriage_returns() -> None:
    check("if a:\r\n\tb()\r\n", "if a:\r\n\tb()\r\n\tx()\r\n", after("b()", "x()"))


def test_behind_a_last_line_without_newline() -> None:
    assert rendered("a()\nb()", after("b()", "x()")) == "a()\nb()\nx()"


def test_behind_a_block_and_behind_its_last_statement() -> None:
    code = "for a in b:\n    if c:\n        d()\ne()\n"

    def behind_if(context: Context, change: Planned) -> None:
        change.after(next(iter(context.index.all(cst.If))), "outer()")

    expected = "for a in b:\n    if c:\n        d()\n        inner()\n    outer()\nfirst()\ne()\n"
    for asks in ((behind_if, after("d()", "inner()")), (after("d()", "inner()"), behind_if)):
        check(code, expected, before("e()", "first()"), *asks)


def test_insertions_at_one_place_keep_their_order() -> None:
    check("a()\n", "x()\ny()\na()\nu()\nv()\n", before("a()", "x()"), before("a()", "y()"),
          after("a()", "u()"), after("a()", "v()"))  # fmt: skip


def test_inserting_beside_what_is_replaced() -> None:
    check("f(a)\n", "x()\ng(a)\ny()\n", replace("f(a)", "g({0})", "a"), before("f(a)", "x()"),
          after("f(a)", "y()"))  # fmt: skip


# ---- edits


def test_edits_are_whole_lines_and_disjoint() -> None:
    before_, after_ = "a\nb\nc\nd\n", "a\nB\nc\nd\ne\n"
    edits = list(line_edits(before_, after_))
    assert apply(before_, edits) == after_
    assert [(e.start, e.end, e.text) for e in edits] == [(2, 4, "B\n"), (8, 8, "e\n")]


def test_no_edits_between_equal_texts() -> None:
    assert list(line_edits("a\r\nb", "a\r\nb")) == []


def drop(text: str) -> Ask:
    """Take the item that is written as ``text`` out of its list."""

    def ask(context: Context, change: Planned) -> None:
        item = context.index.parent(expression(context, text))
        whole = context.index.parent(item) if item is not None else None
        assert item is not None
        assert isinstance(whole, (cst.With, cst.Call))
        change.drop(whole.items if isinstance(whole, cst.With) else whole.args, [item])

    return ask


def test_neighbours_that_different_changes_take_out_of_a_list() -> None:
    check("with a(), b(), c():\n    d()\n", "with c():\n    d()\n", drop("a()"), drop("b()"))
    check("with a(), b(), c():\n    d()\n", "with a():\n    d()\n", drop("c()"), drop("b()"))
    check("f(a(), b(), c())\n", "f(b())\n", drop("c()"), drop("a()"))
    check("f(a(), b())\n", "f()\n", drop("a()"), drop("b()"))


def test_items_on_lines_of_their_own_that_different_changes_take_out() -> None:
    code = "f(\n    a(),  # one\n    b(),\n    c(),\n)\n"
    check(code, "f(\n    # one\n    c(),\n)\n", drop("a()"), drop("b()"))
