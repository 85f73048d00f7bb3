"""Reads that stay in a step loop: a barrier in front of them, or a finding."""

from __future__ import annotations

from textwrap import dedent, indent

from helpers import check_noop, findings, migrate, run_only

HEAD = """\
import sys
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = torch.nn.Linear(4, 3).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
feed = DataLoader(data, batch_size=8)
"""
STEP = """\
x, y = x.to(device), y.to(device)
out = model(x)
loss = F.cross_entropy(out, y)
opt.zero_grad()
loss.backward()
"""
PASSES = ("accumulators", "step_closures", "host_reads")


def loop(lines: str, *, middle: str = "", head: str = HEAD) -> str:
    body = indent(STEP + dedent(middle) + "opt.step()\n" + dedent(lines), "    ")
    return f"{head}for i, (x, y) in enumerate(feed):\n{body}print('done')\n"


def for_either(lines: str, *, middle: str = "") -> str:
    """The same where a flag chooses the CPU."""
    head = HEAD.replace('"cuda"', '"cuda" if "--gpu" in sys.argv else "cpu"')
    return loop(lines, middle=middle, head=head)


def test_a_loop_without_reads_has_no_findings() -> None:
    assert findings(loop("print(out.shape, i)\n"), *PASSES) == []


def test_a_read_outside_of_loops_has_no_finding() -> None:
    assert findings(HEAD + "print(model(x.to(device)).mean().item())\n", *PASSES) == []


def test_a_read_in_an_epoch_loop_has_no_finding() -> None:
    code = loop("").replace("print('done')", "print(loss.item())")
    nested = HEAD + "for epoch in range(3):\n" + indent(code.removeprefix(HEAD), "    ")
    assert findings(nested, *PASSES) == []


def test_a_value_that_is_used_in_the_step_is_reported() -> None:
    code = loop("", middle="scale(loss.item())\n")
    assert findings(code, *PASSES) == [("XLA701", 16)]


def test_a_branch_on_a_tensor_is_reported() -> None:
    code = loop("", middle="if torch.isnan(loss) or loss > 50:\n    continue\n")
    assert findings(code, *PASSES) == [("XLA702", 16)]


def test_a_branch_on_a_value_is_reported_where_it_is_read() -> None:
    code = loop("", middle="value = loss.item()\nif value > 50:\n    break\n")
    assert findings(code, *PASSES) == [("XLA701", 16)]


def test_a_branch_on_shapes_and_counters_has_no_finding() -> None:
    code = loop("if x.size(0) > 4 and i > 5 and loss.requires_grad:\n    continue\n")
    assert findings(code, *PASSES) == []


def test_a_read_in_a_function_that_each_step_calls_is_reported() -> None:
    function = "def norms():\n    return [p.grad.norm().item() for p in model.parameters()]\n"
    code = loop("", middle="grads = norms()\n", head=HEAD + function)
    assert findings(code, *PASSES) == [("XLA701", 11)]


def test_a_function_called_now_and_then_is_not_reported() -> None:
    function = "def norms():\n    return [p.grad.norm().item() for p in model.parameters()]\n"
    code = loop("if i % 10 == 0:\n    grads = norms()\n", head=HEAD + function)
    assert findings(code, *PASSES) == []


def test_where_a_flag_may_choose_the_cpu_a_guarded_read_gets_a_barrier() -> None:
    code = run_only(for_either("if i % 10 == 0:\n    print(loss.item())\n"), *PASSES)
    assert "    if i % 10 == 0:\n        torch_xla.sync()\n        print(loss.item())\n" in code


def test_a_sum_is_a_number_again_where_it_is_shown() -> None:
    lines = "total += loss.item()\nif i % 10 == 9:\n    print(total / 10)\n    total = 0.0\n"
    code = run_only(for_either(lines).replace("for i", "total = 0.0\nfor i"), *PASSES)
    assert "        torch_xla.sync()\n        total = float(total)\n        print(total / 10)\n" in code


def test_a_guarded_read_before_the_step_gets_no_barrier() -> None:
    check_noop(for_either("", middle="if i % 10 == 0:\n    print(loss.item())\n"), *PASSES)


def test_a_read_at_the_end_of_every_step_gets_a_barrier_and_is_mentioned() -> None:
    native = for_either("print(loss.item())\n")
    assert "    torch_xla.sync()\n    print(loss.item())\n" in run_only(native, *PASSES)
    assert findings(native, *PASSES) == [("XLA703", 17)]


def test_behind_an_explicit_barrier_reads_stay() -> None:
    native = HEAD + "for i in range(9):\n" + indent(STEP + "opt.step()\nprint(loss.item())\n", "    ")
    check_noop(native, *PASSES)
    assert findings(native, *PASSES) == []


def test_the_one_read_of_an_evaluation_step_is_its_execution() -> None:
    native = HEAD + "for x in range(9):\n    decide(model(torch.rand(2, 4).to(device)).argmax(1).item())\n"
    assert findings(native, *PASSES) == []


def test_a_guarded_read_that_cannot_move_gets_a_barrier() -> None:
    code = run_only(loop("if i == 0:\n    kept = out + 1\n    save(kept.cpu())\n"), *PASSES)
    assert "        kept = out + 1\n        torch_xla.sync()\n        save(kept.cpu())\n" in code


def test_one_barrier_serves_all_guarded_reads_of_a_block() -> None:
    lines = "if i == 0:\n    save(out.cpu())\n    if i == 0:\n        save(x.cpu())\n    save(y.cpu())\n"
    assert run_only(loop(lines), *PASSES).count("torch_xla.sync()") == 1


def test_a_guarded_read_that_a_step_follows_gets_no_barrier() -> None:
    check_noop(loop("", middle="if i == 0:\n    save(out.cpu())\n"), *PASSES)


def test_a_sample_drawn_now_and_then_does_not_hold_back_the_log() -> None:
    lines = "value = loss.item()\nprint(value)\nif i % 100 == 0:\n    keep(model(x))\n"
    code = run_only(for_either(lines), *PASSES)
    assert "    torch_xla.sync()\n    value = value.item()\n    print(value)\n" in code


def test_a_step_taken_now_and_then_does_hold_it_back() -> None:
    step = "if i % 4 == 0:\n    opt.step()\n"
    native = for_either("print(loss.item())\n" + step).replace("    opt.step()\n    print", "    print")
    assert "sync" not in run_only(native, *PASSES)
    assert findings(native, *PASSES) == [("XLA701", 16)]


HELPER = """\
def update(loss):
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
BY_HELPER = """\
for x, y in feed:
    x, y = x.to(device), y.to(device)
    update(F.cross_entropy(model(x), y))
"""


def test_a_read_behind_the_step_of_a_helper_gets_a_barrier_and_is_mentioned() -> None:
    native = HEAD + HELPER + "    return {'loss': loss.item()}\n" + BY_HELPER
    assert "    torch_xla.sync()\n    return {'loss': loss.item()}\n" in run_only(native, *PASSES)
    assert findings(native, *PASSES) == [("XLA703", 14)]


def test_a_guarded_read_behind_the_step_of_a_helper_gets_a_barrier() -> None:
    native = HEAD + HELPER + "    if verbose:\n        print(loss.item())\n" + BY_HELPER
    assert "        torch_xla.sync()\n        print(loss.item())\n" in run_only(native, *PASSES)
    assert findings(native, *PASSES) == []


def test_a_helper_called_now_and_then_gets_its_barrier_without_a_finding() -> None:
    now_and_then = BY_HELPER.replace("    update", "    if ready(): update")
    native = HEAD + HELPER + "    log(loss.item())\n" + now_and_then
    assert "    torch_xla.sync()\n    log(loss.item())\n" in run_only(native, *PASSES)
    assert findings(native, *PASSES) == []


def test_what_a_helper_computes_behind_its_step_is_reported() -> None:
    native = HEAD + HELPER + "    return (loss * 2).item()\n" + BY_HELPER
    check_noop(native, *PASSES)
    assert findings(native, *PASSES) == [("XLA701", 14)]


def test_a_read_before_the_step_of_a_helper_is_reported() -> None:
    native = HEAD + HELPER.replace("    opt.step", "    log(loss.item())\n    opt.step") + BY_HELPER
    check_noop(native, *PASSES)
    assert findings(native, *PASSES) == [("XLA701", 13)]


def test_a_helper_that_loops_over_steps_gets_no_barrier() -> None:
    epoch = HELPER + "def epoch():\n" + indent(BY_HELPER, "    ") + "    print(model.weight.sum().item())\n"
    assert "sync" not in run_only(HEAD + epoch + "for i in range(3):\n    epoch()\n", *PASSES)


BACKWARD = "def backward(loss):\n    loss.backward()\n    return loss.item()\n"


def test_a_read_behind_the_backward_pass_of_a_helper_gets_a_barrier_where_that_ends_the_step() -> None:
    by_hand = "for p in model.parameters():\n        p.data.add_(p.grad, alpha=-0.1)\n"
    helper = BACKWARD.replace("    return", f"    {by_hand}    return")
    native = HEAD + helper + BY_HELPER.replace("update", "backward")
    assert "    torch_xla.sync()\n    return loss.item()\n" in run_only(native, *PASSES)


def test_a_read_between_backward_pass_and_step_is_reported() -> None:
    native = HEAD + BACKWARD + BY_HELPER.replace("update", "backward") + "    opt.step()\n"
    check_noop(native, *PASSES)
    assert findings(native, *PASSES) == [("XLA701", 12)]


def test_samples_that_are_written_to_a_file_now_and_then_get_a_barrier() -> None:
    write = "if i == 0:\n    torchvision.utils.save_image(out.data[:25], f'{i}.png')\n"
    code = run_only("import torchvision\n" + loop(write), *PASSES)
    assert "        torch_xla.sync()\n        torchvision.utils.save_image(out.data[:25]" in code


FINITE = "if not torch.isnan({}).any():\n            check(value)\n"
MANY = "for name, value in model.named_parameters():\n        " + FINITE


def test_what_reads_many_values_now_and_then_has_the_step_run_before() -> None:
    code = run_only(loop("if i % 9 == 0:\n    " + MANY.format("value.grad").replace("\n", "\n    ")), *PASSES)
    assert "    if i % 9 == 0:\n        torch_xla.sync()\n        for name, value in" in code
    assert code.count("torch_xla.sync()") == 1


def test_what_reads_many_values_in_each_step_has_it_run_before() -> None:
    code = run_only(loop(MANY.format("value")), *PASSES)
    assert "    torch_xla.sync()\n    for name, value in model.named_parameters():\n" in code


def test_behind_a_barrier_of_the_script_itself_a_guarded_read_gets_no_other() -> None:
    shown = "if i % 9 == 0:\n    torch.cuda.synchronize()\n    check(float(out.sum()))\n"
    code = run_only(loop(shown), "cuda_utilities", *PASSES)
    assert "        torch_xla.sync(wait=True)\n        check(float(out.sum()))" in code


def test_a_loop_of_micro_batches_that_reads_gets_none() -> None:
    micro = "for part in x:\n        out = model(part)\n        check(float(out.sum()))\n"
    micro += "        out.sum().backward()\n"
    assert "sync" not in run_only(loop("", middle=micro), *PASSES)


def test_a_loop_of_steps_that_reads_gets_none() -> None:
    steps = "for one in (opt, opt):\n    one.step()\n    check(float(out.sum()))\n"
    assert "sync" not in run_only(loop("", middle=steps), *PASSES)


def test_a_loop_that_reads_nothing_gets_none() -> None:
    silent = "for name, value in model.named_parameters():\n    check(value)\n"
    assert "sync" not in run_only(loop(silent), *PASSES)


CALLED = """\
def halve(x):
    while x.norm() > 3:
        x = x / 2
    return x


def take(x, y, rows=None):
    out = model(halve(x))
    loss = F.cross_entropy(out, y)
{}    opt.zero_grad()
    loss.backward()
    opt.step()


for x, y in feed:
    take(x.to(device), y.to(device))
"""


def in_function(lines: str) -> list[tuple[str, int]]:
    body = indent(dedent(lines), "    ")
    return [f for f in findings(HEAD + CALLED.format(body), *PASSES) if f != ("XLA702", 11)]


def test_what_a_function_of_the_step_knows_has_no_finding() -> None:
    assert in_function("if rows is not None:\n    loss = loss * 2\n") == []
    assert in_function("for row in range(x.size(0)):\n    loss += row\n") == []


def test_a_branch_in_a_function_that_the_loop_calls_is_reported() -> None:
    assert in_function("if torch.isnan(loss):\n    return None\n") == [("XLA702", 19)]
    assert in_function("assert loss.isfinite().all()\n") == [("XLA702", 19)]


def test_a_loop_that_counts_by_a_tensor_is_reported() -> None:
    assert in_function("for turn in range(int(y.max())):\n    loss = loss + turn\n") == [("XLA702", 19)]


def test_a_branch_further_down_is_reported_with_the_line_of_the_loop() -> None:
    found = migrate(HEAD + CALLED.format(""), *PASSES).findings
    assert [(f.code, f.span.line, f.message) for f in found] == [
        ("XLA702", 11, "x.norm() > 3 is needed on the host in every step of the loop in line 24")
    ]


def test_a_branch_in_what_an_evaluation_calls_is_reported_as_well() -> None:
    training = "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
    code = HEAD + CALLED.format("").replace(training, "    return out\n")
    assert ("XLA702", 11) in findings(code, *PASSES)


def test_a_decision_behind_the_barrier_of_a_step_costs_nothing_more() -> None:
    told = "    opt.step()\n    print(loss.item())\n    if loss.item() > 5:\n        stop()\n"
    code = HEAD + CALLED.format("").replace("    opt.step()\n", told)
    found = findings(code, *PASSES)
    assert [place for place in found if place[1] > 11 and place[0] == "XLA702"] == []
    without = code.replace("    print(loss.item())\n", "")
    assert findings(without, *PASSES) == [("XLA702", 11), ("XLA703", 22)]  # it has a barrier of its own


def test_a_branch_that_never_was_taken_on_cuda_has_no_finding() -> None:
    assert in_function("if not torch.cuda.is_available():\n    assert loss.isfinite().all()\n") == []


def test_what_a_model_runs_as_well_is_told_once() -> None:
    net = "class Net(torch.nn.Module):\n    def forward(self, x):\n        return halve(x)\n\n\n"
    head = HEAD.replace("device = ", net + "device = ").replace("torch.nn.Linear(4, 3)", "Net()")
    found = [code for code, _ in findings(head + CALLED.format(""), *PASSES, "model_reads")]
    assert found.count("XLA702") + found.count("XLA705") == 1


def test_a_guarded_loop_that_reads_has_one_barrier_before_it() -> None:
    lines = "if i == 3:\n    for k in range(8):\n        show(x[k].cpu().numpy())\n"
    text = run_only(loop(lines), *PASSES)
    assert text.count("torch_xla.sync()") == 1
    assert "    if i == 3:\n        torch_xla.sync()\n        for k in range(8):\n            show(" in text
