from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from xla_migrate.discovery import discover


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")


def found(*paths: str) -> list[str]:
    return discover(paths).files


def test_a_file_is_taken_as_it_is_named(here: Path) -> None:
    make(here, "script", ".hidden/a.py", "build/b.py")
    names = ["script", ".hidden/a.py", "build/b.py"]
    assert found(*names) == names


def test_a_missing_file_is_passed_on_for_the_reader_to_report(here: Path) -> None:
    assert found("no.py") == ["no.py"]


def test_the_same_file_named_twice_is_taken_once(here: Path) -> None:
    make(here, "a.py", "d/b.py")
    assert found("./a.py", "a.py", ".", "d/../a.py") == ["a.py", "d/b.py"]


def test_a_folder_is_walked_in_order(here: Path) -> None:
    make(here, "src/b.py", "src/a/z.py", "src/c.txt", "src/c.pyc", "src/d.ipynb")
    assert found("src") == ["src/a/z.py", "src/b.py", "src/d.ipynb"]
    assert found(str(here / "src"))[0] == str(here / "src/a/z.py")


@pytest.mark.parametrize(
    "folder", [".git", ".tox", "build", "node_modules", "venv", "__pycache__", "site-packages"]
)
def test_a_folder_that_is_not_the_users_code_is_left_out(here: Path, folder: str) -> None:
    make(here, "a.py", f"{folder}/b.py", f"deep/{folder}/c.py")
    assert found(".") == ["a.py"]


def test_an_environment_of_any_name_is_left_out_and_a_package_named_env_is_not(here: Path) -> None:
    make(here, "env/__init__.py", "mine/lib/b.py", "mine/pyvenv.cfg", "other/conda-meta/history")
    make(here, "other/c.py")
    assert found(".") == ["env/__init__.py"]


def test_a_folder_without_python_files_is_a_problem(here: Path) -> None:
    make(here, "docs/readme.txt")
    result = discover(["docs"])
    assert result.files == []
    assert [(p.path, p.message) for p in result.problems] == [
        ("docs", "no Python files in this directory")
    ]


def test_links_out_of_the_folder_are_left_out_and_inner_ones_taken_once(here: Path) -> None:
    make(here, "src/a.py", "elsewhere/b.py", "elsewhere/sub/c.py")
    (here / "src/link.py").symlink_to("a.py")
    (here / "src/out.py").symlink_to("../elsewhere/b.py")
    (here / "src/sub").symlink_to("../elsewhere/sub")
    (here / "src/loop").symlink_to(".")
    (here / "src/dangling.py").symlink_to("nothing.py")
    assert found("src") == ["src/a.py"]


def test_a_pipe_named_like_a_module_is_left_out(here: Path) -> None:
    make(here, "a.py")
    os.mkfifo(here / "pipe.py")
    assert found(".") == ["a.py"]


def git_files(here: Path, folder: str = ".") -> list[str]:
    command = ["git", "ls-files", "--others", "--exclude-standard", folder]
    listed = subprocess.run(command, cwd=here, check=True, capture_output=True, text=True)
    return sorted(name for name in listed.stdout.split("\n") if name.endswith(".py"))


@pytest.fixture
def repository(here: Path) -> Path:
    subprocess.run(["git", "init", "-q"], check=True)
    make(here, "a.py", "out/b.py", "gen/c.py", "gen/keep.py", "lib/d.py", "lib/e_pb2.py")
    make(here, "lib/sub/f.py", "lib/sub/g_pb2.py", "data/h.py", "data/sub/i.py", "sp ace.py")
    make(here, "#odd.py", "lib/out/j.py")
    return here


@pytest.mark.parametrize(
    "files",
    [
        {".gitignore": "out/\n"},
        {".gitignore": "/out\n"},
        {".gitignore": "gen/*\n!gen/keep.py\n"},
        {".gitignore": "gen/\n!gen/keep.py\n"},
        {".gitignore": "*_pb2.py\n", "lib/sub/.gitignore": "!g_pb2.py\n"},
        {"lib/.gitignore": "/sub\n"},
        {"lib/.gitignore": "*.py\n!d.py\n", "lib/sub/.gitignore": "!f.py\n"},
        {".gitignore": "data/**/i.py\nlib/*/f.py\n"},
        {".gitignore": "sp\\ ace.py\n\\#odd.py\n# comment\n\n   \n"},
        {".gitignore": "*.py\n!/a.py\n"},
        {".gitignore": "lib/\n", "lib/.gitignore": "!*\n"},
        {".gitignore": "!\nout/\n"},
        {".git/info/exclude": "gen\n"},
        {".gitignore": "[ab].py\n?_pb2.py\n"},
    ],
)
def test_a_folder_is_walked_as_git_sees_it(repository: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (repository / name).write_text(text)
    assert sorted(found(".")) == git_files(repository)
    assert sorted(found("lib") if git_files(repository, "lib") else []) == git_files(
        repository, "lib"
    )


def test_an_ignore_file_counts_without_a_repository_too(here: Path) -> None:
    make(here, "a.py", "out/b.py")
    (here / ".gitignore").write_text("out/\n")
    assert found(".") == ["a.py"]


def test_an_ignore_file_above_the_repository_does_not_count(here: Path) -> None:
    make(here, "repo/a.py")
    (here / ".gitignore").write_text("*.py\n")
    subprocess.run(["git", "init", "-q", "repo"], check=True)
    assert found("repo") == ["repo/a.py"]


def test_an_ignored_folder_is_walked_where_it_is_named(repository: Path) -> None:
    (repository / ".gitignore").write_text("gen/\n")
    assert found("gen") == ["gen/c.py", "gen/keep.py"]


def test_a_name_that_is_not_text_is_walked(here: Path) -> None:
    name = os.fsdecode(b"caf\xe9.py")
    make(here, name)
    (here / ".gitignore").write_text("out\n")
    assert found(".") == [name]
