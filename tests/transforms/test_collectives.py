"""Collectives."""

from __future__ import annotations

from helpers import check_noop, findings, run_only
from replicated import launched


def test_barriers_of_others_stay() -> None:
    check_noop(launched("threads.barrier()"), "collectives")


def test_a_collective_that_is_left_is_told() -> None:
    code = launched("dist.scatter(x, xs)")
    check_noop(code, "collectives")
    assert [found for found, _ in findings(code, "collectives")] == ["XLA152"]


def test_barriers_are_rendezvous_with_tags_of_their_own() -> None:
    text = run_only(launched("dist.barrier()", "dist.barrier()"), "collectives")
    assert '    xm.rendezvous("main")\n    xm.rendezvous("main_2")\n' in text
