"""The server itself: what the editor tells it, when it looks again, and what it answers."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from attrs import evolve
from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from xla_migrate import __version__
from xla_migrate.documents import Document
from xla_migrate.lsp.answers import MIGRATE_FILE, MIGRATE_PROGRAM, SOURCE, Answer, Offer, offers
from xla_migrate.lsp.cells import SYNC, OpenNotebook
from xla_migrate.lsp.programs import Programs
from xla_migrate.lsp.rule_pages import address
from xla_migrate.lsp.sheets import Cells, Script, Sheets
from xla_migrate.notebooks import is_notebook
from xla_migrate.project import BadSettings

# For each incremental change of a cell, which the server keeps itself (cells.py).
logging.getLogger("pygls.workspace.text_document").setLevel(logging.CRITICAL)

QUIET = 0.3
"""Seconds without a key press, after which a changed document is looked at."""


@dataclass(frozen=True)
class Options:
    """``target`` as on the command line; ``site`` is the root of the published documentation, or empty."""

    target: str
    site: str = ""
    quiet: float = QUIET


class Server(LanguageServer):
    """Looks at one program at a time, in a thread, so that the editor is answered meanwhile."""

    def __init__(self, options: Options) -> None:
        # Whole texts: pygls cuts lines at more characters than the protocol does, and would misplace edits.
        kind = types.TextDocumentSyncKind.Full
        super().__init__(SOURCE, __version__, text_document_sync_kind=kind, notebook_document_sync=SYNC)
        self._options = options
        self._programs = Programs(options.target)
        self._answers: dict[str, list[Answer]] = {}  # of the program of each open document, itself first
        self._looking: dict[str, asyncio.Task[None]] = {}  # the latest look at each document
        self._unknown: set[str] = set()  # documents whose imports are to be followed anew
        self._turn = asyncio.Lock()
        self._notebooks: dict[str, OpenNotebook] = {}  # by address

    def look(self, uri: str, *, quiet: float = 0.0, again: bool = False) -> None:
        """Look at a document after ``quiet`` seconds, unless this is asked for once more until then.

        ``again``: find out anew which files belong to it.
        """
        if uri.startswith("vscode-notebook-cell:"):  # of a client that does not tell of notebooks
            return
        if again:
            self._unknown.add(uri)
        self._looking[uri] = asyncio.create_task(self._look(uri, quiet))

    def forget(self, uri: str) -> None:
        """A document was closed: nothing is said of it any more."""
        self._looking.pop(uri, None)
        self._answers.pop(uri, None)
        self._programs.forget(_path(uri))
        self._clear([uri])

    def open_notebook(self, params: types.DidOpenNotebookDocumentParams) -> None:
        """A notebook was opened: from now on its cells are followed."""
        notebook = OpenNotebook.opened(params)
        self._notebooks[notebook.uri] = notebook
        self.look(notebook.uri, again=True)

    def change_notebook(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """Cells of a notebook were changed, added, removed or moved."""
        notebook = self._notebooks[params.notebook_document.uri]
        before = notebook.addresses
        if params.change.cells is not None:
            notebook.change(params.change.cells, self._encoding)
            self._clear([address for address in before if address not in notebook.texts])
            self.look(notebook.uri, quiet=self._options.quiet)

    def close_notebook(self, uri: str) -> None:
        """A notebook was closed: nothing is said of its cells any more."""
        notebook = self._notebooks.pop(uri)
        self._looking.pop(uri, None)
        self._answers.pop(uri, None)
        self._programs.forget(_notebook_path(uri))
        self._clear(notebook.addresses)

    def _clear(self, uris: Sequence[str]) -> None:
        for uri in uris:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    async def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """What is offered for a range, once the text is known as it is."""
        address = params.text_document.uri
        uri = next((n.uri for n in self._notebooks.values() if address in n.texts), address)
        if (looking := self._looking.get(uri)) is not None:
            await asyncio.wait([looking])
        answers = self._answers.get(uri)
        if not answers or not self._is_current(answers[0]):
            return []
        if not all(map(self._is_current, answers)):
            answers = answers[:1]
        async with self._turn:
            found = await asyncio.to_thread(
                offers, answers, address, params.range, params.context.only
            )
        return [self._with_edit(offer) for offer in found]

    async def _look(self, uri: str, quiet: float) -> None:
        await asyncio.sleep(quiet)
        async with self._turn:
            if self._looking.get(uri) is not asyncio.current_task():  # a later one will
                return
            try:
                documents = await asyncio.to_thread(self._migration(uri))
            except BadSettings as error:
                self.window_show_message(types.ShowMessageParams(types.MessageType.Error, str(error)))
                return
            except Exception:  # a fault of ours must not end the server
                text = traceback.format_exc()
                self.window_log_message(types.LogMessageParams(types.MessageType.Error, text))
                return
        self._say(documents)

    def _migration(self, uri: str) -> Callable[[], list[Document]]:
        folders = [_path(folder) for folder in self.workspace.folders]
        again = uri in self._unknown
        self._unknown.discard(uri)
        path = _notebook_path(uri) if uri in self._notebooks else _path(uri)
        return partial(self._programs.migrated, path, self._texts(), folders, again)

    def _texts(self) -> dict[str, str]:
        """The texts of open scripts and notebooks by path."""
        texts = {_path(one.uri): one.source for one in self.workspace.text_documents.values()}
        return texts | {_notebook_path(uri): notebook.text for uri, notebook in self._notebooks.items()}

    @property
    def _encoding(self) -> str:
        return self.workspace.position_encoding or types.PositionEncodingKind.Utf16

    def _say(self, documents: Sequence[Document]) -> None:
        """Keep and publish what was found for the open documents of a program."""
        page = partial(address, site=self._options.site)
        answers = [Answer(one, self._sheets(one), page) for one in documents if one.outcome is not None]
        texts = self._texts()
        for answer in answers:
            uri = self._uri(answer.document.path)
            if uri is None or texts[answer.document.path] != answer.outcome.source:
                continue
            self._answers[uri] = [answer, *(other for other in answers if other is not answer)]
            for where, found in answer.diagnostics().items():
                version = self._version(where)
                self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(where, found, version))

    def _sheets(self, document: Document) -> Sheets:
        assert document.outcome is not None
        uri = self._uri(document.path)
        if uri is None:
            return Script(Path(document.path).as_uri(), document.outcome.source, self._encoding)
        if uri in self._notebooks:
            return Cells(self._notebooks[uri].addresses, document.outcome, self._encoding)
        return Script(uri, document.outcome.source, self._encoding)

    def _uri(self, path: str) -> str | None:
        """The address of an open script or notebook; ``None`` where the editor does not show the file."""
        notebooks = ((uri, _notebook_path(uri)) for uri in self._notebooks)
        scripts = ((one.uri, _path(one.uri)) for one in self.workspace.text_documents.values())
        return next((uri for uri, place in (*notebooks, *scripts) if place == path), None)

    def _is_current(self, answer: Answer) -> bool:
        """Whether the editor shows the text that was migrated, or does not show the file."""
        return self._texts().get(answer.document.path, answer.outcome.source) == answer.outcome.source

    def _with_edit(self, offer: Offer) -> types.CodeAction:
        """The action with its edits, of documents of certain versions where the client understands that."""
        written = [answer.sheets.edits(outcome) for answer, outcome in offer.outcomes]
        edits = [(uri, found) for one in written for uri, found in one.items()]
        workspace = self.client_capabilities.workspace
        able = workspace.workspace_edit if workspace is not None else None
        if able is not None and able.document_changes:
            versioned = [types.TextDocumentEdit(self._named(uri), list(found)) for uri, found in edits]
            return evolve(offer.action, edit=types.WorkspaceEdit(document_changes=versioned))
        return evolve(offer.action, edit=types.WorkspaceEdit(changes=dict(edits)))

    def _named(self, uri: str) -> types.OptionalVersionedTextDocumentIdentifier:
        return types.OptionalVersionedTextDocumentIdentifier(uri, self._version(uri))

    def _version(self, uri: str) -> int | None:
        """The version of a text that the editor shows; ``None`` of a file that it does not show."""
        cells = (notebook.texts[uri] for notebook in self._notebooks.values() if uri in notebook.texts)
        cell = next(cells, None)
        if cell is not None:
            return cell.version
        documents = self.workspace.text_documents.values()
        return next((found.version for found in documents if found.uri == uri), None)


def _path(uri: str) -> str:
    """The path of a file; of another document (one that was never saved) its address."""
    return (uris.to_fs_path(uri) or uri) if uri.startswith("file:") else uri


def _notebook_path(uri: str) -> str:
    """The path of a notebook's file; of one that was never saved its address as one."""
    path = _path(uri)
    return path if is_notebook(path) else f"{path}.ipynb"


def made(options: Options) -> Server:
    """A server that answers to all it can do; ``start_io`` begins."""
    server = Server(options)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.look(params.text_document.uri, again=True)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        server.look(params.text_document.uri, quiet=options.quiet)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.look(params.text_document.uri, again=True)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)

    _follow_notebooks(server)
    kinds = [types.CodeActionKind.QuickFix, MIGRATE_FILE, MIGRATE_PROGRAM]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))
    async def asked(params: types.CodeActionParams) -> list[types.CodeAction]:
        return await server.actions(params)

    return server


def _follow_notebooks(server: Server) -> None:
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def opened_notebook(params: types.DidOpenNotebookDocumentParams) -> None:
        server.open_notebook(params)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def changed_notebook(params: types.DidChangeNotebookDocumentParams) -> None:
        server.change_notebook(params)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def saved_notebook(params: types.DidSaveNotebookDocumentParams) -> None:
        server.look(params.notebook_document.uri, again=True)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def closed_notebook(params: types.DidCloseNotebookDocumentParams) -> None:
        server.close_notebook(params.notebook_document.uri)
