"""Running a native script and its migrated form, and comparing what they computed.

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
"""

from __future__ import annotations

from xla_migrate.verify.compare import BOUNDS, Bounds, compare
from xla_migrate.verify.executions import Limits, check_executions, iterations_of
from xla_migrate.verify.judge import judge
from xla_migrate.verify.replica_checks import aligned, check_replicas
from xla_migrate.verify.replica_runner import record_replicas
from xla_migrate.verify.runner import Runner
from xla_migrate.verify.trace import Failure, Request, Sample, Step, Trace
from xla_migrate.verify.verdict import Comparison, Divergence, Outcome, Verdict

__all__ = [
    "BOUNDS",
    "Bounds",
    "Comparison",
    "Divergence",
    "Failure",
    "Limits",
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
]
