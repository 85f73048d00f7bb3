"""Decisions by a number that each replica has for itself."""

from __future__ import annotations

from helpers import check_noop, migrate
from replicated import IMPORTS, launched

HEAD = """
data = torch.utils.data.TensorDataset(torch.randn(64, 4))
sampler = DistributedSampler(data)


def evaluate(model, loader):
    total = 0.0
    for x in loader:
        total += model(x.cuda()).mean().item()
    return total / len(loader)


def mean(value):
    t = torch.tensor(value)
    dist.all_reduce(t)
    return t.item() / dist.get_world_size()


def processes():
    return dist.get_world_size() if dist.is_initialized() else 1


def averaged(losses):
    count = processes()
    if count < 2:
        return losses
    names = sorted(losses.keys())
    values = torch.stack([losses[name] for name in names])
    dist.all_reduce(values)
    return dict(zip(names, values / count))


class Stopping:
    def __init__(self):
        self.best, self.waited, self.stop = 0.0, 0, False

    def __call__(self, score):
        if score < self.best:
            self.best = score
        else:
            self.waited += 1
            self.stop = self.waited > 3


class Pace:
    def __init__(self, optimizer):
        self.steps = 0

    def rate(self):
        return self.inherited.rate
"""
SETUP = (
    "model = DDP(torch.nn.Linear(4, 1).cuda())",
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)",
    "stopping = Stopping()",
    "train = DataLoader(data, 4, sampler=sampler)",
    "held = DataLoader(data, 4, sampler=DistributedSampler(data))",
    "whole = DataLoader(data, 4)",
    "for epoch in range(3):",
    "    for step, x in enumerate(train):",
    "        loss = model(x.cuda()).mean()",
)
STEP = ("        loss.backward()", "        optimizer.step()")


def told(*lines: str, in_step: tuple[str, ...] = ()) -> list[str]:
    """What is said of lines at the end of an epoch, and of lines between forward and backward."""
    inner = (f"        {line}" for line in in_step)
    code = launched(*SETUP, *inner, *STEP, *(f"    {line}" for line in lines), before=HEAD)
    check_noop(code, "decisions")
    return [f.message.rpartition(": ")[2] for f in migrate(code, "decisions").findings if f.code == "XLA171"]


def test_one_process_decides_for_itself() -> None:
    code = (
        IMPORTS
        + HEAD.replace("sampler=sampler", "")
        + "for x in DataLoader(data):\n    x.cuda()\n    break\n"
    )
    check_noop(code, "decisions")


def test_a_number_of_all_data_is_the_same_everywhere() -> None:
    assert told("score = evaluate(model, whole)", "if score < 0.1:", "    break", "plateau.step(score)") == []


def test_a_reduced_number_is_the_same_everywhere() -> None:
    assert (
        told("score = mean(evaluate(model, held))", "if score < 0.1:", "    break", "plateau.step(score)")
        == []
    )


def test_what_one_process_would_get_back_does_not_count() -> None:
    lines = ("shown = sum(averaged({'loss': loss}).values()).item()", "if shown > 9:", "    break")
    assert told(in_step=lines) == []
    unreduced = ("shown = sum({'loss': loss}.values()).item()", "if shown > 9:", "    break")
    assert told(in_step=unreduced) == ["one of them leaves where the others go on"]


def test_a_counter_is_the_same_everywhere() -> None:
    assert (
        told("if epoch > 3:", "    break", "plateau.step(epoch)", in_step=("if step > 9:", "    break")) == []
    )


def test_what_is_only_shown_may_differ() -> None:
    assert told("score = evaluate(model, held)", "if score < 0.1:", '    print("good")') == []


def test_the_function_is_told_apart_by_what_it_is_handed() -> None:
    lines = ("a, b = evaluate(model, held), evaluate(model, whole)", "if b < 0.1:", "    break")
    assert told(*lines) == []


def test_what_an_object_inherits_is_the_same_everywhere() -> None:
    assert told("pace = Pace(optimizer)", "if pace.rate() < 0.1:", "    break") == []


def test_one_stops_early() -> None:
    assert told("if evaluate(model, held) < 0.1:", "    break") == [
        "one of them leaves where the others go on"
    ]


def test_one_stops_early_by_a_flag() -> None:
    lines = ("stopping(evaluate(model, held))", "if stopping.stop:", "    break")
    assert told(*lines) == ["one of them leaves where the others go on"]


def test_one_skips_a_step() -> None:
    found = told(in_step=("if torch.isnan(loss):", "    continue"))
    assert found == ["one of them leaves where the others go on"]


def test_one_takes_a_step_more() -> None:
    assert told(in_step=("if loss > 3:", "    optimizer.step()")) == ["not all of them take the step"]


def test_one_saves() -> None:
    found = told("if evaluate(model, held) < 0.1:", '    torch.save(model.state_dict(), "best.pt")')
    assert found == ["not all of them reach the save"]


def test_learning_rates_differ() -> None:
    assert told("plateau.step(evaluate(model, held))") == ["learning rates differ"]
