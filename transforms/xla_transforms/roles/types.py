"""The legacy tensor types: ``torch.cuda.LongTensor`` is one of CUDA, ``torch.LongTensor`` one of the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.facts import Kind, of_kind
from xla_transforms.tree import method, string_value, value_of

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool",
}


def tensor_types(roles: Roles, node: cst.CSTNode | None) -> set[tuple[str, str]]:
    """What tensor types an expression may name, as place and type: ``("cuda", "FloatTensor")``."""
    if node is None:
        return set()
    text = string_value(node)
    paths = {text} if text is not None else {f.detail for f in of_kind(roles.facts(node), Kind.NAME)}
    named = {path.replace("torch.Tensor", "torch.FloatTensor") for path in paths}
    split = {tuple(path.rpartition(".")[::2]) for path in named}
    places = {"torch.cuda": "cuda", "torch": "cpu"}
    return {(places[home], name) for home, name in split if home in places and name in DTYPES}


def cast_to(roles: Roles, call: cst.Call) -> tuple[str, str] | None:
    """The place and the type that ``x.type(torch.cuda.LongTensor)`` casts to; ``None`` for other calls."""
    if method(call) != "type":
        return None
    found = tensor_types(roles, value_of(call, "dtype", 0))
    return found.pop() if len(found) == 1 else None
