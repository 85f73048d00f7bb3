from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from xla_migrate import files
from xla_migrate.files import Content, FileProblem, read, replace, write

OLD, NEW = b"old\n", b"new\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(OLD)
    return path


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_read_as_it_is(script: Path) -> None:
    script.write_bytes(b"\xef\xbb\xbfa\r\n\xff")
    assert read(str(script)).data == b"\xef\xbb\xbfa\r\n\xff"


def test_all_of_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = b"x" * 300_000
    writer = threading.Thread(target=pipe.write_bytes, args=(told,))
    writer.start()
    assert read(str(pipe)).data == told
    writer.join()


@pytest.mark.parametrize(
    ("name", "message"), [("no.py", "no such file"), ("", "is a directory"), ("a\0b", "null")]
)
def test_what_is_no_file_is_a_problem(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(FileProblem, match=message):
        read(str(tmp_path / name))


def grown(script: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """A file that grows each time after its size was asked, up to a number of times."""
    real, calls = os.fstat, iter(range(times))

    def asked(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        if next(calls, None) is not None:
            script.write_bytes(script.read_bytes() + b"more\n")
        return status

    monkeypatch.setattr(files.os, "fstat", asked)


def test_a_file_that_keeps_changing_while_it_is_read_is_a_problem(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(script, monkeypatch, 10)
    with pytest.raises(FileProblem, match="changes while it is read"):
        read(str(script))


def test_a_file_that_changes_once_while_it_is_read_is_read_again(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(script, monkeypatch, 1)
    assert read(str(script)).data == OLD + b"more\n"


def test_a_file_of_which_no_size_is_told_is_read() -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("this system has no files of its kernel")
    assert read(str(status)).data.startswith(b"Name:")


def test_a_file_is_replaced_and_nothing_is_left_beside_it(script: Path) -> None:
    replace(read(str(script)), NEW)
    assert script.read_bytes() == NEW
    assert leftovers(script.parent) == ["train.py"]


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o664])
def test_a_replaced_file_keeps_its_mode(script: Path, mode: int) -> None:
    script.chmod(mode)
    replace(read(str(script)), NEW)
    assert stat.S_IMODE(script.stat().st_mode) == mode


def test_a_symbolic_link_stays_one_and_its_target_is_replaced(script: Path) -> None:
    folder = script.parent / "links"
    folder.mkdir()
    link = folder / "link.py"
    link.symlink_to("../train.py")
    replace(read(str(link)), NEW)
    assert link.is_symlink()
    assert os.readlink(link) == "../train.py"
    assert script.read_bytes() == NEW
    assert leftovers(folder) == ["link.py"]


def test_a_read_only_file_is_not_replaced(script: Path) -> None:
    content = read(str(script))
    script.chmod(0o444)
    with pytest.raises(FileProblem, match="read-only"):
        replace(content, NEW)
    assert script.read_bytes() == OLD


def test_a_file_that_changed_since_it_was_read_is_not_replaced(script: Path) -> None:
    content = read(str(script))
    script.write_bytes(b"mine\n")
    with pytest.raises(FileProblem, match="changed since it was read"):
        replace(content, NEW)
    assert script.read_bytes() == b"mine\n"
    assert leftovers(script.parent) == ["train.py"]


def test_a_file_that_went_away_since_it_was_read_is_not_made_again(script: Path) -> None:
    content = read(str(script))
    script.unlink()
    with pytest.raises(FileProblem, match="no such file"):
        replace(content, NEW)
    assert leftovers(script.parent) == []


class FullDisk:
    """A file that takes a few bytes and then no more."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, data: bytes) -> int:
        self.file.write(data[:2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod", "write"])
def test_the_original_survives_a_full_disk(
    script: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    content = read(str(script))
    if call == "write":
        real = os.fdopen
        monkeypatch.setattr(files.os, "fdopen", lambda *args: FullDisk(real(*args)))
    else:
        monkeypatch.setattr(files.os, call, fail)
    with pytest.raises(FileProblem, match="no space left"):
        replace(content, NEW)
    assert script.read_bytes() == OLD
    assert leftovers(script.parent) == ["train.py"]


def test_an_interrupt_leaves_the_original_and_nothing_beside_it(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    content = read(str(script))
    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        replace(content, NEW)
    assert script.read_bytes() == OLD
    assert leftovers(script.parent) == ["train.py"]


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    with pytest.raises(FileProblem, match="not a regular file"):
        replace(Content(str(pipe), OLD, 0o644), NEW)


def test_a_new_file_gets_the_mode_that_is_asked_for(tmp_path: Path) -> None:
    write(str(tmp_path / "out.py"), NEW, 0o755)
    assert stat.S_IMODE((tmp_path / "out.py").stat().st_mode) == 0o755


def test_an_overwritten_file_keeps_its_own_mode(script: Path) -> None:
    script.chmod(0o600)
    write(str(script), NEW, 0o755)
    assert stat.S_IMODE(script.stat().st_mode) == 0o600
    assert script.read_bytes() == NEW


def test_a_dangling_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to("out.py")
    write(str(tmp_path / "link.py"), NEW, 0o644)
    assert (tmp_path / "out.py").read_bytes() == NEW
    assert (tmp_path / "link.py").is_symlink()


def test_a_device_is_written_to_directly() -> None:
    write(os.devnull, NEW, 0o644)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize(("name", "message"), [("", "is a directory"), ("no/out.py", "no such")])
def test_an_impossible_output_is_a_problem(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(FileProblem, match=message):
        write(str(tmp_path / name), NEW, 0o644)
