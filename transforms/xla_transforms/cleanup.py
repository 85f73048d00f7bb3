"""Imports of CUDA's and AMP's names that the migrated module no longer uses."""

from __future__ import annotations

import libcst as cst

from xla_transforms import check
from xla_transforms.plan import Plan, Site
from xla_transforms.scopes import ModuleIndex


def unused_imports(index: ModuleIndex, used: set[str]) -> list[Site]:
    """Sites that drop the imports of CUDA's and AMP's names which nothing uses any more."""
    old = check.parse(index.source.text)
    before = check.used(old) if old is not None else set()
    sites: list[Site] = []
    for statement in (*index.all(cst.ImportFrom), *index.all(cst.Import)):
        assert isinstance(statement, (cst.Import, cst.ImportFrom))
        if isinstance(statement.names, cst.ImportStar):
            continue
        scope = index.scope_of(statement)
        stale = [
            alias
            for alias in statement.names
            for name, bindings in scope.bindings.items()
            if any(b.node is alias and _removable(b.name) for b in bindings)
            and name in before
            and name not in used
        ]
        if stale:
            sites += _drop(index, statement, stale)
    return sites


def _removable(path: str) -> bool:
    return path.startswith(("torch.cuda", "torch.amp", "torch.optim.", "torch.backends", "contextlib.nullcontext"))


def _drop(
    index: ModuleIndex, statement: cst.Import | cst.ImportFrom, stale: list[cst.ImportAlias]
) -> list[Site]:
    plan = Plan(index)
    names = list(statement.names) if not isinstance(statement.names, cst.ImportStar) else []
    if len(stale) == len(names):
        start, end, keep = plan.extent(statement)
        return [Site(start, end, lambda render: keep, 0, 0, removes=statement)]
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
