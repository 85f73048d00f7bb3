"""Notebook files for tests, as Jupyter writes them."""

from __future__ import annotations

import json
from typing import Any


def cell(source: str, kind: str = "code", listed: bool = True, **metadata: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"cell_type": kind, "metadata": metadata}
    if kind == "code":
        found |= {
            "execution_count": 1,
            "outputs": [{"name": "stdout", "output_type": "stream", "text": ["é\n"]}],
        }
    return {**found, "source": source.splitlines(keepends=True) if listed else source}


def notebook(*cells: str | dict[str, Any], language: str = "python", indent: int | None = 1) -> str:
    """The text of a notebook of these cells: code where only a source is given."""
    content = {
        "cells": [cell(c) if isinstance(c, str) else c for c in cells],
        "metadata": {"kernelspec": {"display_name": "x", "language": language, "name": "x"}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    return json.dumps(content, indent=indent, ensure_ascii=False) + "\n"


def sources(text: str) -> list[str]:
    """The sources of all cells of a notebook."""
    found = [c["source"] for c in json.loads(text)["cells"]]
    return [source if isinstance(source, str) else "".join(source) for source in found]
