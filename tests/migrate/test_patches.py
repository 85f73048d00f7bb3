"""Every patch that is printed passes ``git apply --check``, and makes what ``--inplace`` writes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import Cli, Ran

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/native.py"))
LATIN = os.fsdecode("é.py".encode("latin-1"))
NAMES = ["train.py", "käse/zug 火車.py", 'a "b".py', "tab\there.py", "back\\slash.py", " lead.py",
         "tail /x.py", "$HOME.py", "-dash.py", "new\nline.py", "a/b/c/d.py", LATIN]  # fmt: skip
SHAPES = {
    "as it is": lambda data: data,
    "CRLF": lambda data: data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    "no end": lambda data: data.rstrip(b"\r\n"),
    "CRLF without the last": lambda data: data.replace(b"\n", b"\r\n").rstrip(b"\r\n"),
    "byte-order mark": lambda data: b"\xef\xbb\xbf" + data.removeprefix(b"\xef\xbb\xbf"),
}


def git(*arguments: str, cwd: Path, data: bytes = b"") -> None:
    ran = subprocess.run(["git", *arguments], input=data, capture_output=True, check=False, cwd=cwd)
    assert ran.returncode == 0, ran.stderr.decode()


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git("init", "-q", cwd=folder)
    git("config", "core.autocrlf", "false", cwd=folder)
    return folder


def check_patch(ran: Ran, where: Path, files: list[Path]) -> None:
    """The patch applies where it says, and gives what the library says of each file."""
    from xla_migrate import migrate_project

    results = migrate_project([str(path) for path in files], target="2.9")
    if ran.out:  # git takes no empty patch
        git("apply", "--check", "-", cwd=where, data=ran.out)
        git("apply", "-", cwd=where, data=ran.out)
    for path, result in results.items():
        assert Path(path).read_bytes() == result.data


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES[::25])
def test_a_golden_case_in_each_shape_of_text(
    cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch, case: str, shape: str
) -> None:
    path = repository(here / "r") / "train.py"
    monkeypatch.chdir(path.parent)
    path.write_bytes(SHAPES[shape]((GOLDEN / case / "native.py").read_bytes()))
    check_patch(cli(str(path), "--diff"), here / "r", [path])


@pytest.mark.slow
@settings(
    max_examples=20, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(case=st.sampled_from(CASES), name=st.sampled_from(NAMES), shape=st.sampled_from(sorted(SHAPES)))
def test_any_golden_case_under_any_name(
    cli: Cli, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
    case: str, name: str, shape: str,
) -> None:  # fmt: skip
    root = repository(tmp_path_factory.mktemp("any") / "r")
    monkeypatch.chdir(root)
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(SHAPES[shape]((GOLDEN / case / "native.py").read_bytes()))
    check_patch(cli("--diff", "--", name), root, [path])


CUDA = b"import torch\nx = torch.ones(2).cuda()\n"


def test_names_that_need_quotes(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(here / "r")
    monkeypatch.chdir(root)
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(CUDA)
    check_patch(cli(".", "--diff"), root, [root / name for name in NAMES])


@pytest.mark.parametrize("arguments", [("../x",), ("../x/train.py",), ("../x", "own.py"), ("..",)])
def test_a_file_beside_the_current_folder_is_named_from_the_root(
    cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    root = repository(here / "r")
    (root / "x").mkdir()
    (root / "sub").mkdir()
    (root / "x/train.py").write_bytes(CUDA)
    (root / "sub/own.py").write_bytes(CUDA)
    monkeypatch.chdir(root / "sub")
    ran = cli(*arguments, "--diff")
    assert ran.text.startswith("--- a/x/train.py\n") or ran.text.startswith("--- a/sub/own.py\n")
    assert ran.err.endswith(f"note: the patch is made from {root}: apply it there\n")
    files = ["x/train.py", "sub/own.py"] if b"own.py" in ran.out else ["x/train.py"]
    check_patch(ran, root, [root / name for name in files])


def test_without_a_repository_the_nearest_common_folder_counts(
    cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two/deep"):
        (here / name).mkdir(parents=True)
        (here / name / "t.py").write_bytes(CUDA)
    monkeypatch.chdir(here / "one")
    ran = cli("../two", "t.py", "--diff")
    assert f"the patch is made from {here}: " in ran.err
    check_patch(ran, here, [here / "two/deep/t.py", here / "one/t.py"])


def test_a_root_that_was_renamed_or_is_reached_by_a_link(
    cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(here / "old name")
    (root / "t.py").write_bytes(CUDA)
    git("add", ".", cwd=root)
    os.rename(root, here / "new näme")
    (here / "link").symlink_to("new näme")
    monkeypatch.chdir(here / "link")
    ran = cli("t.py", "--diff")
    assert ran.text.startswith("--- a/t.py\n")
    assert "made from" not in ran.err
    check_patch(ran, here / "new näme", [here / "new näme/t.py"])
