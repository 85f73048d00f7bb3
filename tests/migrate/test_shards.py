"""Traces of processes that held parts of their parameters, on traces made by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from xla_migrate.verify.shards import joined, plain_name, shards_in
from xla_migrate.verify.trace import Failure, Shard, Step, Trace
from xla_migrate.verify.trace_file import load, save


def trace(rank, values, start, **more):
    """One of two processes; ``b.weight`` of five elements is parted, ``a.bias`` is each process's own."""
    made = Trace("xla", "values", rank=rank, world=2, **more)
    part = np.array(values, dtype=np.float32)
    made.parameters = [[part, np.array([7.0], dtype=np.float32)]]
    made.names = [["b.weight", "a.bias"]]
    made.shards = [[Shard([5], start, min(3, 5 - start)), None]]
    norm = float(np.linalg.norm(part))
    unreached = [0] if rank else []
    made.steps = [Step(0, 1, [0.1], norm, unreached, [norm, 7.0], [float(part.sum()), 7.0],
                       order=["backward"], draws=rank, gradients=[norm, 2.0])]  # fmt: skip
    return made


def pair():
    return [trace(0, [1, 2, 3], 0), trace(1, [4, 5, 0], 3)]


def test_whole_parameters_are_left():
    plain = [Trace("xla", "values"), Trace("xla", "values")]
    assert joined(plain) == plain


def test_what_ended_early_is_left():
    parts = [trace(0, [1, 2, 3], 0, failure=Failure("ValueError", "")), trace(1, [4, 5, 0], 3)]
    assert joined(parts) == parts


def test_parts_are_joined_without_padding_and_sorted_by_name():
    one, other = joined(pair())
    for found in (one, other):
        assert found.names == [["a.bias", "b.weight"]]
        assert found.parameters[0][1].tolist() == [1, 2, 3, 4, 5]
        assert found.shards == []


def test_numbers_of_steps_are_those_of_whole_parameters():
    one, other = joined(pair())
    norm = float(np.linalg.norm([1, 2, 3, 4, 5]))
    assert one.steps[0].norms == pytest.approx([7.0, norm])
    assert one.steps[0].digests == pytest.approx([7.0, 15.0])
    assert one.steps[0].gradient_norm == pytest.approx((norm**2 + 4) ** 0.5)
    assert one.steps[0].unreached == []
    assert [one.steps[0].draws, other.steps[0].draws] == [0, 1]


def test_parts_come_back_from_a_file(tmp_path):
    save(pair()[1], tmp_path / "run.trace")
    assert load(tmp_path / "run.trace").shards == [[Shard([5], 3, 2), None]]


@pytest.mark.parametrize(
    "name",
    [
        "_fsdp_wrapped_module.0._fsdp_wrapped_module.weight",
        "_fsdp_wrapped_module._fpw_module.0._fsdp_shard_FSDP_SHARD_SEPARATOR__fsdp_wrapped_module"
        "_FSDP_SHARD_SEPARATOR__fpw_module_FSDP_SHARD_SEPARATOR_weight",
        "module.0.weight",
    ],
)
def test_names_are_those_of_the_model(name):
    assert plain_name(name) == "0.weight"


def test_a_part_begins_where_those_of_the_lower_ranks_end():
    parameter = SimpleNamespace(_orig_size=(3, 2), numel=lambda: 4)
    wrapper = SimpleNamespace(sharded_params=[parameter], rank=1)
    assert shards_in([wrapper]) == {id(parameter): Shard([3, 2], 4, 2)}
