"""Saves under a guard."""

from __future__ import annotations

from helpers import check_noop, findings, run_only
from replicated import spawned


def test_a_guard_of_something_else_stays() -> None:
    check_noop(spawned("if step == 0:", "    torch.save(x, p)"), "master_saves")


def test_a_guard_of_what_is_printed_stays() -> None:
    check_noop(spawned("if rank == 0:", "    print(1)"), "master_saves")


def test_a_save_among_others_is_told() -> None:
    code = spawned("if rank == 0:", "    log()", "    torch.save(x, p)")
    check_noop(code, "master_saves")
    assert [found for found, _ in findings(code, "master_saves")] == ["XLA812"]


def test_the_guard_of_a_save_goes() -> None:
    text = run_only(spawned("if rank == 0:", "    torch.save(x, p)"), "master_saves")
    assert "world_size=world_size)\n    torch.save(x, p)\n" in text


def test_what_every_replica_answers_alike_stays() -> None:
    text = run_only(spawned("if rank == 0 and epoch % 5 == 0:", "    torch.save(x, p)"), "master_saves")
    assert "    if epoch % 5 == 0:\n        torch.save(x, p)\n" in text
