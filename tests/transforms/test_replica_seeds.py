"""Replicas of scripts without a seed."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, migrate
from replicated import IMPORTS, launched, spawned

from xla_transforms.settings import Settings

REPLICAS = Settings(distributed=True)
SEED = "torch_xla.manual_seed(xr.global_ordinal())"
XLA = "Sampler\nimport torch_xla\nimport torch_xla.runtime as xr\n"
MODEL = "model = torch.nn.Sequential(torch.nn.Dropout(0.1))"
ALONE = """\
import torch
model = torch.nn.Linear(4, 1).cuda()


def main():
    model(torch.ones(2, 4).cuda()).sum().backward()


if __name__ == "__main__":
    main()
"""


def test_what_draws_nothing_on_the_device_needs_no_seed() -> None:
    check_noop(launched("x = torch.rand(3)"), "replica_seeds")


def test_what_draws_on_a_device_that_may_be_the_cpu_needs_a_seed() -> None:
    chosen = 'd = torch.device("cuda" if fast else "cpu")'
    assert SEED in migrate(launched(chosen, "x = torch.rand(3, device=d)"), "replica_seeds").code
    check_noop(launched('x = torch.rand(3, device="cpu")'), "replica_seeds")


@pytest.mark.parametrize("seed", ["torch.manual_seed(1)", "torch.cuda.manual_seed_all(1 + dist.get_rank())"])
def test_a_seed_of_each_process_is_enough(seed: str) -> None:
    check_noop(launched(seed, MODEL), "replica_seeds")
    check_noop(spawned(seed, MODEL), "replica_seeds")


def test_a_seed_in_a_function_that_each_process_calls_is_enough() -> None:
    before = "\n\ndef seeded(n):\n    torch.manual_seed(n)\n"
    check_noop(launched("seeded(3)", MODEL, before=before), "replica_seeds")


def test_a_seed_of_a_module_is_one_of_each_process() -> None:
    check_noop(spawned(MODEL, before="torch.manual_seed(1)\n"), "replica_seeds")


def test_processes_of_a_spawn_without_a_seed() -> None:
    code = spawned(MODEL)
    expected = code.replace("    dist.init", f"    {SEED}\n    dist.init").replace("Sampler\n", XLA, 1)
    check_transformed(code, expected, "replica_seeds")


def test_a_seed_of_the_process_that_starts_the_others_is_none() -> None:
    code = spawned(MODEL).replace("    n = torch", "    torch.manual_seed(1)\n    n = torch")
    assert f"    {SEED}\n    dist.init" in migrate(code, "replica_seeds").code


@pytest.mark.parametrize("condition", ["if args.seed is not None:", "for _ in args.seeds:"])
def test_a_seed_that_an_option_asks_for_may_be_none(condition: str) -> None:
    code = launched(f"{condition} torch.manual_seed(1)", MODEL)
    assert f"\n    {SEED}\n    main()\n" in migrate(code, "replica_seeds").code


def test_what_a_launcher_started_begins_with_the_seed() -> None:
    text = migrate(launched(MODEL)).code
    assert f"def _mp_fn(index):\n    {SEED}\n    main()\n" in text


def test_a_flat_script_begins_with_the_seed() -> None:
    text = migrate(IMPORTS + f"# all\ndist.init_process_group('nccl')\n{MODEL}.cuda()\n").code
    assert f"def _mp_fn(index):\n    {SEED}\n    # all\n    model" in text


@pytest.mark.parametrize("drawn", ["torch.randn(2, device='cuda')", "x.normal_()", "timm.create_model('a')"])
def test_what_draws_on_the_device(drawn: str) -> None:
    code = launched(f"y = {drawn}").replace("import os\n", "import os\nimport timm\n")
    assert SEED in migrate(code, "replica_seeds").code


def test_on_older_releases_the_state_is_set() -> None:
    text = migrate(spawned(MODEL), "replica_seeds", settings=Settings(target="sagemaker")).code
    assert "    xm.set_rng_state(xm.get_ordinal())\n    dist.init" in text


def test_one_process_draws_as_it_did() -> None:
    check_noop(ALONE, "replica_seeds")


def test_a_seeded_script_for_one_process_starts_alike() -> None:
    code = ALONE.replace("import torch\n", "import torch\ntorch.manual_seed(2)\n")
    check_noop(code, "replica_seeds", settings=REPLICAS)


def test_replicas_of_a_script_for_one_process_start_alike() -> None:
    outcome = migrate(ALONE, settings=REPLICAS)
    assert "\n    torch.manual_seed(0)\n    model = " in outcome.code
    (told,) = [f for f in outcome.findings if f.code == "XLA228"]
    assert told.fixed


def test_equal_masks_of_replicas_that_start_alike_are_told() -> None:
    code = ALONE.replace("torch.nn.Linear(4, 1)", "torch.nn.Sequential(torch.nn.Dropout(0.1))")
    (told,) = [f for f in migrate(code, settings=REPLICAS).findings if f.code == "XLA228"]
    assert told.message.endswith("start alike; their dropout masks are the same, too")
    assert not told.fixed
