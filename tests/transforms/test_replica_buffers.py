"""Running statistics before an evaluation."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, run_only
from replicated import launched

WRAPPED = ("model = DDP(torch.nn.BatchNorm1d(3))",)


def test_models_without_running_statistics_evaluate_as_they_are() -> None:
    check_noop(launched("model = DDP(torch.nn.Linear(3, 3))", "model.eval()"), "replica_buffers")


def test_a_model_that_was_never_wrapped_keeps_its_own() -> None:
    check_noop(launched(*WRAPPED, "other = make()", "other.eval()"), "replica_buffers")


def test_buffers_that_were_not_sent_are_not() -> None:
    code = launched("model = DDP(torch.nn.BatchNorm1d(3), broadcast_buffers=False)", "model.eval()")
    check_noop(code, "replica_buffers")


def test_the_first_replicas_statistics_go_to_all_before_an_evaluation() -> None:
    text = run_only(launched(*WRAPPED, "model.eval()"), "replica_buffers")
    assert "    xm.broadcast_master_param(model)\n    model.eval()\n" in text


def test_an_evaluation_of_the_master_alone_is_told() -> None:
    code = launched(*WRAPPED, "if dist.get_rank() == 0:", "    model.eval()")
    assert [found for found, _ in findings(code, "replica_buffers")] == ["XLA149"]


CHECK = "def check(model):\n    {}\n    model.eval()\n\n\ndef is_master(local=False):\n    {}\n"
BOTH = 'return int(os.environ["LOCAL_RANK"]) == 0 if local else dist.get_rank() == 0'


@pytest.mark.parametrize("leave", ["return None", "return {}"])
def test_behind_an_early_exit_of_all_others_the_master_is_alone(leave: str) -> None:
    head = CHECK.format(f"if not is_master():\n        {leave}", BOTH)
    code = launched(*WRAPPED, "check(model)", before="\n\n" + head)
    assert [found for found, _ in findings(code, "replica_buffers")] == ["XLA149"]


def test_a_function_that_the_master_alone_calls_is_told() -> None:
    head = CHECK.format("model.zero_grad()", BOTH)
    code = launched(*WRAPPED, "if is_master(local=True):", "    check(model)", before="\n\n" + head)
    assert [found for found, _ in findings(code, "replica_buffers")] == ["XLA149"]


def test_a_function_that_all_call_broadcasts() -> None:
    code = launched(*WRAPPED, "check(model)", before="\n\n" + CHECK.format("model.zero_grad()", BOTH))
    assert "    xm.broadcast_master_param(model)\n    model.eval()\n" in run_only(code, "replica_buffers")


@pytest.mark.parametrize("rank", ['opt["rank"]', "self.rank", "rank"])
def test_where_an_unknown_rank_is_asked_for_no_broadcast_is_written(rank: str) -> None:
    code = launched(*WRAPPED, f"if {rank} == 0:", "    model.eval()")
    assert [found for found, _ in findings(code, "replica_buffers")] == ["XLA149"]
