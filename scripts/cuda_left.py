"""What of CUDA a migrated text still holds, as Python's own parser sees it and not the passes' analysis."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from xla_transforms.engine import Outcome

_OTHERS = frozenset({"cpu", "hpu", "mps", "npu", "xpu"})  # devices that stand beside CUDA in a table
_DEVICE = re.compile(r"cuda(:\d+)?")
_TORCH = ("torch.cuda.", "torch.accelerator.", "torch.backends.cuda.")
# What does without CUDA what it did with it, or only asks whether it is there.
_HARMLESS = (
    "torch.cuda.is_available", "torch.cuda.is_initialized", "torch.cuda.OutOfMemoryError",
    "torch.backends.cuda.sdp_kernel",
)  # fmt: skip
_ASKED = '.startswith("cuda")'  # what the tool writes to read an option's "cuda" as the XLA device
# What is left because its program is: a finding at the head of each file says so.
_WHOLE = frozenset({"XLA163", "XLA191", "XLA197"})
_LONG = 20  # lines: a finding about more than that names where it starts


def unnamed(outcome: Outcome, options: bool = False) -> list[int]:
    """The lines of the migrated text with something of CUDA on them that no finding of the outcome names.

    ``options`` tells that the program reads its device options as XLA's: their defaults stay. Raises
    ``SyntaxError`` for text that does not parse.
    """
    if any(f.code in _WHOLE for f in outcome.findings) and not outcome.edits:
        return []
    origins = list(_origins(outcome))
    named: set[int] = set()
    for span in (finding.span for finding in outcome.findings):
        last = span.end_line if span.end_line - span.line < _LONG else span.line
        named.update(range(span.line, last + 1))
    lines = {(node.lineno, node.end_lineno or node.lineno) for node in _constructs(outcome.code, options)}
    old = set(outcome.source.splitlines())
    asked = [n for n, text in enumerate(outcome.code.splitlines(), 1) if _ASKED in text and text not in old]
    return sorted(
        first
        for first, last in lines
        if first not in asked and not any(named & set(lines) for lines in origins[first - 1 : last])
    )


def _origins(outcome: Outcome) -> Iterator[range]:
    """For each line of the migrated text the lines of the source that it stands for."""
    line, offset = 1, 0
    for edit in outcome.edits:
        for _ in range(outcome.source.count("\n", offset, edit.start)):
            yield range(line, line + 1)
            line += 1
        replaced = max(outcome.source.count("\n", edit.start, edit.end), 1)
        for _ in range(edit.text.count("\n")):
            yield range(line, line + replaced)
        line += outcome.source.count("\n", edit.start, edit.end)
        offset = edit.end
    for _ in range(outcome.source.count("\n", offset) + 1):
        yield range(line, line + 1)
        line += 1


def _constructs(code: str, options: bool) -> Iterator[ast.expr]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(code.removeprefix("\ufeff"))
    imported = dict(_imported(tree))
    silent = {id(part) for part in _silent(tree, options)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
            yield node.func
        elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            path = _path(node, imported)
            if path.startswith(_TORCH) and path not in _HARMLESS:
                yield node
        elif isinstance(node, ast.Constant) and id(node) not in silent and _names_device(node.value):
            yield node


def _silent(tree: ast.Module, options: bool) -> Iterator[ast.AST]:
    """Texts that choose no device: docstrings, keys of tables that are not by device, options' defaults."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            yield node.value
        elif isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            yield from (key for key in node.keys if key is not None and not keys & _OTHERS)
        elif options and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from ast.walk(node) if node.func.attr == "add_argument" else ()


def _names_device(value: object) -> bool:
    return isinstance(value, str) and _DEVICE.fullmatch(value) is not None


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that import statements bind, each with what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                yield name, alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _path(node: ast.expr, imported: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return imported.get(node.id, "")
    above = _path(node.value, imported) if isinstance(node, ast.Attribute) else ""
    return f"{above}.{node.attr}" if above and isinstance(node, ast.Attribute) else ""
