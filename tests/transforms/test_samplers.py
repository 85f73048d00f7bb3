"""Samplers."""

from __future__ import annotations

from helpers import check_noop, run_only
from replicated import launched, spawned


def test_a_sampler_that_is_told_stays() -> None:
    check_noop(spawned("s = DistributedSampler(d, world_size, rank)"), "samplers")
    check_noop(spawned("s = DistributedSampler(d, num_replicas=world_size, rank=rank)"), "samplers")


def test_a_sampler_is_told_world_size_and_rank() -> None:
    text = run_only(launched("s = DistributedSampler(d, shuffle=True)"), "samplers")
    assert "d, num_replicas=xr.world_size(), rank=xr.global_ordinal(), shuffle=True\n" in text
