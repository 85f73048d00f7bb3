"""Verdicts on runs that were made up: every shape that a report has to show."""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np

from xla_migrate.verify.compare import Floor
from xla_migrate.verify.judge import judge
from xla_migrate.verify.trace import Failure, HostRead, Sample, Step, Trace
from xla_migrate.verify.verdict import Verdict

NASTY = "<script>alert('&\"x\"')</script>"
MACHINE = {
    "platform": "Linux-6.1-x86_64",
    "processor": "Example CPU @ 2.0 GHz",
    "python": "3.11.7",
    "torch": "2.9.1",
}
NAMES = [f"blocks.{number}.attention.{part}" for number in range(6) for part in ("query.weight", "bias")]


def shaking(size: float) -> Floor:
    """A native run in which rounding alone carries losses and parameters so far, from the first step."""
    kinds = ("loss", "gradient norm", "parameter", "final parameter")
    return Floor({kind: [(0, size)] for kind in kinds})


def run(
    side: str, losses: list[float | None], drift: float = 0.0, names: list[str] | None = None, **fields
) -> Trace:
    """A run of one optimizer, a step for each loss; ``drift`` moves its parameters."""
    names = NAMES if names is None else names
    noise = np.random.default_rng(7)
    weights = [noise.normal(size=(4, 3)) for _ in names]
    shifts = [drift * 10.0 ** -(number / 2) for number in range(len(names))]
    parameters = [weight * (1 + shift) for weight, shift in zip(weights, shifts, strict=True)]
    sizes = [float(np.linalg.norm(weight)) for weight in weights]
    steps = [
        Step(
            optimizer=0,
            backwards=number,
            learning_rates=[0.1],
            gradient_norm=1.0 / number,
            norms=[
                size * (1 + shift * number / len(losses))
                for size, shift in zip(sizes, shifts, strict=True)
            ],
            digests=sizes,
            gradients=[0.1] * len(names),
            seconds=0.01 * number,
        )
        for number, _ in enumerate(losses, 1)
    ]
    given = {
        "script": "train.py",
        "losses": losses,
        "steps": steps,
        "parameters": [parameters],
        "names": [names],
        "machine": {"device": "CPU in the place of CUDA" if side == "native" else "XLA on CPU", **MACHINE},
        "seconds": 1.25,
        "batches": len(losses),
    }
    return Trace(side, fields.pop("mode", "values"), **{**given, **fields})


def falling(steps: int, seed: int = 3) -> list[float | None]:
    """Losses as training gives them."""
    noise = random.Random(seed)
    return [2.3 * math.exp(-3 * n / steps) + 0.2 + 0.05 * noise.random() for n in range(steps)]


def shaken(losses: list[float | None], size: float) -> list[float | None]:
    noise = random.Random(5)
    return [loss if loss is None else loss * (1 + size * noise.uniform(-1, 1)) for loss in losses]


def counting(steps: int, executions: int = 1, compiles: tuple[int, ...] = (1, 2), **fields) -> Trace:
    """A run whose step k was compiled where ``compiles`` names k."""
    samples = [
        Sample("step", sum(k <= number for k in compiles), executions * (number - 1), number, shapes="8x3")
        for number in range(1, steps + 1)
    ]
    last = Sample("end", len(compiles), executions * steps, steps, fields.pop("fallbacks", {}))
    return run("xla", falling(steps), mode="count", samples=[*samples, last], **fields)


def equal(steps: int = 40) -> Verdict:
    losses = falling(steps)
    return judge(run("native", losses), run("xla", losses), counting(steps))


def within(steps: int = 40, names: list[str] | None = None) -> Verdict:
    losses = falling(steps)
    migrated = run("xla", shaken(losses, 1e-6), 1e-6, names)
    return judge(run("native", losses, names=names), migrated, counting(steps, names=[]), floor=shaking(4e-7))


def diverged(steps: int = 40) -> Verdict:
    losses = falling(steps)
    others = [loss * (1 + 2e-5 * 1.3**n) for n, loss in enumerate(losses) if loss is not None]
    reads = [
        HostRead("train.py:42", "item", steps, steps, steps),
        HostRead("train.py:57", "tolist", 4, 0, 4),
    ]
    counted = counting(
        steps, executions=2, compiles=tuple(range(1, steps, 3)), reads=reads,
        fallbacks={"aten::nonzero": 40, "aten::_unique2": 12},
    )  # fmt: skip
    return judge(run("native", losses), run("xla", others, 3e-2), counted)


def broken() -> Verdict:
    """Losses that end in nothing, names that are none, texts that are markup."""
    losses: list[float | None] = [1.0, None, 0.5, math.inf, math.nan, 0.25, 0.2]
    others: list[float | None] = [1.0, None, math.nan, math.nan, -math.inf, 0.25, 0.2]
    names = [NASTY, "x" * 300, "caf\u00e9\x00\x1b[31m\udcff\n\ttwo lines", ""]
    reads = [HostRead(f"{NASTY}:3", "<item>", 3, 1, 3)]
    counted = counting(7, reads=reads, fallbacks={"<b>op</b>": 1})
    return judge(
        run("native", losses, names=names, script=NASTY),
        run("xla", others, math.nan, names=names),
        counted,
        replicas=(f"replica 1: {NASTY}",),
    )


def failed(side: str = "native") -> Verdict:
    failure = Failure(
        "ModuleNotFoundError",
        f"No module named 'flash_attn'\nsecond line {NASTY}",
        [
            "train.py:3 in <module>: import flash_attn",
            f"lib/model.py:10 in load: {NASTY}",
        ],
    )
    empty = run(side, [], parameters=[], names=[], failure=failure)
    if side == "native":
        return judge(empty, run("xla", falling(5)))
    return judge(run("native", falling(5)), empty)


def one_step() -> Verdict:
    return judge(run("native", [0.7]), run("xla", [0.7]), counting(1, compiles=(1,)))


def blank() -> Verdict:
    nothing = {"parameters": [], "names": [], "machine": {}, "batches": 0}
    return judge(run("native", [], **nothing), run("xla", [], **nothing), Trace("xla", "count"))


def one_sided() -> Verdict:
    """Only one trace has steps."""
    return judge(run("native", falling(6)), run("xla", []))


ALL = {
    "equal": cache(equal),
    "within": cache(within),
    "diverged": cache(diverged),
    "broken": cache(broken),
    "failed": cache(failed),
    "failed_migrated": cache(lambda: failed("xla")),
    "one_step": cache(one_step),
    "blank": cache(blank),
    "one_sided": cache(one_sided),
    "long": cache(lambda: within(10_000, NAMES[:3])),
}
