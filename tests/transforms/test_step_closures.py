"""Statements of a step that only show or store values."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent

import pytest
from helpers import check_noop, migrate, run_only

HEAD = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 3).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.StepLR(opt, 5)
feed = DataLoader(data, batch_size=8)
losses = []
best = 0.0
"""
STEP = """\
x, y = x.cuda(), y.cuda()
out = model(x)
loss = F.cross_entropy(out, y)
opt.zero_grad()
loss.backward()
opt.step()
"""


def loop(lines: str, *, end: str = "print(losses)", middle: str = "") -> str:
    body = indent(STEP.replace("opt.zero_grad()\n", middle + "opt.zero_grad()\n") + dedent(lines), "    ")
    return f"{HEAD}for i, (x, y) in enumerate(feed):\n{body}{end}\n"


def closure(lines: str) -> str:
    """What stands behind the step after the migration."""
    code = run_only(loop(lines), "accumulators", "step_closures")
    assert "opt.step()\n" in code
    return dedent(code.split("    opt.step()\n")[1].rsplit("print(losses)", 1)[0]).strip("\n")


def check(lines: str, expected: str) -> None:
    assert closure(lines) == dedent(expected).strip("\n")


@pytest.mark.parametrize(
    "lines",
    [
        "print(i)\n",
        "losses.append(i)\n",
        "losses.append(loss.detach())\n",
        "print(out.shape, len(x))\n",
    ],
)
def test_what_reads_nothing_stays(lines: str) -> None:
    check_noop(loop(lines), "step_closures")


def test_a_value_that_decides_stays() -> None:
    check_noop(loop("if loss.item() > 5:\n    break\n"), "step_closures")


def test_a_list_that_is_used_in_the_loop_stays() -> None:
    check_noop(loop("losses.append(loss.item())\nif losses[-1] > 5:\n    break\n"), "step_closures")


def test_what_precedes_the_end_of_the_program_stays() -> None:
    check_noop(loop("if i > 5:\n    print(loss.item())\n    raise SystemExit(1)\n"), "step_closures")


def test_a_string_over_several_lines_stays() -> None:
    check_noop(loop('print(f"""loss\n  {loss.item()}""")\n'), "step_closures")


def test_weights_that_the_step_is_yet_to_change_stay() -> None:
    native = loop("", middle="print(model.weight, loss.item())\n")
    check_noop(native, "step_closures")


def test_a_print_every_few_steps() -> None:
    check(
        """\
        if i % 10 == 0:
            print(f"step {i}: {loss.item():.4f}")
        """,
        """\
        if i % 10 == 0:

            def log_step(i, loss):
                print(f"step {i}: {loss.item():.4f}")

            xm.add_step_closure(log_step, args=(i, loss))
        """,
    )


def test_neighbours_go_together_and_keep_their_comments() -> None:
    check(
        """\
        # how it goes
        print(loss)

        losses.append(loss.item())  # for the plot
        print("-" * 20)
        """,
        """\
        # how it goes
        def log_step(loss):
            print(loss)

            losses.append(loss.item())  # for the plot
            print("-" * 20)

        xm.add_step_closure(log_step, args=(loss,))
        """,
    )


def test_what_the_device_must_compute_is_handed_over() -> None:
    check(
        "losses.extend(out.argmax(1).cpu().tolist())\n",
        """\

        def log_step(out_argmax):
            losses.extend(out_argmax.cpu().tolist())

        xm.add_step_closure(log_step, args=(out.argmax(1),))
        """,
    )


def test_a_number_of_the_module_is_bound_as_a_global() -> None:
    check(
        "best = max(best, loss.item())\n",
        """\

        def log_step(loss):
            global best
            best = max(best, loss.item())

        xm.add_step_closure(log_step, args=(loss,))
        """,
    )


def test_a_learning_rate_that_changes_before_the_closure_runs_is_read_at_once() -> None:
    check(
        """\
        print(loss.item(), sched.get_last_lr()[0])
        sched.step()
        """,
        """\

        def log_step(loss, last_lr):
            print(loss.item(), last_lr)

        xm.add_step_closure(log_step, args=(loss, sched.get_last_lr()[0]))
        sched.step()
        """,
    )


def test_a_sum_that_is_shown_and_reset() -> None:
    native = loop("best += loss.item()\nif i % 5 == 4:\n    print(best / 5)\n    best = 0.0\n")
    code = run_only(native, "accumulators", "step_closures")
    assert "    best += loss.detach()\n    if i % 5 == 4:\n\n        def log_step(best):\n" in code
    assert "            best = float(best)\n            print(best / 5)\n" in code
    assert "        xm.add_step_closure(log_step, args=(best,))\n        best = 0.0\n" in code
    assert "\nbest = float(best)\nprint(losses)" in code


def test_a_sum_that_grows_before_the_closure_runs_is_not_changed_in_place() -> None:
    native = loop("if i % 5 == 0:\n    print(best)\nbest += loss.item()\n")
    assert "    best = best + loss.detach()\n" in run_only(native, "accumulators", "step_closures")


def test_a_value_read_in_the_middle_of_the_step_is_read_where_it_is_shown() -> None:
    native = loop("if i % 5 == 0:\n    print(mean)\n", middle="mean = out.mean().item()\n")
    code = run_only(native, "accumulators", "step_closures")
    assert "    mean = out.mean().detach()\n" in code
    assert "            mean = mean.item()\n            print(mean)\n" in code


def test_a_meter_and_what_shows_it() -> None:
    meter = """\
    class Meter:
        def __init__(self):
            self.total = 0.0
        def update(self, value, n):
            self.total += value * n
    meter = Meter()
    """
    native = loop("meter.update(loss.item(), x.size(0))\nif i % 5 == 0:\n    print(meter.total)\n")
    code = run_only(native.replace("best = 0.0\n", dedent(meter)), "step_closures")
    assert (
        "        meter.update(loss.item(), x.size(0))\n\n    xm.add_step_closure(log_step, args=(loss, x))"
        in code
    )
    assert "            print(meter.total)\n\n        xm.add_step_closure(log_step_2, args=())" in code


def test_methods_keep_self() -> None:
    native = """\
    import torch
    from torch.utils.data import DataLoader

    class Trainer:
        def __init__(self, model, data):
            self.model, self.loader = model.cuda(), DataLoader(data, 4)
            self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.history, self.step = [], 0

        def fit(self):
            for x in self.loader:
                loss = self.model(x.cuda()).mean()
                loss.backward()
                self.opt.step()
                self.history.append((self.step, loss.item()))
                self.step += 1
    """
    code = run_only(native, "step_closures")
    assert "def log_step(loss, step):\n                self.history.append((step, loss.item()))" in code
    assert "args=(loss, self.step)" in code


def test_no_closure_where_a_flag_may_choose_the_cpu() -> None:
    native = loop("print(loss.item())\n").replace(".cuda()", ".to(device)")
    native = native.replace(
        "model =", 'import sys\ndevice = torch.device("cuda" if "--gpu" in sys.argv else "cpu")\nmodel =', 1
    )
    check_noop(native, "step_closures")


RUNNING = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
data = TensorDataset(torch.randn(80, 4), torch.randint(0, 3, (80,)))
feed = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 3).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
losses, worst, hits = [], 0.0, 0
for epoch in range(3):
    meter = 0.0
    for i, (x, y) in enumerate(feed):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        meter += loss.item()
        hits += (out.argmax(1) == y).sum().item()
        losses.append(loss.item())
        worst = max(worst, loss.item())
        if i % 4 == 3:
            print(f"{epoch} {i} {meter / 4:.4f} {losses[-1]:.4f}")
            meter = 0.0
    print(f"{epoch} {meter:.4f} {hits} {worst:.4f} {sum(losses) / len(losses):.4f}")
"""
COUNTING = """
import torch_xla.debug.metrics as met
xm.wait_device_ops()
print("executions", met.metric_data("ExecuteTime")[0])
"""


@pytest.mark.slow
def test_the_values_are_the_same_with_one_execution_a_step(tmp_path: Path) -> None:
    def output(code: str) -> list[str]:
        path = tmp_path / "train.py"
        path.write_text(code)
        environment = {**os.environ, "PJRT_DEVICE": "CPU"}
        done = subprocess.run(
            [sys.executable, path], capture_output=True, text=True, env=environment, check=True, timeout=300
        )
        return done.stdout.splitlines()

    native = output(RUNNING)
    *migrated, count = output(migrate(RUNNING).data.decode() + COUNTING)
    assert migrated == native
    assert count == "executions 30"


def test_what_one_closure_binds_is_not_handed_to_another() -> None:
    lines = """\
        if i % 10 == 0:
            shown = loss.item() * 2
            if i > 5:
                rate = measure(i)
            print(shown, rate)
        """
    check(lines, lines)


def test_what_is_evaluated_at_once_is_written_for_the_device_too() -> None:
    code = migrate(loop("print(i, model(probe.cuda()).argmax(1))\n")).data.decode()
    assert (
        "    def log_step(i, model_argmax):\n        print(i, model_argmax)\n\n"
        "    xm.add_step_closure(log_step, args=(i, model(probe.to(device)).argmax(1)))\n"
    ) in code


@pytest.mark.parametrize(
    "head",
    [
        "with open(path, 'a') as f:\n    f.write(f'{loss.item()}')\n",
        "with open(path, 'a') as f:\n    print(loss.item(), file=f)\n",
        "with redirect_stdout(log):\n    print(loss.item())\n",
        "with writer.as_default():\n    summary.add_scalar('loss', loss.item(), i)\n",
        "with tqdm(total=3) as bar:\n    bar.set_postfix(loss=loss.item())\n",
        "if i % 5 == 0:\n    with open(path, 'a') as f:\n        f.write(f'{loss.item()}')\n",
    ],
)
def test_what_a_with_statement_closes_stays_in_it(head: str) -> None:
    check_noop(loop(head), "step_closures")


@pytest.mark.parametrize(
    "context",
    ["torch.no_grad()", "torch.autograd.profiler.record_function('log')", "amp", "contextlib.nullcontext()"],
)
def test_a_mode_of_torch_keeps_no_line_back(context: str) -> None:
    code = HEAD + "import contextlib\namp = contextlib.nullcontext() if cpu else torch.autocast('cuda')\n"
    code = loop(f"with {context}:\n    print(loss.item())\n").replace(HEAD, code)
    assert "xm.add_step_closure(log_step, args=(loss,))" in run_only(code, "step_closures")
