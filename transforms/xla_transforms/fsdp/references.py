"""Where a program names something of ``torch.distributed`` that parts a model, and what each name means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from xla_transforms.roles import Roles
from xla_transforms.scopes import How, ModuleIndex

_ROOM = "torch.distributed."
_FSDP = "torch.distributed.fsdp."
_PARTS = ("fully_sharded_data_parallel", "api", "wrap", "sharded_grad_scaler", "_fully_shard")
_BESIDE = ("algorithms", "checkpoint", "device_mesh", "optim")
"""What goes with a sharded model and knows nothing of XLA."""


@dataclass(frozen=True)
class Reference:
    """A name with the attributes behind it, and its path without the modules it comes by:
    ``FullyShardedDataParallel.state_dict_type``."""

    node: cst.CSTNode
    symbol: str


def references(roles: Roles) -> list[Reference]:
    """The names of FSDP that a program uses, and of what goes with it; imports alone are no use.

    None where it is imported in some cases only: such a program trains without it as well.
    """
    if not roles.program.mentions("fsdp") or not any(map(_imports_always, roles.program.modules.values())):
        return []
    return [ref for index in roles.program.modules.values() for ref in _of_module(index)]


def _of_module(index: ModuleIndex) -> Iterator[Reference]:
    for scope in index.scopes.values():
        for name, bindings in scope.bindings.items():
            path = next((b.name for b in bindings if b.how is How.IMPORT), "")
            if not f"{path}.".startswith(_ROOM) and path != "torch":
                continue
            for node in index.named_of(scope, name):
                outer, whole = _whole(index, node, path)
                symbol = symbol_of(whole)
                if symbol and not _imports(index, node):
                    yield Reference(outer, symbol)


def _imports_always(index: ModuleIndex) -> bool:
    """Whether a module imports FSDP in any case."""
    for bindings in index.scopes[index.source.module].bindings.values():
        for binding in bindings:
            line = index.statement_of(binding.statement)
            plain = line is not None and isinstance(index.parent(line), cst.Module)
            if plain and binding.how is How.IMPORT and f"{binding.name}.".startswith(_FSDP):
                return True
    return False


def _whole(index: ModuleIndex, node: cst.CSTNode, path: str) -> tuple[cst.CSTNode, str]:
    """The longest chain of attributes that begins with a name."""
    parent = index.parent(node)
    while isinstance(parent, cst.Attribute) and parent.value is node:
        node, path = parent, f"{path}.{parent.attr.value}"
        parent = index.parent(node)
    return node, path


def _imports(index: ModuleIndex, node: cst.CSTNode) -> bool:
    return any(isinstance(a, (cst.Import, cst.ImportFrom)) for a in index.ancestors(node))


def symbol_of(path: str) -> str:
    """What a path names of FSDP; empty for anything else, and for a module."""
    if path.startswith(_FSDP):
        first, _, rest = path.removeprefix(_FSDP).partition(".")
        return rest if first in _PARTS else f"{first}.{rest}".rstrip(".")
    room = path.removeprefix(_ROOM).partition(".")[0] if path.startswith(_ROOM) else ""
    return path if room in _BESIDE else ""
