"""What ``**options`` and ``dict(...)`` hold, handed on from function to function."""

from __future__ import annotations

from textwrap import dedent

import pytest
from transforms.asking import across, kinds
from transforms.helpers import migrate

HANDED = """
def inner(**options):
    held = options["m"]
    return held
def outer(**options):
    return inner({given}**options)
outer({outer})
"""


@pytest.mark.parametrize("outer", ["", "other=Net()", "**unknown", "'m'"])
def test_what_nobody_gives_is_not_held(outer: str) -> None:
    assert kinds(HANDED.format(given="", outer=outer), "held", 1) == set()


def test_options_that_a_method_hands_to_itself_come_to_an_end() -> None:
    code = """
        import torch
        class Sampler:
            def sample(self, x, **options):
                if x is None:
                    return self.sample(torch.zeros(2, device="cuda"), **options)
                options["size"] = options.get("size", 2)
                return x.to(options["device"])
        Sampler().sample(None, device="cuda")
    """
    assert migrate(code).data != dedent(code).encode()


def test_options_that_two_calls_hand_on_hold_what_either_gives() -> None:
    code = """
    def inner(**options):
        held = options["m"]
        return held
    def outer(**options):
        return inner(**options)
    outer(m=Net())
    outer(m=optim.SGD(p, 0.1))
    """
    assert kinds(dedent(code), "held", 1) == {"model", "optimizer"}


def test_what_a_call_gives_by_itself_comes_before_what_it_hands_on() -> None:
    given = HANDED.format(given="m=Net(), ", outer="m=optim.SGD(p, 0.1)")
    assert kinds(given, "held", 1) == {"model"}
    assert kinds(given.replace('options["m"]', 'options["n"]').replace("outer(m", "outer(n"), "held", 1) == {
        "optimizer"
    }


def test_a_mapping_with_a_name_of_its_own_comes_before_what_it_is_made_of() -> None:
    code = """
    made = dict(a=Net(), b=Net())
    held = dict(a=optim.SGD(p, 0.1), **made)
    one, other = held["a"], held["b"]
    print(one, other)
    """
    assert kinds(code, "one") == {"optimizer"}
    assert kinds(code, "other") == {"model"}


def test_a_name_of_its_own_comes_before_a_literal_that_is_handed_on() -> None:
    code = """
    made = {"a": Net(), "b": Net()}
    held = dict(a=optim.SGD(p, 0.1), **made)
    one, other = held["a"], held["b"]
    print(one, other)
    """
    assert (kinds(code, "one"), kinds(code, "other")) == ({"optimizer"}, {"model"})
    given = HANDED.format(given="m=optim.SGD(p, 0.1), ", outer="**{'m': Net()}")
    assert kinds(given, "held", 1) == {"optimizer"}


def test_what_is_put_into_the_options_later_is_held_as_well() -> None:
    code = """
    made = dict(a=Net())
    made["b"] = optim.SGD(p, 0.1)
    def run(a, b, c=None):
        print(a, b, c)
    run(**made)
    """
    assert (kinds(code, "a"), kinds(code, "b"), kinds(code, "c")) == ({"model"}, {"optimizer"}, set())


def test_what_is_put_into_options_comes_to_those_that_they_are_handed_to() -> None:
    code = """
    def inner(m=None, n=None):
        print(m, n)
    def outer(**options):
        inner(**options)
    made = dict(m=Net())
    made["n"] = optim.SGD(p, 0.1)
    outer(**made)
    """
    assert (kinds(code, "m", 1), kinds(code, "n")) == ({"model"}, {"optimizer"})


def test_what_is_read_under_an_open_name_may_be_any_value() -> None:
    code = """
    made = dict(a=Net(), **{"b": optim.SGD(p, 0.1)})
    held = made[name]
    print(held)
    """
    assert kinds(code, "held") == {"model", "optimizer"}


def test_functions_that_hand_options_on_in_a_circle_hold_what_comes_from_outside() -> None:
    code = """
    def one(depth, **options):
        held = options["m"]
        return other(depth - 1, **options)
    def other(depth, **options):
        return one(depth, **options) if depth else None
    one(3, m=Net())
    other(3, m=optim.SGD(p, 0.1))
    """
    assert kinds(code, "held") == {"model", "optimizer"}


def test_an_option_reaches_a_class_that_a_variable_holds() -> None:
    code = """
    class Block(nn.Module):
        def __init__(self, norm=None):
            super().__init__()
            self.norm = norm
    def build(cls, **options):
        return cls(**options)
    build(Block, norm=Net())
    """
    assert kinds(code, "self.norm") == {"model"}


@pytest.mark.parametrize("imported", ["run", "run as train"])
def test_a_function_that_is_imported_under_another_name_gets_what_its_calls_give(imported: str) -> None:
    name = imported.rpartition(" ")[2]
    files = {
        "engine": "def run(given):\n    print(given)\n",
        "main": f"import torch\nfrom engine import {imported}\n{name}(torch.optim.SGD(p, 0.1))\n",
    }
    assert across(files, "engine", "given") == {"optimizer"}


@pytest.mark.parametrize("module", ["engine", "main"])
def test_a_stand_in_for_a_failed_import_and_what_is_imported_both_get_what_calls_give(module: str) -> None:
    main = """
    import torch
    try:
        from engine import run as train
    except ImportError:
        def train(given):
            print(given)
    train(torch.optim.SGD(p, 0.1))
    """
    files = {"engine": "def run(given):\n    print(given)\n", "main": main}
    assert across(files, module, "given") == {"optimizer"}
