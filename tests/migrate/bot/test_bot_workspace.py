"""Commits become plain files below the work folder, with the base's configuration, and nothing else."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path

import pytest
from pull_requests import PLAIN, TRAIN, Repository

from xla_migrate.bot import children
from xla_migrate.bot.job import CannotExamine, Conditions, Source, look
from xla_migrate.bot.workspace import CannotFetch, Limits, TooLarge, Workspace


def laid_out(
    repository: Repository, number: int, folder: Path, limits: Limits | None = None
) -> tuple[Path, list[str]]:
    workspace = Workspace(folder, limits or Limits())
    head, base = repository.head(number), repository.base()
    workspace.fetch(str(repository.folder), [head, base])
    left = workspace.lay_out(head, base, folder / "tree")
    return folder / "tree", left


def files(tree: Path) -> list[str]:
    return sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_configuration_comes_from_the_base_and_code_from_the_head(
    repository: Repository, folder: Path
) -> None:
    repository.push("main", {"pyproject.toml": "[tool.black]\nline-length = 60\n", "old.py": PLAIN})
    number = repository.pull(
        {
            "pyproject.toml": "[tool.xla-migrate.bot]\napply = 'commit'\n",
            "sub/pyproject.toml": "",
            "new.py": TRAIN,
        }
    )
    tree, _left = laid_out(repository, number, folder)
    assert files(tree) == ["README.md", "new.py", "old.py", "pyproject.toml"]
    assert "line-length" in (tree / "pyproject.toml").read_text()


def test_links_and_files_that_are_no_code_stay_in_the_store(repository: Repository, folder: Path) -> None:
    copy = repository.folder.parent / "copy"
    (copy / "link.py").symlink_to("../../../etc/passwd")
    (copy / "dir").symlink_to("..")
    number = repository.pull({"data.bin": b"\0" * 100, "train.py": TRAIN})
    tree, _left = laid_out(repository, number, folder)
    assert files(tree) == ["README.md", "train.py"]
    assert not any(path.is_symlink() for path in tree.rglob("*"))


@pytest.mark.parametrize("name", ["..", ".git", ".GIT"])
def test_a_path_that_would_leave_the_folder_is_left_out_and_told(
    repository: Repository, folder: Path, name: str
) -> None:
    """Git's own commands write no such tree, so the object is made by hand."""
    blob = repository.git("hash-object", "-w", "--stdin", given=b"x = 1\n")
    inner = repository.git("mktree", given=f"100644 blob {blob}\tevil.py\n".encode())
    entry = b"40000 " + name.encode() + b"\0" + bytes.fromhex(inner)
    outer = repository.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", given=entry)
    commit = repository.git("commit-tree", outer, "-p", repository.base(), given=b"evil")
    repository.git("update-ref", "refs/pull/9/head", commit)
    tree, left = laid_out(repository, 9, folder)
    assert files(tree) == []
    assert len(left) == 1
    assert not list(folder.parent.rglob("evil.py"))


def test_nothing_of_the_tree_is_obeyed(repository: Repository, folder: Path) -> None:
    attributes = "*.py filter=evil\n"
    modules = '[submodule "a"]\npath = a\nurl = ext::sh -c touch% evil\n'
    number = repository.pull({".gitattributes": attributes, ".gitmodules": modules, "train.py": TRAIN})
    tree, _left = laid_out(repository, number, folder)
    assert (tree / "train.py").read_text() == TRAIN
    assert not (folder / "evil").exists()


def test_a_file_that_is_too_large_is_left_out_and_told(repository: Repository, folder: Path) -> None:
    number = repository.pull({"big.py": "x = 1\n" * 1000, "train.py": TRAIN})
    tree, left = laid_out(repository, number, folder, Limits(file=1000))
    assert files(tree) == ["README.md", "train.py"]
    assert left == ["big.py was left out: it has 6,000 bytes"]


@pytest.mark.parametrize("limits", [Limits(files=2), Limits(tree=10)])
def test_a_tree_that_is_too_large_is_not_laid_out(
    repository: Repository, folder: Path, limits: Limits
) -> None:
    number = repository.pull({f"a{n}.py": PLAIN for n in range(3)})
    with pytest.raises(TooLarge):
        laid_out(repository, number, folder, limits)


@pytest.mark.parametrize(
    "source", ["ext::sh -c 'touch evil'", "--upload-pack=touch evil", "ssh://127.0.0.1/a"]
)
def test_only_https_and_local_repositories_are_fetched_from(folder: Path, source: str) -> None:
    with pytest.raises(CannotFetch):
        Workspace(folder, Limits()).fetch(source, ["a" * 40])
    assert not (folder / "evil").exists()


def test_a_commit_that_is_not_there_is_told(repository: Repository, folder: Path) -> None:
    with pytest.raises(CannotExamine, match="git fetch"):
        look(Source(str(repository.folder), "a" * 40, repository.base()), Conditions(folder=folder))
    assert list(folder.iterdir()) == []


def test_a_token_is_neither_in_arguments_nor_on_the_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[str], dict[str, str]]] = []

    def run(command: list[str], folder: Path, **given: object) -> children.Ended:
        seen.append((command, given["env"]))  # type: ignore[arg-type]
        return children.Ended(0, b"", "")

    monkeypatch.setattr(children, "run", run)
    Workspace(folder, Limits()).fetch("https://example.org/a/b.git", ["a" * 40], "hush-hush-0123")
    commands = [" ".join(command) for command, _ in seen]
    assert not any("secret" in command for command in commands)
    assert [env for _, env in seen][1]["GIT_CONFIG_KEY_0"] == "http.https://example.org/.extraHeader"
    assert "GIT_CONFIG_KEY_0" not in seen[0][1]


def test_a_child_knows_no_secret_of_its_parent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "hush-hush-0123")
    monkeypatch.setenv("ACTIONS_RUNTIME_TOKEN", "hush-hush-4567")
    program = "import os; print('hush-hush' in str(dict(os.environ)))"
    ended = children.run(
        [sys.executable, "-c", program], folder, timeout=60, env=children.environment(folder)
    )
    assert ended.out == b"False\n"


def test_a_child_that_does_not_end_is_ended_with_what_it_started(folder: Path) -> None:
    program = "sleep 600 & echo $! > pid; wait"
    with pytest.raises(children.TooLong):
        children.run(["sh", "-c", program], folder, timeout=1, env=children.environment(folder))
    process = int((folder / "pid").read_text())
    for _ in range(500):  # it is told to end, and does so when it gets its turn
        if not _lives(process):
            break
        time.sleep(0.02)
    assert not _lives(process)


def _lives(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_work_that_is_not_wanted_any_more_is_stopped(repository: Repository, folder: Path) -> None:
    number = repository.pull({"train.py": TRAIN})
    source = Source(str(repository.folder), repository.head(number), repository.base())
    with pytest.raises(children.Stopped):
        look(source, Conditions(folder=folder, stop=lambda: True))
    assert list(folder.iterdir()) == []


def test_a_child_cannot_fill_the_disk(folder: Path) -> None:
    command = [sys.executable, "-c", "open('big', 'wb').write(b'0' * 10_000_000)"]
    ended = children.run(command, folder, timeout=60, env=children.environment(folder), largest=1_000_000)
    assert ended.status != 0
    assert os.stat(folder / "big").st_size <= 1_000_000


def test_no_file_gets_the_right_to_be_run(repository: Repository, folder: Path) -> None:
    number = repository.pull({"train.py": TRAIN}, executable="train.py")
    tree, _left = laid_out(repository, number, folder)
    assert not stat.S_IMODE((tree / "train.py").stat().st_mode) & 0o111
