"""What DistributedDataParallel was told beside its model."""

from __future__ import annotations

import pytest
from transforms.helpers import check_noop, findings
from transforms.replicated import spawned

MODEL = "m = torch.nn.Linear(2, 1).to(rank)"


@pytest.mark.parametrize("option", ["", ", find_unused_parameters=False"])
def test_without_unused_parameters_there_is_nothing_to_say(option: str) -> None:
    code = spawned(MODEL, f"m = DDP(m{option})", "m(x)")
    check_noop(code, "wrapper_options")
    assert findings(code, "wrapper_options") == []


def test_unused_parameters_are_reported() -> None:
    code = spawned(MODEL, "m = DDP(m, find_unused_parameters=True)")
    assert [code for code, _ in findings(code, "wrapper_options")] == ["XLA617"]


@pytest.mark.parametrize("use", ["m.register_comm_hook(None, hook)", "with m.join():\n        m(x)"])
def test_methods_of_the_wrapper_are_reported(use: str) -> None:
    assert [code for code, _ in findings(spawned(MODEL, "m = DDP(m)", use), "wrapper_options")] == ["XLA618"]


def test_methods_of_that_name_of_other_things() -> None:
    assert findings(spawned(MODEL, "m = DDP(m)", "path = os.path.join(a, b)"), "wrapper_options") == []


def test_a_join_of_wrapped_models_is_told() -> None:
    before = "from torch.distributed.algorithms.join import Join\n"
    joined = ("with Join([m]):", "    m(x)")
    assert findings(spawned(MODEL, "m = ours(m)", *joined, before=before), "wrapper_options") == []
    code = spawned(MODEL, "m = DDP(m)", *joined, before=before)
    assert [found for found, _ in findings(code, "wrapper_options")] == ["XLA618"]


@pytest.mark.parametrize(
    "line",
    [
        "m._ddp_params_and_buffers_to_ignore = ['bias']",
        "DDP._set_params_and_buffers_to_ignore_for_model(m, ['bias'])",
    ],
)
def test_parameters_that_the_wrapper_left_out_are_reported(line: str) -> None:
    assert [code for code, _ in findings(spawned(MODEL, line, "m = DDP(m)"), "wrapper_options")] == ["XLA621"]
    assert findings(spawned(MODEL, line), "wrapper_options") == []


def test_reading_what_the_wrapper_left_out_is_no_matter() -> None:
    code = spawned(MODEL, "m = DDP(m)", "names = m._ddp_params_and_buffers_to_ignore")
    assert findings(code, "wrapper_options") == []
