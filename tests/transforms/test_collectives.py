"""Collectives."""

from __future__ import annotations

import pytest
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


def test_places_to_which_replicas_come_in_turn_are_one_meeting() -> None:
    first, rest = ("if rank == 0:", "    dist.barrier()"), ("if rank != 0:", "    dist.barrier()")
    code = launched("rank = dist.get_rank()", *rest, "load()", *first)
    assert run_only(code, "collectives").count('xm.rendezvous("main_in_turn")') == 2


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        ("dist.all_reduce(t)", 'xm.all_reduce("sum", [t])'),
        ("dist.all_reduce(t, dist.ReduceOp.MAX)", 'xm.all_reduce("max", [t])'),
        ("dist.all_reduce(self.t, op=dist.ReduceOp.AVG)",
         'xm.all_reduce("sum", [self.t], scale=1.0 / xr.world_size())'),
        ("dist.all_reduce(t, group=None, async_op=False)", 'xm.all_reduce("sum", [t])'),
        ("dist.all_reduce(t, dist.ReduceOp.SUM, None, True)", None),
        ("dist.all_reduce(t, dist.ReduceOp.SUM, dist.group.WORLD)", 'xm.all_reduce("sum", [t])'),
        ("dist.reduce(t, 0, dist.ReduceOp.MIN)", 'xm.all_reduce("min", [t])'),
        ("dist.reduce(t, dst=0)", 'xm.all_reduce("sum", [t])'),
        ("dist.reduce(t.div_(4), 0)", 'xm.all_reduce("sum", [t.div_(4)])'),
        ("dist.reduce(t.div(4), 0)", None),
        ("dist.all_reduce(t.detach().clone())", None),
        ("dist.broadcast(t, src=0)", "xm.collective_broadcast([t], 0)"),
        ("dist.all_gather(parts, t)", "parts[:] = xm.all_gather(t.unsqueeze(0)).unbind()"),
        ("dist.all_gather(parts, x + 1)", "parts[:] = xm.all_gather((x + 1).unsqueeze(0)).unbind()"),
        ("dist.all_gather_object(parts, x)", 'parts[:] = xm.mesh_reduce("main", x, list)'),
        ("dist.broadcast_object_list(parts, src=0)",
         'parts[:] = xm.mesh_reduce("main", parts, lambda lists: lists[0])'),
        ("dist.all_reduce(t[0])", None),
        ("dist.all_reduce(t, group=half)", None),
        ("work = dist.all_reduce(t, async_op=True)", None),
        ("dist.all_reduce(t, op=chosen)", None),
        ("dist.all_reduce(torch.ones(1))", None),
    ],
)  # fmt: skip
def test_a_collective_is_that_of_the_replicas_or_left(native: str, expected: str | None) -> None:
    text = run_only(launched(native), "collectives")
    assert f"    {expected or native}\n" in text


def test_a_tensor_of_the_host_is_told() -> None:
    code = launched("t = torch.ones(1)", "dist.all_reduce(t)")
    assert [found for found, _ in findings(code, "collectives")] == ["XLA152"]


def test_objects_are_told_what_arrives() -> None:
    found = findings(launched("dist.all_gather_object(a, b)"), "collectives")
    assert [code for code, _ in found] == ["XLA154"]
