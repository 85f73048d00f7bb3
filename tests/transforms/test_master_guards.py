"""Saves under a guard."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, migrate, run_only
from replicated import launched, spawned

SAVE = "torch.save(model.state_dict(), path)"
NAMES = (
    "import shutil\nfrom ours import collect, epoch, files, final, last, log, queue\n"
    "model = net = torch.nn.Linear(2, 2)\npath = out = str(files)\nbest = score = float(last)\n"
)
METER = """
class Meter:
    def update(self, value):
        self.value = value
"""


def opened(*lines: str, before: str = "") -> str:
    """The lines of the spawned process behind its set-up, with the saves opened."""
    return _body(run_only(spawned(*lines, before=NAMES + before), "master_guards"))


def _body(text: str) -> str:
    body = text.partition("world_size=world_size)\n")[2].partition("\n\n\nif __name__")[0]
    return "\n".join(line[4:] for line in body.splitlines())


def kept(*lines: str, before: str = "") -> str:
    """The reason for which the lines stay as they are."""
    code = spawned(*lines, before=NAMES + before)
    outcome = migrate(code, "master_guards")
    assert outcome.data.decode() == code
    (found,) = [f for f in outcome.findings if f.code == "XLA812"]
    return found.message.partition(": ")[2]


def test_a_guard_of_something_else_stays() -> None:
    check_noop(spawned("if step == 0:", "    torch.save(x, p)"), "master_guards")


def test_a_guard_of_what_is_printed_stays() -> None:
    check_noop(spawned("if rank == 0:", "    print(1)"), "master_guards")


def test_a_save_without_tensors_stays_the_masters() -> None:
    code = spawned("if rank == 0:", '    torch.save({"epochs": 3}, path)')
    check_noop(code, "master_guards")
    assert findings(code, "master_guards") == []


def test_what_the_other_replicas_do_meanwhile_is_told() -> None:
    reason = kept("if rank == 0:", f"    {SAVE}", "else:", "    print(1)")
    assert reason == "the other replicas have something else to do"


@pytest.mark.parametrize("test", ['opt["rank"] == 0', "opt.rank == 0 and score > best", "not opt.rank"])
def test_what_is_called_a_rank_and_not_known_to_be_one_is_told(test: str) -> None:
    lines = ("opt = files.options()", f"if {test}:", f"    {SAVE}")
    (found,) = [f for f in migrate(launched(*lines, before=NAMES)).findings if f.code == "XLA812"]
    assert found.message.startswith(f"it is not known what {test} asks")


def test_an_exit_of_the_master_is_told() -> None:
    assert (
        kept("if rank == 0:", f"    {SAVE}", "    return")
        == "the master leaves here, the other replicas go on"
    )


def test_what_one_replica_alone_may_do_is_told() -> None:
    reason = kept("if rank == 0:", "    state = collect(model)", "    torch.save(state, path)")
    assert reason == "the save needs collect(model), which one replica alone may do"


MADE = ("if rank == 0:", "    folder = str(rank)", "    print(folder)")


def test_a_name_that_the_master_alone_binds_is_told() -> None:
    reason = kept(*MADE, "if rank == 0:", "    torch.save(model.state_dict(), folder)")
    assert reason.startswith("it needs folder, which the master alone has, from line ")


def test_a_name_that_the_master_alone_binds_is_told_of_what_the_save_needs() -> None:
    save = "    torch.save(model.state_dict(), place)"
    reason = kept(*MADE, "if rank == 0:", '    place = folder + "/last.pt"', save)
    assert reason.startswith("it needs folder, which the master alone has")


def test_an_attribute_that_the_master_alone_sets_is_told() -> None:
    head = (
        "class Keeper:\n    def __init__(self, rank):\n"
        "        if rank == 0:\n            self.folder = path\n"
        "    def keep(self, rank):\n        if rank == 0:\n"
        "            torch.save(model.state_dict(), self.folder)\n"
    )
    reason = kept("keeper = Keeper(rank)", "keeper.keep(rank)", before=head)
    assert reason.startswith("it needs self.folder, which the master alone has")


def test_a_name_that_the_other_replicas_bind_too_is_no_obstacle() -> None:
    save = "    torch.save(model.state_dict(), folder)"
    code = opened(*MADE, "else:", "    folder = None", "if rank == 0:", save)
    assert code.endswith("    folder = None\ntorch.save(model.state_dict(), folder)")


def test_a_file_opened_for_the_save_is_told() -> None:
    reason = kept(
        "if rank == 0:", '    with open(path, "wb") as f:', "        torch.save(model.state_dict(), f)"
    )
    assert reason == 'the save needs open(path, "wb"), which one replica alone may do'


def test_a_condition_that_does_something_is_told() -> None:
    assert "queue.pop()" in kept("if rank == 0 and queue.pop():", f"    {SAVE}")


def test_a_saving_function_that_does_more_elsewhere_is_told() -> None:
    before = f"\n\ndef keep(model, path):\n    print(path)\n    {SAVE}\n"
    reason = kept("if rank == 0:", "    keep(model, path)", "keep(model, path)", before=before)
    assert reason == "keep, which all replicas call elsewhere, does more than save"


def test_a_text_over_several_lines_cannot_be_moved() -> None:
    reason = kept("if rank == 0:", '    print("""a', 'b""")', f"    {SAVE}")
    assert reason == "its lines cannot be moved"


def test_the_guard_of_a_save_goes() -> None:
    assert opened("if rank == 0:", f"    {SAVE}") == SAVE


def test_what_is_printed_beside_a_save_stays_the_masters() -> None:
    text = opened(
        "if rank == 0:", '    print("saving")', f"    {SAVE}", '    print("saved")', "    log.flush()"
    )
    assert text.splitlines() == [
        "if rank == 0:",
        '    print("saving")',
        SAVE,
        "if rank == 0:",
        '    print("saved")',
        "    log.flush()",
    ]


def test_what_a_save_needs_runs_everywhere() -> None:
    lines = ("state = {", '    "model": model.state_dict(),', "}", "torch.save(state, path)")
    text = opened("if rank == 0:", "    os.makedirs(out)", *(f"    {line}" for line in lines))
    assert text.splitlines() == ["if rank == 0:", "    os.makedirs(out)", *lines]


EITHER = "not several or (several and rank == 0)"


def test_a_condition_of_its_own_behind_a_save_is_asked_of_the_master() -> None:
    more = ("    if last:", "        print(1)")
    text = opened("if rank == 0:", f"    {SAVE}", *more)
    assert text.splitlines() == [SAVE, "if rank == 0 and last:", "    print(1)"]
    text = opened(f"if {EITHER}:", f"    {SAVE}", *more)
    assert text.splitlines() == [SAVE, f"if ({EITHER}) and last:", "    print(1)"]


def test_a_condition_over_several_lines_stays_around_another() -> None:
    head = ("if not several or (", "    several and rank == 0", "):")
    text = opened(*head, f"    {SAVE}", "    if last:", "        print(1)")
    assert text.splitlines() == [SAVE, *head, "    if last:", "        print(1)"]


def test_what_every_replica_answers_alike_stays() -> None:
    text = opened("if rank == 0 and epoch % 5 == 0 and (final or last):", "    print(1)", f"    {SAVE}")
    assert text.splitlines() == [
        "if epoch % 5 == 0 and (final or last):",
        "    if rank == 0:",
        "        print(1)",
        f"    {SAVE}",
    ]


def test_the_number_that_a_condition_compares_with_is_kept_everywhere() -> None:
    text = opened("if rank == 0 and score > best:", "    best = score", "    print(best)", f"    {SAVE}")
    assert text.splitlines() == [
        "if score > best:",
        "    best = score",
        "    if rank == 0:",
        "        print(best)",
        f"    {SAVE}",
    ]


BETTER = ("if better:", "    torch.save(model.state_dict(), out)")


def test_an_answer_that_the_master_finds_decides_for_all() -> None:
    found = ("better = score > best", SAVE, *BETTER)
    assert opened("if rank == 0:", *(f"    {line}" for line in found)).splitlines() == list(found)


def test_an_answer_that_only_the_master_asks_for_is_asked_as_it_was() -> None:
    lines = ("better = score > best", "if better:", "    print(1)", f"    {SAVE}")
    assert opened("if rank == 0:", *(f"    {line}" for line in lines)).splitlines() == [
        *lines[:2],
        "    if rank == 0:",
        "        print(1)",
        lines[3],
    ]


@pytest.mark.parametrize(
    "found",
    [
        ("better = score > best if rank == 0 else None",),
        ("better = False", "if rank == 0:", "    better = score > best"),
    ],
)
def test_an_answer_that_the_master_alone_has_is_given_to_all(found: tuple[str, ...]) -> None:
    test = 'xm.mesh_reduce("worker_saves", bool(better), lambda answers: answers[0])'
    for asked in ("if better:", "if rank == 0 and better:"):
        assert opened(*found, asked, f"    {SAVE}").splitlines() == [*found, f"if {test}:", f"    {SAVE}"]


def test_what_the_next_round_needs_is_kept_everywhere() -> None:
    kept = ("better = score > best", "best = max(score, best)")
    lines = ("if rank == 0:", *(f"    {line}" for line in kept), *(f"    {line}" for line in BETTER))
    text = opened("for epoch in range(3):", *(f"    {line}" for line in lines))
    assert text.splitlines() == ["for epoch in range(3):", *(f"    {line}" for line in (*kept, *BETTER))]
    assert opened(*lines).splitlines() == [kept[0], "if rank == 0:", f"    {kept[1]}", *BETTER]


def test_a_condition_that_no_master_meets_is_not_the_masters() -> None:
    lines = ("if rank == 0 and rank != 0:", "    print(1)", f"    {SAVE}")
    assert opened(*lines).splitlines() == list(lines)


SETTINGS = "\n\n@dataclass\nclass Settings:\n    rank: int = 0\n"
TRAINER = """

class Trainer:
    def __init__(self, given):
        self.given = given

    @property
    def main(self):
        return self.given.rank == 0

    def keep(self, model, path):
        if self.main:
            print(path)
            torch.save(model.state_dict(), path)
"""


def test_a_property_that_asks_for_what_is_not_known_to_be_a_rank_is_told() -> None:
    code = launched("Trainer(files.settings()).keep(model, path)", before=NAMES + TRAINER)
    (found,) = [f for f in migrate(code).findings if f.code == "XLA812"]
    assert found.message.startswith("it is not known what self.main asks")


@pytest.mark.parametrize("made", ["argparse.ArgumentParser().parse_args()", "Settings()"])
def test_a_property_asks_for_the_rank_in_an_object_that_is_handed_on(made: str) -> None:
    before = f"import argparse\nfrom dataclasses import dataclass\n{NAMES}{SETTINGS}{TRAINER}"
    lines = (f"cfg = {made}", "cfg.rank = dist.get_rank()", "Trainer(cfg).keep(model, path)")
    opened = "        if self.main:\n            print(path)\n        torch.save(model.state_dict(), path)\n"
    assert opened in run_only(launched(*lines, before=before), "master_guards")
    other = before.replace("    @property\n", "")  # a method is always true
    assert opened not in run_only(launched(*lines, before=other), "master_guards")


def test_the_rank_in_an_object_is_not_that_in_another_one() -> None:
    others = "\n\nclass Other:\n    rank = 0\n"
    before = f"from dataclasses import dataclass\n{NAMES}{SETTINGS}{others}{TRAINER}"
    lines = ("other = Other()", "other.rank = dist.get_rank()", "Trainer(Settings()).keep(model, path)")
    code = launched(*lines, before=before)
    assert "            torch.save(model.state_dict(), path)\n" in run_only(code, "master_guards")


def test_a_field_of_a_data_class_that_is_a_rank_is_known() -> None:
    rank = "field(default_factory=lambda: dist.get_rank())"
    settings = SETTINGS.replace("rank: int = 0", f"rank: int = {rank}")
    before = f"from dataclasses import dataclass, field\n{NAMES}{settings}{TRAINER}"
    text = run_only(launched("Trainer(Settings()).keep(model, path)", before=before), "master_guards")
    assert "            print(path)\n        torch.save(model.state_dict(), path)\n" in text


def test_an_early_exit_goes() -> None:
    leave = "    if dist.get_rank() != 0:\n        return\n"
    before = f"\n\ndef keep(model, path):\n{leave}    print(path)\n    {SAVE}\n"
    text = run_only(spawned("keep(model, path)", before=NAMES + before), "master_guards")
    guarded = "    if xm.is_master_ordinal(local=False):\n        print(path)\n"
    assert f"def keep(model, path):\n{guarded}    {SAVE}\n" in text


def test_a_copy_of_the_best_stays_the_masters() -> None:
    before = (
        "\n\ndef keep(state, best):\n    torch.save(state, 'last.pt')\n    if best:\n"
        "        shutil.copyfile('last.pt', 'best.pt')\n"
    )
    text = run_only(
        spawned("if rank == 0:", "    keep(model.state_dict(), best)", before=NAMES + before), "master_guards"
    )
    assert "    if xm.is_master_ordinal(local=False) and best:\n        shutil.copyfile" in text
    assert "world_size=world_size)\n    keep(model.state_dict(), best)\n" in text


def test_a_guard_at_the_call_of_a_method() -> None:
    before = (
        "\n\nclass Trainer:\n    def __init__(self, rank, model):\n"
        "        self.gpu_id, self.model = rank, model\n\n"
        "    def save(self, epoch):\n        path = 'last.pt'\n"
        "        torch.save(self.model.state_dict(), path)\n"
        "        print(epoch, path)\n\n    def train(self):\n        for epoch in range(3):\n"
        "            if self.gpu_id == 0 and epoch % 2 == 0:\n                self.save(epoch)\n"
    )
    text = run_only(spawned("Trainer(rank, net).train()", before=NAMES + before), "master_guards")
    assert "            if epoch % 2 == 0:\n                self.save(epoch)\n" in text
    assert "        if xm.is_master_ordinal(local=False):\n            print(epoch, path)\n" in text


def test_a_helper_that_hands_on_what_it_is_given() -> None:
    before = (
        "\n\ndef save_on_master(*args, **kwargs):\n    if dist.get_rank() == 0:\n"
        "        torch.save(*args, **kwargs)\n"
    )
    code = spawned("save_on_master(model.state_dict(), path)", before=NAMES + before)
    text = run_only(code, "master_guards", "checkpoints")
    assert "def save_on_master(*args, **kwargs):\n    xm.save(*args, **kwargs)\n" in text


def test_a_host_has_a_master_of_its_own() -> None:
    before = f"\n\ndef keep(model, path):\n    {SAVE}\n    print(path)\n"
    code = launched('if int(os.environ["LOCAL_RANK"]) == 0:', "    keep(model, path)", before=NAMES + before)
    assert "    if xm.is_master_ordinal():\n        print(path)\n" in run_only(code, "master_guards")


def test_an_option_of_the_launcher_is_no_longer_there_to_be_asked() -> None:
    before = "import argparse\nparser = argparse.ArgumentParser()\n"
    before += "parser.add_argument('--local_rank', type=int)\n"
    lines = ("args = parser.parse_args()", "if args.local_rank in (-1, 0):", "    print(1)", f"    {SAVE}")
    text = run_only(launched(*lines, before=NAMES + before), "master_guards")
    assert f"    if xm.is_master_ordinal():\n        print(1)\n    {SAVE}\n" in text


VALIDATED = (
    "data = DataLoader(files, 4, sampler=DistributedSampler(files))",
    "best = 0.0",
    "for x in data:",
    "    score = model(x.cuda()).mean().item()",
    "if rank == 0 and score > best:",
    f"    {SAVE}",
)


def test_all_replicas_follow_the_masters_decision() -> None:
    test = 'xm.mesh_reduce("worker_saves", bool(score > best), lambda answers: answers[0])'
    assert opened(*VALIDATED).splitlines()[-2:] == [f"if {test}:", f"    {SAVE}"]


def test_a_reduced_number_needs_no_decision_of_the_master() -> None:
    reduced = ("t = torch.tensor(score)", "dist.all_reduce(t)", "score = t.item()")
    text = opened(*VALIDATED[:4], *reduced, *VALIDATED[4:])
    assert text.splitlines()[-2:] == ["if score > best:", f"    {SAVE}"]


def test_a_loader_that_all_replicas_read_alike_needs_no_decision_of_the_master() -> None:
    text = opened("data = DataLoader(files, 4)", *VALIDATED[1:])
    assert text.splitlines()[-2:] == ["if score > best:", f"    {SAVE}"]


def looped(*lines: str) -> str:
    """What becomes of lines at the end of a training step, with the guards opened."""
    code = spawned(
        "loader = DataLoader(files, 4, drop_last=True)",
        "for step, x in enumerate(loader):",
        "    optimizer.zero_grad()",
        "    loss = model(x.cuda()).mean()",
        "    loss.backward()",
        "    optimizer.step()",
        *(f"    {line}" for line in lines),
        before=NAMES + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n",
    )
    text = _body(run_only(code, "loaders", "step_closures", "host_reads", "master_guards"))
    return text.partition("optimizer.step()\n")[2]


def test_every_replica_adds_the_closure_in_which_the_master_prints() -> None:
    assert looped("if rank == 0 and step % 10 == 0:", "    print(loss.item())").splitlines() == [
        "    if step % 10 == 0:",
        "",
        "        def log_step(loss):",
        "            if rank == 0:",
        "                print(loss.item())",
        "",
        "        xm.add_step_closure(log_step, args=(loss,))",
    ]


def test_a_closure_beside_a_save() -> None:
    text = looped(
        "if rank == 0 and step % 10 == 0:", "    print(loss.item())", f"    {SAVE}", "    log(step)"
    )
    assert text.splitlines()[-4:] == [
        "        xm.add_step_closure(log_step, args=(loss,))",
        f"        {SAVE}",
        "        if rank == 0:",
        "            log(step)",
    ]


def test_what_the_closure_is_handed_is_made_by_all() -> None:
    text = looped("if rank == 0:", "    part = step / len(loader)", "    print(part, loss.item())")
    assert text.startswith(
        "    part = step / len(loader)\n\n    def log_step(part, loss):\n        if rank == 0:\n"
    )


def test_a_closure_under_a_condition_of_each_replica_is_told() -> None:
    code = spawned(
        *VALIDATED[:4],
        "for x in data:",
        "    loss = model(x.cuda()).mean()",
        "    loss.backward()",
        "    opt.step()",
        "    if rank == 0 and score > 3:",
        "        print(loss.item())",
        before=NAMES,
    )
    outcome = migrate(code, "loaders", "step_closures", "master_guards")
    (found,) = [f for f in outcome.findings if f.code == "XLA724"]
    assert found.message.partition(": ")[2] == "each replica decides by a number of its own"


@pytest.mark.parametrize(
    "guard",
    [
        ("    if rank == 0 and score < 1:", "        print(loss.item())"),
        ("    if rank == 0:", "        if score < 1:", "            print(loss.item())"),
    ],
)
def test_a_guard_that_goes_into_the_closure_whole_stays_the_masters(guard: tuple[str, ...]) -> None:
    lines = ("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", *VALIDATED[:2], "for x in data:",
             "    loss = model(x.cuda()).mean()", "    loss.backward()", "    optimizer.step()",
             "    score = loss.item()", *guard)  # fmt: skip
    text = migrate(spawned(*lines, before=NAMES), "loaders", "step_closures", "master_guards").code
    inner = "".join(f"        {line}\n" for line in guard)
    assert f"            score = score.item()\n{inner}" in text
    assert "loss_value" not in text


@pytest.mark.parametrize("test", ["writer is not None", "writer"])
@pytest.mark.parametrize("made", ['open("log")', "queue.Writer()", "writing()"])
def test_what_only_the_master_has_tells_the_master(test: str, made: str) -> None:
    code = spawned(
        f"writer = {made} if rank == 0 else None",
        "norm = model.weight.norm()",
        f"if {test}:",
        "    print(norm.item(), file=writer)",
        before=NAMES + "model.cuda()\n\n\ndef writing():\n    made = queue.Writer()\n    return made\n",
    )
    assert _body(run_only(code, "master_guards")).splitlines()[2:] == [
        "norm_value = norm.item()",
        f"if {test}:",
        "    print(norm_value, file=writer)",
    ]


def test_a_read_behind_an_answer_that_the_master_alone_has_is_told() -> None:
    code = spawned(
        "better = score > best if rank == 0 else None",
        "norm = model.weight.norm()",
        "if better:",
        "    print(norm.item())",
        before=NAMES + "model.cuda()\n",
    )
    check_noop(code, "master_guards")
    assert [code for code, _ in findings(code, "master_guards")] == ["XLA726"]


def read(*lines: str) -> list[str]:
    code = spawned("norm = model.weight.norm()", *lines, before=NAMES + "model.cuda()\n")
    return _body(run_only(code, "master_guards")).splitlines()[1:]


def test_a_value_that_the_master_shows_is_read_by_all() -> None:
    assert read("if rank == 0:", '    print(f"{epoch} {norm:.2f}", norm)') == [
        "norm_value = norm.cpu()",
        "if rank == 0:",
        '    print(f"{epoch} {norm_value:.2f}", norm_value)',
    ]


def test_what_the_master_computes_without_gradients_all_replicas_compute_so() -> None:
    opened = "    with torch.no_grad(), open(path) as log:"
    assert read("if rank == 0:", opened, "        show(model(x).cpu())") == [
        "with torch.no_grad():",
        "    model_value = model(x).cpu()",
        "if rank == 0:",
        "    with torch.no_grad(), open(path) as log:",
        "        show(model_value)",
    ]


def test_what_is_computed_already_is_read_as_it_is() -> None:
    opened = "    with torch.no_grad(), open(path) as log:"
    lines = read("if rank == 0:", opened, "        log.write(norm.item())")
    assert lines[:2] == ["norm_value = norm.item()", "if rank == 0:"]
    lines = read("if rank == 0:", opened, "        log.write(norm.cpu())")
    assert lines[:2] == ["with torch.no_grad():", "    norm_value = norm.cpu()"]


def test_a_value_is_read_when_the_condition_asks_for_it() -> None:
    assert read("if rank == 0 and epoch % 5 == 0:", "    print(epoch)", "    print(norm.item())") == [
        "if epoch % 5 == 0:",
        "    norm_value = norm.item()",
        "    if rank == 0:",
        "        print(epoch)",
        "        print(norm_value)",
    ]


def test_a_value_that_is_a_tensor_now_and_then_is_told() -> None:
    lines = (
        "total = 0.0",
        "for epoch in range(3):",
        "    if epoch == 2:",
        "        total = torch.tensor(total).cuda()",
        "    elif rank == 0:",
        "        print(total / 3)",
    )
    assert read(*lines) == list(lines)
    code = spawned(*lines, before=NAMES)
    assert [f.code for f in migrate(code, "master_guards").findings] == ["XLA726"]


def test_a_value_that_is_made_by_the_master_is_told() -> None:
    lines = ("if rank == 0:", "    half = norm / 2", "    print(half.item())")
    assert read(*lines) == list(lines)
    code = spawned("norm = model.weight.norm()", *lines, before=NAMES + "model.cuda()\n")
    assert [found for found, _ in findings(code, "master_guards")] == ["XLA726"]


def test_a_model_of_unknown_make_gives_its_state() -> None:
    assert opened(
        "model = build(rank)", "if rank == 0:", f"    {SAVE}", before="from ours import build\n"
    ).endswith(f"build(rank)\n{SAVE}")


def test_the_closures_of_a_loop_that_the_master_alone_runs_are_its_own() -> None:
    code = spawned(
        "meter, held = Meter(), DataLoader(files, 4)",
        "if rank == 0:",
        "    for x in held:",
        "        found = model(x.cuda()).mean()",
        "        meter.update(found.item())",
        before=NAMES + METER,
    )
    outcome = migrate(code, "loaders", "step_closures", "master_guards")
    assert b"            xm.add_step_closure(log_step, args=(found,))\n" in outcome.data
    assert not {f.code for f in outcome.findings} & {"XLA724", "XLA726"}
