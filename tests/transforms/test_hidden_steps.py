"""Steps that something outside of the project takes."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, findings, migrate, run_only
from replicated import launched

from xla_transforms.settings import Settings

SCRIPT = """\
import torch
from torch import nn
from timm.utils import NativeScaler
import outside

model = nn.Linear(4, 2).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = NativeScaler()
for x, y in batches:
    loss = nn.functional.cross_entropy(model(x), y)
    {}
"""
WAY = "nothing could reduce the gradients before it"


def script(*lines: str) -> str:
    return SCRIPT.format("\n    ".join(lines))


def written(line: str) -> str:
    """What stands in the place of a call in the loop."""
    return run_only(script(line), "hidden_steps").split("model(x), y)\n")[1]


@pytest.mark.parametrize(
    "lines",
    [
        ("loss.backward()", "opt.step()", "outside.log(opt)"),
        ("scheduler = outside.Warmup(opt)", "loss.backward()", "opt.step()"),
        ("print(opt)",),
        ("kept = [loss]", "kept.append(opt)"),
        ("torch.nn.utils.clip_grad_norm_(opt.param_groups[0]['params'], 1.0)",),
        ("outside.step(loss)",),
    ],
)
def test_what_is_stepped_in_sight_or_steps_nothing_is_no_matter(lines: tuple[str, ...]) -> None:
    check_noop(script(*lines), "hidden_steps")
    assert findings(script(*lines), "hidden_steps") == []


def test_what_a_loop_does_not_call_is_no_matter() -> None:
    code = script("pass") + "outside.watch(opt)\n"
    assert findings(code, "hidden_steps") == []


def test_a_function_of_the_project_is_followed() -> None:
    code = script("go(loss, opt)").replace(
        "import outside\n", "\n\ndef go(loss, optimizer):\n    loss.backward()\n    optimizer.step()\n\n"
    )
    assert findings(code, "hidden_steps") == []


def test_what_may_step_out_of_sight_is_told_with_what_it_is() -> None:
    (found,) = migrate(script("engine = outside.Engine()", "engine.go(loss, opt)"), "hidden_steps").findings
    assert (found.code, found.span.line, found.severity.label) == ("XLA619", 12, "warning")
    assert found.message.startswith("engine.go() is not in the project, and is handed an optimizer")


def test_what_made_it_is_named() -> None:
    (found,) = migrate(script("step = outside.Engine(3)", "step(loss, opt)"), "hidden_steps").findings
    assert found.message.startswith("step(), outside.Engine, is not in the project")


def test_a_loss_and_an_optimizer_handed_on_make_a_loop_of_training() -> None:
    text = migrate(script("outside.go(loss, opt)")).code
    assert text.endswith("    outside.go(loss, opt)\n    torch_xla.sync()\n")


def test_a_scaler_of_timm_is_a_backward_pass_and_a_step() -> None:
    assert written("scaler(loss, opt)") == "    loss.backward()\n    xm.optimizer_step(opt)\n"


def test_what_it_clips_is_reduced_before() -> None:
    assert written("scaler(loss, opt, clip_grad=1.0, parameters=model.parameters())  # one step") == (
        "    loss.backward()\n"
        "    xm.reduce_gradients(opt)\n"
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "    opt.step()  # one step\n"
    )


def test_clipping_that_options_decide_is_asked_for_as_timm_does() -> None:
    given = "loss * 2, opt, args.clip, args.mode, model.parameters(), create_graph=second, need_update=last"
    assert written(f"scaler({given})") == (
        "    (loss * 2).backward(create_graph=second)\n"
        "    if last:\n"
        "        xm.reduce_gradients(opt)\n"
        "        if args.clip is not None:\n"
        "            dispatch_clip_grad(model.parameters(), args.clip, mode=args.mode)\n"
        "        opt.step()\n"
    )


@pytest.mark.parametrize(
    "rest", ["clip_grad=None", "clip_grad=1.0", "create_graph=False", "need_update=True"]
)
def test_arguments_that_change_nothing_leave_no_trace(rest: str) -> None:
    assert written(f"scaler(loss, opt, {rest})") == "    loss.backward()\n    xm.optimizer_step(opt)\n"


@pytest.mark.parametrize("line", ["norm = scaler(loss, opt)", "scaler(loss, optimizer=opt, **options)"])
def test_a_call_that_cannot_be_written_out_is_told(line: str) -> None:
    check_noop(script(line), "hidden_steps")
    assert findings(script(line), "hidden_steps") == [("XLA619", 11)]


def test_where_the_target_scales_the_scaler_stays_and_is_told() -> None:
    settings = Settings(target="torch_xla==2.1")
    check_noop(script("scaler(loss, opt)"), "hidden_steps", settings=settings)
    assert findings(script("scaler(loss, opt)"), "hidden_steps", settings=settings) == [("XLA619", 11)]


def test_the_whole_loop_of_a_scaler_of_timm() -> None:
    check_transformed(
        SCRIPT.replace("import outside\n", "").format("scaler(loss, opt)"),
        """\
        import torch
        from torch import nn
        from timm.utils import NativeScaler
        import torch_xla
        import torch_xla.core.xla_model as xm

        model = nn.Linear(4, 2).to(torch_xla.device())
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = NativeScaler()
        for x, y in batches:
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            xm.optimizer_step(opt)
            torch_xla.sync()
        """,
    )


TRAINED = ("model = DDP(make())", "opt = torch.optim.SGD(model.parameters(), lr=0.1)", "for x in batches:")


def blocked(*lines: str, before: str = "") -> list[str]:
    code = launched(*TRAINED, *(f"    {line}" for line in lines), before=before)
    return [f.message for f in migrate(code).findings if f.code == "XLA163"]


def test_replicas_are_started_where_the_step_is_in_sight() -> None:
    assert blocked("model(x).sum().backward()", "opt.step()") == []


def test_a_model_that_is_only_evaluated_may_be_wrapped() -> None:
    assert blocked("model(x)") == []


def test_gradients_that_are_averaged_by_hand_need_no_step_in_sight() -> None:
    averaged = "for p in model.parameters(): dist.all_reduce(p.grad)"
    assert blocked("model(x).sum().backward()", averaged, "update(model)") == []


def test_replicas_whose_step_is_out_of_sight_are_not_started() -> None:
    (why,) = blocked("engine.go(model(x).sum(), opt)", before="import engine\n")
    assert why == f"the optimizer's step behind engine.go() (line 15) is out of sight: {WAY}"


def test_nor_are_those_that_zero_gradients_and_never_step() -> None:
    (why,) = blocked("loss = model(x).sum()", "opt.zero_grad()", "engine.go(loss)", before="import engine\n")
    assert why == f"the optimizer's step behind opt.zero_grad() (line 16) is out of sight: {WAY}"


def test_nor_are_those_without_any_step() -> None:
    (why,) = blocked("loss = model(x).sum()", "opt.zero_grad()", "loss.backward()", "update(model)")
    assert why == f"the optimizer's step behind loss.backward() (line 16) is out of sight: {WAY}"


def test_a_scaler_of_timm_steps_replicas() -> None:
    before = "from timm.utils import NativeScaler\nscaler = NativeScaler()\n"
    code = launched(*TRAINED, "    scaler(model(x).sum(), opt)", before=before)
    outcome = migrate(code)
    assert "xm.optimizer_step(opt)" in outcome.code
    assert "torch_xla.launch(_mp_fn)" in outcome.code


def test_it_does_not_where_the_target_scales() -> None:
    before = "from timm.utils import NativeScaler\nscaler = NativeScaler()\n"
    code = launched(*TRAINED, "    scaler(model(x).sum(), opt)", before=before)
    outcome = migrate(code, settings=Settings(target="torch_xla==2.1"))
    assert [f.code for f in outcome.findings if f.severity.label == "error"] == ["XLA163"]
    assert outcome.code == code
