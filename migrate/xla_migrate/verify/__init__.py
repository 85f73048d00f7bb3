"""Running a native script and its migrated form, and comparing what they computed.

    verdict = verify("train.py", ["--epochs", "1"])   # in scratch copies: all of the below
    print(verdict.outcome.value, verdict.reason)

Or step by step, in directories of one's own:

    with Runner() as runner:
        native = runner.record(Path("train.py"), "native", workdir)
        migrated = runner.record(Path("train_xla.py"), "xla", workdir)
        counted = runner.record(Path("train_xla.py"), "xla", workdir, mode="count")
    print(compare(native, migrated, BOUNDS["float32"]))
    print(check_executions(native, counted, Limits()))

``record_replicas`` in the place of ``record`` runs a script as several replicas (ranks natively),
``check_replicas`` says what is wrong between them, ``aligned`` which of their traces to compare.

Each run is a process of its own: ``runner`` asks for it, ``record`` is it. In that process
``cuda_stand_in`` (native) or ``xla_side`` (migrated) set the scene, ``host_rng`` gives both the
same noise, ``script`` runs the script and ``recorder`` watches; the ``trace`` it leaves is all that
``compare`` and ``executions`` see. Those three import no torch, and nor does this package.
``overlay`` makes scratch copies, ``guard`` keeps a run from writing to the originals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xla_migrate.verify.compare import BOUNDS, Bounds, compare
from xla_migrate.verify.executions import Limits, check_executions, iterations_of
from xla_migrate.verify.judge import judge
from xla_migrate.verify.replica_checks import aligned, check_replicas
from xla_migrate.verify.replica_runner import record_replicas
from xla_migrate.verify.runner import Runner
from xla_migrate.verify.trace import Failure, Request, Sample, Step, Trace
from xla_migrate.verify.verdict import Comparison, Divergence, Outcome, Verdict

if TYPE_CHECKING:
    from xla_migrate.verify.verifying import Options, verify

__all__ = [
    "BOUNDS",
    "Bounds",
    "Comparison",
    "Divergence",
    "Failure",
    "Limits",
    "Options",
    "Outcome",
    "Request",
    "Runner",
    "Sample",
    "Step",
    "Trace",
    "Verdict",
    "aligned",
    "check_executions",
    "check_replicas",
    "compare",
    "iterations_of",
    "judge",
    "record_replicas",
    "verify",
]


def __getattr__(name: str) -> Any:
    """``verify`` brings the migration along, which the interpreter of a run may not have."""
    if name in ("Options", "verify"):
        from xla_migrate.verify import verifying

        return getattr(verifying, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
