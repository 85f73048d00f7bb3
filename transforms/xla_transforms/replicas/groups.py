"""Process groups: what joins and leaves one, what is said only to find it, what cannot do without it."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from xla_transforms.replicas.collectives import collective, short
from xla_transforms.roles import Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.fold import IN_GROUP
from xla_transforms.tree import body_of, method, receiver, string_value

_JOIN = frozenset({"init_process_group", "destroy_process_group"})
# What each process is told so that it finds the others, and what NCCL and gloo read.
_ADDRESSES = ("MASTER_ADDR", "MASTER_PORT")
_TUNING = ("NCCL_", "GLOO_", "TORCH_NCCL_", "TORCH_DISTRIBUTED_")
# What scripts find the first host by, and how they take the answer apart.
_HOSTS = frozenset(
    {
        "os.environ.get", "os.getenv", "socket.gethostname", "socket.gethostbyname", "socket.getfqdn",
        "subprocess.getoutput", "subprocess.check_output", "subprocess.run", "hostlist.expand_hostlist",
        "str",
    }
)  # fmt: skip
_OF_TEXT = frozenset({"split", "strip", "rstrip", "decode", "format", "replace", "join", "splitlines"})
_DEVICES = frozenset({"torch.cuda.set_device", "torch.accelerator.set_device_index"})
# What the migrated program says without a process group.
CONVERTED = frozenset(
    {
        "get_rank", "get_world_size", "get_node_local_rank", *_JOIN,
        *(path.rpartition(".")[2] for path in IN_GROUP),
    }
)  # fmt: skip


class Groups:
    """The process groups of one program."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles

    def joins(self, call: cst.CSTNode) -> bool:
        """Whether a call joins the process group of all, or leaves it."""
        return isinstance(call, cst.Call) and short(self.roles.path(call.func)) in _JOIN

    @cached_property
    def needed(self) -> list[cst.Call]:
        """The calls that cannot do without a process group: then it stays, on the XLA backend."""
        if not self.roles.program.mentions("distributed"):
            return []
        calls = (c for found in self.roles.program.calls.values() for c in found)
        named = ((c, short(self.roles.path(c.func))) for c in calls)
        left = (c for c, name in named if name and name[0].islower() and name not in CONVERTED)
        return [c for c in left if collective(self.roles, c) is None and not self.roles.dead(c)]

    def addresses(self, statement: cst.CSTNode) -> bool:
        """``os.environ["MASTER_ADDR"] = ...``: what only tells the processes how to meet."""
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return self._sets_default(statement)
        target = statement.targets[0].target
        if not isinstance(target, cst.Subscript) or self.roles.path(target.value) != "os.environ":
            return False
        index = target.slice[0].slice
        return isinstance(index, cst.Index) and _tells(string_value(index.value))

    def _sets_default(self, statement: cst.CSTNode) -> bool:
        call = statement.value if isinstance(statement, cst.Expr) else None
        if not isinstance(call, cst.Call) or self.roles.path(call.func) != "os.environ.setdefault":
            return False
        return bool(call.args) and _tells(string_value(call.args[0].value))

    def asks_for_hosts(self, parts: list[cst.Call | cst.Subscript]) -> bool:
        """Whether all calls and entries of an expression ask the system where processes run."""
        return bool(parts) and all(map(self._asks, parts))

    def _asks(self, part: cst.Call | cst.Subscript) -> bool:
        if isinstance(part, cst.Subscript):
            return True
        text = method(part) in _OF_TEXT and receiver(part) is not None
        return text or self.roles.path(part.func).removeprefix("builtins.") in _HOSTS

    @cached_property
    def setups(self) -> set[cst.FunctionDef]:
        """The functions that only join or leave the group; where it goes they go, with their calls."""
        calls = [c for name in _JOIN for c in self.roles.program.calls.get(name, ())]
        functions = {self.roles.index(c).function_of(c) for c in calls if self.joins(c)} - {None}
        return {f for f in functions if f is not None and self._only_joins(f) and self._called_bare(f)}

    def _only_joins(self, function: cst.FunctionDef) -> bool:
        smalls = [s for line in body_of(function) for s in self._smalls(line)]
        return all(self._of_group(small) for small in smalls) and not function.decorators

    def _smalls(self, line: cst.CSTNode) -> list[cst.CSTNode]:
        return body_of(line) if isinstance(line, cst.SimpleStatementLine) else [line]

    def _of_group(self, small: cst.CSTNode) -> bool:
        if isinstance(small, cst.Expr):
            if isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString)):
                return True
            call = small.value
            chosen = isinstance(call, cst.Call) and self.roles.path(call.func) in _DEVICES
            return chosen or self.joins(call) or self.addresses(small)
        return isinstance(small, cst.Pass) or self.addresses(small)

    def _called_bare(self, function: cst.FunctionDef) -> bool:
        """Whether every use of a function is a call that is a statement of its own."""
        sites = {site for site, _ in callers(self.roles, function)}
        indexes = self.roles.program.modules.values()
        named = [n for index in indexes for n in index.named(function.name.value)]
        bare = all(isinstance(self.roles.index(s).parent(s), cst.Expr) for s in sites)
        plain = all(self.roles.index(n).parent(n) in sites or self._other(n, function) for n in named)
        return bool(sites) and bare and plain

    def _other(self, name: cst.Name, function: cst.FunctionDef) -> bool:
        """Whether a name is not this function's, or only imports or defines it."""
        parent = self.roles.index(name).parent(name)
        if isinstance(parent, (cst.ImportAlias, cst.FunctionDef)):
            return True
        return all(f.node is not function for f in self.roles.facts(name))

    def sets_up(self, call: cst.CSTNode) -> bool:
        """Whether a call runs a function that only joins or leaves the group."""
        if not isinstance(call, cst.Call) or not self.setups:
            return False
        return any(f.node in self.setups for f in self.roles.facts(call.func))


def _tells(variable: str | None) -> bool:
    return variable is not None and (variable in _ADDRESSES or variable.startswith(_TUNING))
