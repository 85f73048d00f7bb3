"""Saves under a guard."""

from __future__ import annotations

from helpers import check_noop, findings, migrate, run_only
from replicated import launched, spawned

SAVE = "torch.save(model.state_dict(), path)"
NAMES = (
    "import shutil\nfrom ours import collect, epoch, files, final, last, log, queue\n"
    "model = net = torch.nn.Linear(2, 2)\npath = out = str(files)\nbest = score = float(last)\n"
)


def opened(*lines: str, before: str = "") -> str:
    """The lines of the spawned process behind its set-up, with the saves opened."""
    return _body(run_only(spawned(*lines, before=NAMES + before), "master_saves"))


def _body(text: str) -> str:
    body = text.partition("world_size=world_size)\n")[2].partition("\n\n\nif __name__")[0]
    return "\n".join(line[4:] for line in body.splitlines())


def kept(*lines: str, before: str = "") -> str:
    """The reason for which the lines stay as they are."""
    code = spawned(*lines, before=NAMES + before)
    outcome = migrate(code, "master_saves")
    assert outcome.data.decode() == code
    (found,) = [f for f in outcome.findings if f.code == "XLA812"]
    return found.message.partition(": ")[2]


def test_a_guard_of_something_else_stays() -> None:
    check_noop(spawned("if step == 0:", "    torch.save(x, p)"), "master_saves")


def test_a_guard_of_what_is_printed_stays() -> None:
    check_noop(spawned("if rank == 0:", "    print(1)"), "master_saves")


def test_a_save_without_tensors_stays_the_masters() -> None:
    code = spawned("if rank == 0:", '    torch.save({"epochs": 3}, path)')
    check_noop(code, "master_saves")
    assert findings(code, "master_saves") == []


def test_what_the_other_replicas_do_meanwhile_is_told() -> None:
    reason = kept("if rank == 0:", f"    {SAVE}", "else:", "    print(1)")
    assert reason == "the other replicas have something else to do"


def test_an_exit_of_the_master_is_told() -> None:
    assert (
        kept("if rank == 0:", f"    {SAVE}", "    return")
        == "the master leaves here, the other replicas go on"
    )


def test_what_one_replica_alone_may_do_is_told() -> None:
    reason = kept("if rank == 0:", "    state = collect(model)", "    torch.save(state, path)")
    assert reason == "the save needs collect(model), which one replica alone may do"


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


def test_an_early_exit_goes() -> None:
    leave = "    if dist.get_rank() != 0:\n        return\n"
    before = f"\n\ndef keep(model, path):\n{leave}    print(path)\n    {SAVE}\n"
    text = run_only(spawned("keep(model, path)", before=NAMES + before), "master_saves")
    guarded = "    if xm.is_master_ordinal(local=False):\n        print(path)\n"
    assert f"def keep(model, path):\n{guarded}    {SAVE}\n" in text


def test_a_copy_of_the_best_stays_the_masters() -> None:
    before = (
        "\n\ndef keep(state, best):\n    torch.save(state, 'last.pt')\n    if best:\n"
        "        shutil.copyfile('last.pt', 'best.pt')\n"
    )
    text = run_only(
        spawned("if rank == 0:", "    keep(model.state_dict(), best)", before=NAMES + before), "master_saves"
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
    text = run_only(spawned("Trainer(rank, net).train()", before=NAMES + before), "master_saves")
    assert "            if epoch % 2 == 0:\n                self.save(epoch)\n" in text
    assert "        if xm.is_master_ordinal(local=False):\n            print(epoch, path)\n" in text


def test_a_helper_that_hands_on_what_it_is_given() -> None:
    before = (
        "\n\ndef save_on_master(*args, **kwargs):\n    if dist.get_rank() == 0:\n"
        "        torch.save(*args, **kwargs)\n"
    )
    code = spawned("save_on_master(model.state_dict(), path)", before=NAMES + before)
    text = run_only(code, "master_saves", "checkpoints")
    assert "def save_on_master(*args, **kwargs):\n    xm.save(*args, **kwargs)\n" in text


def test_a_host_has_a_master_of_its_own() -> None:
    before = f"\n\ndef keep(model, path):\n    {SAVE}\n    print(path)\n"
    code = launched('if int(os.environ["LOCAL_RANK"]) == 0:', "    keep(model, path)", before=NAMES + before)
    assert "    if xm.is_master_ordinal():\n        print(path)\n" in run_only(code, "master_saves")


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
