from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import stub_engine
from browser import Browser, executable
from running import Cli, Ran

import xla_migrate.notebooks.outcomes  # noqa: F401  (before a stand-in takes the engine's place)
import xla_transforms
from xla_transforms import dividing


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The application with the stub in the place of the engine."""
    for name in ("engine", "rules"):
        monkeypatch.setitem(sys.modules, f"xla_transforms.{name}", stub_engine)
        monkeypatch.setattr(xla_transforms, name, stub_engine, raising=False)
    monkeypatch.setattr(dividing, "speaks", lambda data: True)  # the stub asks for no torch
    for name in ("xla_migrate.api", "xla_migrate.cli.rules", "xla_migrate.cli.explain"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in ("xla_migrate.api", "xla_migrate.cli.rules", "xla_migrate.cli.explain"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = executable()
    assert program
    opened = Browser(program, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], here: Path
) -> Cli:
    """Runs ``xla-migrate`` in this process, in an empty folder."""
    from xla_migrate.cli import main

    def run(*arguments: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        code = main(arguments)
        out, err = capsysbinary.readouterr()
        return Ran(code, out, err.decode())

    return run
