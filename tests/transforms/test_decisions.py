"""Decisions by a number that each replica has for itself."""

from __future__ import annotations

import pytest
from helpers import check_noop, migrate
from replicated import IMPORTS, launched

from xla_transforms.settings import Settings

HEAD = """
import datetime
import time

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


class Meter:
    def __init__(self):
        self.last = 0.0

    def update(self, value):
        self.last = value


class Watch:
    def __init__(self):
        self.start = time.time()

    def over(self):
        return time.time() - self.start > 60


class Plan:
    def __init__(self):
        self.start = 3


class Pace:
    def __init__(self, optimizer):
        self.steps = 0

    def rate(self):
        return self.inherited.rate
"""
SETUP = (
    "started, elapsed = 0.0, []",
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


def test_what_is_passed_over_and_only_shows_may_differ() -> None:
    lines = ("        if loss.isnan():", "            continue", "        print(epoch)")
    code = launched(*SETUP, *STEP, *lines, before=HEAD)
    assert [f for f in migrate(code, "decisions").findings if f.code == "XLA171"] == []
    for shared in ("dist.barrier()", "torch.save(model.state_dict(), 'a.pt')"):
        code = launched(*SETUP, *STEP, *lines, f"        {shared}", before=HEAD)
        assert [f.code for f in migrate(code, "decisions").findings if f.code == "XLA171"] == ["XLA171"]


def test_what_an_object_inherits_is_the_same_everywhere() -> None:
    assert told("pace = Pace(optimizer)", "if pace.rate() < 0.1:", "    break") == []


def test_durations_that_are_only_shown() -> None:
    lines = ("took = time.time() - started", "if took > 60:", "    print(took)", "    started = time.time()")
    assert told("started = time.time()", *lines, in_step=("elapsed.append(time.time())",)) == []


def test_a_meter_of_durations_says_nothing_of_other_meters() -> None:
    meters = (
        "speed, score = Meter(), Meter()",
        "speed.update(time.time())",
        "score.update(mean(evaluate(model, held)))",
        "if score.last > 0.9:",
        "    break",
    )
    assert told(*meters) == []


def test_an_attribute_of_the_same_name_in_another_class() -> None:
    lines = ("watch, plan = Watch(), Plan()", "if epoch > plan.start:", "    break")
    assert told(*lines) == []


def test_a_loss_of_another_object_by_the_name_of_a_setting() -> None:
    made, leave = "meter, plan = Meter(), Plan()", ("if plan.start > 2:", "    break")
    assert told(made, "meter.start = evaluate(model, held)", *leave) == []
    own = told(made, "plan.start = evaluate(model, held)", *leave)
    assert own == ["one of them leaves where the others go on"]


@pytest.mark.parametrize(
    "value",
    ["open(name).read()", "os.path.exists(name)", "torch.load(name)", "str(name)[0]", "f'{name}.pt'"],
)
def test_what_is_read_from_files_and_texts_is_the_same_everywhere(value: str) -> None:
    lines = ("import os", "name = evaluate(model, held)", f"found = {value}", "if found:", "    break")
    assert told(*lines) == []


def test_a_name_with_the_time_in_it() -> None:
    assert told('name = f"run-{time.time()}"', "if name.endswith('0'):", "    optimizer.step()") == []


def test_times_beside_reduced_numbers() -> None:
    lines = ("stats = {'score': mean(evaluate(model, held)), 'took': time.time()}", "if stats['score'] < 1:")
    assert told(*lines, "    break") == []


@pytest.mark.parametrize(
    "clock",
    ["time.time()", "time.monotonic()", "time.perf_counter_ns()", "datetime.datetime.now().timestamp()"],
)
def test_one_sees_the_time_run_out(clock: str) -> None:
    lines = (f"if {clock} - started > 3600:", "    break")
    assert told(*lines) == ["one of them leaves where the others go on"]


@pytest.mark.parametrize(
    "lines",
    [
        ("watch = Watch()", "if watch.over():", "    break"),
        ("over = False", "if int(time.time() - started) > 60:", "    over = True", "if over:", "    break"),
        ("watch = Watch()", "if watch.start < time.time() - 60:", "    break"),
    ],
)
def test_one_sees_the_time_run_out_elsewhere(lines: tuple[str, ...]) -> None:
    assert told(*lines) == ["one of them leaves where the others go on"]


def test_one_steps_while_there_is_time() -> None:
    lines = ("while time.time() < started:", "    model(data[0]).mean().backward()", "    optimizer.step()")
    assert told(*lines) == ["they do not take the same number of steps"]


def test_one_comes_to_a_collective() -> None:
    assert told("if time.time() > started:", "    mean(0.0)") == ["not all of them reach the collective"]


def test_the_master_decides_by_its_clock_when_to_save() -> None:
    test = "dist.get_rank() == 0 and time.time() - started > 600"
    lines = (f"if {test}:", "    torch.save(model.state_dict(), 'a')")
    code = launched(*SETUP, *STEP, *(f"    {line}" for line in lines), before=HEAD)
    outcome = migrate(code, "ranks", "process_groups", "master_guards", "checkpoints", "decisions")
    assert "bool(time.time() - started > 600), lambda answers: answers[0])" in outcome.code
    assert "XLA171" not in {f.code for f in outcome.findings}


def test_the_master_decides_by_its_rank_when_to_save() -> None:
    test = "rank == 0 and epoch > rank * 10"
    lines = ("rank = dist.get_rank()", f"if {test}:", "    torch.save(model.state_dict(), 'a')")
    code = launched(*SETUP, *STEP, *(f"    {line}" for line in lines), before=HEAD)
    outcome = migrate(code, "ranks", "process_groups", "master_guards", "checkpoints", "decisions")
    assert "bool(epoch > rank * 10), lambda answers: answers[0])" in outcome.code


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


LATER = "their models or learning rates differ from then on"
OWN = "if evaluate(model, held) < 0.1:"
RATES = "for group in optimizer.param_groups:"


@pytest.mark.parametrize(
    "lines",
    [
        ("model.load_state_dict(kept)",),
        ("optimizer.load_state_dict(kept)",),
        (RATES, "    group['lr'] *= 0.5"),
        ("optimizer.param_groups[0]['lr'] = 0.1",),
        ("slower(optimizer)",),
        ("decay.step()",),
    ],
)
def test_what_replicas_change_by_their_own_decision_is_told(lines: tuple[str, ...]) -> None:
    function = f"\n\ndef slower(optimizer):\n    {RATES}\n        group['lr'] *= 0.5\n"
    made = ("decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)", "kept = torch.load('kept.pt')")
    body = [*made, OWN, *(f"    {line}" for line in lines)]
    code = launched(*SETUP, *STEP, *(f"    {line}" for line in body), before=HEAD + function)
    found = [f.message.rpartition(": ")[2] for f in migrate(code, "decisions").findings if f.code == "XLA171"]
    assert found == [LATER]


def test_a_function_of_the_name_of_such_a_method_is_nothing() -> None:
    function = "\n\ndef load_state_dict(path):\n    return path\n"
    code = launched(*SETUP, *STEP, f"    {OWN}", "        load_state_dict('kept.pt')", before=HEAD + function)
    assert [f for f in migrate(code, "decisions").findings if f.code == "XLA171"] == []


def test_rates_that_are_only_read_by_an_own_decision_are_nothing() -> None:
    assert told(OWN, f"    {RATES}", "        print(group['lr'], optimizer.param_groups[0]['lr'])") == []


def test_a_change_that_all_replicas_decide_is_nothing() -> None:
    assert told("if epoch > 1:", f"    {RATES}", "        group['lr'] *= 0.5") == []


ROLLOUT = (
    "import gymnasium as gym",
    "{seed}",
    "env = gym.make('CartPole-v1')",
    "policy = torch.distributions.Categorical(logits=model(torch.zeros(4).cuda()))",
    "seen = torch.zeros(8)",
    "for turn in range(8):",
    "    seen[turn] = {drawn}",
    "for turn in range(4):",
    "    loss = (model(seen.cuda()) - 0.5).mean()",
    "    if loss.item() > 0.1:",
    "        break",
    "    loss.backward()",
    "    optimizer.step()",
)
OWN_DRAWS = (
    "torch.randn(1).item()",
    "random.random()",
    "np.random.rand()",
    "policy.sample()",
    "env.step(0)[1]",
)


def of_draws(drawn: str, seed: str) -> list[str]:
    lines = [line.format(drawn=drawn, seed=seed) for line in ROLLOUT]
    code = launched(*SETUP[1:3], *lines, before="\nimport random\nimport numpy as np\n")
    return [f.message.rpartition(": ")[2] for f in migrate(code, "decisions").findings if f.code == "XLA171"]


@pytest.mark.parametrize("drawn", OWN_DRAWS)
def test_what_equal_seeds_draw_is_the_same_everywhere(drawn: str) -> None:
    assert of_draws(drawn, "torch.manual_seed(0); random.seed(0); np.random.seed(0)") == []


def test_what_nobody_draws_is_the_same_everywhere() -> None:
    for other in ("rows.sample()", "machine.step(0)[1]", "torch.ones(1).item()"):
        assert of_draws(other, "rows = machine = table()") == []


@pytest.mark.parametrize("drawn", OWN_DRAWS)
@pytest.mark.parametrize(
    "seed", ["pass", "s = 3 + dist.get_rank(); torch.manual_seed(s); random.seed(s); np.random.seed(s)"]
)
def test_what_each_replica_draws_for_itself_decides(drawn: str, seed: str) -> None:
    assert of_draws(drawn, seed) == ["one of them leaves where the others go on"]


PARSED = (
    "import argparse",
    "parser = argparse.ArgumentParser()",
    "parser.add_argument('--start', type=int)",
    "args = parser.parse_args()",
)


def turns(*lines: str, over: str = "range(start, 3)") -> list[str]:
    """What is told of a loop over epochs whose first one is found out by some lines."""
    body = [*lines, f"for turn in {over}:", "    model(torch.ones(4).cuda()).mean().backward()"]
    code = launched(*SETUP[1:3], "start = 0", *body, "    optimizer.step()", before=HEAD)
    return [f.message for f in migrate(code, "decisions").findings if f.code == "XLA171"]


@pytest.mark.parametrize(
    "lines",
    [
        ("start = torch.load('last.pt')['epoch'] + 1",),
        ("if dist.get_rank() == 0:", "    best = 3"),
        (*PARSED, "if dist.get_rank() == 0:", "    start = args.start"),
        (
            "if dist.get_rank() == 0:",
            "    start = torch.load('last.pt')['epoch']",
            "held = [start]",
            "dist.broadcast_object_list(held)",
            "start = held[0]",
        ),
    ],
)
def test_all_replicas_count_the_same_turns(lines: tuple[str, ...]) -> None:
    assert turns(*lines) == []


def test_the_master_sends_where_it_begins() -> None:
    found = "    start = torch.tensor(torch.load('last.pt')['epoch'])"
    lines = ("start = torch.tensor(0)", "if dist.get_rank() == 0:", found)
    assert turns(*lines, over="range(int(start), 3)") != []
    assert turns(*lines, "dist.broadcast(start, 0)", over="range(int(start), 3)") == []


@pytest.mark.parametrize("over", ["range(start, 3)", "tqdm(range(start))"])
def test_the_master_alone_knows_where_it_begins(over: str) -> None:
    lines = ("if dist.get_rank() == 0:", "    start = torch.load('last.pt')['epoch'] + 1")
    told = turns(*lines, over=over)
    assert told == ["the master alone has start: they do not take the same number of steps"]


def options(read: str) -> list[str]:
    """What is told where options hold a seed that each replica draws, and a step is left by some of them."""
    body = (
        "options = {'rate': 0.1, 'most': 9}",
        "options['seed'] = random.randint(1, 100)",
        "for turn in range(4):",
        "    model(torch.ones(4).cuda()).mean().backward()",
        "    optimizer.step()",
        f"    if turn > {read}:",
        "        break",
    )
    code = launched(*SETUP[1:3], *body, before="\nimport random\n")
    return [f.message.rpartition(": ")[2] for f in migrate(code, "decisions").findings if f.code == "XLA171"]


def test_a_seed_among_options_says_nothing_of_the_others() -> None:
    assert options("options['most']") == []
    assert options("limit(options)") == []
    assert options("options['seed']") == ["one of them leaves where the others go on"]


def test_a_forward_pass_that_some_replicas_make_is_nothing_by_itself() -> None:
    assert told(in_step=("if loss.item() > 3:", "    model(x.cuda())")) == []


def test_replicas_of_one_process_draw_alike() -> None:
    lines = ("model = torch.nn.Linear(1, 1).cuda()", "for i in range(3):", "    x = torch.randn(1).cuda()")
    rest = ("    model(x).backward()", "    if x.item() > 2:", "        break")
    code = IMPORTS + "\n".join((*lines, *rest)) + "\n"
    found = migrate(code, "decisions", settings=Settings(distributed=True)).findings
    assert [f for f in found if f.code == "XLA171"] == []
