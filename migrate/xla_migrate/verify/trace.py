"""What one run of a script leaves behind. Plain data: no torch is needed to read or compare it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Request:
    """One run to record.

    ``side`` is ``native`` or ``xla``. ``mode`` is ``values`` (losses, gradients, parameters), ``count``
    (compilations, executions and host reads; no value is read; ``xla`` only) or ``plain`` (nothing but the
    time). ``workdir``
    is where the script runs and writes; ``out`` is the directory that gets the trace.
    """

    script: str
    side: str
    workdir: str
    out: str
    mode: str = "values"
    argv: list[str] = field(default_factory=list)
    seed: int = 0
    timeout: float = 120.0
    """Seconds."""
    steps: int | None = None
    """The run ends after so many optimizer steps; None lets the script end by itself."""
    rng: str = "host"
    """``host``: random operators draw the same numbers on both sides; ``device``: the script's own."""
    guarded: list[str] = field(default_factory=list)
    """Directories of the user that the run may read but not write."""
    perturb: float = 0.0
    """Relative size of a change made to the initial parameters: how far rounding alone carries."""
    fold: int = 1
    """The batches of every DataLoader are so many times as large as the script says."""
    whole: list[int] = field(default_factory=list)
    """The numbers of DataLoaders whose batches ``fold`` leaves as they are."""
    orders: dict[str, list[list[int]]] = field(default_factory=dict)
    """By the number of a DataLoader that shuffles, the order of its samples in each pass, not its own."""
    rank: int = 0
    world: int = 1
    rendezvous: str = ""
    """A file that the replicas of one run meet at, empty for a run of one."""
    scratch: str = ""
    """The directory that stands for the root of the file system, empty where the originals are run."""
    copied: list[str] = field(default_factory=list)
    """Directories and files of the user that have a copy below ``scratch``."""


@dataclass(frozen=True)
class Failure:
    """The exception that ended a run; ``frames`` are its last ones, innermost last, as ``path:line
    in name: code``."""

    kind: str
    message: str
    frames: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n  ".join([f"{self.kind}: {self.message}", *self.frames])


@dataclass(frozen=True)
class Step:
    """One step of the optimizer that was made as number ``optimizer``, after ``backwards`` losses
    in all.

    ``gradient_norm`` is that of all gradients together as the step used them, None without any;
    ``unreached`` are the positions of parameters that had none. ``norms`` and ``digests`` describe
    each parameter after the step: its 2-norm, and its sum under fixed integer weights, which also
    sees a sign or an order that the norm does not. ``learning_rates`` are by parameter group.
    ``order`` holds what led to the step since the last one: ``backward``, ``unscale``, ``reduce``, ``clip``.
    ``draws`` counts the random operators so far; ``seconds`` is the time since the start.
    """

    optimizer: int
    backwards: int
    learning_rates: list[float] = field(default_factory=list)
    gradient_norm: float | None = None
    unreached: list[int] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    digests: list[float] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    draws: int = 0
    seconds: float = 0.0
    gradients: list[float] = field(default_factory=list)
    """The 2-norm of each parameter's gradient, 0 where it had none."""

    def behind_clip(self) -> set[str]:
        """What was done to gradients that were clipped already, those of one backward pass."""
        found: set[str] = set()
        clipped = False
        for what in self.order:
            if clipped and what != "backward":
                found.add(what)
            clipped = what == "clip" or (clipped and what != "backward")
        return found


@dataclass(frozen=True)
class Batch:
    """What the DataLoader made as number ``loader`` yielded in its pass number ``epoch`` (from 0).

    ``samples`` are the positions in the dataset, None where the loader does not know them;
    ``digest`` is a sum over the tensors of the batch, on the host; ``backwards`` counts the losses
    before it.
    """

    loader: int
    epoch: int
    backwards: int
    samples: list[int] | None = None
    digest: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """One forward pass of an outermost module without gradients, after ``steps`` optimizer steps:
    the root mean square and the number of elements of what it returned."""

    module: str
    steps: int
    value: float
    elements: int


@dataclass(frozen=True)
class HostRead:
    """All reads of device values at one place of the script: ``where`` is ``train.py:42``, ``what``
    the method (``item``). ``executions`` counts those that made the device compute first; ``steps``
    is the number of optimizer steps in whose course a read happened."""

    where: str
    what: str
    count: int
    executions: int
    steps: int


@dataclass(frozen=True)
class Collective:
    """A cross-replica call: its name, the number of elements, the line of the script, the number of
    optimizer steps before it, and whether the one before had not been executed yet."""

    name: str
    elements: int
    where: str
    steps: int
    pending: bool = False


@dataclass(frozen=True)
class Sample:
    """Cumulative counts of torch_xla at one ``event``: ``backward``, ``step``, ``batch`` or
    ``end``; ``shapes`` are those of the last inputs of the outermost module."""

    event: str
    compiles: int
    executions: int
    barriers: int
    fallbacks: dict[str, int] = field(default_factory=dict)
    shapes: str = ""


@dataclass(frozen=True)
class Shard:
    """The part of a parameter that a process holds: ``size`` elements from ``start`` on of one that has
    ``shape`` when all parts are together; what else it holds is padding."""

    shape: list[int]
    start: int
    size: int


@dataclass
class Trace:
    """One recorded run.

    ``losses`` holds what was handed to ``backward``, in order, before a gradient scaler's factor;
    None stands for a tensor that is not a scalar. ``batches`` counts what all DataLoaders yielded,
    ``loaded`` says what. ``parameters`` are the final ones, by optimizer in order of construction
    and by position, ``names`` what their modules call them, ``tied`` those that several names share;
    ``modules`` are the final states of the outermost modules that these belong to. ``files`` are
    the sizes in bytes of what the script wrote below its working directory. ``dtype`` is the lowest
    precision it computed in. ``machine`` names the hardware and the versions it ran on. ``seconds``
    is the time the script took; ``script`` is its name, ``argv``, ``seed`` and ``rng`` are those of the
    request; ``stopped`` tells that it was ended after a number of steps.
    """

    side: str
    mode: str
    script: str = ""
    argv: list[str] = field(default_factory=list)
    seed: int = 0
    rng: str = "host"
    losses: list[float | None] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    batches: int = 0
    loaded: list[Batch] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    reads: list[HostRead] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    reductions: list[list[int]] = field(default_factory=list)
    """Of a replica on XLA, by step: the fewest and the most times that one of the gradients it used
    was reduced over the replicas, empty for a step that used none."""
    files: dict[str, int] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    """The originals of the script and of what it imported from the copy that it ran in."""
    failure: Failure | None = None
    stopped: bool = False
    dtype: str = "float32"
    draws: int = 0
    machine: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    rank: int = 0
    world: int = 1
    names: list[list[str]] = field(default_factory=list)
    tied: list[list[str]] = field(default_factory=list)
    shards: list[list[Shard | None]] = field(default_factory=list)
    """By optimizer and position, of parameters whose values here are those of a part; empty without any."""
    stdout: str = ""
    stderr: str = ""
    parameters: list[list[Array]] = field(default_factory=list)
    modules: list[dict[str, Array]] = field(default_factory=list)

    @property
    def takes_statistics(self) -> bool:
        """Whether a ``DistributedDataParallel`` sends another rank's buffers here before a forward pass."""
        return self.rank > 0 and any(c.name == "DistributedDataParallel" for c in self.collectives)


def name_of(trace: Trace, optimizer: int, position: int) -> str:
    """What a report calls a parameter: its name in the model, else its place in the optimizer."""
    try:
        return trace.names[optimizer][position] or f"optimizer {optimizer}, parameter {position}"
    except IndexError:
        return f"optimizer {optimizer}, parameter {position}"


def norm(array: Array) -> float:
    """The 2-norm, in float64."""
    return float(np.linalg.norm(array.astype(np.float64).ravel()))
