"""Migrate the files of a folder as one program, count what was done, and name what must not be."""

from __future__ import annotations

import io
import re
import resource
import sys
import time
import tokenize
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from cuda_left import unnamed
from soundness import compiles, lost_comments, undefined_names

from xla_transforms.engine import Outcome, migrate_bytes, migrate_program
from xla_transforms.rules import FAULT, WITHDRAWN

# What is written for the devices, ranks and tensors that other modules of a project make: a device option
# that is read, groups, ranks, collectives, seeds, compiling, checkpointing, loaders, steps, reads, saves; and
# guards of which that left nothing.
_ELSEWHERE = (
    "XLA110", "XLA115", "XLA13", "XLA14", "XLA15", "XLA221", "XLA251", "XLA26", "XLA5", "XLA6", "XLA7",
    "XLA8",
)  # fmt: skip
GPU_CODE = re.compile(r"cuda|cudnn|accelerator|gpu|pin_memory|to \( (\w+ \. )*device")


@dataclass
class Counts:
    """What was counted over one checkout; the first part tells, the second must be nought."""

    label: str
    files: int = 0
    parsed: int = 0
    changed: int = 0
    untouched: int = 0
    edits: int = 0
    seconds: float = 0.0  # of the processor, for the first migration
    memory: int = 0  # the most that the process held by then, in MB
    codes: set[str] = field(default_factory=set)  # of the rules that changed something
    changes_in: dict[str, Counter[str]] = field(default_factory=dict)  # by file, for each rule
    findings_in: dict[str, Counter[str]] = field(default_factory=dict)
    crashes: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    undefined: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    without_gpu: list[str] = field(default_factory=list)
    unstable: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)

    @property
    def changes(self) -> Counter[str]:
        return sum(self.changes_in.values(), Counter())

    @property
    def findings(self) -> Counter[str]:
        return sum(self.findings_in.values(), Counter())

    @property
    def faults(self) -> dict[str, list[str]]:
        return {
            "crashes": self.crashes,
            "files the tool failed on": self.failed,
            "outputs withdrawn": self.withdrawn,
            "outputs that do not compile": self.broken,
            "outputs with new undefined names": self.undefined,
            "outputs that lost a comment": self.comments,
            "files without GPU code touched": self.without_gpu,
            "outputs that a second run changes": self.unstable,
            "lines with CUDA that no finding names": self.silent,
        }


def migrate(files: dict[str, bytes], counts: Counts) -> dict[str, Outcome]:
    """All files as one program; after a crash each by itself, so that the culprit is named."""
    try:
        return migrate_program(files)
    except Exception:
        counts.crashes.append("the whole program")
        traceback.print_exc()
    outcomes = {}
    for path, data in files.items():
        try:
            outcomes[path] = migrate_bytes(data, path=path)
        except Exception:
            counts.crashes.append(path)
    return outcomes


def names_a_gpu(text: str) -> bool:
    """Whether the code, comments aside, names CUDA or a GPU, or moves something to a device it is given."""
    reader = io.StringIO(text.removeprefix("\ufeff")).readline
    tokens = tokenize.generate_tokens(reader)
    code = " ".join(token.string for token in tokens if token.type not in (tokenize.COMMENT, tokenize.NL))
    return GPU_CODE.search(code.lower()) is not None


def count(counts: Counts, path: str, outcome: Outcome) -> None:
    """Add what became of one file."""
    found = Counter(f"{finding.code} {finding.name}" for finding in outcome.findings)
    counts.findings_in.update({path: found} if found else {})
    codes = {finding.code for finding in outcome.findings}
    counts.failed += [path] if FAULT.code in codes else []
    counts.withdrawn += [path] if WITHDRAWN.code in codes else []
    counts.parsed += not outcome.failed
    changed = outcome.data != outcome.original
    counts.changed += changed
    counts.untouched += not changed
    if outcome.failed:
        return
    counts.silent += [f"{path}:{line}" for line in unnamed(outcome, "XLA110" in counts.codes)]
    if not changed:
        return
    counts.edits += len(outcome.edits)
    counts.changes_in[path] = Counter(f"{change.code} {change.name}" for change in outcome.changes)
    if not compiles(outcome.code):
        counts.broken.append(path)
        return
    if undefined_names(outcome.code) - undefined_names(outcome.source):
        counts.undefined.append(path)
    if lost_comments(outcome.source, outcome.code):
        counts.comments.append(path)
    others = [change for change in outcome.changes if not change.code.startswith(_ELSEWHERE)]
    if others and not names_a_gpu(outcome.source):
        counts.without_gpu.append(path)


def counts_of(label: str, folder: Path) -> Counts:
    """Raises ``ValueError`` where the folder holds no Python file."""
    paths = sorted(p for p in folder.rglob("*.py") if p.is_file())
    if not paths:
        raise ValueError(f"no Python files in {folder}")
    counts = Counts(label, files=len(paths))
    start = time.process_time()
    outcomes = migrate({p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}, counts)
    counts.seconds, counts.memory = time.process_time() - start, _peak()
    counts.codes = {change.code for outcome in outcomes.values() for change in outcome.changes}
    for path, outcome in outcomes.items():
        count(counts, path, outcome)
    again = migrate({path: outcome.data for path, outcome in outcomes.items()}, counts)
    counts.unstable = [path for path, second in again.items() if second.data != outcomes[path].data]
    return counts


def _peak() -> int:
    """The most memory that this process held so far, in MB."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held // (1_000_000 if sys.platform == "darwin" else 1_000)


def report(columns: list[Counts]) -> bool:
    """Name each faulty file on the standard error; whether there was one."""
    lines = [
        f"{c.label}: {fault}: {path}"
        for c in columns
        for fault, paths in c.faults.items()
        for path in paths
    ]
    for line in lines:
        print(line, file=sys.stderr)
    return bool(lines)
