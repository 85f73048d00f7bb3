"""DistributedDataParallel."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, migrate, run_only
from replicated import launched, spawned


def test_without_processes_a_wrapper_stays() -> None:
    check_noop("import torch\nx = torch.ones(1).cuda()\nmodel = ours.DDP(model)\n", "replica_wrappers")


def test_a_module_of_its_own_stays() -> None:
    text = run_only(spawned("net = Net()", "other = DDP(net)", "net.module.train()"), "replica_wrappers")
    assert "net.module.train()" in text


def test_the_wrapper_goes_and_weights_are_made_equal() -> None:
    lines = ("model = Net()", "model = DDP(model, device_ids=[rank])", "keys = model.module")
    text = run_only(spawned(*lines), "replica_wrappers")
    assert "    xm.broadcast_master_param(model)\n    keys = model\n" in text


def test_a_wrapper_of_another_name() -> None:
    text = run_only(spawned("net = DDP(Net().cuda())", "use(net)"), "replica_wrappers")
    assert "    net = Net().cuda()\n    xm.broadcast_master_param(net)\n" in text


def test_a_wrapper_that_is_returned() -> None:
    before = "def wrap(net):\n    return DDP(net)\n"
    text = run_only(launched("m = wrap(n)", before=before), "replica_wrappers")
    assert "    xm.broadcast_master_param(net)\n    return net\n" in text


def test_the_module_of_what_another_function_wraps() -> None:
    before = "def wrap(net):\n    return DDP(net)\n"
    before += "\n\ndef keep(model):\n    return model.module.state_dict()\n"
    text = run_only(launched("m = wrap(n)", "keep(m)", before=before), "replica_wrappers")
    assert "return model.state_dict()" in text


def test_the_module_of_one_of_several_models_stays() -> None:
    before = "def build(a, b):\n    return DDP(a), b\n"
    lines = ("one, other = build(a, b)", "save(other.module, one.module)")
    assert "save(other.module, one)" in run_only(launched(*lines, before=before), "replica_wrappers")


@pytest.mark.parametrize(
    "lines",
    [
        ("one, other = build(a, b)",),
        ("both = build(a, b)", "one, other = both"),
        ("first, (one, other) = 0, build(a, b)",),
        ("one, other = [DDP(a), DDP(b)]",),
    ],
)
def test_the_modules_of_several_wrapped_models(lines: tuple[str, ...]) -> None:
    before = "def build(a, b):\n    return DDP(a), DDP(b)\n"
    code = launched(*lines, "save(one.module, other.module)", before=before)
    assert "save(one, other)" in run_only(code, "replica_wrappers")


def test_a_wrapped_model_without_a_name_is_told() -> None:
    assert [code for code, _ in findings(spawned("use(DDP(Net()))"), "replica_wrappers")] == ["XLA143"]


def test_a_model_in_one_wrapper_or_another_is_taken_out_once() -> None:
    code = launched(
        "model = torch.nn.Linear(2, 2).cuda()",
        "if torch.cuda.device_count() > 8:",
        "    model = torch.nn.DataParallel(model)",
        "else:",
        "    model = DDP(model)",
        'core = model.module if hasattr(model, "module") else model',
        "torch.save(core.state_dict(), path)",
    )
    outcome = migrate(code)
    assert not outcome.failed
    assert "    core = model\n    xm.save(core.state_dict(), path)\n" in outcome.data.decode()
