"""An editor for tests: speaks the Language Server Protocol with a real server over its standard streams."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 120
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
Message = dict[str, Any]


class Editor:
    """One server process. ``encoding`` is the one that was agreed on."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._ids = 0
        self._told: queue.Queue[Message] = queue.Queue()
        self._kept: list[Message] = []
        self.encoding = ""
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, folder: Path | None, encodings: Sequence[str] | None, versions: bool = True) -> Message:
        general = {} if encodings is None else {"positionEncodings": list(encodings)}
        edits = {"workspaceEdit": {"documentChanges": versions}}
        folders = [{"uri": folder.as_uri(), "name": "work"}] if folder else None
        capabilities = {"general": general, "workspace": edits, "notebookDocument": {"synchronization": {}}}
        found = self.request("initialize", processId=None, capabilities=capabilities, rootUri=None,
                             workspaceFolders=folders)  # fmt: skip
        self.notify("initialized")
        self.encoding = found["capabilities"]["positionEncoding"]
        return found["capabilities"]

    def notify(self, method: str, **params: Any) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method: str, **params: Any) -> Any:
        self._ids += 1
        number = self._ids
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        self._send({**message, "params": params} if params else message)
        answer = self._wait(lambda one: one.get("id") == number and "method" not in one)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, uri: str, text: str, version: int = 1) -> list[Message]:
        """Open a document and give its diagnostics."""
        item = {"uri": uri, "languageId": "python", "version": version, "text": text}
        self.notify("textDocument/didOpen", textDocument=item)
        return self.diagnostics(uri, version)

    def change(self, uri: str, text: str, version: int) -> None:
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", textDocument=document, contentChanges=[{"text": text}])

    def open_notebook(self, uri: str, cells: Sequence[tuple[str, str]]) -> dict[str, list[Message]]:
        """Open a notebook of cells, each a language and a source; gives the diagnostics by address."""
        texts = [self.cell(uri, number, *cell) for number, cell in enumerate(cells)]
        cells_of_it = [_listed(one) for one in texts]
        document = {"uri": uri, "notebookType": "jupyter-notebook", "version": 1, "cells": cells_of_it}
        self.notify("notebookDocument/didOpen", notebookDocument=document, cellTextDocuments=texts)
        return {one["uri"]: self.diagnostics(one["uri"], 1) for one in texts}

    def cell(self, notebook: str, number: int, language: str, text: str) -> Message:
        address = f"vscode-notebook-cell{notebook.removeprefix('file')}#W{number}sZmlsZQ%3D%3D"
        return {"uri": address, "languageId": language, "version": 1, "text": text}

    def change_notebook(self, uri: str, version: int, **cells: Any) -> None:
        document = {"uri": uri, "version": version}
        self.notify("notebookDocument/didChange", notebookDocument=document, change={"cells": cells})

    def diagnostics(self, uri: str, version: int | None) -> list[Message]:
        """The next diagnostics that are told of a version of a document."""
        method = "textDocument/publishDiagnostics"
        told = self._wait(
            lambda one: one.get("method") == method
            and one["params"]["uri"] == uri
            and one["params"].get("version") == version
        )
        found: list[Message] = told["params"]["diagnostics"]
        return found

    def actions(self, uri: str, first: int, last: int, only: Sequence[str] | None = None) -> list[Message]:
        """What is offered on the lines ``first`` to ``last``, which count from 0."""
        place = {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}
        context = {"diagnostics": [], **({} if only is None else {"only": list(only)})}
        document = {"uri": uri}
        found = self.request("textDocument/codeAction", textDocument=document, range=place, context=context)
        return list(found or [])

    def cut(self, text: str, place: Mapping[str, Any]) -> str:
        """The piece of a text that a range of the protocol means."""
        return text[self._offset(text, place["start"]) : self._offset(text, place["end"])]

    def edited(self, text: str, edits: Sequence[Mapping[str, Any]]) -> str:
        """A text with edits of the protocol carried out."""
        placed = []
        for edit in edits:
            start, end = (self._offset(text, edit["range"][side]) for side in ("start", "end"))
            placed.append((start, end, edit["newText"]))
        for start, end, new in sorted(placed, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def stop(self) -> int:
        self.request("shutdown")
        self._send({"jsonrpc": "2.0", "method": "exit"})
        return self._process.wait(PATIENCE)

    def _offset(self, text: str, place: Mapping[str, int]) -> int:
        codec, size = CODECS[self.encoding]
        lines = _lines(text)
        line = lines[place["line"]]
        before = line.encode(codec)[: place["character"] * size].decode(codec)
        assert place["character"] * size <= len(line.rstrip("\r\n").encode(codec))
        return sum(map(len, lines[: place["line"]])) + len(before)

    def _send(self, message: Message) -> None:
        data = json.dumps(message).encode()
        assert self._process.stdin
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self._process.stdin.flush()

    def _listen(self) -> None:
        stream = self._process.stdout
        assert stream
        while header := stream.readline():
            length = int(header.partition(b":")[2]) if header.lower().startswith(b"content-length") else None
            while stream.readline() not in (b"\r\n", b""):
                pass
            self._told.put(json.loads(stream.read(length)))

    def _wait(self, wanted: Any) -> Message:
        for number, message in enumerate(self._kept):
            if wanted(message):
                return self._kept.pop(number)
        while True:
            message = self._told.get(timeout=PATIENCE)
            if wanted(message):
                return message
            self._kept.append(message)


def _listed(cell: Message) -> Message:
    """A cell as a notebook lists it: 1 is prose, 2 is code."""
    return {"kind": 1 if cell["languageId"] == "markdown" else 2, "document": cell["uri"]}


def _lines(text: str) -> list[str]:
    """Lines as the protocol has them, with their ends."""
    return [found.group() for found in re.finditer(r"[^\r\n]*(?:\r\n?|\n|\Z)", text)]


@contextmanager
def editor(*options: str, cache: Path) -> Iterator[Editor]:
    """A running server with an editor that has not greeted it yet."""
    path = ":".join(path for path in sys.path if path)
    environment = {"PYTHONPATH": path, "XLA_MIGRATE_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "xla_migrate", "lsp", *options]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, **streams) as run:  # type: ignore[call-overload]
        try:
            yield Editor(run)
        finally:
            run.kill()
