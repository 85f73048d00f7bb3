"""Native programs against their migrated forms, made by hand: right ones agree, and each kind of
wrong one is caught."""

from __future__ import annotations

import pytest
from programs import program

from xla_migrate.verify import BOUNDS, Limits, check_executions, compare

pytestmark = pytest.mark.slow

RIGHT = {"mlp": "float32", "cnn": "float32", "attention": "bfloat16"}


def replaced(text, old, new):
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    return text.replace(old, new)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_migration_agrees(succeed, name):
    native = succeed(program(f"{name}_native"), "native")
    migrated = succeed(program(f"{name}_xla"), "xla")
    result = compare(native, migrated, BOUNDS[RIGHT[name]])
    assert result.agree, str(result)
    assert result.losses == len(native.losses) > 0
    if RIGHT[name] == "float32":
        assert result.worst_loss < 1e-6
        assert result.worst_parameters < 1e-5
    assert migrated.stdout == native.stdout != ""


RECURRENT = """
import torch
model = torch.nn.GRU(3, 4, batch_first=True).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 5, 3).cuda())[0].square().mean().backward()
    optimizer.step()
"""


def test_a_scan_has_no_losses_of_its_own(succeed):
    native = succeed(RECURRENT, "native")
    code = RECURRENT.replace("import torch", "import torch, torch_xla", 1)
    migrated = succeed(code.replace(".cuda()", '.to("xla")'), "xla")
    result = compare(native, migrated, BOUNDS["float32"])
    assert result.agree, str(result)
    assert result.losses == len(migrated.losses) == 3


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_migration_runs_one_execution_an_iteration(succeed, name):
    native = succeed(program(f"{name}_native"), "native")
    counted = succeed(program(f"{name}_xla"), "xla", mode="count")
    assert check_executions(native, counted, Limits()) == []
    assert counted.losses == []


def test_the_state_of_modules_is_kept(succeed):
    native = succeed(program("cnn_native"), "native")
    assert list(native.files) == ["cnn.pt"]
    (state,) = native.modules
    assert state["norm.running_mean"].any()
    assert native.parameters[0][0].shape == state["conv.weight"].shape


def test_worker_processes_and_a_generator_of_the_loader(succeed):
    for arguments in ("shuffle=True, num_workers=2", "shuffle=True, generator=torch.Generator()"):
        traces = [
            succeed(program(f"mlp_{side}").replace("shuffle=True", arguments), side)
            for side in ("native", "xla")
        ]
        assert compare(*traces, BOUNDS["float32"]).agree


WRONG_NUMBERS = {
    "optimizer before the move": (
        ("    model = model.to(device)\n", ""),
        ("    for _", "    model = model.to(device)\n    for _"),
        "step 1 of 8",
    ),
    "learning rate one percent off": (("lr=1e-2", "lr=1.01e-2"), "step 1 of 8"),
    "no zero_grad": (("optimizer.zero_grad()", "pass"), "step 2 of 8"),
    "dropout left out": (("nn.Dropout(0.3)", "nn.Identity()"), "backward 1 of 8"),
    "another dropout": (("nn.Dropout(0.3)", "nn.Dropout(0.31)"), "backward 1 of 8"),
    "no shuffling": (("shuffle=True", "shuffle=False"), "batch 1 in pass 1 of loader 0"),
    "loss scaled": (("loss.backward()", "(loss / 2).backward()"), "backward 1 of 8"),
    "last steps left out": (("range(2)", "range(1)"), "pass 2 of loader 0"),
    "last step without effect": (
        ("xm.optimizer_step(optimizer)", "len(seen) < 8 and xm.optimizer_step(optimizer)"),
        ("loss.backward()", "loss.backward(); seen.append(x)"),
        ("    for _", "    seen = []\n    for _"),
        "at step 8",
    ),
    "weights changed at the end": (
        ('print("trained")', "model[0].weight.data.mul_(1.001)"),
        "at the end",
    ),
    "an exception": (("loss.backward()", "raise ValueError('no')"), "the run"),
}


@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_a_wrong_migration_is_caught_and_its_place_named(succeed, record, name):
    *changes, where = WRONG_NUMBERS[name]
    code = program("mlp_xla")
    for old, new in changes:
        code = replaced(code, old, new)
    result = compare(succeed(program("mlp_native")), record(code, "xla"), BOUNDS["float32"])
    assert result.first is not None
    assert result.first.where == where, str(result)


LOOP = "        for x, y in device_loader:\n"
PLAIN_LOOP = "        for x, y in loader:\n            x, y = x.to(device), y.to(device)\n"
LOSS = "F.cross_entropy(model(x), y)"
WRONG_COUNTS = {
    "a value is read in the loop": (
        ("loss.backward()", "loss.backward(); loss.item()"),
        "16 executions",
    ),
    "no barrier": ((LOOP, PLAIN_LOOP), "0 executions"),
    "a second barrier in the step": (
        ("loss.backward()", "loss.backward(); torch_xla.sync()"),
        "16 executions",
    ),
    "shapes that grow": (
        (LOSS, f"{LOSS} + x.new_ones(step).sum()"),
        ("    for _", "    step = 0\n    for _"),
        ("optimizer.zero_grad()", "optimizer.zero_grad(); step += 1"),
        "compilations in the second half",
    ),
}


@pytest.mark.parametrize("name", WRONG_COUNTS)
def test_a_slow_migration_is_caught(succeed, name):
    *changes, problem = WRONG_COUNTS[name]
    code = program("mlp_xla")
    for old, new in changes:
        code = replaced(code, old, new)
    counted = succeed(code, "xla", mode="count")
    problems = check_executions(succeed(program("mlp_native")), counted, Limits(execution_slack=1))
    assert any(problem in told for told in problems), problems


def test_a_failure_deep_inside_torch_names_the_line_of_the_script(record):
    code = """
        import torch
        model = torch.nn.Linear(3, 3)
        for _ in range(9):
            model = torch.nn.Sequential(model)
        model(torch.zeros(4))
        """
    failure = record(code, "native").failure
    assert failure is not None
    assert "script.py:6 in <module>: model(torch.zeros(4))" in failure.frames[0]


def test_a_cuda_call_that_was_left_over_is_told_as_such(record):
    failure = record("import torch\ntorch.zeros(2).cuda()\n", "xla").failure
    assert failure is not None
    assert "still uses CUDA" in failure.message


def test_a_run_that_does_not_end_is_ended(record):
    trace = record("import time\nprint('up', flush=True)\ntime.sleep(60)\n", "native", timeout=2)
    assert trace.failure is not None
    assert "no end after 2 s" in trace.failure.message
    assert trace.stdout == "up\n"


def test_a_process_that_dies_leaves_its_last_words(record):
    code = "import os, sys\nprint('last words', file=sys.stderr, flush=True)\nos._exit(3)\n"
    trace = record(code, "native")
    assert trace.failure is not None
    assert "exit status 3" in trace.failure.message
    assert trace.failure.frames == ["last words"]


@pytest.mark.parametrize(("code", "kind"), [("", None), ("0", None), ("2", "SystemExit")])
def test_an_exit_is_an_end(record, code, kind):
    trace = record(
        f"import sys\nprint(sys.argv[1:])\nsys.exit({code})\n", "native", argv=["--lr", "1"]
    )
    assert (trace.failure.kind if trace.failure else None) == kind
    assert trace.stdout == "['--lr', '1']\n"


def test_one_run_without_a_server(tmp_path):
    import json
    import subprocess
    import sys

    from xla_migrate.verify.trace_file import load

    script = tmp_path / "script.py"
    script.write_text(program("mlp_native"))
    request = {
        "script": str(script),
        "side": "native",
        "workdir": str(tmp_path),
        "out": str(tmp_path / "out"),
    }
    command = [sys.executable, "-m", "xla_migrate.verify.record", json.dumps(request)]
    subprocess.run(command, check=True, timeout=300)
    assert len(load(tmp_path / "out" / "run.trace").losses) == 8
