"""What is said of a notebook and its cells, besides what is said of their Python."""

from __future__ import annotations

from xla_transforms.findings import Rule, Safety, Severity

NOTEBOOK = Rule(
    "XLA011",
    "unreadable-notebook",
    "The file is no notebook that can be read and was left as it is.",
    "A notebook is JSON of the format 4 (nbformat 5.10, \"The Notebook file format\").",
    Severity.ERROR,
    Safety.DISPLAY,
)
CELL = Rule(
    "XLA012",
    "unread-cell",
    "A code cell of a notebook is not Python and was left out; the other cells were migrated.",
    "A notebook is migrated as one program, in the order of its cells; what does not parse is no part of it.",
    Severity.ERROR,
    Safety.DISPLAY,
)
FOREIGN = Rule(
    "XLA013",
    "foreign-cell",
    "A cell hands code that speaks of GPUs to something else than the notebook's Python; it was left alone.",
    "What %%writefile writes and %%bash runs is a program of its own (IPython, \"Built-in magic commands\").",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (NOTEBOOK, CELL, FOREIGN)
