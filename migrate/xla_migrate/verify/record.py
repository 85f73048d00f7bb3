"""The recording process: runs one script and writes its trace.

    python -m xla_migrate.verify.record '{"script": "train.py", "side": "native", ...}'
    python -m xla_migrate.verify.record --serve xla

The second form imports torch (and torch_xla for ``xla``) once, reads one request a line from
standard input, and forks a fresh process for each: the imports take ten seconds, the fork a few
milliseconds. No XLA client exists before the fork, so each run has its own.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from xla_migrate.verify.trace import STDERR, STDOUT, Request, Trace

PRELOADED = {
    "native": ("torch", "torch._dynamo", "torch.utils.data", "torch.utils.checkpoint"),
    "xla": ("torch", "torch._dynamo", "torch.utils.data", "torch_xla", "torch_xla.core.xla_model",
            "torch_xla.debug.metrics", "torch_xla.distributed.parallel_loader"),
}  # fmt: skip


def record(request: Request) -> None:
    """Run the script of ``request`` in this process and write its trace."""
    out, workdir = Path(request.out), Path(request.workdir)
    _capture_output(out)
    before = _files_below(workdir)
    os.chdir(workdir)
    trace = Trace(request.side, request.mode)
    _seed(request.seed)
    if request.side == "native":
        _run_native(request, trace)
    else:
        _run_xla(request, trace)
    after = _files_below(workdir)
    trace.files = {name: size for name, size in after.items() if before.get(name) != size}
    trace.save(out)


def _run_native(request: Request, trace: Trace) -> None:
    from xla_migrate.verify import cuda_stand_in
    from xla_migrate.verify.host_rng import HostRandomness
    from xla_migrate.verify.recorder import Recorder
    from xla_migrate.verify.script import run_script

    mode = cuda_stand_in.install()
    HostRandomness(("CPU",)).install()
    recorder = Recorder()
    recorder.install()
    trace.failure = run_script(Path(request.script), request.argv)
    mode.__exit__(None, None, None)
    recorder.write_into(trace, lambda tensors: None)


def _run_xla(request: Request, trace: Trace) -> None:
    from xla_migrate.verify import xla_side
    from xla_migrate.verify.host_rng import HostRandomness
    from xla_migrate.verify.recorder import Recorder
    from xla_migrate.verify.script import run_script

    def observe(event: str) -> None:
        trace.samples.append(xla_side.take_sample(event))

    xla_side.refuse_cuda()
    counting = request.mode == "count"
    recorder = Recorder(values=not counting, observe=observe if counting else None)
    if counting:  # the script as it is: its own randomness, its own loader threads
        xla_side.watch_batches(observe)
    else:
        HostRandomness(("CPU", "XLA")).install()
        xla_side.load_in_step()
    recorder.install()
    trace.failure = run_script(Path(request.script), request.argv)
    if counting:
        observe("end")
    recorder.write_into(trace, xla_side.materialise)


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


def _files_below(root: Path) -> dict[str, int]:
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(root).as_posix(): path.stat().st_size for path in files}


def serve(side: str) -> None:
    """Answer requests from standard input, one JSON line each, until it is closed."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an import prints must not look like a reply
    for name in PRELOADED[side]:
        importlib.import_module(name)
    print("{}", file=replies, flush=True)
    for line in sys.stdin:
        request = Request(**json.loads(line))
        process = os.fork()
        if process == 0:
            _child(request)
        print(json.dumps(_wait(process, request.timeout)), file=replies, flush=True)


def _child(request: Request) -> None:
    status = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        record(request)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # no clean-up: the device client of a forked process may hang in it


def _wait(process: int, timeout: float) -> dict[str, object]:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return {"status": os.waitstatus_to_exitcode(status)}
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return {"status": None}


def main(arguments: list[str]) -> None:
    """The command line of the recording process."""
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    if arguments[:1] == ["--serve"]:
        serve(arguments[1])
    else:
        record(Request(**{**asdict(Request("", "", "", "")), **json.loads(arguments[0])}))


if __name__ == "__main__":
    main(sys.argv[1:])
