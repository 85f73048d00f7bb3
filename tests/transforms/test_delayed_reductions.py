"""``no_sync()`` goes with the wrapper."""

from __future__ import annotations

import pytest
from helpers import check_noop, migrate, run_only
from replicated import launched

WRAPPED = ("model = DDP(net)", "opt.step()", "last = i % 2 == 1", "print(last)")


def written(*lines: str) -> str:
    before = "import contextlib\nnet, opt, i, loss = make()\n"
    text = run_only(launched(*WRAPPED, *lines, before=before), "delayed_reductions")
    return text.split("print(last)\n")[1].split("    device =")[0]


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
    assert "    print(last)\n    loss.backward()\n" in outcome.code


LOOP = """\
net, data, count = make()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
model = DDP(net.cuda())
for epoch in range(2):
    for i, x in enumerate(data):
        sync = (i + 1) % count == 0
        {block}
            model(x.cuda()).sum().backward()
        {step}
            opt.step()
    {behind}
"""
CHOICE = "with contextlib.nullcontext() if {} else model.no_sync():"


def told(block: str, step: str, behind: str = "pass") -> list[str]:
    """What is said of steps that a no_sync() may come before: the lines that take them."""
    lines = LOOP.format(block=block, step=step, behind=behind).splitlines()
    code = launched(*lines, before="import contextlib\n")
    found = [f for f in migrate(code, "delayed_reductions").findings if "natively each process" in f.message]
    assert {f.severity.label for f in found} <= {"warning"}
    return [code.splitlines()[f.span.line - 1].strip() for f in found]


@pytest.mark.parametrize("step", ["if sync:", "if (i + 1) % count == 0:", "if i > 3:", "if sync or True:"])
def test_steps_behind_a_reduction_are_none(step: str) -> None:
    assert told("if True:", step) == []
    assert step == "if sync or True:" or told(CHOICE.format("sync"), step) == []


def test_a_step_that_follows_a_backward_pass_behind_the_loop_is_none() -> None:
    behind = "model(x.cuda()).sum().backward(); opt.step()"
    assert told(CHOICE.format("sync"), "if sync:", behind) == []


@pytest.mark.parametrize(
    "block",
    [
        CHOICE.format("sync"),
        CHOICE.format("(i + 1) % count == 0"),
        "with model.no_sync() if (i + 1) % count != 0 else contextlib.nullcontext():",
        "with model.no_sync() if not sync else contextlib.nullcontext():",
    ],
)
def test_a_step_at_the_end_of_the_data_that_may_not_be_reduced_natively_is_told(block: str) -> None:
    for step in ("if sync or i + 1 == len(data):", "if (i + 1) % count == 0 or i + 1 == len(data):"):
        assert told(block, step) == ["opt.step()"]


def test_a_step_with_what_is_left_behind_the_loop_is_told() -> None:
    assert told(CHOICE.format("sync"), "if sync:", "opt.step()") == ["opt.step()"]
