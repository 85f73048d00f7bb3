"""Steps that take a closure."""

from __future__ import annotations

from transforms.helpers import check_noop, findings, run_only
from transforms.replicated import spawned

MODEL = ("m = torch.nn.Linear(4, 2).cuda()", "opt = torch.optim.LBFGS(m.parameters())")
LOOP = (
    "for x in range(3):",
    "    def closure():",
    "        opt.zero_grad()",
    "        loss = m(torch.ones(4).cuda()).sum()",
    "        if loss.requires_grad:",
    "            loss.backward()",
    "        return loss",
    "    opt.step(closure)",
)


def alone(*lines: str) -> str:
    return "import torch\n" + "".join(f"{line}\n" for line in lines)


def test_on_one_device_the_step_stays_and_says_so() -> None:
    check_noop(alone(*MODEL, *LOOP), "loss_closures")
    assert findings(alone(*MODEL, *LOOP), "loss_closures") == [("XLA613", 11)]


def test_replicas_reduce_behind_the_backward_pass() -> None:
    text = run_only(spawned(*MODEL, *LOOP), "loss_closures", "steps")
    assert "                loss.backward()\n                xm.reduce_gradients(opt)\n" in text
    assert "        opt.step(closure)\n" in text
    assert findings(spawned(*MODEL, *LOOP), "loss_closures", "steps") == []


def test_a_closure_out_of_sight_is_an_error_in_replicas() -> None:
    loop = ("for x in range(3):", "    m(x).sum().backward()", "    opt.step(lambda: other(m))")
    code = spawned(*MODEL, *loop)
    assert [code for code, _ in findings(code, "loss_closures", "steps")] == ["XLA613"]


MADE = """
def made(model, first):
    def closure():
        first.zero_grad()
        loss = model(torch.ones(4).cuda()).sum()
        loss.backward()
        return loss
    return closure
"""


def test_a_closure_that_a_function_makes_has_its_own_name_for_the_optimizer() -> None:
    code = spawned(*MODEL, "for x in range(3):", "    opt.step(made(m, opt))", before=MADE)
    text = run_only(code, "loss_closures", "steps")
    assert "        loss.backward()\n        xm.reduce_gradients(first)\n" in text
    assert "reduce_gradients(opt)" not in text


def test_a_closure_without_a_name_for_the_optimizer_is_an_error() -> None:
    before = MADE.replace("(model, first)", "(model)").replace("first.zero_grad()", "model.zero_grad()")
    code = spawned(*MODEL, "for x in range(3):", "    opt.step(made(m))", before=before)
    assert "reduce_gradients" not in run_only(code, "loss_closures", "steps")
    assert [code for code, _ in findings(code, "loss_closures", "steps")] == ["XLA613"]
