"""Text for a terminal: coloured where wanted, and never able to steer it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO

# One line as pieces of text, each with a style that rich understands (or none).
Line = Sequence[tuple[str, str]]

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != 9}


class Printer:
    """Writes lines to a text stream, in colour through rich or plainly without importing it."""

    def __init__(self, stream: TextIO, colour: bool) -> None:
        self._stream = stream
        self._colour = colour

    def print(self, lines: Iterable[Line]) -> None:
        if self._colour:
            self._print_coloured(lines)
            return
        for line in lines:
            self._stream.write("".join(text for text, _ in line) + "\n")

    def _print_coloured(self, lines: Iterable[Line]) -> None:
        from rich.console import Console
        from rich.text import Text

        console = Console(
            file=self._stream, force_terminal=True, color_system="standard", no_color=False
        )
        for line in lines:
            console.print(Text.assemble(*line), soft_wrap=True)


def printed(lines: Iterable[Line], colour: bool) -> str:
    """The lines as one text."""
    import io

    stream = io.StringIO()
    Printer(stream, colour).print(lines)
    return stream.getvalue()


def shown(text: str) -> str:
    """Text fit for a terminal: control characters, which could steer it, are spelled out."""
    return text.translate(_CONTROL)


def count(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
