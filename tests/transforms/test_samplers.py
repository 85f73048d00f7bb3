"""Samplers of a program of several processes."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, migrate, open_findings, run_only
from replicated import launched, spawned

MODEL = ("m = torch.nn.Linear(2, 1).to(rank)", "opt = torch.optim.SGD(m.parameters(), lr=0.1)")
LOOP = (
    "for epoch in range(2):", "    for x in loader:", "        m(x.to(rank)).sum().backward()",
    "        opt.step()",
)  # fmt: skip


@pytest.mark.parametrize(
    "made",
    [
        "s = DistributedSampler(d, world_size, rank)",
        "s = DistributedSampler(d, num_replicas=world_size, rank=rank)",
        "s = DistributedSampler(d, num_replicas=1, rank=0)",
    ],
)
def test_a_sampler_that_is_told_stays(made: str) -> None:
    check_noop(spawned(made), "samplers")


def test_a_sampler_is_told_world_size_and_rank() -> None:
    text = run_only(launched("s = DistributedSampler(d, shuffle=True)"), "samplers")
    assert "d, num_replicas=xr.world_size(), rank=xr.global_ordinal(), shuffle=True\n" in text


@pytest.mark.parametrize(
    "made",
    [
        "s = DistributedSampler(d, num_replicas=4, rank=rank)", "s = DistributedSampler(d, 8, rank)",
        "s = DistributedSampler(d, num_replicas=None, rank=rank)",
    ],
)  # fmt: skip
def test_another_number_of_replicas_is_the_runtimes(made: str) -> None:
    text = run_only(spawned(made), "samplers")
    assert "xr.world_size(), rank" in text
    assert ", rank=rank)\n" in text or ", rank)\n" in text


def test_the_local_rank_is_not_the_rank() -> None:
    made = 's = DistributedSampler(d, dist.get_world_size(), int(os.environ["LOCAL_RANK"]))'
    assert "dist.get_world_size(), xr.global_ordinal())\n" in run_only(launched(made), "samplers")


@pytest.mark.parametrize(
    "made",
    ["s = DistributedSampler(d, num_replicas=parts.size(), rank=rank)", "s = DistributedSampler(d, **given)"],
)
def test_what_is_not_known_is_reported(made: str) -> None:
    assert [code for code, _ in findings(spawned(made), "samplers")] == ["XLA512"]
    check_noop(spawned(made), "samplers")


def test_a_class_of_ones_own_that_is_made_as_its_parent() -> None:
    own = "\n\nclass Ordered(DistributedSampler):\n    def __iter__(self):\n        return iter(())\n"
    text = run_only(launched("s = Ordered(d)", before=own), "samplers")
    assert "Ordered(d, num_replicas=xr.world_size(), rank=xr.global_ordinal())" in text


def native(*lines: str) -> list[tuple[str, str]]:
    outcome = migrate(spawned(*MODEL, *lines, *LOOP), "samplers", "loader_samplers", "sampler_epochs")
    return [(f.code, f.severity.name) for f in open_findings(outcome)]


def test_data_that_native_processes_share_whole_stays_whole() -> None:
    made = "loader = DataLoader(d, batch_size=4, shuffle=True)"
    check_noop(spawned(*MODEL, made, *LOOP), "samplers", "loader_samplers", "sampler_epochs")
    assert native(made) == [("XLA515", "WARNING")]


@pytest.mark.parametrize(
    "lines",
    [
        ("s = DistributedSampler(d)", "loader = DataLoader(d, 4, sampler=s)"),
        ("s = DistributedSampler(d) if many else None", "loader = DataLoader(d, 4, s is None, s)"),
    ],
)
def test_epochs_that_native_processes_did_not_tell_apart(lines: tuple[str, ...]) -> None:
    assert native(*lines) == [("XLA518", "INFO")]
    assert "set_epoch" not in run_only(spawned(*MODEL, *lines, *LOOP), "samplers", "sampler_epochs")
