"""What ended a run that left no trace, told from what it did leave."""

from __future__ import annotations

import linecache
import re
import signal
from pathlib import Path

from xla_migrate.verify.processes import STACKS, UNWRITTEN
from xla_migrate.verify.trace import Failure, Request
from xla_migrate.verify.trace_file import STDERR, read_text

KEPT = 6
FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
OWN = Path(__file__).resolve().parent
MEANINGS = {
    signal.SIGKILL: "memory may have run out",
    signal.SIGSEGV: "a crash in compiled code",
    signal.SIGBUS: "a crash in compiled code, or shared memory ran out",
    signal.SIGABRT: "compiled code gave up",
}


def unrecorded(request: Request, directory: Path, status: int | None) -> Failure:
    """The failure of a run that left no trace in ``directory``; ``status`` is None for a timeout."""
    stderr = read_text(directory / STDERR)
    tail = [line for line in stderr.splitlines() if line.strip()][-KEPT:]
    if status is None:
        frames = frames_of(read_text(directory / STACKS)) or tail
        return Failure("Timeout", f"no end after {request.timeout:g} s", frames)
    if status < 0:
        return Failure("Killed", _signal(-status), frames_of(stderr) or tail)
    if status == UNWRITTEN:
        cause = tail[-1] if tail else "no space left?"
        return Failure("Unwritten", f"the trace could not be written: {cause}", tail)
    message = f"the process ended with exit status {status} before its trace was written"
    return Failure("NoTrace", message, tail)


def _signal(number: int) -> str:
    try:
        known = signal.Signals(number)
    except ValueError:
        return f"signal {number}"
    meaning = MEANINGS.get(known)
    return f"signal {number} ({known.name}{f': {meaning}' if meaning else ''})"


def is_own(path: str) -> bool:
    """Whether a file belongs to what records a run, of which a stack need not tell."""
    return OWN in Path(path).resolve().parents


def frames_of(dump: str) -> list[str]:
    """The stacks that ``faulthandler`` wrote, as a failure has them: the main thread first, the
    innermost frame last. Of each thread the last frames that are not this package's."""
    threads: list[list[str]] = []
    for line in dump.splitlines():
        if line.startswith(("Thread ", "Current thread ")):
            threads.append([])
        elif threads and (found := FRAME.fullmatch(line)):
            threads[-1].append(_frame(*found.groups()))
    stacks = [list(reversed([frame for frame in one if frame][:KEPT])) for one in reversed(threads)]
    stacks = [stack for stack in stacks if stack]
    if len(stacks) < 2:
        return [frame for stack in stacks for frame in stack]
    return [line for n, stack in enumerate(stacks) for line in (_heading(n), *stack)]


def _heading(number: int) -> str:
    return f"thread {number + 1}:" if number else "main thread:"


def _frame(path: str, line: str, name: str) -> str:
    if is_own(path):
        return ""
    return f"{path}:{line} in {name}: {linecache.getline(path, int(line)).strip()}"
