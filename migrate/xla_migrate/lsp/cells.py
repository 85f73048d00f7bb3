"""Notebooks as the editor shows them, and each as the text of a file.

The cells are kept here, for pygls takes a change of a cell for its whole text where the server asks for whole
texts of scripts. Source: LSP 3.17, "Notebook Document Synchronization".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lsprotocol import types

from xla_migrate.lsp.positions import Positions

SYNC = types.NotebookDocumentSyncOptions(
    # All cells: they are counted as people count them, prose among them.
    [types.NotebookDocumentFilterWithNotebook(types.NotebookDocumentFilterNotebookType("jupyter-notebook"))],
    save=True,
)


@dataclass
class OpenNotebook:
    """One open notebook: its cells in their order, and their texts by address."""

    uri: str
    cells: list[types.NotebookCell]
    texts: dict[str, types.TextDocumentItem] = field(default_factory=dict)

    @classmethod
    def opened(cls, params: types.DidOpenNotebookDocumentParams) -> OpenNotebook:
        notebook = params.notebook_document
        texts = {item.uri: item for item in params.cell_text_documents}
        return cls(notebook.uri, list(notebook.cells), texts)

    @property
    def addresses(self) -> list[str]:
        """The addresses of all cells, in their order."""
        return [cell.document for cell in self.cells]

    @property
    def text(self) -> str:
        """A file of nbformat 4 that has these cells."""
        cells = list(map(self._written, self.cells))
        return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})

    def change(self, cells: types.NotebookDocumentCellChanges, encoding: str) -> None:
        """Follow what the editor tells; ``encoding`` is that of its positions."""
        changed = {cell.document: cell for cell in cells.data or ()}
        self.cells = [changed.get(cell.document, cell) for cell in self.cells]
        if cells.structure is not None:
            array = cells.structure.array
            self.cells[array.start : array.start + array.delete_count] = array.cells or ()
            self.texts.update({item.uri: item for item in cells.structure.did_open or ()})
            for closed in cells.structure.did_close or ():
                self.texts.pop(closed.uri, None)
        for content in cells.text_content or ():
            item = self.texts[content.document.uri]
            item.text = _edited(item.text, content.changes, encoding)
            item.version = content.document.version

    def _written(self, cell: types.NotebookCell) -> dict[str, Any]:
        item = self.texts.get(cell.document)
        source, language = (item.text, item.language_id) if item is not None else ("", "python")
        if cell.kind != types.NotebookCellKind.Code:
            return {"cell_type": "markdown", "metadata": {}, "source": source}
        code: dict[str, Any] = {"cell_type": "code", "outputs": [], "execution_count": None}
        return {**code, "metadata": {"vscode": {"languageId": language}}, "source": source}


def _edited(text: str, changes: Iterable[types.TextDocumentContentChangeEvent], encoding: str) -> str:
    """A text after changes, each of which speaks of the text that the one before it left."""
    for change in changes:
        if isinstance(change, types.TextDocumentContentChangePartial):
            positions = Positions(text, encoding)
            start, end = positions.offset(change.range.start), positions.offset(change.range.end)
            text = text[:start] + change.text + text[end:]
        else:
            text = change.text
    return text
