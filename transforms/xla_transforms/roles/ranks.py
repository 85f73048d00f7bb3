"""Ranks and world sizes: where the number of a process among those that train together comes from.

A launcher gives it in the environment, ``torch.distributed`` on request, ``mp.spawn`` as the first
argument of the function that each process runs. The numbers flow through variables, parameters and
attributes as any other fact; what is computed from them is a plain number again.
Source: pytorch v2.9, ``torch/distributed/run.py`` (environment), ``torch/multiprocessing/spawn.py``;
Slurm's ``srun``, Open MPI's and MPICH's process managers for the variables of theirs; mpi4py 4, ``MPI.Comm``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.facts import NOTHING, Fact, Facts, Kind, fact
from xla_transforms.roles.spawns import functions, skipped, spawns
from xla_transforms.scopes import Binding, How
from xla_transforms.tree import same, string_value, value_of

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

RANK, LOCAL_RANK = "rank", "local rank"
WORLD_SIZE, LOCAL_WORLD_SIZE = "world size", "local world size"
INDEX = "index"  # what spawn counts its processes by: the rank on one machine, the local rank on several
PLACES = frozenset({RANK, LOCAL_RANK, INDEX})
SIZES = frozenset({WORLD_SIZE, LOCAL_WORLD_SIZE})

VARIABLES = {
    "RANK": RANK, "SLURM_PROCID": RANK, "OMPI_COMM_WORLD_RANK": RANK, "PMI_RANK": RANK,
    "MV2_COMM_WORLD_RANK": RANK,
    "LOCAL_RANK": LOCAL_RANK, "SLURM_LOCALID": LOCAL_RANK, "OMPI_COMM_WORLD_LOCAL_RANK": LOCAL_RANK,
    "MV2_COMM_WORLD_LOCAL_RANK": LOCAL_RANK, "MPI_LOCALRANKID": LOCAL_RANK,
    "WORLD_SIZE": WORLD_SIZE, "SLURM_NTASKS": WORLD_SIZE, "SLURM_NPROCS": WORLD_SIZE,
    "OMPI_COMM_WORLD_SIZE": WORLD_SIZE, "PMI_SIZE": WORLD_SIZE, "MV2_COMM_WORLD_SIZE": WORLD_SIZE,
    "LOCAL_WORLD_SIZE": LOCAL_WORLD_SIZE, "OMPI_COMM_WORLD_LOCAL_SIZE": LOCAL_WORLD_SIZE,
    "SLURM_NTASKS_PER_NODE": LOCAL_WORLD_SIZE,
}  # fmt: skip
FUNCTIONS = {
    "torch.distributed.get_rank": RANK,
    "torch.distributed.get_world_size": WORLD_SIZE,
    "torch.distributed.get_node_local_rank": LOCAL_RANK,
    "torch.distributed.distributed_c10d.get_rank": RANK,
    "torch.distributed.distributed_c10d.get_world_size": WORLD_SIZE,
}
MPI_WORLD = "mpi4py.MPI.COMM_WORLD"
FUNCTIONS |= {f"{MPI_WORLD}.Get_rank": RANK, f"{MPI_WORLD}.Get_size": WORLD_SIZE}
ATTRIBUTES = {f"{MPI_WORLD}.rank": RANK, f"{MPI_WORLD}.size": WORLD_SIZE}
COUNTS = frozenset({"torch.cuda.device_count", "torch.accelerator.device_count"})
OPTION = "local_rank"  # what torch.distributed.launch passes to each process
_READERS = ("os.environ.get", "os.getenv", "os.environ.setdefault")


def of_call(roles: Roles, node: cst.Call, path: str) -> Facts:
    """What a call by this path says of ranks: of the whole group, or by an environment variable.

    Each process has a device of its host.
    """
    if path in COUNTS and roles.replicated:
        return fact(Kind.NUMBER, LOCAL_WORLD_SIZE, node)
    if path in FUNCTIONS:
        grouped = any(getattr(a.value, "value", "") != "None" for a in node.args)
        return NOTHING if grouped else fact(Kind.NUMBER, FUNCTIONS[path], node)
    key = key_of(roles, node)
    return _variable(roles, key, node) if key is not None else NOTHING


def key_of(roles: Roles, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The name by which an expression reads the environment: ``os.environ[name]``, ``os.getenv(name)``."""
    if isinstance(node, cst.Call) and node.args and roles.path(node.func) in _READERS:
        return node.args[0].value
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1:
        return None
    index = node.slice[0].slice
    return index.value if isinstance(index, cst.Index) and roles.path(node.value) == "os.environ" else None


def is_rank(roles: Roles, node: cst.CSTNode) -> bool:
    """Whether an expression is the number of a process in any case: 0 or more."""
    found = roles.facts(node)
    return bool(found) and all(f.kind is Kind.NUMBER and f.detail in PLACES for f in found)


def is_option(roles: Roles, node: cst.CSTNode) -> bool:
    """Whether an expression reads ``args.local_rank``, which a launcher gave on the command line."""
    if not isinstance(node, cst.Attribute) or node.attr.value != OPTION:
        return False
    given = {f.kind for f in roles.facts(node.value)} == {Kind.ARGUMENTS}
    return given and {f.detail for f in roles.facts(node)} & PLACES == {LOCAL_RANK}


def of_attribute(item: Fact, node: cst.Attribute) -> Facts:
    """``MPI.COMM_WORLD.rank``, of what is named so."""
    meaning = ATTRIBUTES.get(item.detail, "") if item.kind is Kind.NAME else ""
    return fact(Kind.NUMBER, meaning, node) if meaning else NOTHING


def of_subscript(roles: Roles, node: cst.Subscript) -> Facts:
    """``os.environ["RANK"]``."""
    key = key_of(roles, node)
    return _variable(roles, key, node) if key is not None else NOTHING


def _variable(roles: Roles, key: cst.BaseExpression, node: cst.CSTNode) -> Facts:
    meaning = variable(roles, key)
    return fact(Kind.ENVIRONMENT, meaning, node) if meaning else NOTHING


def variable(roles: Roles, key: cst.BaseExpression) -> str:
    """Which number the launcher's variable of a name is; empty for none or for several.

    The name may be one after the other of those that launchers give it: ``for v in ("RANK", "PMI_RANK")``.
    """
    texts = [string_value(key)]
    if isinstance(key, cst.Name):
        bindings = roles.bindings(key)
        listed = [b.value for b in bindings if b.how is How.ITERATE and not b.path]
        rows = [v for v in listed if isinstance(v, (cst.Tuple, cst.List))]
        texts = [string_value(e.value) for row in rows for e in row.elements]
        if len(rows) < len(bindings):
            return ""
    meanings = {VARIABLES[text] for text in texts if text in VARIABLES}
    return meanings.pop() if len(meanings) == 1 else ""


def of_int(roles: Roles, node: cst.Call) -> Facts:
    """``int(x)`` of a launcher's variable, or of what is such a number already."""
    found: set[Fact] = set()
    for item in roles.facts(node.args[0].value) if len(node.args) == 1 else ():
        if item.kind is Kind.ENVIRONMENT or (item.kind is Kind.NUMBER and item.detail in PLACES | SIZES):
            found.add(Fact(Kind.NUMBER, item.detail, node))
    return frozenset(found)


def joined(roles: Roles, name: str) -> list[cst.BaseExpression]:
    """What is given as ``rank`` or ``world_size`` to those that join a process group."""
    position = {"world_size": 3, "rank": 4}[name]
    calls = roles.program.calls.get("init_process_group", ())
    values = (value_of(call, name, position) for call in calls)
    return [value for value in values if value is not None]


def of_arithmetic(roles: Roles, node: cst.BinaryOperation) -> Facts:
    """What is computed to be the rank or the world size of the group, or ``rank % devices``."""
    if not roles.program.calls.get("init_process_group"):
        return NOTHING
    for name, detail in (("rank", RANK), ("world_size", WORLD_SIZE)):
        if any(_reaches(roles, node, value) for value in joined(roles, name)):
            return fact(Kind.NUMBER, detail, node)
    if isinstance(node.operator, cst.Modulo):
        left, right = ({f.detail for f in roles.facts(side)} - {""} for side in (node.left, node.right))
        if left == {RANK} and right == {LOCAL_WORLD_SIZE}:
            return fact(Kind.NUMBER, LOCAL_RANK, node)
    return NOTHING


def _reaches(roles: Roles, node: cst.BinaryOperation, value: cst.BaseExpression) -> bool:
    """Whether an expression is what a name or an attribute says."""
    assign = roles.index(node).parent(node)
    if node is value or not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return node is value
    bindings = given(roles, value)
    return any(b.value is node for b in bindings) and not any(b.how is How.AUGMENT for b in bindings)


def augmented(roles: Roles, node: cst.AugAssign) -> Facts:
    """``args.rank += gpu``, of what is the rank of the group, or its size, from there on."""
    for name, detail in (("rank", RANK), ("world_size", WORLD_SIZE)):
        if any(b.statement is node for value in joined(roles, name) for b in given(roles, value)):
            return fact(Kind.NUMBER, detail, node)
    return NOTHING


def given(roles: Roles, value: cst.BaseExpression) -> list[Binding]:
    """What may give a variable, or an attribute of what is written alike, its value."""
    if isinstance(value, cst.Name):
        return roles.bindings(value)
    every = roles.program.attributes.get(value.attr.value, ()) if isinstance(value, cst.Attribute) else ()
    return [b for b in every if same(b.node, value)]


def of_parameter(roles: Roles, function: cst.CSTNode, position: int) -> Facts:
    """What arrives in a parameter of a function that is run in several processes."""
    found: set[Fact] = set()
    for spawn in spawns(roles):
        if function not in functions(roles, spawn):
            continue
        behind = position - skipped(roles, spawn, function)
        if behind == 0:
            found.add(Fact(Kind.NUMBER, INDEX, spawn.call))
        elif spawn.values is not None and 0 < behind <= len(spawn.values):
            value = spawn.values[behind - 1]
            counted = same(value, spawn.count)
            found |= fact(Kind.NUMBER, LOCAL_WORLD_SIZE, spawn.call) if counted else roles.facts(value)
    return frozenset(found)
