"""The report on two runs for programs; docs/verify-report.md lists its keys.

Its ``version`` grows when a key goes or changes its meaning, not when one is added.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from xla_migrate import __version__
from xla_migrate.reports import verify_facts as facts
from xla_migrate.verify.drift import Drift, bounds_in, drifts, loss_differences, worst_final
from xla_migrate.verify.trace import Step, Trace
from xla_migrate.verify.verdict import Divergence, Verdict

VERSION = 1


def report(verdict: Verdict) -> str:
    """One JSON object. Numbers that are not finite are the strings ``NaN``, ``Infinity`` and
    ``-Infinity``, since JSON has none; null says that there is no value."""
    first, others = facts.divergences(verdict)
    content = {
        "version": VERSION,
        "tool": {"name": "xla-migrate", "version": __version__},
        "outcome": verdict.outcome.value,
        "exit_code": verdict.outcome.status,
        "reason": verdict.reason,
        "headline": facts.headline(verdict),
        "comparison": _comparison(verdict),
        "first_divergence": first and _divergence(first),
        "other_divergences": [_divergence(other) for other in others],
        "replica_problems": list(verdict.replicas),
        "performance": _performance(verdict),
        "runs": {
            side: trace and _run(trace)
            for side in facts.SIDES
            for trace in [facts.trace_of(verdict, side)]
        },
        "parameters": [_parameter(drift) for drift in drifts(verdict)],
        "losses": list(_losses(verdict)),
        "steps": list(_steps(verdict)),
    }
    return json.dumps(finite(content), indent=2, allow_nan=False) + "\n"


def finite(content: Any) -> Any:
    """The same with a string for each number that JSON cannot write, and for what it does not know."""
    if isinstance(content, float):
        if math.isfinite(content):
            return content
        return "NaN" if math.isnan(content) else "Infinity" if content > 0 else "-Infinity"
    if isinstance(content, dict):
        return {str(key): finite(item) for key, item in content.items()}
    if isinstance(content, (list, tuple)):
        return [finite(item) for item in content]
    return content if content is None or isinstance(content, (str, int)) else str(content)


def _comparison(verdict: Verdict) -> dict[str, Any] | None:
    comparison = verdict.comparison
    if comparison is None:
        return None
    bounds = bounds_in(verdict)
    return {
        "losses": comparison.losses,
        "worst_loss": loss_differences(verdict).worst,
        "worst_parameter": worst_final(drifts(verdict)),
        "loss_bound": bounds.loss,
        "parameter_bound": bounds.parameters,
        "rounding_floor": verdict.floor,
    }


def _divergence(divergence: Divergence) -> dict[str, Any]:
    return {
        "kind": divergence.kind,
        "where": divergence.where,
        "name": divergence.name or None,
        "native": _side(divergence.native),
        "migrated": _side(divergence.migrated),
        "difference": divergence.difference,
        "bound": divergence.bound,
        "cause": divergence.cause or None,
    }


def _side(found: object) -> object:
    return found if found is None or isinstance(found, (bool, int, float)) else facts.value(found)


def _performance(verdict: Verdict) -> dict[str, Any] | None:
    performance = verdict.performance
    if performance is None:
        return None
    return {
        "iterations": performance.iterations,
        "executions": performance.executions,
        "settled_at_step": performance.settled,
        "executions_by_step": performance.executions_by_step,
        "compilations_by_step": performance.compilations_by_step,
        "host_reads": [asdict(read) for read in facts.reads(performance)],
        "fallbacks": performance.fallbacks,
        "recompiled": performance.recompiled,
        "problems": performance.problems,
    }


def _run(trace: Trace) -> dict[str, Any]:
    kept = ("script", "argv", "mode", "seed", "rng", "dtype", "machine", "seconds", "stopped", "rank",
            "world", "batches", "draws", "files")  # fmt: skip
    return {
        **{name: getattr(trace, name) for name in kept},
        "losses": len(trace.losses),
        "steps": len(trace.steps),
        "evaluations": [asdict(evaluation) for evaluation in trace.evaluations],
        "failure": trace.failure and asdict(trace.failure),
    }


def _parameter(drift: Drift) -> dict[str, Any]:
    return {
        "name": drift.name,
        "elements": drift.elements,
        "compared": drift.compared,
        "final_difference": drift.final,
        "bound": drift.bound,
        "worst_step_difference": drift.by_step.worst,
        "first_step_beyond_bound": drift.by_step.first_beyond,
    }


def _losses(verdict: Verdict) -> Iterator[dict[str, Any]]:
    curve = loss_differences(verdict)
    differences = dict(zip(curve.at, zip(curve.differences, curve.bounds, strict=True), strict=True))
    pairs = zip_longest(verdict.native.losses, verdict.migrated.losses)
    for number, (native, migrated) in enumerate(pairs, 1):
        difference, bound = differences.get(number, (None, None))
        yield {
            "number": number,
            "native": native,
            "migrated": migrated,
            "difference": difference,
            "bound": bound,
        }


def _steps(verdict: Verdict) -> Iterator[dict[str, Any]]:
    pairs = zip_longest(verdict.native.steps, verdict.migrated.steps)
    for number, (native, migrated) in enumerate(pairs, 1):
        yield {"number": number, "native": native and _step(native), "migrated": migrated and _step(migrated)}


def _step(step: Step) -> dict[str, Any]:
    kept = ("optimizer", "backwards", "learning_rates", "gradient_norm", "order", "draws", "seconds")
    return {name: getattr(step, name) for name in kept}
