"""SyncBatchNorm has no place on XLA."""

from __future__ import annotations

from helpers import check_noop, findings, migrate, run_only
from replicated import launched

CONVERT = "torch.nn.SyncBatchNorm.convert_sync_batchnorm"


def test_a_conversion_of_ones_own_stays() -> None:
    check_noop(launched("model = ours.convert_sync_batchnorm(model)"), "synchronised_norms")


def test_a_conversion_of_a_name_goes_and_is_told() -> None:
    code = launched("net = make()", f"net = {CONVERT}(net)", "print(net)")
    assert "convert" not in run_only(code, "synchronised_norms")
    assert [found for found, _ in findings(code, "synchronised_norms")] == ["XLA146"]


def test_a_conversion_within_an_expression_is_the_model() -> None:
    code = launched("net = make()", f"model = {CONVERT}(net).cuda()")
    assert "    model = net.cuda()\n" in run_only(code, "synchronised_norms")


def test_a_layer_is_told() -> None:
    found = findings(launched("torch.nn.SyncBatchNorm(3)"), "synchronised_norms")
    assert [code for code, _ in found] == ["XLA146"]


def test_a_guard_goes_only_with_what_it_guarded() -> None:
    lines = ("net = torch.nn.Linear(2, 2)", "if wide:", "    net = apex.parallel.convert_syncbn_model(net)")
    code = "\n".join(("import apex", "import torch", "", *lines, "net.cuda()", ""))
    outcome = migrate(code)
    assert "if wide" not in outcome.code
    left_out = outcome.without({change.id for change in outcome.changes if change.code == "XLA146"})
    assert "if wide:\n    net = apex.parallel.convert_syncbn_model(net)\n" in left_out.code
    assert "import apex\n" in left_out.code
    assert "cuda" not in left_out.code


def test_beside_a_process_group_that_stays_the_layers_raise_where_they_are_left() -> None:
    lines = ("net = make()", f"net = {CONVERT}(net)", "dist.send(net, 1)")
    messages = [f.message for f in migrate(launched(*lines), "synchronised_norms").findings]
    assert messages[0].startswith("SyncBatchNorm raises on an XLA device")
    messages = [f.message for f in migrate(launched(*lines[:2]), "synchronised_norms").findings]
    assert messages[0].startswith("batch norms see the batch of one replica")
