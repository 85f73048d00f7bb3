"""``no_sync()`` goes with the wrapper."""

from __future__ import annotations

import pytest
from helpers import check_noop, migrate, run_only
from replicated import launched

WRAPPED = ("model = DDP(net)", "opt.step()", "last = i % 2 == 1")


def written(*lines: str) -> str:
    before = "import contextlib\nnet, opt, i, loss = make()\n"
    text = run_only(launched(*WRAPPED, *lines, before=before), "delayed_reductions")
    return text.split("i % 2 == 1\n")[1].split("    device =")[0]


def test_a_method_of_that_name_of_something_else_stays() -> None:
    check_noop(launched("with engine.no_sync():", "    pass"), "delayed_reductions")


def test_the_block_stands_alone() -> None:
    assert written("with model.no_sync():", "    loss.backward()") == "    loss.backward()\n"


def test_a_choice_of_contexts_is_none() -> None:
    with_ = "with contextlib.nullcontext() if last else model.no_sync():"
    assert written(with_, "    loss.backward()") == "    loss.backward()\n"


def test_a_choice_of_another_context_keeps_it() -> None:
    found = written("with timer() if last else model.no_sync():", "    loss.backward()")
    assert found.startswith("    with timer() if last else contextlib.nullcontext():")


def test_the_function_itself_does_nothing() -> None:
    found = written("context = contextlib.nullcontext if last else model.no_sync")
    assert found == "    context = contextlib.nullcontext if last else contextlib.nullcontext\n"


def test_the_switch_of_the_wrapper_goes() -> None:
    assert written("model.require_backward_grad_sync = last", "loss.backward()") == "    loss.backward()\n"


CHOICE = "torch.cuda.device(0)"
STREAM = "torch.cuda.stream(torch.cuda.current_stream())"


@pytest.mark.parametrize(
    ("items", "left"),
    [
        (f"{CHOICE}, model.no_sync(), timer()", "timer()"),
        (f"timer(), model.no_sync(), {STREAM}", "timer()"),
        (f"{CHOICE}, timer(), {STREAM}, model.no_sync()", "timer()"),
    ],
)
def test_neighbours_that_go_for_other_reasons(items: str, left: str) -> None:
    before = "import contextlib\nnet, opt, i, loss = make()\n"
    outcome = migrate(launched(*WRAPPED, f"with {items}:", "    loss.backward()", before=before))
    assert f"    with {left}:\n        loss.backward()\n" in outcome.code


@pytest.mark.parametrize("items", [f"{STREAM}, model.no_sync(), {CHOICE}", f"model.no_sync(), {CHOICE}"])
def test_items_that_all_go_for_different_reasons_take_the_statement_along(items: str) -> None:
    before = "import contextlib\nnet, opt, i, loss = make()\n"
    outcome = migrate(launched(*WRAPPED, f"with {items}:", "    loss.backward()", before=before))
    assert "    last = i % 2 == 1\n    loss.backward()\n" in outcome.code
