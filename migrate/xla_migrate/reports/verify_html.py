"""The report on two runs as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xla_migrate import __version__
from xla_migrate.reports import verify_charts
from xla_migrate.reports import verify_facts as facts
from xla_migrate.reports.pages import template
from xla_migrate.verify.drift import Drift, bounds_in, drifts, loss_differences, worst_final
from xla_migrate.verify.trace import Failure
from xla_migrate.verify.verdict import Divergence, Outcome, Verdict
from xla_transforms.findings import Finding

Fields = dict[str, Any]
SIGNS = {Outcome.EQUAL: "=", Outcome.WITHIN: "≈", Outcome.DIVERGED: "≠", Outcome.NOT_COMPARABLE: "?"}
WORST, LISTED = 15, 400
"""Parameters that are drawn, and listed below."""

MESSAGE_LINES = 40
NO_FINDINGS: Mapping[str, Sequence[Finding]] = {}


def page(
    verdict: Verdict,
    *,
    diff: str = "",
    findings: Sequence[Finding] = (),
    script: str = "",
    modules: Mapping[str, Sequence[Finding]] = NO_FINDINGS,
) -> str:
    """The whole page. ``diff`` is a unified diff of the migration, ``findings`` are its findings, and
    ``script`` is what to call the script (the name in the trace by default). ``modules`` holds the
    findings of its other files by name."""
    name = script or verdict.native.script or "script"
    located = [(name, finding) for finding in findings]
    located += [(module, finding) for module, several in modules.items() for finding in several]
    found = drifts(verdict)
    content = {
        "script": name,
        "version": __version__,
        **_answer(verdict, found),
        **_divergences(verdict),
        **_parameters(found),
        **_cost(verdict),
        "loss_plots": [verify_charts.losses(verdict), verify_charts.loss_difference(verdict)],
        "diff": list(_coloured(diff)),
        "findings": [_finding(finding, place) for place, finding in located],
        "machine_columns": facts.machine_columns(verdict),
        "machine_rows": facts.machine_rows(verdict),
    }
    return template("verify_page.html.j2").render(content)


def _answer(verdict: Verdict, found: list[Drift]) -> Fields:
    return {
        "outcome": verdict.outcome.value,
        "outcome_class": verdict.outcome.value.replace(" ", "-").replace("within-tolerance", "within"),
        "sign": SIGNS[verdict.outcome],
        "headline": facts.headline(verdict),
        "figures": list(_figures(verdict, found)),
        "failures": [(run, _failure(failure)) for run, failure in facts.failures(verdict)],
        "replicas": list(verdict.replicas),
    }


def _failure(failure: Failure) -> Fields:
    lines = facts.tail(failure.message.splitlines(), MESSAGE_LINES)
    frames = [line for frame in failure.frames for line in frame.splitlines()]
    return {"kind": failure.kind, "lines": lines, "frames": frames}


def _figures(verdict: Verdict, found: list[Drift]) -> Iterator[tuple[str, str, str]]:
    """The numbers at the top: label, number, detail."""
    steps = min(len(verdict.native.steps), len(verdict.migrated.steps))
    yield "Steps compared", f"{steps:,}", ""
    comparison, performance = verdict.comparison, verdict.performance
    if comparison is not None:
        bounds = bounds_in(verdict)
        detail = f"bound {facts.relative(bounds.loss)}"
        yield "Largest loss difference", _difference(loss_differences(verdict).worst), detail
        detail = f"bound {facts.relative(bounds.parameters)}"
        yield "Largest parameter drift", _difference(worst_final(found)), detail
    if verdict.floor is not None:
        yield "Rounding alone", facts.relative(verdict.floor), "between two native runs"
    if performance is not None and performance.executions_by_step:
        usual = facts.executions(performance).partition(" ")[0]
        yield "Executions a step", usual, facts.all_executions(performance)
        settled = "at the end" if performance.settled is None else f"step {performance.settled:,}"
        yield "Last compilation", settled if any(performance.compilations_by_step) else "none", ""


def _difference(difference: float | None) -> str:
    return facts.NOTHING if difference is None else facts.relative(difference)


def _divergences(verdict: Verdict) -> Fields:
    first, others = facts.divergences(verdict)
    return {
        "first": _first(first) if first is not None and first.kind != "failure" else None,
        "others": [_other(other) for other in others],
    }


def _first(divergence: Divergence) -> Fields:
    rows = [row for row in facts.divergence_rows(divergence) if row[0] != "likely cause"]
    subject = facts.subject(divergence)
    return {"subject": subject, "where": divergence.where, "rows": rows, "cause": divergence.cause}


def _other(divergence: Divergence) -> Fields:
    rows = dict(facts.divergence_rows(divergence))
    return {
        "subject": facts.subject(divergence),
        "where": divergence.where,
        "cause": divergence.cause,
        "native": rows["native"],
        "migrated": rows["migrated"],
        "difference": rows.get("relative difference", facts.NOTHING),
        "bound": rows.get("bound", facts.NOTHING),
    }


def _parameters(found: list[Drift]) -> Fields:
    bars = verify_charts.Bars(found)
    drawn = 0 if bars.same else WORST
    rows = [_parameter(drift, bars if number < drawn else None) for number, drift in enumerate(found)]
    return {
        "bars": {"caption": bars.caption, "note": bars.note},
        "worst": rows[:drawn],
        "rest": rows[drawn : drawn + LISTED],
        "left": max(0, len(rows) - drawn - LISTED),
        "drift_plot": verify_charts.worst_drifts(found),
    }


def _parameter(drift: Drift, bars: verify_charts.Bars | None) -> Fields:
    from markupsafe import Markup

    return {
        "name": drift.name,
        "compared": drift.compared,
        "exceeds": drift.exceeds,
        "difference": _difference(drift.final),
        "elements": f"{drift.elements:,}",
        "bar": Markup(bars.svg(drift)) if bars else "",
    }


def _cost(verdict: Verdict) -> Fields:
    performance = verdict.performance
    if performance is None:
        return {"cost": []}
    steps = len(verdict.counted.steps) if verdict.counted else 0
    return {
        "cost": [
            ("Compilations", facts.settled(performance)),
            ("Executions a step", facts.executions(performance)),
        ],
        "problems": facts.problems(verdict),
        "cost_plots": verify_charts.costs(performance),
        "reads": [
            [read.where, read.what, f"{read.count:,}", facts.per_step(read.count, steps) or facts.NOTHING,
             f"{read.steps:,}", f"{read.executions:,}"]
            for read in facts.reads(performance)
        ],
        "fallbacks": [(name, f"{calls:,}") for name, calls in performance.fallbacks.items()],
        "recompiled": facts.recompiled(performance),
    }  # fmt: skip


def _coloured(diff: str) -> Iterator[tuple[str, str]]:
    """Each line of a diff with its class; what stands above the first hunk of a file is its heading."""
    styles = {"@": "hunk", "+": "added", "-": "removed"}
    heading = True
    for line in diff.split("\n")[: -1 if diff.endswith("\n") else None] if diff else ():
        if line.startswith("diff "):
            heading = True
        if line.startswith("@@"):
            heading = False
        style = "head" if heading else styles.get(line[:1], "")
        yield style, line.removesuffix("\r")


def _finding(finding: Finding, script: str) -> Fields:
    return {
        "place": f"{script}:{finding.span.line}:{finding.span.column}",
        "severity": finding.severity.label,
        "code": finding.code,
        "message": finding.message,
        "advice": finding.advice,
        "fixed": finding.fixed,
    }
