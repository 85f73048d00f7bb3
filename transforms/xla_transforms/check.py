"""The last look at new text: it compiles, and uses no name that nothing binds."""

from __future__ import annotations

import ast
import builtins
import warnings

_MODULE_NAMES = {"__file__", "__name__", "__doc__", "__path__", "__spec__", "__builtins__", "__class__"}


def parse(text: str) -> ast.Module | None:
    """The text's syntax tree, or ``None`` where it does not compile."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.removeprefix("\ufeff"))
            compile(tree, "<migrated>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree


def unbound(tree: ast.Module) -> set[str]:
    """Names that are read somewhere and bound nowhere in the module."""
    loaded: set[str] = set()
    bound: set[str] = set(_MODULE_NAMES)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.alias):
            if node.name == "*":
                return set()
            bound.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif (isinstance(node, ast.ExceptHandler) and node.name) or (isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name):
            bound.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            bound.update(node.names)
    return {name for name in loaded - bound if not hasattr(builtins, name)}


def used(tree: ast.Module) -> set[str]:
    """Every name that is read, and every string in ``__all__``-like lists."""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return names | {s for s in strings if s.isidentifier()}
