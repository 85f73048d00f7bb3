"""The commands that pages of the documentation show, run as shown.

A block of ``console`` holds lines ``$ command``, each with its output. The blocks of a page are run one after
the other in an empty folder with the golden cases in it. Blocks below the line ``TRAINS`` train something:
slow tests alone run them, and ``...`` in their output stands for anything, at the end of a line or for lines.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[1]
TRAINS = "<!-- trains -->"
_BLOCK = re.compile(rf"(?P<head>(?P<trains>{TRAINS}\n\n)?^```console\n)(?P<body>.*?)(?=^```$)", re.M | re.S)


def pages() -> list[Path]:
    """The pages that show commands."""
    return [path for path in sorted((ROOT / "docs").rglob("*.md")) if _BLOCK.search(path.read_text())]


def rewritten(page: Path) -> str:
    """The text of a page with the output that its commands have now; that of training is left."""
    with _folder():
        return _BLOCK.sub(_current, page.read_text())


def trained(page: Path) -> Iterator[tuple[str, str, str]]:
    """Each command that trains, with its output as shown and as it is; the others are run as well."""
    with _folder():
        for block in _BLOCK.finditer(page.read_text()):
            for command, shown in _commands(block["body"]):
                found = _output(command)
                if block["trains"]:
                    yield command, shown, found


def fits(shown: str, found: str) -> bool:
    """Whether output is the one shown, in which ``...`` stands for anything."""
    pattern = ""
    for line in shown.splitlines():
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            text, rest = (line[:-3], ".*") if line.endswith("...") else (line, "")
            pattern += f"{re.escape(text)}{rest}\n"
    return re.fullmatch(pattern, found) is not None


def _current(block: re.Match[str]) -> str:
    if block["trains"]:
        return block[0]
    commands = (command for command, _ in _commands(block["body"]))
    return block["head"] + "".join(f"$ {command}\n{_output(command)}" for command in commands)


def _commands(body: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def _output(command: str) -> str:
    """What a command prints on both streams."""
    program, *arguments = shlex.split(command)
    if program == "cp":
        shutil.copy(*arguments)
        return ""
    if program == "cat":
        return "".join(Path(path).read_text() for path in arguments)
    if program != "xla-migrate":
        raise ValueError(f"pages show no other programs than cp, cat and xla-migrate: {command}")
    from xla_migrate.cli import main

    printed = io.BytesIO()
    stream = io.TextIOWrapper(printed, encoding="utf-8", write_through=True)
    with redirect_stdout(stream), redirect_stderr(stream):
        main(arguments)
    return printed.getvalue().decode()


class _folder:
    """A temporary folder with the golden cases, which is the current one."""

    def __enter__(self) -> None:
        self._made = tempfile.TemporaryDirectory()
        folder = Path(self._made.name)
        (folder / "golden").symlink_to(ROOT / "golden")
        settings = {"XLA_MIGRATE_CACHE_DIR": str(folder / "cache"), "COLUMNS": "100", "NO_COLOR": "1"}
        self._settings = mock.patch.dict(os.environ, settings)
        self._settings.__enter__()
        self._before = os.getcwd()
        os.chdir(folder)

    def __exit__(self, *error: object) -> None:
        os.chdir(self._before)
        self._settings.__exit__(None, None, None)
        self._made.cleanup()
