"""Imports of what the migration took the uses of: CUDA's, AMP's and torch.distributed's names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import libcst as cst

from xla_transforms import check
from xla_transforms.ignores import spares
from xla_transforms.plan import Plan, Site
from xla_transforms.scopes import How, ModuleIndex

_WORD = re.compile(r"\w+")
_REMOVABLE = (
    "torch.cuda",
    "torch.amp",
    "torch.distributed",
    "torch.multiprocessing",
    "torch.nn.parallel",
    "torch.optim.",
    "torch.backends",
    "torch.compile",
    "torch.inference_mode",
    "torch.utils.checkpoint",
    "contextlib.nullcontext",
    "apex",
    "deepspeed.ops.adam",
)


def unused_imports(
    index: ModuleIndex, code: str, sites: Iterable[Site], replaced: Collection[str] = ()
) -> list[Site]:
    """Sites that drop the imports of such names that ``code``, the text that ``sites`` give, no longer uses.

    ``replaced`` are names that a new line imports from elsewhere.
    """
    rewritten = words_in(index.source.text, sites) | set(replaced)
    candidates = [
        (statement, alias, name)
        for scope in index.scopes.values()
        for name, bindings in scope.bindings.items()
        if name in rewritten
        for binding in bindings
        if binding.how is How.IMPORT and removable(binding.name)
        for statement, alias in [(binding.statement, binding.node)]
    ]
    if not candidates:
        return []
    tree, old = check.parse(code), index.source.names
    if tree is None or old is None:
        return []
    gone = (old.used - check.names(tree).used) | set(replaced)
    found: list[Site] = []
    for statement in dict.fromkeys(s for s, _, name in candidates if name in gone):
        if spares(index.source.text, index.source.span(statement)):
            continue
        stale = [alias for s, alias, name in candidates if s is statement and name in gone]
        found += _drop(index, statement, stale)
    return found


def words_in(text: str, sites: Iterable[Site]) -> set[str]:
    """The words of a text that stand where sites write: other names are read as they were."""
    return {word for site in sites for word in _WORD.findall(text, site.start, site.end)}


def removal(index: ModuleIndex, statement: cst.CSTNode) -> Site:
    """What takes out a statement, with its line."""
    start, end, keep = Plan(index).extent(statement)
    return Site(start, end, lambda render: keep, 0, 0, removes=statement)


def removable(path: str) -> bool:
    """Whether an import of a path goes when the migration takes its last use."""
    return path.startswith(_REMOVABLE) or path.partition(".")[0] in ("os", "functools")


def _drop(index: ModuleIndex, statement: cst.CSTNode, stale: list[cst.CSTNode]) -> list[Site]:
    names: list[cst.CSTNode] = list(getattr(statement, "names", ()))
    if len(stale) == len(names):
        return [removal(index, statement)]
    sites = []
    kept = [n for n in names if n not in stale]
    for alias in stale:
        position = names.index(alias)
        start, end = index.source.offsets(alias)
        later = [n for n in kept if names.index(n) > position]
        if later:
            end = index.source.offsets(names[position + 1])[0]
        else:
            start = index.source.offsets(names[position - 1])[1]
        sites.append(Site(start, end, lambda render: "", 0, 0))
    return sites
