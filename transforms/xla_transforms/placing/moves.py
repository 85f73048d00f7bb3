"""Calls that move something to the CUDA device, and devices that are named by their number."""

from __future__ import annotations

import libcst as cst

from xla_transforms.naming import is_word, number_of, words
from xla_transforms.roles import Kind, Roles
from xla_transforms.scopes import ModuleIndex
from xla_transforms.tree import method, number_value, value_of


def is_move(roles: Roles, call: cst.Call) -> bool:
    """Whether a call is ``x.cuda()`` of a tensor or a module."""
    if method(call) != "cuda" or any(f.kind is Kind.FUNCTION for f in roles.facts(call.func)):
        return False
    path = roles.path(call.func)
    return not path or path.startswith("builtins.")


def wants_device(roles: Roles, call: cst.Call) -> bool:
    """Whether a call moves something to the CUDA device without naming a variable: ``x.cuda()``."""
    name, path = method(call), roles.path(call.func)
    if is_move(roles, call):
        given = value_of(call, "device", 0)
        return given is None or Kind.DEVICE not in roles.kinds(given)
    if path.startswith("torch.cuda.") and path.endswith("Tensor"):
        return True
    given = value_of(call, "device", 0 if name == "to" else None)
    if given is None or not (name == "to" or path.startswith("torch.")) or path == "torch.device":
        return False
    return is_word(given) or (name == "to" and roles.kinds(given) == {Kind.NUMBER})


def numbered(roles: Roles, index: ModuleIndex) -> list[tuple[cst.CSTNode, int]]:
    """Every device named by a constant number: ``"cuda:1"``, ``x.cuda(1)``, ``torch.device("cuda", 1)``."""
    found: list[tuple[cst.CSTNode, int]] = [
        (word, number)
        for word in words(index)
        if (number := number_of(word)) is not None
        and not _of_a_file(roles, index, word)
        and not isinstance(index.parent(word), (cst.Comparison, cst.ComparisonTarget))
    ]
    for call in index.all(cst.Call):
        assert isinstance(call, cst.Call)
        given = number_value(_number_given(roles, call))
        if isinstance(given, int) and given >= 0:
            found.append((call, given))
    return found


def _of_a_file(roles: Roles, index: ModuleIndex, word: cst.CSTNode) -> bool:
    """Whether a word says where the tensors of a file were or go: ``map_location={"cuda:1": "cuda:0"}``."""
    around = (a for a in index.ancestors(word) if isinstance(a, cst.Call))
    return any(roles.path(call.func) == "torch.load" for call in around)


def _number_given(roles: Roles, call: cst.Call) -> cst.CSTNode | None:
    if roles.path(call.func) == "torch.device":
        return value_of(call, "index", 1) or value_of(call, "type", 0)
    if is_move(roles, call) or (method(call) == "to" and call.args):
        return value_of(call, "device", 0)
    return None
