"""What is wrong with an environment in which migrated code is to run.

Nothing of it is imported: versions are read from the installed packages' metadata, and devices are asked
for in a child process. Sources: pytorch/xla v2.9.0 ``runtime.py`` and ``__init__.py``, v1.13
``third_party/xla_client/computation_client.cc`` ("Missing XLA configuration"), release notes of 2.1 (the
last traces of XRT go) and 2.9 (CUDA goes); transformers v4.52 (no ``xrt_world_size`` any more).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Release = tuple[int, ...]

_SEEN = "DEVICES "
_ASK = (
    "import json, torch_xla, torch_xla.runtime as xr;"
    "n = len(torch_xla.devices()) if hasattr(torch_xla, 'devices') else xr.local_device_count();"
    f"print('{_SEEN}' + json.dumps([xr.device_type(), n]))"
)
_INSTALL = "pip install 'torch~=2.9.0' 'torch_xla~=2.9.0' (with torch_xla[tpu] on TPUs)"
_PYTHONS = ((3, 10), (3, 13))  # what torch_xla 2.9 was built for
_XRT = (
    "XRT_TPU_CONFIG", "XRT_DEVICE_MAP", "XRT_WORKERS", "XRT_MESH_SERVICE_ADDRESS",
    "XRT_SHARD_WORLD_SIZE",
)  # fmt: skip
_HALF = ("XLA_USE_BF16", "XLA_DOWNCAST_BF16")
_HALF_GONE = ("XLA_USE_FP16", "XLA_DOWNCAST_FP16")


class Check(NamedTuple):
    """One answer: ``status`` is ok, info, warning or error."""

    name: str
    status: str
    message: str
    advice: str = ""


@dataclass
class Environment:
    """What the checks ask; the defaults are this process's."""

    variables: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    version: Callable[[str], str | None] = field(default_factory=lambda: installed)
    python: Release = field(default_factory=lambda: tuple(sys.version_info[:3]))
    has_gpu: bool = field(default_factory=lambda: shutil.which("nvidia-smi") is not None)
    timeout: float = 120.0

    def release(self, package: str) -> Release:
        """Major and minor release of an installed package; empty where it is not there."""
        found = re.match(r"(\d+)\.(\d+)", self.version(package) or "")
        return (int(found[1]), int(found[2])) if found else ()


def installed(package: str) -> str | None:
    """The version of an installed package, read without importing it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def examine(environment: Environment) -> list[Check]:
    """All checks, in the order in which a reader would mend what they find."""
    checks = [*_versions(environment), *_variables(environment)]
    if environment.release("torch_xla"):
        checks.append(_devices(environment))
    return checks


def _versions(environment: Environment) -> Iterator[Check]:
    low, high = _PYTHONS
    python, minor = ".".join(map(str, environment.python)), environment.python[:2]
    if low <= minor <= high:
        yield Check("python", "ok", python)
    else:
        yield Check("python", "error", f"torch_xla 2.9 is not built for Python {python}", "use 3.10 to 3.13")
    torch, xla = environment.version("torch"), environment.version("torch_xla")
    for name, version in (("torch", torch), ("torch_xla", xla)):
        status = "ok" if version else "error"
        yield Check(name, status, version or f"{name} is not installed", "" if version else _INSTALL)
    if torch and xla:
        yield _pair(environment, torch, xla)
    transformers = environment.release("transformers")
    if transformers and transformers < (4, 52) and environment.release("torch_xla") >= (2, 7):
        message = f"transformers {environment.version('transformers')} calls what torch_xla 2.7 has no more"
        yield Check("transformers", "error", message, "install transformers 4.52 or newer")


def _pair(environment: Environment, torch: str, xla: str) -> Check:
    if environment.release("torch") == environment.release("torch_xla"):
        return Check("versions", "ok", f"torch {torch} and torch_xla {xla} belong together")
    message = f"torch {torch} and torch_xla {xla} do not fit each other"
    return Check("versions", "error", message, "major and minor release must be the same")


def _variables(environment: Environment) -> Iterator[Check]:
    xla, values = environment.release("torch_xla") or (2, 9), environment.variables
    yield _device_variable(environment, xla)
    for name in _XRT:
        if name in values and xla >= (2, 1):
            yield Check(name, "warning", "XRT is gone since torch_xla 2.1: it is ignored", "use PJRT_DEVICE")
    yield from _gpu_number(values, xla)
    for name in _HALF:
        if values.get(name, "0") not in ("", "0"):
            message = "float32 becomes bfloat16 everywhere: the numbers differ from the native ones"
            yield Check(name, "warning", message, 'unset it, and use torch.autocast("xla", torch.bfloat16)')
    for name in _HALF_GONE:
        if values.get(name, "0") not in ("", "0"):
            yield Check(name, "warning", "torch_xla warns of it and ignores it", "unset it")
    if "CUDA_VISIBLE_DEVICES" in values:
        yield Check("CUDA_VISIBLE_DEVICES", "info", "it chooses nothing on XLA")
    if environment.has_gpu and xla >= (2, 9):
        message = "this machine has an NVIDIA GPU, which torch_xla 2.9 cannot use: it trains on the CPU"
        yield Check("gpu", "warning", message, "use torch_xla 2.8 or older, or a TPU")


def _device_variable(environment: Environment, xla: Release) -> Check:
    name, values = "PJRT_DEVICE", environment.variables
    given = values.get(name, "")
    if xla < (2, 0):
        ready = any(key in values for key in ("GPU_NUM_DEVICES", *_XRT[:2]))
        if ready:
            return Check("XRT", "ok", "XRT is configured")
        message = "Missing XLA configuration: none of XRT's variables is set"
        advice = "set GPU_NUM_DEVICES to the number of GPUs, or XRT_TPU_CONFIG"
        return Check("XRT", "error", message, advice)
    if not given:
        message = "it is not set: a TPU is used where libtpu finds one, else the CPU"
        return Check(name, "info", message, "set it to TPU or CPU, so that it is not the wrong one silently")
    if given in ("CUDA", "GPU") and xla >= (2, 9):
        message = f"{given}: torch_xla 2.9 has no such device (No PjRtPlugin registered for: {given})"
        return Check(name, "error", message, "set it to TPU or CPU, or use torch_xla 2.8 or older")
    if given == "GPU" and xla >= (2, 2):
        return Check(name, "error", "GPU is CUDA since torch_xla 2.2", "set it to CUDA")
    if given not in ("CPU", "TPU", "CUDA", "GPU", "NEURON"):
        return Check(name, "warning", f"{given} is none of torch_xla's own devices", "CPU, TPU or NEURON are")
    return Check(name, "ok", given)


def _gpu_number(values: Mapping[str, str], xla: Release) -> Iterator[Check]:
    name = "GPU_NUM_DEVICES"
    given = values.get(name)
    if given is None or xla < (2, 0):
        return
    if xla >= (2, 9):
        yield Check(name, "warning", "torch_xla 2.9 ignores it: it has no CUDA devices", "use PJRT_DEVICE")
    elif values.get("PJRT_DEVICE", "CUDA") not in ("CUDA", "GPU"):
        message = f"it is ignored beside PJRT_DEVICE={values['PJRT_DEVICE']}"
        yield Check(name, "warning", message, "unset one of the two")


def _devices(environment: Environment) -> Check:
    """The devices that a process sees which imports torch_xla."""
    command = [sys.executable, "-c", _ASK]
    try:
        ran = subprocess.run(
            command, env=dict(environment.variables), capture_output=True, text=True,
            timeout=environment.timeout, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        message = f"no answer within {environment.timeout:.0f} seconds"
        return Check("devices", "error", message, "another process may hold the TPU")
    answers = [line for line in ran.stdout.splitlines() if line.startswith(_SEEN)]
    if ran.returncode or not answers:
        reason = (ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"])[-1]
        advice = "python -c 'import torch_xla; torch_xla.device()' tells more"
        return Check("devices", "error", reason, advice)
    kind, count = json.loads(answers[-1].removeprefix(_SEEN))
    if kind == "CPU":
        return Check("devices", "info", f"{count} CPU: right for tests, not for training")
    return Check("devices", "ok", f"{count} {kind}")


def worst(checks: list[Check]) -> int:
    """The exit status: 1 where something is an error."""
    return int(any(check.status == "error" for check in checks))
