"""What Lightning's Trainer and Fabric are told, and what of it their strategies for XLA refuse.

Source: lightning 2.5, ``fabric/accelerators/xla.py`` (which devices), ``fabric/plugins/precision/xla.py``
and ``pytorch/trainer/connectors/accelerator_connector.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from xla_transforms.roles import Kind, Roles, options
from xla_transforms.roles.facts import of_kind
from xla_transforms.scopes import How
from xla_transforms.tree import number_value, string_value

_PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")
_TRAINERS = ("Trainer", "Fabric")
_RUN = ("LightningModule", "LightningDataModule", "Callback")
_COMMAND_LINE = "LightningCLI"
_OF_ARGUMENTS = "from_argparse_args"
_GPU = ("gpu", "cuda")
_TPU = 'write accelerator="tpu" (or "auto"), and strategy="xla" for several devices'
_AUTO = 'write devices="auto": beside it XLA takes 1, the number of chips of the host, or one chip as [0]'
_ADVICE = {
    "accelerator": _TPU,
    "gpus": _TPU,
    "strategy": 'write strategy="xla" ("auto" on one device), or "xla_fsdp"',
    "precision": 'write precision="bf16-true" or "32-true"',
    "devices": _AUTO,
    "sync_batchnorm": "leave it out: XLA's strategies have none",
}
_STRATEGIES = re.compile(
    r"^(?:ddp|fsdp|deepspeed|dp$|model_parallel)|\b(?:ddp|fsdp|deepspeed|modelparallel)\w*strategy"
)
_NUMBERS = re.compile(r"-?\d+(?:, *\d+)*")
_PRECISIONS = re.compile(r"^(?:16(?!-true)|bf16(?!-true)|64|transformer-engine)")


class Told(NamedTuple):
    """Something that Lightning is told: by which name, by which expression."""

    name: str
    value: cst.BaseExpression


def trainers(roles: Roles) -> list[cst.Call]:
    """The calls that make Lightning's Trainer or Fabric, be it from a command line."""
    if not roles.program.mentions(*_PACKAGES):
        return []
    names = (*_TRAINERS, _COMMAND_LINE, _OF_ARGUMENTS)
    calls = [call for name in names for call in roles.program.calls.get(name, ())]
    return [call for call in calls if makes(roles.path(call.func)) and not roles.dead(call)]


def imported(roles: Roles) -> bool:
    """Whether the program has parts that Lightning runs: modules, callbacks and data of it."""
    if not (roles.program.mentions(*_PACKAGES) and roles.program.mentions(*_RUN)):
        return False
    scopes = (s for index in roles.program.modules.values() for s in index.scopes.values())
    bindings = (b for scope in scopes for found in scope.bindings.values() for b in found)
    return any(b.how is How.IMPORT and b.name.partition(".")[0] in _PACKAGES for b in bindings)


def fabrics(roles: Roles) -> list[cst.Call]:
    """The calls that make a Fabric."""
    return [call for call in trainers(roles) if roles.path(call.func).endswith(".Fabric")]


def makes(path: str) -> bool:
    """Whether a call by this path makes a Trainer or Fabric of Lightning."""
    home, _, name = path.removesuffix(f".{_OF_ARGUMENTS}").rpartition(".")
    return home.partition(".")[0] in _PACKAGES and name in (*_TRAINERS, _COMMAND_LINE)


def told(roles: Roles, call: cst.Call) -> list[Told]:
    """What a call tells Lightning by name, be it in ``**options``."""
    named = options.told(roles, call).named
    return [Told(name, value) for name in _ADVICE for other, value in named if other == name]


def advice(one: Told) -> str:
    return _ADVICE[one.name]


def of_gpus(roles: Roles, one: Told, accelerators: set[str]) -> bool:
    """Whether XLA's accelerator or its strategies refuse what Lightning is told."""
    code = roles.index(one.value).source.code(one.value)
    texts = {text.lower() for text in strings(roles, one.value)} or {code.lower()}
    if one.name == "accelerator":
        return bool(texts & set(_GPU))
    if one.name == "devices":
        return "tpu" not in accelerators and _several(roles, one.value, texts)
    if one.name == "sync_batchnorm":
        return code == "True"
    pattern = _PRECISIONS if one.name == "precision" else _STRATEGIES
    return one.name == "gpus" or any(pattern.search(text) for text in texts)


def strings(roles: Roles, value: cst.BaseExpression) -> set[str]:
    """The texts that an expression may be."""
    found = {fact.detail for fact in of_kind(roles.facts(value), Kind.STRING) if fact.detail}
    written = string_value(value)
    return found if written is None else {written}


def _several(roles: Roles, value: cst.BaseExpression, texts: set[str]) -> bool:
    """Whether GPUs are counted, or chosen by number: XLA takes all devices of a host or one."""
    if isinstance(value, cst.Name):
        held = [binding.value for binding in roles.bindings(value) if not binding.path]
        value = held[0] if len(held) == 1 and held[0] is not None else value
    if isinstance(value, (cst.List, cst.Tuple)):
        return len(value.elements) > 1
    number = number_value(value)
    if number is not None or isinstance(value, cst.UnaryOperation):
        return number != 1
    return any(_NUMBERS.fullmatch(text) and text != "1" for text in texts)


def counted(roles: Roles, count: cst.Call) -> bool:
    """Whether a call says how many devices a Trainer gets, be it as one way of a choice."""
    index = roles.index(count)
    node: cst.CSTNode = count
    while isinstance(outer := index.parent(node), cst.IfExp) and outer.test is not node:
        node = outer
    if not isinstance(outer, cst.Arg) or outer.keyword is None or outer.keyword.value != "devices":
        return False
    return any(index.parent(outer) is call for call in trainers(roles))


def unknown(roles: Roles, call: cst.Call) -> Iterator[str]:
    """What decides about the accelerator, and is not known before the script runs."""
    name = roles.path(call.func).rpartition(".")[2]
    if name in (_COMMAND_LINE, _OF_ARGUMENTS):
        yield f"{name} hands on what the command line says"
    elif options.told(roles, call).open:
        yield "what ** hands to Lightning is not known here"
    for one in told(roles, call):
        if one.name == "accelerator" and not strings(roles, one.value):
            yield f"which accelerator {roles.index(one.value).source.code(one.value)} names is not known here"
