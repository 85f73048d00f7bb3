"""Replicas of a script without a seed: what each process draws alike, and what otherwise than the others.

Natively every process of such a script starts its generators otherwise. Of a script for one process the
replicas must start alike, or each builds another model; DDP made the weights of several processes
equal, and their dropout masks differed: XLA's generator starts from one constant in every process.
Source: pytorch v2.9, ``aten/src/ATen/CPUGeneratorImpl.cpp`` (the default generator's seed is random);
pytorch/xla v2.9.0, ``torch_xla/csrc/xla_graph_executor.cpp`` (the device's is 101).
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.replicas.seeding import DEVICE_SEEDS, HOST_SEEDS
from xla_transforms.tree import argument, head_of

OTHERWISE = Rule(
    "XLA227",
    "replica-draws",
    "The replicas of a script without a seed draw otherwise than one another on the device.",
    "XLA's generator starts from one constant in each process: unseeded, all replicas would drop the same "
    "units (pytorch/xla v2.9.0, xla_graph_executor.cpp).",
)
ALIKE = Rule(
    "XLA228",
    "equal-start",
    "The replicas of a script for one process that has no seed are given one.",
    "Without, each process starts torch's generator otherwise: the replicas build different models and "
    "never agree (pytorch v2.9, CPUGeneratorImpl.cpp).",
)
RULES = (OTHERWISE, ALIKE)

_DRAWS = frozenset(
    {
        "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout", "RReLU",
        "Transformer", "TransformerDecoderLayer", "TransformerEncoderLayer", "alpha_dropout", "bernoulli",
        "bernoulli_", "dropout", "dropout1d", "dropout2d", "dropout3d", "exponential_", "gumbel_softmax",
        "multinomial", "normal_", "rand_like", "randint_like", "randn_like", "rrelu", "rsample", "uniform_",
    }
)  # fmt: skip
_PLACED = frozenset({"normal", "rand", "randint", "randn", "randperm"})
_LIBRARIES = ("diffusers.", "monai.networks.", "timm.", "torchvision.models.", "transformers.")


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    native = context.replicas.native
    if context.replicas.seeding.sure(DEVICE_SEEDS if native else HOST_SEEDS):
        return
    for place in _starts(context) if not native or any(_draws(context)) else ():
        if native:
            change = context.plan.change(OTHERWISE, place, "each replica draws numbers of its own")
            seed = change.spell(context.target.ordinal)
            change.before(place, change.spell(context.target.manual_seed).replace("{0}", seed))
        else:
            change = context.plan.change(ALIKE, place, "all replicas build the same model")
            change.before(place, f"{change.use('torch')}.manual_seed(0)")
            masks = "; their dropout masks are the same, too" if context.program.mentions("ropout") else ""
            message = f"the script has no seed: torch.manual_seed(0) makes all replicas start alike{masks}"
            context.plan.report(ALIKE, place, message, fixed=not masks)


def _starts(context: Context) -> Iterator[cst.CSTNode]:
    """The first statement of what each process of the module runs."""
    starts = context.replicas.starts
    for launch in starts.launches:
        if launch.function is not None and context.roles.index(launch.function) is context.index:
            yield head_of(launch.function)
    for entry in starts.entries:
        if entry.index is context.index and not starts.spawns(entry):
            first = entry.parts[0]
            first = first.body.body[0] if first is entry.guard and entry.guard is not None else first
            yield next(iter(getattr(first, "decorators", ())), first)


def _draws(context: Context) -> Iterator[bool]:
    """Each call of the program that may draw on the device, or makes a model that does."""
    for name, calls in context.program.calls.items():
        for call in calls:
            if name in _DRAWS or context.roles.path(call.func).startswith(_LIBRARIES):
                yield True
            elif name in _PLACED and (device := argument(call, "device")) is not None:
                yield context.roles.places(device.value) != {"cpu"}
