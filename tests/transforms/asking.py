"""What tests of the analysis ask it about snippets."""

from __future__ import annotations

from textwrap import dedent

import libcst as cst
from transforms.helpers import context_of, expression

from xla_transforms.program import Program
from xla_transforms.roles import Roles
from xla_transforms.source import Source

IMPORTS = """\
import argparse
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, models
from tqdm import tqdm
"""
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 2)

    def forward(self, x):
        return self.head(x)
"""


def kinds(code: str, text: str, number: int = -1) -> set[str]:
    """The kinds of the ``number``-th place (the last by default) where an expression is written."""
    context = context_of(IMPORTS + NET + dedent(code))
    return {kind.value for kind in context.roles.kinds(expression(context, text, number))}


def facts(code: str, text: str, number: int = -1) -> set[tuple[str, str]]:
    context = context_of(IMPORTS + NET + dedent(code))
    found = context.roles.facts(expression(context, text, number))
    return {(f.kind.value, f.detail) for f in found}


def path(code: str, text: str) -> str:
    context = context_of(dedent(code))
    return context.roles.path(expression(context, text, -1))


def places(code: str, text: str = "device") -> set[str]:
    context = context_of(IMPORTS + dedent(code))
    return context.roles.places(expression(context, text, -1))


def folded(condition: str, before: str = "") -> bool | None:
    context = context_of(IMPORTS + dedent(before) + f"if {condition}:\n    pass\n")
    statement = context.index.source.module.body[-1]
    assert isinstance(statement, cst.If)
    return context.roles.fold(statement.test)


def across(files: dict[str, str], module: str, text: str, number: int = -1) -> set[str]:
    packages = {name for name in files if any(other.startswith(f"{name}.") for other in files)}
    paths = {name: name.replace(".", "/") + ("/__init__.py" * (name in packages) or ".py") for name in files}
    program = Program((name, Source(dedent(code), paths[name])) for name, code in files.items())
    roles = Roles(program)
    source = program.modules[module].source
    found = [
        node
        for nodes in program.modules[module].nodes.values()
        for node in nodes
        if isinstance(node, cst.BaseExpression) and source.code(node) == text
    ]
    return {kind.value for kind in roles.kinds(sorted(found, key=source.offsets)[number])}
