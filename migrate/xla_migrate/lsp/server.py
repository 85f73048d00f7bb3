"""The server itself: what the editor tells it, when it looks again, and what it answers."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from attrs import evolve
from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from xla_migrate import __version__
from xla_migrate.documents import Document
from xla_migrate.lsp.answers import MIGRATE_FILE, MIGRATE_PROGRAM, SOURCE, Answer, Offer, offers
from xla_migrate.lsp.programs import Programs
from xla_migrate.lsp.rule_pages import address
from xla_migrate.project import BadSettings

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
        super().__init__(SOURCE, __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
        self._options = options
        self._programs = Programs(options.target)
        self._answers: dict[str, list[Answer]] = {}  # of the program of each open document, itself first
        self._looking: dict[str, asyncio.Task[None]] = {}  # the latest look at each document
        self._unknown: set[str] = set()  # documents whose imports are to be followed anew
        self._turn = asyncio.Lock()

    def look(self, uri: str, *, quiet: float = 0.0, again: bool = False) -> None:
        """Look at a document after ``quiet`` seconds, unless this is asked for once more until then.

        ``again``: find out anew which files belong to it.
        """
        if uri.startswith("vscode-notebook-cell:"):  # no script of its own
            return
        if again:
            self._unknown.add(uri)
        self._looking[uri] = asyncio.create_task(self._look(uri, quiet))

    def forget(self, uri: str) -> None:
        """A document was closed: nothing is said of it any more."""
        self._looking.pop(uri, None)
        self._answers.pop(uri, None)
        self._programs.forget(_path(uri))
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    async def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """What is offered for a range, once the text is known as it is."""
        uri = params.text_document.uri
        if (looking := self._looking.get(uri)) is not None:
            await asyncio.wait([looking])
        answers = self._answers.get(uri)
        if not answers or not self._is_current(answers[0]):
            return []
        if not all(map(self._is_current, answers)):
            answers = answers[:1]
        async with self._turn:
            found = await asyncio.to_thread(offers, answers, params.range, params.context.only)
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
        texts = {_path(one): document.source for one, document in self.workspace.text_documents.items()}
        folders = [_path(folder) for folder in self.workspace.folders]
        again = uri in self._unknown
        self._unknown.discard(uri)
        return partial(self._programs.migrated, _path(uri), texts, folders, again)

    def _say(self, documents: Sequence[Document]) -> None:
        """Keep and publish what was found for the open documents of a program."""
        page = partial(address, site=self._options.site)
        encoding = self.workspace.position_encoding or types.PositionEncodingKind.Utf16
        answers = [Answer(one, encoding, page) for one in documents if one.outcome is not None]
        for answer in answers:
            document = self._open(answer)
            if document is None or not self._is_current(answer):
                continue
            self._answers[document.uri] = [answer, *(other for other in answers if other is not answer)]
            found = answer.diagnostics()
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(document.uri, found, document.version)
            )

    def _open(self, answer: Answer) -> TextDocument | None:
        documents = self.workspace.text_documents.items()
        return next((found for uri, found in documents if _path(uri) == answer.document.path), None)

    def _is_current(self, answer: Answer) -> bool:
        """Whether the editor shows the text that was migrated, or does not show the file."""
        document = self._open(answer)
        return document is None or document.source == answer.outcome.source

    def _with_edit(self, offer: Offer) -> types.CodeAction:
        """The action with its edits, of documents of certain versions where the client understands that."""
        edits = [(self._named(answer), answer.text_edits(changes)) for answer, changes in offer.edits]
        workspace = self.client_capabilities.workspace
        able = workspace.workspace_edit if workspace is not None else None
        if able is not None and able.document_changes:
            versioned = [types.TextDocumentEdit(name, list(found)) for name, found in edits]
            return evolve(offer.action, edit=types.WorkspaceEdit(document_changes=versioned))
        plain = {name.uri: found for name, found in edits}
        return evolve(offer.action, edit=types.WorkspaceEdit(changes=plain))

    def _named(self, answer: Answer) -> types.OptionalVersionedTextDocumentIdentifier:
        document = self._open(answer)
        if document is not None:
            return types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
        return types.OptionalVersionedTextDocumentIdentifier(Path(answer.document.path).as_uri())


def _path(uri: str) -> str:
    """The path of a file; of another document (one that was never saved) its address."""
    return (uris.to_fs_path(uri) or uri) if uri.startswith("file:") else uri


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

    kinds = [types.CodeActionKind.QuickFix, MIGRATE_FILE, MIGRATE_PROGRAM]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))
    async def asked(params: types.CodeActionParams) -> list[types.CodeAction]:
        return await server.actions(params)

    return server
