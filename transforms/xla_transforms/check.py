"""The last look at new text: it compiles, and uses no name that nothing binds."""

from __future__ import annotations

import ast
import builtins
import warnings
from dataclasses import dataclass, field

_MODULE_NAMES = {"__file__", "__name__", "__doc__", "__path__", "__spec__", "__builtins__", "__class__"}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass
class Names:
    """The names of a module: ``loaded`` and ``bound`` anywhere in it, ``strings`` that look like names."""

    loaded: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=lambda: set(_MODULE_NAMES))
    strings: set[str] = field(default_factory=set)
    star: bool = False

    @property
    def used(self) -> set[str]:
        """Every name that is read, and every string that may name one (``__all__``)."""
        return self.loaded | self.strings

    @property
    def unbound(self) -> set[str]:
        """Names that are read somewhere and bound nowhere; none where a star import may bind them."""
        if self.star:
            return set()
        return {name for name in self.loaded - self.bound if not hasattr(builtins, name)}


def parse(text: str) -> ast.Module | None:
    """The text's syntax tree, or ``None`` where it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def compiles(tree: ast.Module) -> bool:
    """Whether a tree makes a module: what the grammar allows and the compiler refuses is refused.

    ``await`` outside of functions is right in a notebook, and nothing that a migration writes.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, "<migrated>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def names(tree: ast.Module) -> Names:
    found = Names()
    stack: list[object] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack += node
        elif isinstance(node, ast.Name):
            _name(node, found)
        elif isinstance(node, ast.Constant):
            _constant(node, found)
        elif isinstance(node, ast.AST):
            if type(node) in _BINDERS:
                _binder(node, found)
            stack += [getattr(node, name, None) for name in node._fields if name not in _WITHOUT_NAMES]
    return found


_WITHOUT_NAMES = {"ctx", "op", "ops"}
_BINDERS = {
    ast.alias, ast.arg, *_DEFINITIONS, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.Global,
    ast.Nonlocal,
}  # fmt: skip


def _name(node: ast.Name, found: Names) -> None:
    (found.loaded if type(node.ctx) is ast.Load else found.bound).add(node.id)


def _constant(node: ast.Constant, found: Names) -> None:
    if isinstance(node.value, str) and node.value.isidentifier():
        found.strings.add(node.value)


def _binder(node: ast.AST, found: Names) -> None:
    if isinstance(node, ast.alias):
        found.star = found.star or node.name == "*"
        found.bound.add(node.asname or node.name.split(".")[0])
    elif isinstance(node, ast.arg):
        found.bound.add(node.arg)
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        found.bound.update(node.names)
    elif getattr(node, "name", None):
        found.bound.add(node.name)  # type: ignore[attr-defined]
