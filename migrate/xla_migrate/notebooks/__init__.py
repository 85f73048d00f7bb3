"""Jupyter notebooks: their code cells are one Python program, and what changes is spliced into their JSON.

Of the file everything but the changed lines of its sources stays as it was, byte by byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from xla_migrate.notebooks.cells import NotebookProblem
from xla_migrate.notebooks.outcomes import Formatter, Notebook, NotebookOutcome, unreadable
from xla_migrate.notebooks.programs import Program
from xla_transforms.grouping import FRAMEWORKS, RELATED
from xla_transforms.outcome import Outcome

__all__ = ["Formatter", "NotebookOutcome", "is_notebook", "migrate"]

Migrate = Callable[[Mapping[str, bytes]], Mapping[str, Outcome]]

_CONCERNS = re.compile(rf"torch|{FRAMEWORKS}|{RELATED.pattern}".encode(), re.IGNORECASE)


def is_notebook(path: str) -> bool:
    return path.lower().endswith(".ipynb")


def migrate(
    files: Mapping[str, bytes], through: Migrate, formatted: Formatter
) -> dict[str, Outcome]:
    """The outcomes of files by path; those that are notebooks go ``through`` as the Python of their cells.

    ``formatted`` lays out what changes in the cells. Never raises.
    """
    opaque: dict[str, frozenset[str]] = {}
    while True:
        notebooks, outcomes = _read(files, opaque, formatted)
        others = {path: data for path, data in files.items() if path not in outcomes}
        texts = {path: notebook.program.text.encode() for path, notebook in notebooks.items()}
        found = through({**others, **texts})
        lost = {path: notebook.lost(found[path]) for path, notebook in notebooks.items()}
        fresh = {path: names for path, names in lost.items() if names - opaque.get(path, frozenset())}
        if not fresh:
            break
        opaque.update({path: opaque.get(path, frozenset()) | names for path, names in fresh.items()})
    outcomes.update(found)
    outcomes.update({path: notebook.outcome(found[path]) for path, notebook in notebooks.items()})
    return {path: outcomes[path] for path in files}


def _read(
    files: Mapping[str, bytes], opaque: Mapping[str, frozenset[str]], formatted: Formatter
) -> tuple[dict[str, Notebook], dict[str, Outcome]]:
    """The notebooks among files that may concern the tool, and the outcomes of those that are left."""
    notebooks: dict[str, Notebook] = {}
    outcomes: dict[str, Outcome] = {}
    for path, data in files.items():
        if is_notebook(path):
            try:
                if _CONCERNS.search(data):
                    notebooks[path] = Notebook(path, data, Program(data, opaque.get(path, ())), formatted)
                else:
                    text = data.decode("utf-8", "replace")
                    outcomes[path] = Outcome(path, data, text, text)
            except NotebookProblem as problem:
                outcomes[path] = unreadable(path, data, problem)
    return notebooks, outcomes
