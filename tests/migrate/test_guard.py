"""What a recorded run may write: everything but the user's own files."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from trees import digest, plant

from xla_migrate.verify.guard import Guard
from xla_migrate.verify.inside import Moved


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return plant(tmp_path / "mine", {"a.txt": "a", "folder/b.txt": "b", "empty/keep/c.txt": ""})


def attempt(mine: Path, code: str, before: str = "") -> str:
    """Run code in a guarded process whose working directory is free; what it was refused, or else."""
    scratch = mine.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    program = f"""
import os, pathlib, shutil, sys
from xla_migrate.verify.guard import Guard
mine = {str(mine)!r}
os.chdir({str(scratch)!r})
{textwrap.dedent(before)}
sys.addaudithook(Guard([mine], [{str(scratch)!r}]))
try:
{textwrap.indent(textwrap.dedent(code), '    ')}
except PermissionError as error:
    print("refused", error.filename, error.strerror)
except OSError as error:
    print(type(error).__name__)
else:
    print("done")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert not ran.stderr, ran.stderr
    return ran.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "open(mine + '/a.txt').read()",
        "os.listdir(mine)",
        "os.close(os.open(mine + '/a.txt', os.O_RDONLY))",
        "open('new.txt', 'w').write(open(mine + '/a.txt').read())",
        "shutil.copytree(mine, 'copy'); shutil.rmtree('copy')",
        "os.makedirs('x/y'); os.rename('x/y', 'x/z'); os.removedirs('x/z')",
        "os.makedirs(mine + '/folder', exist_ok=True)",
        "os.symlink(mine, 'link'); os.remove('link')",
    ],
)
def test_reading_and_writing_elsewhere_are_no_matter(mine: Path, code: str) -> None:
    before = digest(mine)
    assert attempt(mine, code) == "done"
    assert digest(mine) == before


@pytest.mark.parametrize(
    "code",
    [
        "open(mine + '/a.txt', 'w')",
        "open(mine + '/a.txt', 'r+')",
        "open(mine + '/new.txt', 'a')",
        "open((mine + '/new.txt').encode(), 'xb')",
        "os.open(mine + '/a.txt', os.O_RDWR)",
        "pathlib.Path(mine, 'a.txt').write_text('')",
        "pathlib.Path(mine, 'new.txt').touch()",
        "os.remove(mine + '/a.txt')",
        "os.rename(mine + '/a.txt', 'a.txt')",
        "open('new', 'w'); os.replace('new', mine + '/a.txt')",
        "os.mkdir(mine + '/new')",
        "os.makedirs(mine + '/new/deep', exist_ok=True)",
        "os.rmdir(mine + '/folder')",
        "shutil.rmtree(mine)",
        "shutil.move(mine + '/a.txt', '.')",
        "open('x', 'w'); shutil.copy('x', mine)",
        "os.truncate(mine + '/a.txt', 0)",
        "os.chmod(mine + '/a.txt', 0)",
        "os.utime(mine + '/a.txt')",
        "os.symlink('a.txt', mine + '/link')",
        "os.link(mine + '/a.txt', 'hard')",
        "os.chdir(mine); open('a.txt', 'w')",
        "os.remove('a.txt', dir_fd=os.open(mine, os.O_RDONLY))",
        "os.symlink(mine, 'way'); open('way/a.txt', 'w')",
        "os.symlink(mine + '/a.txt', 'one'); open('one', 'w')",
    ],
)
def test_writing_what_is_the_users_is_refused(mine: Path, code: str) -> None:
    before = digest(mine)
    answer = attempt(mine, code)
    assert answer.startswith("refused")
    assert str(mine) in answer or "way" in answer or "a.txt" in answer or "one" in answer
    assert "--keep" in answer
    assert "--share" in answer
    assert digest(mine) == before


def test_a_forked_process_is_guarded_too(mine: Path) -> None:
    code = "import multiprocessing as m\nwith m.get_context('fork').Pool(1) as pool:\n"
    assert attempt(mine, code + "    pool.map(os.remove, [mine + '/a.txt'])").startswith("refused")


def test_the_nearest_of_the_guarded_and_free_directories_decides() -> None:
    guard = Guard(["/user", "/user/cache/project"], ["/user/cache"])
    assert guard.protects("/user/notes.txt")
    assert not guard.protects("/user/cache/weights")
    assert guard.protects("/user/cache/project/train.py")
    assert not guard.protects("/users/other")
    assert not guard.protects("/elsewhere")


def test_a_path_of_an_original_means_its_copy() -> None:
    moved = Moved("/scratch", ["/user/project"])
    assert moved.path("/user/project/data") == "/scratch/user/project/data"
    assert moved.path("/user/projects") == "/user/projects"
    assert moved.path("data") == "data"
    assert moved.argument("--out=/user/project/out") == "--out=/scratch/user/project/out"
    assert moved.argument("--lr=0.1") == "--lr=0.1"
    assert moved.argument("name=/user/project") == "name=/user/project"


@pytest.mark.slow
def test_torch_saves_only_where_it_may(mine: Path) -> None:
    pytest.importorskip("torch")
    code = "torch.save({}, mine + '/weights.pt')"
    before = f"""
        import torch
        from xla_migrate.verify.guard import _watch_torch
        _watch_torch(Guard([{str(mine)!r}], []))
        torch.save({{}}, 'free.pt')
    """
    answer = attempt(mine, code, before)
    assert answer.startswith(f"refused {mine / 'weights.pt'}")
