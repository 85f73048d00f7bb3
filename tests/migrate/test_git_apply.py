"""What ``--diff`` prints is a patch that git takes, and it makes what ``--inplace`` writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from running import Cli

pytestmark = pytest.mark.usefixtures("stub")


def git(*arguments: str, data: bytes = b"", cwd: Path | None = None) -> None:
    ran = subprocess.run(["git", *arguments], input=data, capture_output=True, check=False, cwd=cwd)
    assert ran.returncode == 0, ran.stderr.decode()


@pytest.fixture
def repository(here: Path) -> Path:
    git("init", "-q")
    git("config", "core.autocrlf", "false")
    return here


CONTENTS = {
    "plain": b"a\nb\ncuda\nc\nd\ne\nf\ng\nh\ncuda\n",
    "no final newline": b"a\nb\ncuda",
    "no final newline, change above": b"cuda\nb\nc",
    "CRLF": b"a\r\ncuda\r\nb\r\n",
    "CRLF without the last": b"a\r\ncuda\r\nb",
    "mixed line endings": b"a\r\ncuda\nb\rcuda\r\n",
    "byte-order mark": b"\xef\xbb\xbfcuda\n",
    "latin-1": b"# coding: latin-1\n# \xe9\ncuda \xe9\n",
    "form feed": b"a\n\x0c\ncuda\x0cb\n",
    "one line": b"cuda",
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_git_applies_the_patch(cli: Cli, repository: Path, content: bytes) -> None:
    (repository / "a.py").write_bytes(content)
    ran = cli("a.py", "--diff")
    assert ran.code == 1
    git("apply", "--check", "-", data=ran.out)
    git("apply", "-", data=ran.out)
    assert (repository / "a.py").read_bytes() == content.replace(b"cuda", b"xla")
    git("apply", "-R", "-", data=ran.out)
    assert (repository / "a.py").read_bytes() == content


@pytest.mark.parametrize("where", [".", "src"])
def test_the_patch_of_several_files_applies_in_the_folder_it_was_made_in(
    cli: Cli, repository: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    names = ["src/a.py", "src/sub/b.py", "src/sp ace.py", "src/käse.py", 'src/q"uote.py']
    for number, name in enumerate(names):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_bytes(list(CONTENTS.values())[number])
    monkeypatch.chdir(repository / where)
    ran = cli(str(repository / "src"), "--diff")
    git("apply", "--check", "-", data=ran.out)
    git("apply", "-", data=ran.out)
    assert all(b"cuda" not in (repository / name).read_bytes() for name in names)


def test_the_patch_of_a_link_is_that_of_its_target(cli: Cli, repository: Path) -> None:
    (repository / "a.py").write_bytes(b"cuda\n")
    (repository / "link.py").symlink_to("a.py")
    ran = cli("link.py", "--diff")
    git("apply", "-", data=ran.out)
    assert (repository / "a.py").read_bytes() == b"xla\n"


def test_a_file_that_fails_is_not_in_the_patch_and_the_others_are(
    cli: Cli, repository: Path
) -> None:
    (repository / "a.py").write_bytes(b"cuda\n")
    (repository / "b.py").write_bytes(b"cuda def (\n")
    ran = cli(".", "--diff")
    assert ran.code == 2
    assert b"b.py" not in ran.out
    git("apply", "--check", "-", data=ran.out)


def test_no_change_gives_an_empty_patch(cli: Cli, repository: Path) -> None:
    (repository / "a.py").write_bytes(b"x\n")
    ran = cli("a.py", "--diff")
    assert (ran.code, ran.out) == (0, b"")
