"""Code that every replica may run where one process did: it computes, and shows, writes, draws nothing."""

from __future__ import annotations

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.tree import method, receiver, walk

_BUILTINS = frozenset(
    f"builtins.{name}"
    for name in (
        "abs", "all", "any", "bool", "dict", "enumerate", "filter", "float", "format", "getattr", "hasattr",
        "int", "isinstance", "len", "list", "map", "max", "min", "range", "repr", "reversed", "round", "set",
        "sorted", "str", "sum", "tuple", "type", "vars", "zip",
    )
)  # fmt: skip
_PACKAGES = ("os.path.", "copy.", "math.", "time.", "datetime.", "collections.", "pathlib.", "functools.")
_FUNCTIONS = frozenset(
    {
        "os.getcwd", "os.environ.get", "os.getenv", "json.dumps", "random.getstate", "numpy.random.get_state",
        "apex.amp.state_dict",
        "numpy.mean", "numpy.array", "numpy.asarray", "dataclasses.asdict", "argparse.Namespace",
    }
)  # fmt: skip
_TORCH = frozenset(
    f"torch.{name}"
    for name in (
        "is_tensor", "tensor", "stack", "cat", "mean", "sum", "sqrt", "exp", "isnan", "isfinite", "no_grad",
        "get_rng_state", "cuda.get_rng_state", "cuda.get_rng_state_all", "random.get_rng_state",
    )
)  # fmt: skip
_METHODS = frozenset(
    {
        "state_dict", "parameters", "named_parameters", "buffers", "named_buffers", "get_last_lr",
        "cpu", "detach", "item", "tolist", "numpy", "clone", "float", "double", "half", "mean", "sum", "to",
        "format", "join", "items", "keys", "values", "get", "copy", "strftime", "isoformat", "replace",
        "split", "rsplit", "lower", "upper", "strip", "startswith", "endswith", "zfill", "as_posix",
        "with_suffix", "with_name", "joinpath", "resolve", "absolute", "to_dict", "_asdict", "average",
    }
)  # fmt: skip
_STORES = frozenset({"update", "append", "extend", "setdefault", "pop", "add"})
_ACTS = (cst.Await, cst.Yield, cst.NamedExpr, cst.Lambda)
_SMALLS = (
    cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Expr, cst.Pass, cst.Return, cst.Import, cst.ImportFrom,
    cst.Global, cst.Nonlocal, cst.Break, cst.Continue, cst.Assert,
)  # fmt: skip


class Calm:
    """Answers it for one program."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles

    def disturbs(self, node: cst.CSTNode, shared: frozenset[cst.Call] = frozenset()) -> cst.CSTNode | None:
        """What in a piece of code only one process may do, if anything; all make the ``shared`` calls."""
        for inner in walk(node):
            if isinstance(inner, (*_ACTS, cst.Raise, cst.Del)):
                return inner
            if isinstance(inner, cst.BaseSmallStatement) and not isinstance(inner, _SMALLS):
                return inner
            if isinstance(inner, cst.Call) and inner not in shared and not self._calm(inner):
                return inner
        return None

    def _calm(self, call: cst.Call) -> bool:
        path, name = self.roles.path(call.func), method(call)
        if path:
            return path in _BUILTINS | _FUNCTIONS | _TORCH or path.startswith(_PACKAGES)
        functions = [f.node for f in self.roles.facts(call.func) if f.kind is Kind.FUNCTION]
        if functions:
            return all(isinstance(f, cst.FunctionDef) and self._function(f) for f in functions)
        base = receiver(call)
        if base is None:
            return False
        return name in _METHODS or (name in _STORES and isinstance(base, (cst.Name, cst.Attribute)))

    def _function(self, function: cst.FunctionDef) -> bool:
        with self.roles.guarded(("calm", function)) as free:
            return free and self.disturbs(function.body) is None
