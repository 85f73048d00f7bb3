"""From bytes to text, by PEP 263."""

from __future__ import annotations

import codecs
import io
import tokenize


class SourceError(Exception):
    """The bytes cannot be read as Python; ``line`` and ``column`` count from 1, ``advice`` is what to do."""

    def __init__(
        self, code: str, message: str, line: int = 1, column: int = 1, advice: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line
        self.column = column
        self.advice = advice


def decode(data: bytes) -> tuple[str, str]:
    """Return text and encoding of a Python file by PEP 263, the byte-order mark kept in the text.

    Raises ``SourceError`` (``XLA002``) where the bytes do not fit the encoding.
    """
    if is_plain(data):  # most files, at a tenth of the time
        return data.decode("ascii"), "utf-8"
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        if "encoding declaration" not in str(error):
            raise SourceError("XLA002", f"unknown encoding: {error}") from error
        encoding = "utf-8"  # no declaration, and something else than UTF-8 in the first lines
    if data.startswith(codecs.BOM_UTF8):
        encoding = "utf-8"
    try:
        return data.decode(encoding), encoding
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{data[error.start]:02x} is not {encoding}"
        raise SourceError("XLA002", message, line) from error


def declared(text: str) -> str:
    """What the file of this text would be encoded in."""
    head = "".join(text.split("\n", 2)[:2])
    if "coding" not in head or text.startswith("\ufeff"):
        return "utf-8"
    lines = io.BytesIO(text.encode("ascii", "replace"))
    try:
        return tokenize.detect_encoding(lines.readline)[0]
    except SyntaxError:
        return "utf-8"  # decoding the bytes says what is wrong with the declaration


def is_plain(data: bytes) -> bool:
    """Whether a file is ASCII, and declares nothing else in its first two lines."""
    if not data.isascii():
        return False
    end = data.find(b"\n", data.find(b"\n") + 1)
    return data.find(b"coding", 0, end if end >= 0 else None) < 0
