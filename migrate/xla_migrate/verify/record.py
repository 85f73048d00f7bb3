"""The recording process: runs one script and writes its trace.

    python boot.py '{"script": "train.py", "side": "native", ...}'
    python boot.py --serve xla

The second form imports torch (and torch_xla for ``xla``) once, reads one request a line from
standard input, and forks a fresh process for each: the imports take ten seconds, the fork a few
milliseconds. No XLA client exists before the fork, so each run has its own. Before the imports it
answers whether the packages are there, after them that it is ready.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import platform
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from xla_migrate.verify import inside, processes
from xla_migrate.verify.replica_runner import fork_all
from xla_migrate.verify.terminal_input import give_terminal
from xla_migrate.verify.trace import Request, Trace
from xla_migrate.verify.trace_file import PROGRESS, STDERR, STDOUT, TRACE, read_text, save

if TYPE_CHECKING:
    from xla_migrate.verify.replicas import Replica

OURS = tuple(f"xla_migrate.verify.{name}" for name in ("script", "recorder", "host_rng"))
PRELOADED = {
    "native": ("torch", "torch._dynamo", "torch.utils.data", "torch.utils.checkpoint",
               *OURS, "xla_migrate.verify.cuda_stand_in"),
    "xla": ("torch", "torch._dynamo", "torch.utils.data", "torch_xla", "torch_xla.core.xla_model",
            "torch_xla.debug.metrics", "torch_xla.distributed.parallel_loader", *OURS),
}  # fmt: skip


def record(request: Request) -> None:
    """Run the script of ``request`` in this process and write its trace."""
    out, workdir = Path(request.out), Path(request.workdir)
    _capture_output(out)
    before = _files_below(workdir)
    os.chdir(workdir)
    trace = _blank(request)
    request = inside.enter(request)
    _seed(request.seed)
    side = _side(request)
    side.run(trace)
    trace.stopped = request.steps is not None and len(trace.steps) >= request.steps
    after = _files_below(workdir)
    trace.files = {name: state[0] for name, state in after.items() if before.get(name) != state}
    if side.replica is not None:
        side.replica.write_into(trace)
    trace.sources = inside.sources(request)
    _write(trace, out)


class Unwritten(Exception):
    """The trace could not be written."""


def _write(trace: Trace, out: Path) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        trace.stdout, trace.stderr = read_text(out / STDOUT), read_text(out / STDERR)
        save(trace, out / TRACE)
    except OSError as error:
        raise Unwritten(str(error)) from error


def _blank(request: Request) -> Trace:
    name = Path(request.script).name
    return Trace(
        request.side, request.mode, name, list(request.argv), request.seed, request.rng,
        rank=request.rank, world=request.world, machine=machine(),
    )  # fmt: skip


def machine() -> dict[str, str]:
    """The hardware and the versions of this process."""
    import torch

    found = {
        "platform": platform.platform(),
        "processor": _processor(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if "torch_xla" in sys.modules:
        found["torch_xla"] = str(sys.modules["torch_xla"].__version__)
        found["PJRT_DEVICE"] = os.environ.get("PJRT_DEVICE", "")
    return found


def _processor() -> str:
    with suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _side(request: Request) -> _Native | _Xla | _Plain:
    if request.mode == "plain":
        return _Plain(request)
    return _Native(request) if request.side == "native" else _Xla(request)


class _Plain:
    """The script and nothing else, to see what recording costs."""

    replica = None

    def __init__(self, request: Request) -> None:
        self.request = request

    def run(self, trace: Trace) -> None:
        _run_script(self.request, trace)


class _Native:
    """A native run: on CUDA where this machine has it, else on the CPU in CUDA's place."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.replica: Replica | None = None

    def run(self, trace: Trace) -> None:
        import torch

        from xla_migrate.verify import cuda_stand_in
        from xla_migrate.verify.host_rng import HostRandomness
        from xla_migrate.verify.loading import fold_batches, order_samples
        from xla_migrate.verify.recorder import Recorder

        request, real = self.request, torch.cuda.is_available()
        mode = None if real else cuda_stand_in.install()
        trace.machine["device"] = torch.cuda.get_device_name(0) if real else "CPU in the place of CUDA"
        self.replica = _join(request, lambda: len(recorder.steps))
        randomness = HostRandomness(("CPU", "CUDA") if real else ("CPU",))
        if request.rng == "host":
            randomness.install()
        if request.fold > 1:
            fold_batches(request.fold, request.whole)
        if request.orders:
            order_samples(request.orders)
        recorder = Recorder(
            draws=lambda: randomness.draws,
            progress=_progress(request),
            limit=request.steps,
            perturb=request.perturb,
        )
        recorder.install()
        _run_script(request, trace, self.replica)
        if mode is not None:
            mode.__exit__(None, None, None)
        recorder.write_into(trace, lambda tensors: None)


class _Xla:
    """A run on torch_xla."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.replica: Replica | None = None

    def run(self, trace: Trace) -> None:
        from xla_migrate.verify import xla_side

        if not self.request.rendezvous:
            from xla_migrate.verify.replicas.launching import Launching

            Launching(0, 1).install()  # a launch would start a process that nobody watches
        xla_side.refuse_cuda()
        trace.machine["device"] = f"XLA on {os.environ.get('PJRT_DEVICE', '?')}"
        run = self._count if self.request.mode == "count" else self._values
        run(trace)

    def _values(self, trace: Trace) -> None:
        from xla_migrate.verify import xla_side
        from xla_migrate.verify.host_rng import HostRandomness
        from xla_migrate.verify.recorder import Recorder

        request, randomness = self.request, HostRandomness(("CPU", "XLA"))
        self.replica = _join(request, lambda: len(recorder.steps))
        if request.rng == "host":
            randomness.install()
        xla_side.load_in_step()
        recorder = Recorder(
            draws=lambda: randomness.draws, progress=_progress(request), limit=request.steps
        )
        xla_side.watch_reductions(recorder)
        xla_side.watch_scans(recorder)
        recorder.install()
        _run_script(request, trace, self.replica)
        recorder.write_into(trace, xla_side.materialise)

    def _count(self, trace: Trace) -> None:
        """The script as it is: its own randomness, its own loader threads."""
        from xla_migrate.verify import xla_side
        from xla_migrate.verify.reads import HostReads
        from xla_migrate.verify.recorder import Recorder

        def observe(event: str) -> None:
            trace.samples.append(xla_side.take_sample(event, recorder.input_shapes()))

        request = self.request
        recorder = Recorder(
            values=False, observe=observe, progress=_progress(request), limit=request.steps
        )
        root = Path(request.script).parent
        reads = HostReads(root, lambda: len(recorder.steps), xla_side.executions)
        xla_side.watch_batches(observe)
        xla_side.watch_scans(recorder)
        recorder.install()
        reads.install()
        _run_script(request, trace)
        observe("end")
        trace.reads = reads.all()
        recorder.write_into(trace, xla_side.materialise)


def _run_script(request: Request, trace: Trace, replica: Replica | None = None) -> None:
    from xla_migrate.verify.script import run_script

    start = time.perf_counter()
    failure = run_script(Path(request.script), request.argv)
    trace.failure = failure if replica is None else replica.finish(failure)
    trace.seconds = time.perf_counter() - start


def _join(request: Request, steps: Callable[[], int]) -> Replica | None:
    if not request.rendezvous:
        return None
    from xla_migrate.verify.replicas import Replica

    return Replica(request, steps)


def _progress(request: Request) -> Callable[[int], None]:
    """Leaves the number of optimizer steps where the process that waits can see it."""
    descriptor = os.open(Path(request.out) / PROGRESS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)

    def tell(steps: int) -> None:
        os.pwrite(descriptor, b"%d" % steps, 0)

    return tell


def _capture_output(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    for number, name in ((1, STDOUT), (2, STDERR)):
        descriptor = os.open(out / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, number)
        os.close(descriptor)


def _seed(seed: int) -> None:
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)


def _files_below(root: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each file: one of the same size may have been written anew."""
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    states = ((path, path.stat()) for path in files)
    return {path.relative_to(root).as_posix(): (s.st_size, s.st_mtime_ns) for path, s in states}


def serve(side: str) -> None:
    """Answer requests from standard input, one JSON line each, until it is closed. A line with a list
    of requests starts them all at once."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an import prints must not look like a reply
    missing = [name for name in ("torch", "torch_xla") if name in PRELOADED[side] and not find_spec(name)]
    print(json.dumps({"missing": missing[0]} if missing else {}), file=replies, flush=True)
    preload(side)
    print("{}", file=replies, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, list):  # the replicas of one run
            together = [Request(**one) for one in asked]
            print(json.dumps({"status": fork_all(together, run_forked)}), file=replies, flush=True)
            continue
        request = Request(**asked)
        process = os.fork()
        if process == 0:
            run_forked(request)
        status = processes.wait(process, request.timeout)
        print(json.dumps({"status": status}), file=replies, flush=True)


def preload(side: str) -> None:
    """Import what every run of a side needs, before the first fork."""
    for name in PRELOADED[side]:
        importlib.import_module(name)
    gc.freeze()  # no collection of a run need look through what the imports made


def run_forked(request: Request) -> NoReturn:
    """Record a run in this process, which was forked for it, and end it."""
    status = 1
    try:
        os.setsid()
        give_terminal()
        processes.arm(Path(request.out), request.timeout)
        record(request)
        status = 0
    except Unwritten as problem:
        status = processes.UNWRITTEN
        print(problem, file=sys.stderr)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # no clean-up: the device client of a forked process may hang in it


def main(arguments: list[str]) -> None:
    """The command line of the recording process."""
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    if arguments[:1] == ["--serve"]:
        serve(arguments[1])
    else:
        record(Request(**{**asdict(Request("", "", "", "")), **json.loads(arguments[0])}))


if __name__ == "__main__":
    main(sys.argv[1:])
