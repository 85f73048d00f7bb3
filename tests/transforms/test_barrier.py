"""One barrier for every iteration of a training or evaluation loop, never two, none missing."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from transforms.helpers import check_noop, check_transformed, migrate, run_only

from xla_transforms.settings import Settings

PASSES = ("loaders", "transfers", "steps", "barrier")
TOP = """\
import torch
from torch import nn, optim
from torch.utils.data import DataLoader
"""
NET = """
device = torch.device("cuda")
net = nn.Linear(2, 2).to(device)
opt = optim.SGD(net.parameters(), lr=0.1)
feed = DataLoader(rows)
"""


def check(before: str, after: str) -> None:
    """Under the barrier pass alone, which asks for nothing but ``torch_xla``."""
    code, expected = dedent(before).lstrip("\n"), dedent(after).lstrip("\n")
    check_transformed(TOP + NET + code, TOP + "import torch_xla\n" + NET + expected, "barrier")


def noop(code: str) -> None:
    check_noop(TOP + NET + dedent(code).lstrip("\n"), "barrier")


def body(code: str) -> str:
    """What becomes of the code below the head under all passes about loops."""
    text = run_only(TOP + NET + dedent(code).lstrip("\n"), *PASSES)
    return text[text.index("feed = DataLoader(rows)\n") :]


# ---- nothing to do


@pytest.mark.parametrize(
    "code",
    [
        "for x in rows:\n    print(x)\n", "for p in net.parameters():\n    p.data.zero_()\n", "net(1)\n",
        "for epoch in range(3):\n    opt.param_groups[0]['lr'] = epoch\n", "while wait():\n    pass\n",
        "outputs = [net(x) for x in rows]\n", "for i in range(3):\n    sched.step()\n",
    ],
)  # fmt: skip
def test_code_without_step_loops(code: str) -> None:
    noop(code)


def test_a_loop_that_a_device_loader_drives() -> None:
    noop("for x, y in feed:\n    net(x.to(device)).sum().backward()\n    opt.step()\n")


def test_a_script_without_cuda() -> None:
    check_noop(TOP + "net = nn.Linear(2, 2)\nwhile True:\n    net(x)\n", "barrier")


def test_a_migrated_script() -> None:
    check_noop(TOP + "import torch_xla\n" + NET + "while True:\n    net(x)\n", "barrier")


def test_the_loop_around_step_loops_has_none() -> None:
    before = """
        for epoch in range(3):
            while more():
                net(get())
            print(epoch)
        """
    after = """
        for epoch in range(3):
            while more():
                net(get())
                torch_xla.sync()
            print(epoch)
        """
    check(before, after)


# ---- behind the last device work


def test_behind_the_step_and_before_what_only_looks() -> None:
    before = """
        for step in range(100):
            loss = net(get_batch()).sum()
            loss.backward()
            opt.step()
            opt.zero_grad()
            print(step)
        """
    check(before, before.replace("            print", "            torch_xla.sync()\n            print"))


def test_in_an_evaluation_loop() -> None:
    before = """
        @torch.no_grad()
        def score(batches):
            net.eval()
            for x, y in batches:
                guess = net(x.cuda()).argmax(1)
                hit += (guess == y.cuda()).sum()
            return float(hit)
        """
    text = run_only(TOP + NET + dedent(before).lstrip("\n"), "barrier")
    assert text.count("torch_xla.sync()") == 1
    assert "guess = net(x.cuda()).argmax(1)\n        torch_xla.sync()\n" in text or (
        ".sum()\n        torch_xla.sync()\n" in text
    )


def test_every_micro_batch_of_an_accumulation_is_an_iteration() -> None:
    before = """
        for i in range(100):
            net(get()).sum().backward()
            if i % 4 == 3:
                opt.step()
                opt.zero_grad()
        """
    check(before, before.rstrip(" ") + "            torch_xla.sync()\n")


def test_an_accumulation_over_an_inner_loop() -> None:
    before = """
        for step in range(100):
            for micro in range(4):
                net(get()).sum().backward()
            opt.step()
            opt.zero_grad()
        """
    after = """
        for step in range(100):
            for micro in range(4):
                net(get()).sum().backward()
                torch_xla.sync()
            opt.step()
            opt.zero_grad()
            torch_xla.sync()
        """
    check(before, after)


def test_an_accumulation_whose_inner_loop_is_in_a_helper() -> None:
    before = """
        def accumulate(batches):
            opt.zero_grad()
            for batch in batches:
                net(batch).sum().backward()

        def update(batches):
            accumulate(batches)
            opt.step()

        while more():
            update(get())
            print("done")
        """
    after = """
        def accumulate(batches):
            opt.zero_grad()
            for batch in batches:
                net(batch).sum().backward()
                torch_xla.sync()

        def update(batches):
            accumulate(batches)
            opt.step()

        while more():
            update(get())
            torch_xla.sync()
            print("done")
        """
    check(before, after)


def test_a_step_inside_a_helper_or_a_method() -> None:
    before = """
        class Runner:
            def __init__(self):
                self.net, self.opt = net, opt

            def one(self, x):
                self.net(x).sum().backward()
                self.opt.step()

        def one(x):
            net(x).sum().backward()
            opt.step()

        runner = Runner()
        while True:
            runner.one(get())
            count += 1
        while True:
            one(get())
        """
    after = before.replace(
        "runner.one(get())\n", "runner.one(get())\n            torch_xla.sync()\n"
    ).replace("            one(get())\n", "            one(get())\n            torch_xla.sync()\n")
    check(before, after)


def test_two_optimizers_in_one_iteration() -> None:
    code = """
        dis = optim.Adam(net.parameters())
        while True:
            dis.zero_grad()
            net(get()).sum().backward()
            dis.step()
            opt.zero_grad()
            net(get()).sum().backward()
            opt.step()
        """
    text = body(code)
    assert text.count("torch_xla.sync()") == 1
    assert text.endswith("    xm.optimizer_step(opt)\n    torch_xla.sync()\n")


def test_a_closure() -> None:
    before = """
        while True:
            def closure():
                opt.zero_grad()
                loss = net(get()).sum()
                loss.backward()
                return loss
            opt.step(closure)
        """
    check(before, before.rstrip(" ") + "            torch_xla.sync()\n")


def test_a_loop_on_one_line() -> None:
    code = TOP + NET + "while True: net(get()); print(1)\n"
    text = run_only(code, "barrier", settings=Settings(black=None))
    assert text.endswith("while True: net(get()); torch_xla.sync(); print(1)\n")
    clean = run_only(code, "barrier")
    assert clean.endswith("while True:\n    net(get())\n    torch_xla.sync()\n    print(1)\n")


def test_work_on_the_last_line_without_newline() -> None:
    text = run_only(TOP + NET + "while True:\n    net(get())", "barrier")
    assert text.endswith("while True:\n    net(get())\n    torch_xla.sync()")


def test_tabs_and_comments() -> None:
    before = "while True:\n\tnet(get())  # forward\n\t# then\n\tprint(1)\n"
    check(before, before.replace("# forward\n", "# forward\n\ttorch_xla.sync()\n"))


# ---- early ends


def test_before_a_break_of_a_loop_that_a_device_loader_drives() -> None:
    code = """
        for i, (x, y) in enumerate(feed):
            if i == 0:
                continue
            net(x.to(device)).sum().backward()
            opt.step()
            if i % 2:
                continue
            if i > 10:
                break
        """
    text = body(code)
    assert text.count("torch_xla.sync()") == 1
    assert "        torch_xla.sync()\n        break\n" in text


def test_before_a_return_out_of_the_loop() -> None:
    code = """
        def fit():
            for x, y in feed:
                net(x.to(device)).sum().backward()
                opt.step()
                for z in rows:
                    if z:
                        return z
        """
    text = body(code)
    assert text.count("torch_xla.sync()") == 1
    assert "                torch_xla.sync()\n                return z\n" in text


def test_before_a_continue_where_the_barrier_is_explicit() -> None:
    before = """
        while True:
            loss = net(get()).sum()
            if skip:
                continue
            loss.backward()
            opt.step()
        """
    after = """
        while True:
            loss = net(get()).sum()
            if skip:
                torch_xla.sync()
                continue
            loss.backward()
            opt.step()
            torch_xla.sync()
        """
    check(before, after)


def test_exits_before_any_work_and_behind_the_barrier_need_none() -> None:
    before = """
        while True:
            if done:
                break
            net(get())
            if more:
                break
            for x in rows:
                if x:
                    break
        """
    check(before, before.replace("net(get())\n", "net(get())\n            torch_xla.sync()\n"))


def test_an_exit_on_the_line_of_its_condition() -> None:
    before = "while True:\n    loss = net(get())\n    if skip: continue\n    loss.backward()\n"
    text = run_only(TOP + NET + before, "barrier", settings=Settings(black=None))
    assert "    if skip: torch_xla.sync(); continue\n" in text
    assert text.endswith("    loss.backward()\n    torch_xla.sync()\n")


# ---- barriers of the script's own


def test_a_synchronize_each_iteration_is_the_barrier() -> None:
    code = """
        for x, y in feed:
            t0 = time.perf_counter()
            net(x.cuda()).sum().backward()
            opt.step()
            torch.cuda.synchronize()
            spent += time.perf_counter() - t0
        """
    text = body(code)
    assert "torch_xla.sync()" not in text
    assert "MpDeviceLoader" not in text
    outcome = migrate(TOP + NET + dedent(code).lstrip("\n"), *PASSES)
    assert any("its barrier" in f.message for f in outcome.findings)


@pytest.mark.parametrize(
    "leaving",
    [
        "torch.cuda.synchronize()\nbreak\n",
        "torch.cuda.synchronize()\nprint(time())\nbreak\n",
        "torch.cuda.synchronize()\nif late:\n    print(time())\n    break\n",
        "if device.type == 'cuda':\n    torch.cuda.synchronize()\nbreak\n",
    ],
)
def test_an_exit_behind_a_wait_of_the_script_needs_no_barrier(leaving: str) -> None:
    step = "for x, y in feed:\n    net(x.to(device)).sum().backward()\n    opt.step()\n    if over():\n"
    noop(step + indent(leaving, " " * 8))


@pytest.mark.parametrize(
    "leaving",
    ["torch.cuda.synchronize()\nnet(ones)\n", "if late:\n    torch.cuda.synchronize()\n", "print(time())\n"],
)
def test_an_exit_behind_work_that_nothing_waits_for_needs_a_barrier(leaving: str) -> None:
    step = "for x, y in feed:\n    net(x.to(device)).sum().backward()\n    opt.step()\n    if over():\n"
    code = step + indent(leaving + "{}break\n", " " * 8)
    check(code.format(""), code.format("torch_xla.sync()\n        "))


def test_an_exit_behind_the_barrier_of_a_read_needs_no_other() -> None:
    step = "for x, y in feed:\n    out = net(x.to(device))\n    out.sum().backward()\n    opt.step()\n"
    code = step + "    if over():\n        kept = out + 1\n        save(kept.cpu())\n        break\n"
    text = run_only(TOP + NET + code, "loaders", "transfers", "step_closures", "host_reads", "barrier")
    assert text.endswith("        torch_xla.sync()\n        save(kept.cpu())\n        break\n")


def test_a_synchronize_now_and_then_is_not() -> None:
    code = """
        while True:
            net(get())
            if log:
                torch.cuda.synchronize()
        """
    assert body(code).count("torch_xla.sync()") == 1


def test_never_barrier_true() -> None:
    assert "barrier=True" not in body("for x, y in feed:\n    net(x.cuda()).backward()\n    opt.step()\n")


def test_a_loop_over_time_steps_inside_a_step_gets_no_barrier_of_its_own() -> None:
    code = """
        import torch

        cell = torch.nn.RNNCell(4, 8).cuda()
        optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
        for step in range(10):
            x, h = torch.randn(5, 3, 4).cuda(), torch.zeros(3, 8).cuda()
            for t in range(5):
                h = cell(x[t], h)
            h.mean().backward()
            optimizer.step()
    """
    assert run_only(code, "barrier").count("torch_xla.sync()") == 1


def test_a_module_that_trains_itself_gets_its_barrier() -> None:
    code = """\
        import torch


        class Layer(torch.nn.Linear):
            def fit(self, x, opt: torch.optim.Optimizer):
                for i in range(3):
                    loss = self.forward(x.cuda()).sum()
                    loss.backward()
                    opt.step()
                    print(i)
        """
    assert "torch_xla.sync()\n            print(i)" in migrate(code).code


def test_time_steps_in_a_module_get_no_barrier() -> None:
    code = """\
        import torch


        class Net(torch.nn.Module):
            def forward(self, x):
                for part in x.cuda():
                    y = self.cell(part)
                return y
        """
    assert "sync" not in migrate(code).code


MODEL = """
class Net(nn.Module):
    def forward(self, x):
        return self.layer(x)

    {}
    def run(self, x):
        for i in range(10):
            {}
        return x


net = Net().cuda()
"""


@pytest.mark.parametrize(
    ("decorator", "line"),
    [
        ("# with gradients", "x = self(x)"),
        ("@torch.no_grad()", "x = self.layer(x)"),
        ("@torch.no_grad()", "x = x + i"),
    ],
)
def test_a_loop_within_a_forward_pass_is_a_part_of_it(decorator: str, line: str) -> None:
    check_noop(TOP + MODEL.format(decorator, line), "barrier")


@pytest.mark.parametrize("decorator", ["@torch.no_grad()", "@torch.inference_mode()", "@torch.no_grad"])
def test_a_model_that_generates_has_a_barrier_a_token(decorator: str) -> None:
    text = run_only(TOP + MODEL.format(decorator, "x = torch.cat((x, self(x)))"), "barrier")
    assert "            x = torch.cat((x, self(x)))\n            torch_xla.sync()\n        return x\n" in text


def test_a_loop_that_only_notes_names_in_a_model_takes_no_step() -> None:
    code = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.left_out = []

    def leave_out(self, name):
        self.left_out.append(name)


net = Net().cuda()
for name, param in net.named_parameters():
    net.leave_out(name)
"""
    check_noop(code, "barrier")
