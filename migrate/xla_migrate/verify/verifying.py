"""Verifying a script: run it natively, migrate it, run that, compare.

Each run has a fresh scratch copy of its own, so that none sees what another one wrote.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from xla_migrate.api import Result, migrate_project
from xla_migrate.following import follow
from xla_migrate.project import ProjectSettings
from xla_migrate.verify.compare import floor_of
from xla_migrate.verify.judge import judge, judge_replicas, lowest_dtype, may_be_chaos
from xla_migrate.verify.overlay import LIMIT, CannotCopy, Overlay, Scratch
from xla_migrate.verify.replica_checks import comparable_samples, telling
from xla_migrate.verify.replica_runner import record_replicas
from xla_migrate.verify.runner import CannotRecord, Runner
from xla_migrate.verify.samples import as_one_process
from xla_migrate.verify.trace import Failure, Trace
from xla_migrate.verify.verdict import Outcome, Verdict
from xla_transforms.findings import Severity
from xla_transforms.settings import Distributed

TIMEOUT = 1800.0
LAST_DIGIT = {"float32": 2.4e-7, "bfloat16": 2e-3}
"""How much initial parameters are changed to see how far rounding alone carries."""
SHAKEN = (1, -1, 2, -2, 3)
"""How many times that, in one native run after another until one is as far away as the migrated run: a
single number, such as a gradient norm, may come out alike by chance."""

ORDERED = (
    "one process shuffles otherwise than the samplers of replicas: the native run was made once more, its "
    "shuffled loaders in the order of the replicas', and that is what was compared"
)

TAIL = 8  # lines of what a script printed before it ended itself

NOT_RUN = Trace("xla", "values")

Stage = Literal["native", "folded", "ordered", "shaken", "migration", "migrated", "counted"]
Progress = Callable[[str, int], None]
"""Is told the stage and the number of optimizer steps so far."""


@dataclass(frozen=True)
class Options:
    """How to run and to migrate.

    ``steps``, ``seed`` and ``rng`` are those of a request, ``timeout`` (seconds) is that of each run.
    ``share`` are directories or files that the copies link instead of holding them; ``copy_limit`` is the
    size in bytes of what is copied; ``keep`` leaves the copies there. ``native_python`` and ``xla_python``
    are the interpreters, this one by default. ``replicas`` is the number of replicas, a process each.
    ``target``, ``syncfree``, ``distributed``, ``unsafe_fixes``, ``select`` and ``ignore`` are those of the
    migration; where they say nothing ``settings`` count, those of the script's project. A script of one
    process that is run as several replicas is migrated to be them.
    """

    steps: int | None = None
    seed: int = 0
    timeout: float = TIMEOUT
    rng: Literal["host", "device"] = "host"
    share: tuple[Path, ...] = ()
    copy_limit: int = LIMIT
    keep: bool = False
    native_python: str = ""
    xla_python: str = ""
    replicas: int = 1
    target: str | None = None
    syncfree: Literal["amp", "always", "never"] = "amp"
    distributed: Distributed | None = None
    unsafe_fixes: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    settings: ProjectSettings = field(default_factory=ProjectSettings)

    @property
    def pythons(self) -> dict[str, str]:
        return {"native": self.native_python, "xla": self.xla_python}

    @property
    def replicated(self) -> bool:
        """Whether a script of one process becomes replicas where it is run as several."""
        asked = self.settings.distributed if self.distributed is None else self.distributed
        return asked is not False


def verify(
    script: str | os.PathLike[str],
    argv: Sequence[str] = (),
    options: Options | None = None,
    *,
    progress: Progress | None = None,
) -> Verdict:
    """Run ``script`` with ``argv`` in the current directory natively and migrated, and compare.

    The user's files are not touched. Raises :class:`CannotCopy` or :class:`CannotRecord` where nothing could
    be run at all; everything else is a verdict.
    """
    options = options or Options()
    with Runner(options.pythons) as runner:
        runs = Runs(runner, Path(script), list(argv), options, progress or (lambda stage, steps: None))
        runner.start("native")
        runner.start("xla")
        return runs.verdict()


def record(
    script: str | os.PathLike[str],
    side: Literal["native", "xla"] = "native",
    argv: Sequence[str] = (),
    options: Options | None = None,
    *,
    mode: Literal["values", "count"] = "values",
    progress: Progress | None = None,
) -> Trace:
    """Run ``script`` as it stands, in a scratch copy, and return its trace.

    ``side`` is what it was written for. Raises as :func:`verify` does.
    """
    options = options or Options()
    with Runner(options.pythons) as runner:
        runs = Runs(runner, Path(script), list(argv), options, progress or (lambda stage, steps: None))
        return runs.run(side, "native" if side == "native" else "migrated", mode=mode)


class Runs:
    """The runs of one script. ``kept`` are the copies that were not removed."""

    def __init__(
        self, runner: Runner, script: Path, argv: list[str], options: Options, progress: Progress
    ) -> None:
        self.runner, self.argv, self.options, self.progress = runner, argv, options, progress
        self.script = script.resolve()
        self.overlay = Overlay(self.script, Path.cwd(), options.share, options.copy_limit)
        self.kept: list[tuple[str, Path]] = []

    def verdict(self) -> Verdict:
        """Run, migrate, run again, compare."""
        if self.options.replicas > 1:
            return self._replicated()
        native = self.run("native", "native")
        if nothing_to_compare(native):
            return self._told(judge(native, NOT_RUN), {})
        results, files = self._migration(native)
        if reason := self._left(results):
            return self._told(Verdict(Outcome.NOT_COMPARABLE, reason, native, NOT_RUN), results)
        migrated = self.run("xla", "migrated", files)
        if migrated.failure is not None and migrated.failure.kind == "Unwritten":
            reason = f"the migrated run could not be recorded: {migrated.failure.message}"
            return self._told(Verdict(Outcome.NOT_COMPARABLE, reason, native, migrated), results)
        counted = None
        if migrated.failure is None:
            counted = self.run("xla", "counted", files, mode="count")
        verdict, shaken = judge(native, migrated, counted), list[Trace]()
        for size in sizes(verdict):
            shaken.append(self.run("native", "shaken", perturb=size))
            verdict = judge(native, migrated, counted, floor=floor_of(native, *shaken))
            if not may_be_chaos(verdict):
                break
        return self._told(verdict, results)

    def _migration(self, native: Trace) -> tuple[dict[str, Result], dict[Path, bytes]]:
        """The files that the native run consisted of and those that they import under some condition,
        migrated as one program; and what is to be written of them."""
        self.progress("migration", 0)
        named = [path for path in self.program(native) if self.is_migrated(path)]
        results = migrated_files(named, self.options)
        return results, {Path(path): result.data for path, result in results.items() if result.changed}

    def _left(self, results: Mapping[str, Result]) -> str:
        """Why a program was not migrated at all, empty where it was or where nothing is wrong: two runs of
        the same code show nothing of XLA."""
        errors = [
            f"{self._short(path)}:{finding.span.line}: {finding.code} {finding.message}"
            for path, result in results.items()
            for finding in result.findings
            if finding.severity is Severity.ERROR and not result.failed
        ]
        if not errors or any(result.changed for result in results.values()):
            return ""
        return f"the migration left the program as it is: {errors[0]}"

    def program(self, native: Trace) -> list[str]:
        """The absolute names of those files, as far as the copies hold them."""
        found = map(os.path.abspath, follow(native.sources, started=[str(self.script)]))
        return [p for p in dict.fromkeys(found) if p in native.sources or self.overlay.holds(Path(p))]

    def is_migrated(self, path: str) -> bool:
        """Whether the project's migration may touch a file: the script, and what is not excluded."""
        excluded = self.options.settings.excluded
        return excluded is None or Path(path) == self.script or not excluded(path)

    def _replicated(self) -> Verdict:
        """The migrated script as replicas against the native one as ranks or, where that is for one
        device, against one process with batches of N times the size."""
        native = self.run_all("native", "native")
        if not nothing_to_compare(telling(native)) and not any(trace.collectives for trace in native):
            native = [self.run("native", "folded", fold=self.options.replicas)]
            self.options = replace(self.options, distributed=self.options.replicated)
        if nothing_to_compare(telling(native)):
            return self._told(judge(telling(native), NOT_RUN), {})
        results, files = self._migration(native[0])
        if reason := self._left(results):
            return self._told(Verdict(Outcome.NOT_COMPARABLE, reason, telling(native), NOT_RUN), results)
        migrated = self.run_all("xla", "migrated", files)
        verdict = judge_replicas(native, migrated)
        if verdict.outcome is Outcome.NOT_COMPARABLE and comparable_samples(native[0], migrated):
            verdict = self._in_their_order(native, migrated)
        shaken: list[list[Trace]] = []
        for size in sizes(verdict) if len(native) > 1 else ():
            shaken.append(self.run_all("native", "shaken", perturb=size))
            verdict = judge_replicas(native, migrated, shaken=shaken)
            if not may_be_chaos(verdict):
                break
        return self._told(verdict, results)

    def _in_their_order(self, native: list[Trace], replicas: list[Trace]) -> Verdict:
        """The verdict where one process loads otherwise than the replicas together: it runs once more, its
        shuffled loaders in their order, and what each replica reads whole in batches of the script's size."""
        whole, orders = as_one_process(replicas)
        ordered = self.run("native", "ordered", fold=self.options.replicas, whole=whole, orders=orders)
        verdict = judge_replicas([ordered], replicas, usual=native)
        return replace(verdict, notes=(*verdict.notes, ORDERED))

    def run_all(
        self, side: str, stage: Stage, files: Mapping[Path, bytes] | None = None, **request: Any
    ) -> list[Trace]:
        """All replicas, or ranks, of one run, in one fresh copy; ``request`` as for :meth:`run`."""
        options = self.options
        self.progress(stage, 0)
        with self._copy(stage, files) as scratch:
            traces = record_replicas(
                self.runner, scratch.script, side, scratch.workdir, options.replicas, argv=self.argv,
                seed=options.seed, rng=options.rng, steps=options.steps, timeout=options.timeout,
                **scratch.request, **request,
            )  # fmt: skip
            return [readable(trace, scratch) for trace in traces]

    @contextmanager
    def _copy(self, stage: Stage, files: Mapping[Path, bytes] | None) -> Iterator[Scratch]:
        with self.overlay.copy(self.options.keep) as scratch:
            if self.options.keep:
                self.kept.append((stage, scratch.path))
            scratch.write(files or {})
            yield scratch

    def run(
        self,
        side: str,
        stage: Stage,
        files: Mapping[Path, bytes] | None = None,
        *,
        mode: Literal["values", "count"] = "values",
        **request: Any,
    ) -> Trace:
        """One run in a fresh copy that holds ``files`` instead of those of the same names; ``request``
        are further fields of its request."""
        options = self.options
        self.progress(stage, 0)
        with self._copy(stage, files) as scratch:
            trace = self.runner.record(
                scratch.script, side, scratch.workdir, mode=mode, argv=self.argv, seed=options.seed,
                rng=options.rng, steps=options.steps, timeout=options.timeout,
                progress=lambda steps: self.progress(stage, steps), **scratch.request, **request,
            )  # fmt: skip
            return readable(trace, scratch)

    def _told(self, verdict: Verdict, results: Mapping[str, Result]) -> Verdict:
        failed = [f"{self._short(path)} was not migrated: {why_failed(result)}"
                  for path, result in results.items() if result.failed]  # fmt: skip
        notes = [*verdict.notes, *failed, *advice(verdict, self.overlay)]
        told = verdict.outcome is Outcome.NOT_COMPARABLE
        if results and not told and not any(result.changed for result in results.values()):
            notes.append("the migration changed nothing: both runs are of the same code")
        elif verdict.migrated.failure is not None and results:
            notes.append("frames of the migrated run name lines of the migrated files (--keep keeps them)")
        notes += [f"the copy of the {stage} run is kept in {place}" for stage, place in self.kept]
        return replace(verdict, notes=tuple(notes), results=results)

    def _short(self, path: str) -> str:
        return os.path.relpath(path, self.overlay.cwd)


def sizes(verdict: Verdict) -> list[float]:
    """How much to change the initial parameters, in one native run after the other; nothing to try where
    rounding cannot explain what is wrong."""
    if verdict.replicas or not may_be_chaos(verdict):
        return []
    digit = LAST_DIGIT[lowest_dtype(verdict.native, verdict.migrated)]
    return [times * digit for times in SHAKEN]


def nothing_to_compare(native: Trace) -> bool:
    """Whether a native run failed or trained nothing."""
    return native.failure is not None or not (native.steps or native.losses)


def migrated_files(paths: Sequence[str], options: Options) -> dict[str, Result]:
    """The files of a program, migrated together; nothing is written. A file that only the run made is
    left out."""
    files = [path for path in paths if os.path.isfile(path)]
    if not files:
        return {}
    return migrate_project(
        files, target=options.target, syncfree=options.syncfree, distributed=options.distributed,
        unsafe_fixes=options.unsafe_fixes, select=options.select, ignore=options.ignore,
        settings=options.settings,
    )  # fmt: skip


def why_failed(result: Result) -> str:
    """The first reason for which a file could not be migrated."""
    return next((finding.message for finding in result.findings), "it could not be processed")


def readable(trace: Trace, scratch: Scratch) -> Trace:
    """The trace with the names of the originals, and with what a script said before it ended itself."""
    for name in ("stdout", "stderr"):
        setattr(trace, name, scratch.original(getattr(trace, name)))
    if trace.failure is not None:
        trace.failure = explained(trace.failure, trace.stderr, scratch)
    return trace


def explained(failure: Failure, stderr: str, scratch: Scratch) -> Failure:
    """A failure in terms of the originals; that of ``sys.exit`` with the last lines of the standard error."""
    kind, message = failure.kind, scratch.original(failure.message)
    frames = [scratch.original(frame) for frame in failure.frames]
    if kind == "SystemExit":
        frames = [line for line in stderr.splitlines() if line.strip()][-TAIL:]
        message = f"the script ended itself with status {message}" if message.isdecimal() else message
    return Failure(kind, message, frames)


def advice(verdict: Verdict, overlay: Overlay) -> list[str]:
    """What to do about a run that could not be made."""
    failure = verdict.native.failure
    if failure is None:
        return []
    if failure.kind == "FileNotFoundError":
        folders = ", ".join(map(str, overlay.roots)) or f"the Python files in {overlay.script.parent}"
        return [
            f"runs are made in copies of {folders}, without .git and environments; a relative path that "
            "leads out of them is found with --share PATH"
        ]
    if failure.kind in ("ModuleNotFoundError", "ImportError"):
        return ["the script is run in the interpreter of --native-python, by default that of xla-migrate"]
    if failure.kind == "Timeout":
        return ["--timeout SECONDS gives it longer, --steps N ends it after N optimizer steps"]
    return []


__all__ = ["CannotCopy", "CannotRecord", "Options", "Progress", "record", "verify"]
