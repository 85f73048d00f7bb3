"""What the fixture ``cli`` of these tests gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Ran:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


class Cli(Protocol):
    def __call__(self, *arguments: str, stdin: bytes = b"") -> Ran: ...
