"""Files that cannot be processed: each is named with the reason, and the others are done."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import Cli

from xla_migrate import files

pytestmark = pytest.mark.usefixtures("stub")

CUDA, XLA = b'd = "cuda"\n', b'd = "xla"\n'


@pytest.fixture
def good(here: Path) -> Path:
    path = here / "good.py"
    path.write_bytes(CUDA)
    return path


def test_a_missing_file(cli: Cli, good: Path) -> None:
    ran = cli("no.py", "good.py", "--inplace")
    assert (ran.code, good.read_bytes()) == (2, XLA)
    assert ran.err == "error: no.py: no such file or directory\n"
    assert ran.text.endswith("1 of 2 files migrated (1 change); no findings; 1 file failed\n")


def test_a_folder_without_python_files(cli: Cli, good: Path, here: Path) -> None:
    (here / "docs").mkdir()
    ran = cli("docs", "good.py", "--inplace")
    assert (ran.code, good.read_bytes()) == (2, XLA)
    assert ran.err == "error: docs: no Python files in this directory\n"


@pytest.mark.parametrize(
    ("data", "place"),
    [(b"x = 1\n\xff = 2\n", "bad.py:2:1: byte"), (b"x\ndef (\n", "bad.py:2:1: not")],
)
def test_a_file_that_is_no_python_text(
    cli: Cli, good: Path, here: Path, data: bytes, place: str
) -> None:
    (here / "bad.py").write_bytes(data)
    ran = cli("bad.py", "good.py", "--inplace")
    assert (ran.code, good.read_bytes()) == (2, XLA)
    assert ran.err.startswith(f"error: {place}")
    assert (here / "bad.py").read_bytes() == data
    assert "bad.py" not in ran.text


def test_a_read_only_file(cli: Cli, good: Path, here: Path) -> None:
    (here / "other.py").write_bytes(CUDA)
    (here / "other.py").chmod(0o444)
    ran = cli("other.py", "good.py", "--inplace")
    assert (ran.code, good.read_bytes()) == (2, XLA)
    assert ran.err == "error: other.py: the file is read-only\n"
    assert (here / "other.py").read_bytes() == CUDA


def test_a_read_only_file_without_changes_is_no_failure(cli: Cli, good: Path) -> None:
    good.write_bytes(XLA)
    good.chmod(0o444)
    assert cli("good.py", "--inplace").code == 0


def test_a_file_that_changes_meanwhile(
    cli: Cli, good: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xla_migrate.cli import session

    (here / "other.py").write_bytes(CUDA)
    real = session.migrate

    def migrate(*arguments: object) -> None:
        real(*arguments)  # type: ignore[arg-type]
        (here / "other.py").write_bytes(b"mine\n")

    monkeypatch.setattr(session, "migrate", migrate)
    ran = cli("other.py", "good.py", "--inplace")
    assert (ran.code, good.read_bytes()) == (2, XLA)
    assert ran.err.startswith("error: other.py: the file changed since it was read")
    assert (here / "other.py").read_bytes() == b"mine\n"


def test_a_full_disk(cli: Cli, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fail)
    ran = cli("good.py", "--inplace")
    assert (ran.code, good.read_bytes()) == (2, CUDA)
    assert ran.err == "error: good.py: no space left on device\n"
    assert ran.text == "nothing to migrate in 0 files; no findings; 1 file failed\n"
