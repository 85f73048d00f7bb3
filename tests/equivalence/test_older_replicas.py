"""Goldens of several processes for the older targets, run as two replicas on torch 2.1 and torch_xla 2.1.

What SageMaker's launcher calls in each process of its own is started here by a script of two lines.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_cases import Case, runnable_cases
from older_environment import Unavailable, interpreter, record_replicas

from xla_migrate import migrate_source
from xla_migrate.verify import Runner, check_replicas, compare
from xla_migrate.verify import replica_runner as native_runner

pytestmark = pytest.mark.slow

TARGETS = ("2.1", "sagemaker")
STARTER = """\
import torch_xla.distributed.xla_multiprocessing as xmp
import migrated
xmp.spawn(migrated._mp_fn)
"""
CASES = [
    (case, target)
    for case in runnable_cases()
    for target in TARGETS
    if case.replicas == 2 and not case.distributed and case.runs_on(target)
]


@pytest.mark.parametrize(("case", "target"), CASES, ids=[f"{case.name}-{target}" for case, target in CASES])
def test_replicas_train_as_the_native_ranks(
    case: Case, target: str, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        python = interpreter()
    except Unavailable as reason:
        pytest.skip(str(reason))
    monkeypatch.setenv("GPU_NUM_DEVICES", "2")
    script = tmp_path / "migrated.py"
    script.write_text(migrate_source(case.native.read_text(), target=target).code)
    if target == "sagemaker":
        script = tmp_path / "started.py"
        script.write_text(STARTER)
        monkeypatch.setenv("XLA_DISABLE_FUNCTIONALIZATION", "1")  # as in the containers' releases
    for side in ("native", "xla"):
        (tmp_path / side).mkdir()
    ranks = tmp_path / "native"
    # by the generator itself, as the older environment draws: its stand-in chooses by weights otherwise
    given = {"argv": case.argv, "rng": "device"}
    native = native_runner.record_replicas(runner, case.native, "native", ranks, 2, **given)
    replicas = record_replicas(python, script, tmp_path / "xla", 2, case.argv)
    assert [trace.failure for trace in replicas] == [None, None]
    assert check_replicas(replicas, native) == ()
    for one, other in zip(native, replicas, strict=True):
        assert one.losses
        result = compare(one, other, case.bounds, case.ignore)
        assert result.agree, str(result)
