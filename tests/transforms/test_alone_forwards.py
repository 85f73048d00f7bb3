"""Models that one replica alone runs in the middle of a step."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, migrate, run_only
from replicated import launched

from xla_transforms.settings import Settings

BEFORE = """
import pickle
from ours import loader, interval


def evaluate(model):
    with torch.no_grad():
        return sum(model(x.cuda()).sum().item() for x in loader)


def shown(model):
    for x in loader:
        print(model(x.cuda()))


def keep(model):
    pickle.dump(model.state_dict(), open("a", "wb"))


def by_master(model):
    if dist.get_rank() != 0:
        return None
    with torch.no_grad():
        for x in loader:
            print(model(x.cuda()))
"""
MODEL = (
    "rank = dist.get_rank()",
    "model = DDP(torch.nn.Linear(2, 2).cuda())",
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "data = DataLoader(files, 2)",
    "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)",
    "brief = lambda: torch.save(model.state_dict(), 'b.pt')",
)
STEP = ("optimizer.zero_grad()", "model(x.cuda()).sum().backward()", "optimizer.step()")


def trained(*lines: str, behind: tuple[str, ...] = (), first: bool = False) -> str:
    """Steps of training, the lines behind each (or before it), and others behind all."""
    body = [*lines, *STEP] if first else [*STEP, *lines]
    loop = ["for i, x in enumerate(data):", *(f"    {line}" for line in body)]
    return launched(*MODEL, *loop, *behind, before=BEFORE + "files = []\n")


def fenced(*lines: str) -> list[str]:
    """The lines behind the step as they become."""
    text = run_only(trained(*lines), "alone_forwards")
    behind = text.partition("        optimizer.step()\n")[2].partition("    device =")[0]
    return [line[8:] for line in behind.splitlines()]


@pytest.mark.parametrize(
    "lines",
    [
        ("if i % 10 == 0:", "    print(evaluate(model))"),
        ("if rank == 0:", "    print(i)"),
        ("torch.cuda.synchronize()", "if rank == 0:", "    shown(model)"),
        ("if rank == 0:", "    pickle.dump(schedule.state_dict(), f)"),
        ("if rank == 0:", "    print(sum(p.numel() for p in model.parameters()))"),
        ("if rank == 0:", "    torch.save(model.state_dict(), 'a.pt')"),
        ("match i:", "    case 0:", "        pickle.dump(model.state_dict(), f)"),
        ("pickle.dump(model.state_dict(), f)",),
    ],
)
def test_where_all_run_it_or_nobody_does_or_the_step_has_ended_nothing_comes(lines: tuple[str, ...]) -> None:
    check_noop(trained(*lines), "alone_forwards")


def test_what_goes_into_a_step_closure_waits_for_the_barrier() -> None:
    whole = ("if rank == 0 and bool(model.weight.sum() > 3):", "    shown(model)")
    check_noop(trained(*whole), "alone_forwards")
    check_noop(trained("if rank == 0:", "    print(model(x.cuda()).sum().item())"), "alone_forwards")
    both = ("if rank == 0:", "    shown(model)", "    print(model(x.cuda()).sum().item())")
    kept = ("if rank == 0:", "    print(model(x.cuda()).sum().item())", "else:", "    print(i)")
    for lines in (both, kept):
        assert fenced(*lines) == ["torch_xla.sync()", *lines]


def test_behind_the_explicit_barrier_of_an_iteration_nothing_waits() -> None:
    lines = ("if rank == 0 and x.sum().item() > 3:", "    shown(model)")  # reads the batch: not wrapped
    check_noop(trained(*lines), "alone_forwards")
    text = migrate(trained(*lines)).code
    assert "xm.optimizer_step(optimizer)\n        torch_xla.sync()\n        if rank == 0" in text


def test_before_the_step_and_behind_the_loop_nothing_waits() -> None:
    check_noop(trained("if rank == 0:", "    shown(model)", first=True), "alone_forwards")
    check_noop(trained(behind=("if rank == 0:", "    shown(model)")), "alone_forwards")


SAVES = ("if rank == 0:", "    with open('a.pt', 'wb') as f:", "        torch.save(model.state_dict(), f)")


def test_all_end_the_step_before_the_master_saves_alone() -> None:
    assert fenced(*SAVES) == ["torch_xla.sync()", *SAVES]
    assert [f.severity.label for f in migrate(trained(*SAVES)).findings if f.code == "XLA812"] == ["info"]
    first = [f.severity.label for f in migrate(trained(*SAVES, first=True)).findings if f.code == "XLA812"]
    assert first == ["info"]


def test_where_the_others_do_not_know_of_it_or_the_save_waits_it_is_an_error() -> None:
    own = ("if rank == 0 and interval(i):", *SAVES[1:])
    assert ("XLA812", "error") in [(f.code, f.severity.label) for f in migrate(trained(*own)).findings]
    waits = migrate(trained(*SAVES, first=True), settings=Settings(target="sagemaker")).findings
    assert ("XLA812", "error") in [(f.code, f.severity.label) for f in waits]


COUNTING = """
class Net(torch.nn.Linear):
    def size(self):
        return sum(p.numel() for p in self.parameters())

    def shown(self):
        return self(torch.ones(2).cuda())
"""


@pytest.mark.parametrize(("asks", "runs"), [("size", False), ("shown", True)])
def test_a_method_of_the_model_runs_it_where_it_computes(asks: str, runs: bool) -> None:
    code = trained("if rank == 0:", f"    y = model.module.{asks}()")
    code = code.replace("torch.nn.Linear(", "Net(").replace("files = []", f"files = []\n{COUNTING}")
    assert ("torch_xla.sync()" in run_only(code, "alone_forwards")) is runs


@pytest.mark.parametrize("run", ["shown(model)", "print(evaluate(model))", "y = model(torch.ones(2).cuda())"])
def test_all_end_the_step_before_the_master_runs_a_model(run: str) -> None:
    lines = ("if rank == 0:", f"    {run}")
    assert fenced(*lines) == ["torch_xla.sync()", *lines]


@pytest.mark.parametrize(
    "save",
    [
        "pickle.dump(model.module.state_dict(), f)",
        "save_file(model.module.state_dict(), 'a.safetensors')",
        "model.module.save_pretrained('out')",
        "keep(optimizer)",
        "brief()",
    ],
)
def test_all_end_the_step_before_the_master_alone_saves_otherwise(save: str) -> None:
    lines = ("if rank == 0:", f"    {save}")
    assert fenced(*lines) == ["torch_xla.sync()", *lines]


def test_all_end_the_step_before_an_expression_that_the_master_alone_evaluates() -> None:
    line = "torch.save(model.state_dict(), 'a.pt') if rank == 0 else None"
    assert fenced(line) == ["torch_xla.sync()", line]
    assert [f.severity.label for f in migrate(trained(line)).findings if f.code == "XLA812"] == ["info"]


def test_all_end_the_step_before_an_arm_of_the_master() -> None:
    lines = ("match rank:", "    case 0:", "        torch.save(model.state_dict(), 'a.pt')")
    assert fenced(*lines) == ["torch_xla.sync()", *lines]


ENGINE = """
import pickle


class Engine:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.done = model, optimizer, 0

    def step(self, x):
        self.model(x.cuda()).sum().backward()
        self.optimizer.step()
        self.done += 1
        if dist.get_rank() == 0 and self.done % 10 == 0:
            pickle.dump(self.model.state_dict(), open("a", "wb"))

    def finish(self):
        if dist.get_rank() == 0:
            pickle.dump(self.model.state_dict(), open("b", "wb"))
"""


def engine(*lines: str) -> str:
    return launched(*MODEL, "engine = Engine(model, optimizer)", *lines, before=ENGINE + "files = []\n")


def test_in_a_function_that_steps_and_then_saves_all_end_the_step() -> None:
    text = run_only(engine("for x in data:", "    engine.step(x)", "engine.finish()"), "alone_forwards")
    assert "        if self.done % 10 == 0:\n            torch_xla.sync()\n        if dist.get_rank()" in text
    assert "    def finish(self):\n        if dist.get_rank() == 0:\n" in text


def test_in_a_function_that_is_called_behind_a_step_all_end_it() -> None:
    text = run_only(engine("for x in data:", "    engine.step(x)", "    engine.finish()"), "alone_forwards")
    assert "    def finish(self):\n        torch_xla.sync()\n        if dist.get_rank() == 0:\n" in text


def test_in_a_function_that_the_master_alone_calls_nothing_is_awaited() -> None:
    lines = ("for x in data:", "    engine.step(x)", "    if rank == 0:", "        engine.finish()")
    text = run_only(engine(*lines), "alone_forwards")
    assert "    def finish(self):\n        if dist.get_rank() == 0:\n" in text
    assert "        torch_xla.sync()\n        if rank == 0:\n            engine.finish()" in text


def test_only_the_steps_in_which_it_does_are_ended() -> None:
    lines = ("if rank == 0 and i % 10 == 0:", "    shown(model)")
    assert fenced(*lines) == ["if i % 10 == 0:", "    torch_xla.sync()", *lines]


def test_a_function_that_the_others_leave_is_not_awaited_twice() -> None:
    lines = ("if rank == 0:", "    by_master(model)")
    assert fenced(*lines) == ["torch_xla.sync()", *lines]


def test_a_function_that_the_others_leave_is_called_when_the_step_has_ended() -> None:
    assert fenced("if i % 10 == 0:", "    by_master(model)") == [
        "if i % 10 == 0:",
        "    torch_xla.sync()",
        "    by_master(model)",
    ]


@pytest.mark.parametrize("asked", ["interval.reached()", "better"])
def test_a_condition_that_cannot_be_asked_twice_or_alike_is_told(asked: str) -> None:
    found = "better = i > 3 if rank == 0 else None"
    code = trained(found, f"if rank == 0 and {asked}:", "    shown(model)")
    check_noop(code, "alone_forwards")
    assert [code for code, _ in findings(code, "alone_forwards")] == ["XLA605"]
