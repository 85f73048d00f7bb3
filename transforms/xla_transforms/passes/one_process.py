"""What a script for one process does once, and replicas would do once each: printing, logs.

``xm.master_print`` prints on the first replica alone. It is written rather than a guard: the arguments are
evaluated on every replica, so that reads in them are made by all, and it fits wherever ``print`` stood.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``master_print``.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.loops import Effect
from xla_transforms.replicas.keywords import keys_given, spread
from xla_transforms.replicas.numbers import Amount, learning_rates, plain
from xla_transforms.roles import Kind
from xla_transforms.roles.classes import role_of
from xla_transforms.statements import live_calls
from xla_transforms.tree import argument, has_star, method, string_value, value_of

PRINT = Rule(
    "XLA172",
    "master-print",
    "What one process printed is printed by the first replica alone.",
    "Else every replica prints it; the arguments are still evaluated by all, as reads of the device must be "
    "(pytorch/xla v2.9.0, xla_model.master_print).",
)
EACH = Rule(
    "XLA173",
    "done-by-each",
    "Every replica does what was meant to be done once.",
    "Replicas that write one file, or one run of a logger, overwrite each other.",
    Severity.WARNING,
    Safety.DISPLAY,
)
BATCH = Rule(
    "XLA174",
    "global-batch",
    "The batch size of a script for one process is that of each replica.",
    "The global batch grows with the number of replicas, and learning rate and warm-up were tuned for the "
    "smaller one (the guide to tuning of SageMaker's training compiler).",
    safety=Safety.DISPLAY,
)
MASKS = Rule(
    "XLA176",
    "same-masks",
    "All replicas draw the same random numbers on the device.",
    "With one seed for all, dropout drops the same units everywhere.",
    safety=Safety.DISPLAY,
)
RULES = (PRINT, EACH, BATCH, MASKS)

_PRINTED = frozenset({"flush"})
_BARS = ("tqdm.", "rich.progress.track")
_ONCE = (
    "torch.utils.tensorboard.SummaryWriter",
    "tensorboardX.SummaryWriter",
    "wandb.init",
    "mlflow.start_run",
)
_FILES = frozenset({
    "matplotlib.pyplot.savefig", "numpy.save", "numpy.savetxt", "numpy.savez", "numpy.savez_compressed",
    "os.remove", "os.rename", "os.replace", "shutil.copy", "shutil.copy2", "shutil.copyfile",
    "shutil.copytree", "shutil.move", "shutil.rmtree", "torchvision.utils.save_image",
})  # fmt: skip
_METHODS = frozenset({"write_text", "write_bytes", "to_csv", "savefig", "save_pretrained"})
_SEEDS = frozenset({"torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all"})
_DOWNLOAD_ADVICE = (
    "download before torch_xla.launch; or on the master first: the others wait at xm.rendezvous"
)
_OWN_ADVICE = "make it on the master alone, under xm.is_master_ordinal(local=False), with all that uses it"


def run(context: Context) -> None:
    if not context.distributed or context.already_xla or context.replicas.native:
        return
    for call, path in live_calls(context):
        if not context.replicas.starts.before(call) and not _in_worker(context, call):
            _call(context, call, path)
    for loader in _training(context):
        _batch(context, loader)


def _in_worker(context: Context, call: cst.Call) -> bool:
    """Whether a loader's workers run a call: they have no device."""
    owner = context.index.class_of(call)
    return isinstance(owner, cst.ClassDef) and role_of(context.roles, owner) is Kind.DATASET


def _call(context: Context, call: cst.Call, path: str) -> None:
    if path == "builtins.print":
        _print(context, call)
    elif path.startswith(_BARS) and call.args and argument(call, "disable") is None and not has_star(call):
        change = context.plan.change(PRINT, call, "the first replica alone shows its progress")
        change.wrap(call.args[-1], f"{{0}}, disable=not {change.spell(context.target.is_master)}")
    elif path in _ONCE or _writes(call, path):
        text = context.index.source.code(call.func)
        context.plan.report(EACH, call, f"{text} is called by every replica", _OWN_ADVICE)
    elif getattr(value_of(call, "download"), "value", "") == "True":
        message = "every replica downloads to the same place at the same time"
        context.plan.report(EACH, call, message, _DOWNLOAD_ADVICE)
    elif path in _SEEDS and context.program.mentions("Dropout", "dropout"):
        advice = "add xr.global_ordinal() to the device's seed, behind the building of the model"
        context.plan.report(
            MASKS, call, "every replica seeds its device alike: the same dropout masks", advice
        )


def _print(context: Context, call: cst.Call) -> None:
    if any(arg.star == "**" or (arg.keyword and arg.keyword.value not in _PRINTED) for arg in call.args):
        advice = "print it under xm.is_master_ordinal(local=False): xm.master_print takes no sep, end or file"
        context.plan.report(EACH, call, "print is called by every replica", advice)
        return
    change = context.plan.change(PRINT, call, "the first replica alone prints")
    change.replace(call.func, change.spell(context.target.master_print))


def _writes(call: cst.Call, path: str) -> bool:
    if path in _FILES or method(call) in _METHODS:
        return True
    if path == "os.mkdir":
        return True
    if path == "os.makedirs":
        return getattr(value_of(call, "exist_ok", 2), "value", "") != "True"
    mode = string_value(value_of(call, "mode", 1)) if path in ("builtins.open", "io.open") else None
    return mode is not None and bool(set(mode) & set("wax"))


def _training(context: Context) -> Iterator[cst.Call]:
    """The loaders of the module that drive training loops."""
    loops = [lp for lp in context.loops.all if lp.effect & Effect.BACKWARD and lp.loader is not None]
    calls = {
        c for lp in loops if lp.loader is not None for c in context.roles.origins(lp.loader, Kind.LOADER)
    }
    for call in sorted(calls, key=lambda c: context.roles.index(c).source.offsets(c)[0]):
        if isinstance(call, cst.Call) and context.roles.index(call) is context.index:
            yield call


def _batch(context: Context, loader: cst.Call) -> None:
    size, options = value_of(loader, "batch_size", 1), spread(loader)
    amount = Amount(context.roles, size) if size is not None else None
    if amount is not None:
        text = amount.text
    elif options is not None and "batch_size" in (keys_given(context.roles, loader) or ()):
        text = f'{options.value}["batch_size"]'
    else:
        return
    number = amount.on(1) if amount is not None else None
    several = f"{plain(4 * number)} on 4 replicas" if number is not None else f"4 * {text} on 4 replicas"
    message = f"the batch of {text} is each replica's, the global batch N times that: {several}"
    rates = ", ".join(dict.fromkeys(rate.text for rate in learning_rates(context.roles)))
    advice = "for the same training divide it by the number of replicas, or tune the learning rate anew"
    context.plan.report(BATCH, loader, message, f"{advice} ({rates})" if rates else advice)
