"""Runs of several replicas: right migrations agree with the native ranks, and each kind of wrong one
is caught and named."""

from __future__ import annotations

import textwrap

import pytest
from programs import DATA, program

from xla_migrate.verify.compare import BOUNDS, compare
from xla_migrate.verify.replica_checks import aligned, check_replicas, comparable_samples
from xla_migrate.verify.replica_runner import record_replicas

pytestmark = pytest.mark.slow


@pytest.fixture
def run(runner, tmp_path):
    """``run(code, side, world)`` records a script as so many replicas in a directory of its own."""

    def recorded(code, side, world=2, **options):
        workdir = tmp_path / f"{side}-{len(list(tmp_path.iterdir()))}"
        workdir.mkdir()
        (workdir / "ddp_native.py").write_text(program("ddp_native"))
        script = workdir / "script.py"
        script.write_text(textwrap.dedent(code))
        options.setdefault("timeout", 60.0)
        return record_replicas(runner, script, side, workdir, world, **options)

    return recorded


@pytest.fixture(scope="module")
def ranks(runner, tmp_path_factory):
    """The native ranks of ``ddp_native``, recorded once."""
    workdir = tmp_path_factory.mktemp("ranks")
    traces = record_replicas(runner, DATA / "ddp_native.py", "native", workdir, 2, timeout=60.0)
    assert [trace.failure for trace in traces] == [None, None]
    return traces


def good(traces):
    for trace in traces:
        if trace.failure is not None:
            pytest.fail(f"{trace.failure}\n{trace.stderr[-2000:]}", pytrace=False)
    return traces


def changed(name, *changes):
    text = program(name)
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
        text = text.replace(old, new)
    return text


def test_a_right_migration_agrees_rank_by_rank(run, ranks):
    replicas = good(run(program("ddp_xla"), "xla"))
    assert check_replicas(replicas, ranks) == ()
    for native, migrated in aligned(ranks, replicas):
        found = compare(native, migrated, BOUNDS["float32"])
        assert found.agree, str(found)
        assert found.losses == 6
        assert found.worst_loss < 1e-5
        assert native.stdout == migrated.stdout
    assert replicas[0].stdout == "epoch 0 6\nepoch 1 6\n"
    assert replicas[1].stdout == ""
    assert ranks[0].losses != ranks[1].losses
    assert list(replicas[0].files) == ["net.pt"]
    assert replicas[1].files == {}


def test_collectives_are_noted_with_line_and_size(run, ranks):
    replicas = good(run(program("ddp_xla"), "xla"))
    calls = [call for call in replicas[1].collectives if call.steps == 2]
    assert [(call.name, call.elements) for call in calls] == [("xm.reduce_gradients", 765)]
    lines = program("ddp_xla").splitlines()
    number = int(calls[0].where.removeprefix("script.py:"))
    assert lines[number - 1].strip() == "xm.reduce_gradients(optimizer)"
    assert [call.name for call in ranks[0].collectives] == [
        "DistributedDataParallel", "dist.all_reduce", "dist.all_reduce", "dist.barrier",
    ]  # fmt: skip


def test_one_replica(run):
    native = good(run(program("ddp_native"), "native", 1))
    replicas = good(run(program("ddp_xla"), "xla", 1))
    assert check_replicas(replicas, native) == ()
    found = compare(native[0], replicas[0], BOUNDS["float32"])
    assert found.agree, str(found)
    assert found.losses == 12


ENDS = """
    import time
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(2, 1).cuda())
    group = dist.new_group([0, 1])
    other = DDP(torch.nn.Linear(2, 1).cuda(), process_group=group)
    late = dist.get_rank() == 1
    for asked in (dist.group.WORLD, group):
        time.sleep(1.0 if late else 0.0)
        dist.all_reduce(torch.ones(1).cuda(), group=asked, async_op=not late)
    {destroy}
    del group, asked, model, other
"""


@pytest.mark.parametrize(
    "destroy", ["dist.destroy_process_group()", "dist.destroy_process_group(group)"], ids=["all", "one"]
)
def test_wrapped_models_may_be_dropped_behind_the_end_of_their_group(run, destroy):
    """The wrapper is its group's last owner, and the group's thread is not yet done."""
    good(run(ENDS.format(destroy=destroy), "native", timeout=20.0))


def test_spawned_ranks_and_synchronised_norms(run):
    code = program("spawn_native")
    ranks = good(run(code, "native"))
    (alone,) = good(run(code.replace("batch_size=4", "batch_size=8"), "native", 1))
    assert ranks[0].stdout == "done\n"
    means = [sum(pair) / 2 for pair in zip(*(rank.losses for rank in ranks), strict=True)]
    assert means == pytest.approx(alone.losses, rel=1e-4)
    assert ranks[0].steps[-1].norms == pytest.approx(alone.steps[-1].norms, rel=1e-4)


@pytest.mark.parametrize("times", [1, 2])
def test_ranks_started_as_processes(run, times):
    loop = f"""
    for time in range({times}):
        processes = [mp.Process(target=main, args=(rank, world_size)) for rank in range(world_size)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0
"""
    spawn = "    mp.spawn(main, args=(world_size,), nprocs=world_size, join=True)\n"
    ranks = good(run(changed("spawn_native", (spawn, loop)), "native"))
    assert ranks[0].losses != ranks[1].losses
    assert [len(trace.losses) for trace in ranks] == [6 * times] * 2
    assert [trace.stdout for trace in ranks] == ["done\n", ""]


def test_a_single_device_script_against_the_n_fold_batch(run):
    native = good(run(program("one_native"), "native", 1, argv=["--batch-size", "8"]))
    replicas = good(run(program("one_xla"), "xla", 2, argv=["--batch-size", "4"]))
    assert check_replicas(replicas, native) == ()
    assert comparable_samples(native[0], replicas) == ""
    ((one, other),) = aligned(native, replicas)
    found = compare(one, other, BOUNDS["float32"])
    assert found.agree, str(found)
    assert found.losses == 12


def test_a_launch_is_for_one_process_behind_it(run):
    code = program("ddp_xla") + "    print('after', xr.world_size())\n"
    replicas = good(run(code, "xla"))
    assert replicas[0].stdout.endswith("after 1\n")
    assert replicas[1].stdout == ""


def test_a_process_group_on_xla(run, ranks):
    code = changed(
        "ddp_xla",
        ("import torch_xla\n", "import torch.distributed as dist\nimport torch_xla\n"),
        ("    device = torch_xla.device()\n",
         "    dist.init_process_group('xla', init_method='xla://')\n    device = torch_xla.device()\n"),
        ('xm.mesh_reduce("seen", len(loader), sum)', "total(len(loader), device)"),
        ("def main(index):\n",
         "def total(value, device):\n    value = torch.tensor([value], device=device)\n"
         "    dist.all_reduce(value)\n    parts = [0 * value for _ in range(dist.get_world_size())]\n"
         "    dist.all_gather(parts, value)\n    dist.broadcast(value, 0)\n    dist.barrier()\n"
         "    assert all(int(part) == int(value) for part in parts)\n    return int(value)\n\n\n"
         "def main(index=0):\n"),
        ("    torch_xla.launch(main)", "    main()"),
    )  # fmt: skip
    replicas = good(run(code, "xla"))
    assert check_replicas(replicas, ranks) == ()
    assert replicas[0].stdout == "epoch 0 6\nepoch 1 6\n"
    assert "dist.all_gather" in {call.name for call in replicas[0].collectives}


def test_a_model_that_stays_wrapped(run, ranks):
    code = changed(
        "ddp_xla",
        ("import torch_xla\n", "import torch.distributed as dist\nimport torch_xla\n"),
        ("    device = torch_xla.device()\n",
         "    dist.init_process_group('xla', init_method='xla://')\n    device = torch_xla.device()\n"),
        ("    xm.broadcast_master_param(model)\n",
         "    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)\n"),
        ("            xm.reduce_gradients(optimizer)\n", ""),
        ("xm.save(model.state_dict()", "xm.save(model.module.state_dict()"),
    )  # fmt: skip
    replicas = good(run(code, "xla"))
    assert check_replicas(replicas, ranks) == ()
    for native, migrated in aligned(ranks, replicas):
        found = compare(native, migrated, BOUNDS["float32"])
        assert found.agree, str(found)


@pytest.mark.parametrize("mode", ["values", "count"])
def test_a_launch_without_replicas_runs_in_the_process_that_is_watched(succeed, mode):
    trace = succeed(program("ddp_xla"), "xla", mode=mode)
    assert len(trace.steps) == 12
    assert trace.world == 1


FUNCTIONS = """
    import torch, torch_xla, torch_xla.core.xla_model as xm, torch_xla.runtime as xr

    def main(index, name):
        assert (name, xr.world_size(), xr.global_ordinal(), xr.local_ordinal()) == ("x", 2, index, index)
        assert xm.is_master_ordinal() == (index == 0) and xm.get_local_ordinal() == index
        device = torch_xla.device()
        mine = torch.tensor([1.0, 2.0], device=device) + 10 * index
        close = lambda found, wanted: torch.testing.assert_close(found.cpu(), torch.tensor(wanted))
        close(xm.all_reduce(xm.REDUCE_SUM, mine), [12.0, 14.0])
        close(mine, [1.0 + 10 * index, 2.0 + 10 * index])
        close(xm.all_reduce(xm.REDUCE_SUM, mine, scale=0.5), [6.0, 7.0])
        close(xm.all_reduce(xm.REDUCE_MAX, mine), [11.0, 12.0])
        close(xm.all_reduce(xm.REDUCE_MIN, mine), [1.0, 2.0])
        close(xm.all_reduce(xm.REDUCE_MUL, mine), [11.0, 24.0])
        flags = torch.tensor([True, index == 0], device=device)
        close(xm.all_reduce(xm.REDUCE_AND, flags), [True, False])
        close(xm.all_reduce(xm.REDUCE_OR, flags), [True, True])
        close(xm.all_reduce(xm.REDUCE_SUM, mine, groups=[[0], [1]]), mine.tolist())
        listed = [mine.clone(), torch.ones((), device=device)]
        assert xm.all_reduce(xm.REDUCE_SUM, listed) is listed
        close(listed[0], [12.0, 14.0])
        close(listed[1], 2.0)
        close(xm.all_gather(mine), [1.0, 2.0, 11.0, 12.0])
        close(xm.all_gather(mine.view(1, 2), dim=1), [[1.0, 2.0, 11.0, 12.0]])
        close(xm.all_to_all(mine, 0, 0, 2), [1.0 + index, 11.0 + index])
        close(xm.reduce_scatter(xm.REDUCE_SUM, mine, 0.5, 0, 2), [6.0 + index])
        close(xm.collective_permute(mine, [[0, 1]]), [1.0, 2.0] if index else [0.0, 0.0])
        sent = mine.clone()
        xm.collective_broadcast([sent], root_ordinal=1)
        close(sent, [11.0, 12.0])
        half = torch.tensor([1.5], dtype=torch.bfloat16, device=device)
        assert float(xm.all_reduce(xm.REDUCE_SUM, half)) == 3.0
        assert xm.rendezvous("here", str(index).encode() * (index + 1)) == [b"0", b"11"]
        assert xm.mesh_reduce("sum", float(index + 1), sum) == 3.0
        layer = torch.nn.Linear(1, 1).to(device)
        xm.broadcast_master_param(layer)
        close(xm.all_reduce(xm.REDUCE_SUM, layer.weight, scale=0.5), layer.weight.tolist())
        xm.master_print("from", index)

    if __name__ == "__main__":
        torch_xla.launch(main, args=("x",))
"""


def test_every_function_between_replicas(run):
    replicas = good(run(FUNCTIONS, "xla"))
    assert [trace.stdout for trace in replicas] == ["from 0\n", ""]
    names = [[call.name for call in trace.collectives] for trace in replicas]
    assert names[0] == names[1]
    assert "xm.broadcast_master_param" in names[0]


REDUCE = "            xm.reduce_gradients(optimizer)\n"
CLIP = "            nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
STEP = "            optimizer.step()\n"
SAVE = '    xm.save(model.state_dict(), "net.pt")\n'
ONE = "            if index == 1:\n                "
SAVED = '    xm.rendezvous("saved")\n'

FAULTS = {
    "missing reduction": ([(REDUCE, "")], "in step 1 (and 5 more) the gradients are not reduced"),
    "result of the reduction dropped": (
        [(REDUCE, "            [xm.all_reduce('sum', p.grad, scale=0.5) for p in model.parameters()]\n")],
        "in step 1 (and 5 more) the gradients are not reduced",
    ),
    "doubled reduction": (
        [(STEP, "            xm.optimizer_step(optimizer)\n")],
        "in step 1 (and 5 more) the gradients are reduced 2 times: xm.optimizer_step",
    ),
    "clip before the reduction": (
        [(REDUCE + CLIP + STEP, CLIP + "            xm.optimizer_step(optimizer)\n")],
        "in step 1 gradients are clipped before they are reduced",
    ),
    "set_epoch missing": (
        [("        sampler.set_epoch(epoch)\n", "")],
        "epoch 1 has its samples in the order of epoch 0, and natively another: sampler.set_epoch",
    ),
    "sampler missing": (
        [("batch_size=8, sampler=sampler", "batch_size=8, shuffle=True")],
        "in epoch 0 every replica sees the same 48 samples",
    ),
    "rank of the sampler missing": (
        [("rank=xr.global_ordinal(), shuffle", "rank=0, shuffle")],
        "in epoch 0 every replica sees the same 24 samples",
    ),
    "saved by one replica in a step": (
        [(STEP, f"{STEP}            if xr.global_ordinal() == 0:\n            {SAVE}")],
        "is called by replica 0 and not by replica 1: take it out of the condition",
    ),
    "saved by all replicas": (
        [(SAVE, '    torch.save(model.cpu().state_dict(), "net.pt")\n')],
        "net.pt is written by replicas 0, 1",
    ),
    "other weights": (
        [("    torch.manual_seed(0)\n", ""), ("    xm.broadcast_master_param(model)\n", "")],
        "they start with different weights: call xm.broadcast_master_param(model)",
    ),
    "samples dropped": (
        [("batch_size=8, sampler=sampler", "batch_size=10, drop_last=True, sampler=sampler")],
        "in epoch 0 8 of the 48 samples that the native run sees are seen by no replica",
    ),
    "replicas never started": (
        [("    torch_xla.launch(main)", "    main(0)")],
        "each of the 2 replicas ran alone",
    ),
    "a nested function launched": (
        [("    torch_xla.launch(main)", "    torch_xla.launch(lambda index: main(index))")],
        "Can't pickle",
    ),
    "device used before the launch": (
        [("    torch_xla.launch(main)", "    torch_xla.device()\n    torch_xla.launch(main)")],
        "Runtime is already initialized",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_and_named(run, ranks, name):
    changes, sentence = FAULTS[name]
    problems = check_replicas(run(changed("ddp_xla", *changes), "xla"), ranks)
    assert problems, "nothing was found"
    assert any(sentence in problem for problem in problems), "\n".join(problems)


def test_one_replica_may_save_where_no_step_is_pending(run, ranks):
    alone = f"    if xr.global_ordinal() == 0:\n    {SAVE}"
    assert check_replicas(run(changed("ddp_xla", (SAVE, alone)), "xla"), ranks) == ()


def test_what_follows_from_a_fault_comes_behind_it(run, ranks):
    problems = check_replicas(run(changed("ddp_xla", (REDUCE, "")), "xla"), ranks)
    assert "not reduced" in problems[0]
    assert "goes its own way" in problems[1]
    assert len(problems) == 2


def line_of(code, text):
    return next(i for i, line in enumerate(code.splitlines(), 1) if text in line)


def test_a_rendezvous_of_one_replica_is_reported_and_does_not_hang(run, ranks):
    code = changed("ddp_xla", (SAVED, '    if xr.global_ordinal() == 0:\n        xm.rendezvous("saved")\n'))
    replicas = run(code, "xla")
    wanted = (
        f"replica 0 calls xm.rendezvous('saved') at script.py:{line_of(code, 'rendezvous')}; "
        "replica 1 ended without it"
    )
    assert check_replicas(replicas, ranks) == (wanted,)
    assert [trace.failure.message for trace in replicas] == [wanted, wanted]
    assert replicas[0].losses != []


def test_other_collectives_in_each_replica_are_reported(run, ranks):
    guarded = '            if xr.global_ordinal() == 0:\n                xm.rendezvous("early")\n'
    code = changed("ddp_xla", (REDUCE, guarded + REDUCE))
    wanted = (
        f"replica 0 calls xm.rendezvous('early') at script.py:{line_of(code, 'early')}; "
        f"replica 1 calls xm.reduce_gradients at script.py:{line_of(code, 'reduce_gradients')} for 4 tensors"
    )
    assert check_replicas(run(code, "xla"), ranks) == (wanted,)


def test_shapes_that_differ_are_reported(run, ranks):
    code = changed("ddp_xla", (SAVED, "    xm.all_gather(torch.ones(2 + index, device=device))\n"))
    (problem,) = check_replicas(run(code, "xla"), ranks)
    assert "of shape [2]; replica 1" in problem
    assert "of shape [3]" in problem


def test_an_exception_in_one_replica_ends_the_others(run, ranks):
    code = changed("ddp_xla", (CLIP, CLIP + ONE + "raise KeyError('no')\n"))
    replicas = run(code, "xla")
    assert check_replicas(replicas, ranks)[0] == "replica 1 failed: KeyError: 'no'"
    assert "replica 1 failed before it (KeyError)" in replicas[0].failure.message


def test_a_killed_replica_ends_the_others(run, ranks):
    code = changed("ddp_xla", (CLIP, CLIP + ONE + "__import__('os')._exit(3)\n"))
    replicas = run(code, "xla")
    assert "exit status 3" in replicas[1].failure.message
    assert "another one has gone" in replicas[0].failure.message


def test_a_replica_that_does_not_come_is_reported_in_time(run, ranks):
    code = changed("ddp_xla", (SAVED, "    index or __import__('time').sleep(60)\n" + SAVED))
    replicas = run(code, "xla", timeout=15.0)
    problem = replicas[1].failure.message
    assert problem.startswith("replica 1 calls xm.rendezvous('saved') at script.py:")
    assert problem.endswith("; another one does not come")
    assert "no end after 15 s" in replicas[0].failure.message
