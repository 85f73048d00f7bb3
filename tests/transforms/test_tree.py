"""Walking a tree, and the small questions about single nodes."""

from __future__ import annotations

import libcst as cst
import pytest

from xla_transforms.tree import (
    argument,
    body_of,
    children,
    dotted,
    has_star,
    method,
    number_value,
    receiver,
    same,
    string_value,
    value_of,
    walk,
)


def parse(code: str) -> cst.BaseExpression:
    return cst.parse_expression(code)


def call(code: str) -> cst.Call:
    node = parse(code)
    assert isinstance(node, cst.Call)
    return node


def names(node: cst.CSTNode, *, into_functions: bool = True) -> list[str]:
    found = walk(node, into_functions=into_functions)
    return [n.value for n in found if isinstance(n, cst.Name)]


def test_a_walk_goes_in_source_order() -> None:
    module = cst.parse_module("a = b(c)[d]\nfor f in g:\n    h\nelse:\n    i + e.j\n")
    assert names(module) == list("abcdfghiej")


def test_a_walk_may_stay_out_of_inner_functions() -> None:
    module = cst.parse_module("a\ndef f():\n    b\nclass C:\n    c\nd = lambda: e\n")
    assert names(module, into_functions=False) == ["a", "d"]
    assert "b" in names(module.body[1], into_functions=False)


def test_children_leave_out_layout() -> None:
    statement = cst.parse_statement("x = ( a , b ) # note\n")
    kinds = {type(node).__name__ for node in walk(statement)}
    assert not kinds & {"Comma", "SimpleWhitespace", "TrailingWhitespace", "LeftParen", "Comment"}
    assert [type(c).__name__ for c in children(statement)] == ["Assign"]


@pytest.mark.parametrize(
    ("code", "path"),
    [("a", "a"), ("a.b.c", "a.b.c"), ("a().b", ""), ("a[0].b", ""), ("1", ""), ("'a'.b", "")],
)
def test_dotted_names(code: str, path: str) -> None:
    assert dotted(parse(code)) == path


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("'cuda'", "cuda"), ('"cu" "da"', "cuda"), ("r'\\d'", "\\d"), ("b'cuda'", None), ("f'cuda'", None),
        ("'a' f'{b}'", None), ("cuda", None), ("'''a\nb'''", "a\nb"),
    ],
)  # fmt: skip
def test_strings_have_a_value_where_it_is_constant(code: str, value: str | None) -> None:
    assert string_value(parse(code)) == value


@pytest.mark.parametrize(
    ("code", "value"), [("3", 3), ("0x10", 16), ("1_000", 1000), ("2.5", 2.5), ("n", None), ("'3'", None)]
)
def test_numbers(code: str, value: float | None) -> None:
    assert number_value(parse(code)) == value


def test_arguments_by_keyword_and_position() -> None:
    node = call("f(a, b, key=c)")
    assert dotted(value_of(node, "first", 0)) == "a"
    assert dotted(value_of(node, "second", 1)) == "b"
    assert dotted(value_of(node, "key", 1)) == "c"
    assert value_of(node, "third", 2) is None
    assert value_of(node, "other") is None


def test_a_position_behind_a_star_is_not_known() -> None:
    assert argument(call("f(*a, b)"), "x", 1) is None
    assert argument(call("f(a, *b)"), "x", 0) is not None
    assert argument(call("f(**a)"), "x", 0) is None
    assert argument(call("f(a)"), "self", -1) is None
    assert has_star(call("f(**a)"))
    assert has_star(call("f(a, *b)"))
    assert not has_star(call("f(a, b=c)"))


def test_methods_and_receivers() -> None:
    assert method(call("a.b.step()")) == "step"
    assert dotted(receiver(call("a.b.step()"))) == "a.b"
    assert method(call("step()")) == ""
    assert receiver(parse("a.step")) is None
    assert method(None) == ""


def test_the_body_of_blocks_and_suites() -> None:
    assert len(body_of(cst.parse_statement("if a:\n    b\n    c\n"))) == 2
    assert len(body_of(cst.parse_statement("if a: b; c\n"))) == 2
    assert len(body_of(cst.parse_module("a\nb\n"))) == 2
    assert body_of(parse("a")) == []


@pytest.mark.parametrize(
    ("left", "right", "alike"),
    [
        ("a.b", "a . b", True), ("(a)", "a", True), ("a[0]", "a[0]", True), ("f(a, b)", "f( a,b )", True),
        ("a[0]", "a[1]", False), ("a.b", "a.c", False), ("a + b", "a - b", False), ("f(a)", "f(a, b)", False),
        ("a", "'a'", False), ("f(x=a)", "f(y=a)", False), ("f(*a)", "f(a)", False), ("f(**a)",
        "f(*a)", False),
        ("not a", "-a", False), ("a < b", "a > b", False), ("[a]", "(a,)", False), ("f'{a}'",
        "f'{b}'", False),
        ("f'x{a}'", "f'y{a}'", False), ("1j", "2j", False),
    ],
)  # fmt: skip
def test_expressions_written_alike(left: str, right: str, alike: bool) -> None:
    assert same(parse(left), parse(right)) is alike
    assert same(parse(right), parse(left)) is alike


def test_nothing_is_like_nothing() -> None:
    assert same(None, None)
    assert not same(None, parse("a"))
