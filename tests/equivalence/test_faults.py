"""Faults put into a right migration are caught and named for what they are; variants that train the
same pass."""

from __future__ import annotations

import pytest
from programs import program

from xla_migrate.verify import Outcome, judge

pytestmark = pytest.mark.slow

STEP = "            xm.optimizer_step(optimizer)\n"
CLIP = "            nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n"
BUILD = "    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-2)\n"
MOVE = "    model = Model().to(device)\n    model.tie()\n"
WRAP = "device_loader, held_out = pl.MpDeviceLoader(loader, device), pl.MpDeviceLoader(held_out, device)"
SCALED = "loss.backward(loss.new_tensor(1024.0))"
UNSCALE = "            for p in model.parameters(): p.grad /= 1024\n"

# name: (changes, kind of the first divergence, words of its cause)
FAULTS = {
    "doubled step": (
        [(STEP, STEP + "            optimizer.step()\n")],
        "optimizer steps",
        "steps twice",
    ),
    "missing step": (
        [(STEP, f"            if step != 3:\n    {STEP}")],
        "optimizer steps",
        "the step of optimizer 0 after loss 4 is missing",
    ),
    "optimizer built before the move": (
        [
            (BUILD, ""),
            (MOVE, f"    model = Model()\n{BUILD}    model.to(device)\n    model.tie()\n"),
        ],
        "gradient",
        "built before the model was moved",
    ),
    "clipped while scaled": (
        [("loss.backward()", SCALED), (CLIP, CLIP + UNSCALE)],
        "gradient norm",
        "1024 times smaller",
    ),
    "never unscaled": ([("loss.backward()", SCALED), (CLIP, "")], "gradient norm", "times larger"),
    "set_epoch left out": ([("        sampler.set_epoch(epoch)\n", "")], "batch", "set_epoch"),
    "sampler left out": ([("sampler=sampler", "shuffle=True")], "batch", "another sampler"),
    "last batch dropped": (
        [("sampler=sampler)", "sampler=sampler, drop_last=True)")],
        "number of batches",
        "smaller than the others, is dropped",
    ),
    "learning rate one percent off": ([("lr=3e-2", "lr=3.03e-2")], "learning rate", "1.01 times"),
    "scheduler left out": ([("        scheduler.step()\n", "")], "learning rate", "1.111 times"),
    "weights untied": ([("    model.tie()\n    opt", "    opt")], "tied weights", "tie them again"),
    "dropout left out": ([("nn.Dropout(0.1)", "nn.Identity()")], "loss", "random tensors"),
    "evaluated in training mode": ([("        model.eval()\n", "")], "evaluation", ""),
    "nothing saved": (
        [('    xm.save(model.state_dict(), "model.pt")\n', "")],
        "files written by one side alone",
        "",
    ),
}
COSTS = {
    "no barrier": (
        [
            (WRAP, "device_loader = loader"),
            (
                "(tokens,) in enumerate(device_loader):\n",
                "(tokens,) in enumerate(loader):\n            tokens = tokens.to(device)\n",
            ),
            (
                "loss_of(model, tokens)\n        print",
                "loss_of(model, tokens.to(device))\n        print",
            ),
        ],
        "the barrier of an iteration is missing",
    ),
    "a value read in each step": (
        [(STEP, STEP + "            seen = loss.item()\n")],
        "script.py:56 reads a value from the device (item)",
    ),
    "a second barrier in each step": (
        [(CLIP, CLIP + "            torch_xla.sync()\n")],
        "more than one barrier",
    ),
    "a number of the step in the graph": (
        [
            (
                "loss_of(model, tokens)\n            loss.b",
                "loss_of(model, tokens) + tokens.new_ones(epoch * 6 + step).sum()\n            loss.b",
            )
        ],
        "compilations in the second half",
    ),
}
VARIANTS = {
    "as it is": [],
    "plain step and an explicit barrier": [
        (STEP, "            xm.reduce_gradients(optimizer)\n            optimizer.step()\n")
    ],
    "optimizer by its other name": [
        ("torch.optim.AdamW(", "__import__('torch_xla.amp.syncfree').amp.syncfree.AdamW(")
    ],
    "gradients set to zero later": [
        ("            optimizer.zero_grad()\n", ""),
        (STEP, f"{STEP}            optimizer.zero_grad()\n"),
    ],
    "zeroed, not dropped": [("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)")],
    "moved by hand": [
        (
            "loss_of(model, tokens)\n            loss",
            "loss_of(model, tokens.to(device))\n            loss",
        )
    ],
    "loss kept for later": [
        ("loss.backward()", "kept = loss.detach()\n            loss.backward()")
    ],
    "another spelling of the loss": [
        (
            "F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())",
            "F.nll_loss(F.log_softmax(logits.flatten(0, 1), 1), tokens[:, 1:].flatten())",
        )
    ],
    "clipped for each parameter": [
        (
            "nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
            "torch.nn.utils.clip_grad.clip_grad_norm_(list(model.parameters()), max_norm=0.5)",
        )
    ],
    "logged by a closure": [
        (STEP, f"{STEP}            xm.add_step_closure(lambda value: value.item(), args=(loss,))\n")
    ],
    "a loader that prefetches more": [
        (
            "pl.MpDeviceLoader(loader, device)",
            "pl.MpDeviceLoader(loader, device, loader_prefetch_size=2)",
        )
    ],
    "saved through the host": [
        (
            "xm.save(model.state_dict()",
            "torch.save({k: v.cpu() for k, v in model.state_dict().items()}",
        )
    ],
    "built in another order": [(MOVE, ""), ("    sampler = D", f"{MOVE}    sampler = D")],
}


def changed(changes):
    code = program("language_xla")
    for old, new in changes:
        assert old in code, old
        code = code.replace(old, new, 1)
    return code


@pytest.fixture(scope="module")
def native(runner, tmp_path_factory):
    script = tmp_path_factory.mktemp("native") / "script.py"
    script.write_text(program("language_native"))
    trace = runner.record(script, "native", tmp_path_factory.mktemp("native-run"))
    assert trace.failure is None, trace.failure
    return trace


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_and_named(native, succeed, name):
    changes, kind, words = FAULTS[name]
    verdict = judge(native, succeed(changed(changes), "xla"))
    assert verdict.outcome is Outcome.DIVERGED
    first = verdict.comparison.first
    assert (first.kind, words in first.cause) == (kind, True), str(verdict.comparison)


@pytest.mark.parametrize("name", COSTS)
def test_what_costs_time_is_caught_and_named(native, succeed, name):
    changes, words = COSTS[name]
    code = changed(changes)
    verdict = judge(native, succeed(code, "xla"), succeed(code, "xla", mode="count"))
    assert any(words in problem for problem in verdict.performance.problems), verdict.performance


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_that_trains_the_same_passes(native, succeed, name):
    verdict = judge(native, succeed(changed(VARIANTS[name]), "xla"))
    assert verdict.outcome is Outcome.WITHIN, verdict.reason


def test_a_native_run_equals_itself(native):
    assert judge(native, native).outcome is Outcome.EQUAL


def test_a_script_that_trains_without_an_optimizer(succeed):
    code = """
        import torch
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        for _ in range(3):
            model.zero_grad()
            model(torch.randn(4, 3)).square().mean().backward()
            for p in model.parameters():
                p.data.sub_(p.grad, alpha=RATE)
        """
    native, other = (succeed(code.replace("RATE", rate)) for rate in ("0.1", "0.101"))
    assert judge(native, native).outcome is Outcome.EQUAL
    assert judge(native, other).outcome is Outcome.DIVERGED
