"""What tests of scopes ask about names."""

from __future__ import annotations

from textwrap import dedent

import libcst as cst
from transforms.helpers import context_of, expression

from xla_transforms.scopes import Binding, ModuleIndex, Scope
from xla_transforms.source import Source


def index_of(code: str) -> ModuleIndex:
    return ModuleIndex(Source(dedent(code)), "train")


def name(index: ModuleIndex, text: str, number: int = 0) -> cst.Name:
    found = [n for n in index.all(cst.Name) if isinstance(n, cst.Name) and n.value == text]
    return sorted(found, key=index.source.offsets)[number]


def owner(code: str, text: str, number: int = 0) -> str:
    """What binds the name at its ``number``-th place: ``module``, or the name of a function or class."""
    index = index_of(code)
    node = name(index, text, number)
    return kind_of(index.scope_of(node).owner(text))


def kind_of(scope: Scope | None) -> str:
    if scope is None:
        return "nobody"
    node = scope.node
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        return node.name.value
    return type(node).__name__.lower()


def reaching(code: str, number: int, text: str = "x") -> set[str]:
    """The values (as text) that may reach the ``number``-th place where a name is written."""
    context = context_of(code)
    node = expression(context, text, number)
    assert isinstance(node, cst.Name)
    return {value(context.index, b) for b in context.roles.bindings(node)}


def value(index: ModuleIndex, binding: Binding) -> str:
    if binding.value is None:
        return binding.how.value
    path = "".join(f"[{step}]" for step in binding.path)
    return index.source.code(binding.value) + path
