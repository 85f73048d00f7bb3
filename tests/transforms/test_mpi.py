"""Programs whose processes know one another through mpi4py."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, run_only
from replicated import launched

BEFORE = "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
SINGLE = "import torch\nfrom mpi4py import MPI\nx = torch.ones(1).cuda()\n"


def written(line: str) -> str:
    text = run_only(launched(line, before=BEFORE), "mpi", "ranks")
    return text.split("def main():\n")[1].splitlines()[1].strip()


@pytest.mark.parametrize("line", ["print(MPI.COMM_WORLD.rank)", "MPI.COMM_WORLD.Barrier()"])
def test_a_program_of_one_process_asks_as_before(line: str) -> None:
    check_noop(f"{SINGLE}{line}\n", "mpi", "ranks")
    assert findings(f"{SINGLE}{line}\n", "mpi", "ranks") == []


@pytest.mark.parametrize("line", ["print(group.rank)", "x = node.size", "other.Get_rank()", "MPI.Wtime()"])
def test_what_is_not_the_communicator_of_all_stays(line: str) -> None:
    assert written(line) == line
    assert findings(launched(line, before=BEFORE), "mpi", "ranks") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = comm.Get_rank()", "x = xr.global_ordinal()"),
        ("x = MPI.COMM_WORLD.rank", "x = xr.global_ordinal()"),
        ("x = data[comm.rank :: comm.size]", "x = data[xr.global_ordinal() :: xr.world_size()]"),
        ("x = f(shard=MPI.COMM_WORLD.Get_size())", "x = f(shard=xr.world_size())"),
        ("comm.Barrier()", 'xm.rendezvous("main_barrier")'),
        ("comm.barrier()", 'xm.rendezvous("main_barrier")'),
        ("x = comm.bcast(seed, root=0)", 'x = xm.mesh_reduce("main_bcast", seed, lambda sent: sent[0])'),
        ("x = comm.bcast(seed)", 'x = xm.mesh_reduce("main_bcast", seed, lambda sent: sent[0])'),
        ("x = comm.allgather(n)", 'x = xm.mesh_reduce("main_allgather", n, list)'),
        ("x = comm.allreduce(n)", 'x = xm.mesh_reduce("main_allreduce", n, sum)'),
        ("x = comm.allreduce(n, op=MPI.MAX)", 'x = xm.mesh_reduce("main_allreduce", n, max)'),
    ],
)
def test_the_runtime_tells_what_mpi_told(line: str, expected: str) -> None:
    assert written(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "comm.Allreduce(a, b)",
        "x = comm.gather(n)",
        "x = comm.allreduce(n, MPI.PROD)",
        "half = comm.Split(1, 0)",
    ],
)
def test_what_has_no_counterpart_is_an_error(line: str) -> None:
    assert written(line) == line
    assert findings(launched(line, before=BEFORE), "mpi") == [("XLA159", 13)]


def test_the_master_of_mpi_is_the_master() -> None:
    before = BEFORE + "net = make()\n"
    code = launched("if comm.rank == 0:", "    torch.save(net.state_dict(), path)", before=before)
    assert "    xm.save(net.state_dict(), path)\n" in run_only(code, "master_guards", "checkpoints")


LOAD = """\
def load(path):
    if comm.Get_rank() == 0:
        comm.bcast(open(path).read())
        return None
    return comm.bcast(None)


def resume(path):
    return load(path)
"""


def test_what_all_replicas_call_has_no_finding() -> None:
    assert findings(launched("state = resume('x')", before=BEFORE + LOAD), "mpi") == []


def test_where_the_master_alone_calls_what_sends_it_would_wait() -> None:
    lines = "if comm.Get_rank() == 0:\n        state = resume('x')"
    code = launched(lines, before=BEFORE + LOAD)
    [(rule, line)] = findings(code, "mpi")
    assert rule == "XLA180"
    assert "comm.bcast(open" in code.splitlines()[line - 1]
