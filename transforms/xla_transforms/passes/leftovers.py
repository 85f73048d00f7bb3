"""Leftovers: whatever of CUDA no pass understood is named.

This pass comes last. Source: pytorch v2.9, ``torch/cuda/__init__.py``: nearly everything there raises
without CUDA, and what does not raise answers with zeros or with nothing.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.plan import Site
from xla_transforms.scopes import How
from xla_transforms.statements import migrating, path_of

LEFT = Rule(
    "XLA290",
    "cuda-use-left",
    "Something of torch.cuda is left in the script, because no rule understands its use.",
    "Most of torch.cuda raises without CUDA; the rest silently answers with zeros.",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (LEFT,)

_CUDA = ("torch.cuda.", "torch.accelerator.", "torch.backends.cuda.sdp_kernel")
# What works without CUDA, or is another pass's to name: conditions, errors, whole modules.
_HARMLESS = frozenset(
    {
        "torch.cuda.is_available", "torch.accelerator.is_available", "torch.cuda.is_bf16_supported",
        "torch.cuda.is_initialized", "torch.cuda.OutOfMemoryError", "torch.cuda.amp", "torch.cuda.nvtx",
        "torch.cuda.memory", "torch.cuda.random", "torch.cuda.profiler", "torch.backends.cuda.sdp_kernel",
    }
)  # fmt: skip


def run(context: Context) -> None:
    if not migrating(context):
        return
    handled = _handled(context)
    for node in (*context.index.all(cst.Attribute), *_imported(context)):
        path = path_of(context, node)
        if not path.startswith(_CUDA) or path in _HARMLESS or not _outermost(context, node):
            continue
        if not _gone(context, node, handled) and not context.roles.dead(node):
            advice = "replace it by hand, or take it out"
            context.plan.report(LEFT, node, f"{path} needs CUDA and is left", advice)


def _imported(context: Context) -> list[cst.Name]:
    """The names that imports bind; of others, that which they stand for is written out elsewhere."""
    bindings = context.roles.bindings
    return [n for n in context.index.imported() if any(b.how is How.IMPORT for b in bindings(n))]


def _outermost(context: Context, node: cst.CSTNode) -> bool:
    """Whether a node names the whole thing, in code that runs (not an import, not an annotation)."""
    for parent in context.index.ancestors(node):
        if isinstance(parent, (cst.Attribute, cst.ImportAlias, cst.ImportFrom, cst.Annotation)):
            outer = isinstance(parent, cst.Attribute) and path_of(context, parent).startswith(_CUDA)
            if outer or not isinstance(parent, cst.Attribute):
                return False
        if isinstance(parent, (cst.AssignTarget, cst.BaseStatement)):
            return not isinstance(parent, cst.AssignTarget) or isinstance(node, cst.Attribute)
    return True


def _handled(context: Context) -> set[cst.CSTNode]:
    """Nodes of with items, decorators and arguments that changes took out without claiming them."""
    kinds = (cst.WithItem, cst.Decorator, cst.Arg)
    return {p.node for p in context.plan.planned if p.sites and isinstance(p.node, kinds)}


def _gone(context: Context, node: cst.CSTNode, handled: set[cst.CSTNode]) -> bool:
    """Whether a node is no longer in the script, or a finding names it."""
    span = context.index.source.span(node)
    if not context.plan.free(node) or _written_over(context, node):
        return True
    if any(f.span.start <= span.start and span.end <= f.span.end for f in context.plan.findings):
        return True
    withs = {p.node for p in context.plan.planned if p.sites and isinstance(p.node, cst.With)}
    for parent in context.index.ancestors(node):
        if parent in handled or (isinstance(parent, cst.WithItem) and context.index.parent(parent) in withs):
            return True
    return False


def _written_over(context: Context, node: cst.CSTNode) -> bool:
    """Whether an expression around a node is written anew without it."""
    for parent in context.index.ancestors(node):
        if context.plan.claims(parent):
            kept: list[cst.CSTNode] = []
            for site in _sites(context, parent):
                site.write(lambda part, kept=kept: kept.append(part) or "")  # type: ignore[misc]
            return not any(context.index.within(node, part) for part in kept)
    return False


def _sites(context: Context, node: cst.CSTNode) -> list[Site]:
    places = {context.plan.offsets(node), context.plan.bracketed(node)}
    return [s for s in context.plan.sites() if (s.start, s.end) in places and not s.wraps]
