"""The programs in ``data/`` that the tests here run."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"


def program(name: str) -> str:
    """The text of one of them."""
    return (DATA / f"{name}.py").read_text()
