"""The recipes for many projects: a Dask cluster over a bucket, and what multi-gitter runs in a repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import fsspec
import pytest
from dask_fleet import contents, digest_of, fleet, here, main, migrated, projects, put, run

from xla_migrate import migrate_source

ROOT = Path(__file__).parents[1]
CUDA = "import torch\n\nmodel = torch.nn.Linear(4, 2).cuda()\n"
BUCKET = "memory://code"
Runs = Callable[..., subprocess.CompletedProcess[str]]
DEADLY = """\
import os, runpy
if os.path.exists("deadly.py"):
    os.kill(os.getppid(), 9)
runpy.run_module("xla_migrate", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def bucket() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def plant(folder: Path, **projects: dict[str, str]) -> None:
    for name, files in projects.items():
        for place, text in files.items():
            path = folder / name / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def read(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name / "done.json").read_text())
    return found


def test_what_is_no_source_stays_in_the_bucket(bucket: Any) -> None:
    for name in ("train.py", "data/pictures.bin", "pkg/deep/net.py", "Dockerfile.gpu", "weights.pt"):
        bucket.pipe_file(f"code/one/{name}", b"x")
    bucket.pipe_file("code/one/huge.py", b"#" * 10_000_001)
    assert sorted(contents(f"{BUCKET}/one")) == ["Dockerfile.gpu", "pkg/deep/net.py", "train.py"]
    assert projects(BUCKET) == ["one"]


def test_a_file_outside_of_a_bucket_s_folders_is_no_project(bucket: Any) -> None:
    bucket.pipe_file("code/README.md", b"x")
    bucket.pipe_file("code/two/train.py", b"x")
    assert projects(f"{BUCKET}/") == ["two"]


def test_a_digest_is_that_of_names_texts_and_options() -> None:
    given = digest_of({"a.py": b"1", "b.py": b"2"}, ["--target", "2.5"])
    assert given == digest_of({"b.py": b"2", "a.py": b"1"}, ["--target", "2.5"])
    others = [
        digest_of({"a.py": b"2", "b.py": b"1"}, ["--target", "2.5"]),
        digest_of({"a.py": b"1"}, ["--target", "2.5"]),
        digest_of({"a.py": b"1", "b.py": b"2"}, ["--target", "2.1"]),
    ]
    assert given not in others


def test_a_project_is_one_program_with_its_own_settings(bucket: Any) -> None:
    bucket.pipe_file("code/one/net.py", b"import torch\nDEVICE = torch.device('cuda')\n")
    bucket.pipe_file(
        "code/one/train.py", b"import torch\nfrom net import DEVICE\nx = torch.ones(2, device=DEVICE)\n"
    )
    bucket.pipe_file("code/one/left.py", CUDA.encode())
    bucket.pipe_file("code/one/pyproject.toml", b'[tool.xla-migrate]\nexclude = ["left.py"]\n')
    done = migrated(BUCKET, "memory://results", "one", [], 60)
    assert (done["files"], done["to_change"], done["not_processed"], done["failed"]) == (2, 1, 0, "")
    patch = bucket.cat_file("results/one/patch.diff").decode()
    assert "+DEVICE = torch_xla.device()" in patch
    assert "left.py" not in patch
    assert json.loads(bucket.cat_file("results/one/report.json"))["changes"][0]["path"] == "net.py"


def test_a_project_that_is_done_is_not_migrated_again(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.pipe_file("code/one/train.py", CUDA.encode())
    first = migrated(BUCKET, "memory://results", "one", [], 60)
    monkeypatch.setattr("dask_fleet.TOOL", (sys.executable, "-c", "raise SystemExit('must not run')"))
    assert migrated(BUCKET, "memory://results", "one", [], 60) == first
    bucket.pipe_file("code/one/train.py", CUDA.encode() + b"x = 1\n")
    assert "must not run" in migrated(BUCKET, "memory://results", "one", [], 60)["failed"]


def test_what_failed_is_tried_again_and_leaves_no_older_result(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.pipe_file("code/one/train.py", CUDA.encode())
    put("memory://results", "one", {"patch.diff": "old", "done.json": {"digest": "old", "failed": ""}})
    with monkeypatch.context() as patched:
        patched.setattr("dask_fleet.TOOL", (sys.executable, "-c", "import time; time.sleep(60)"))
        assert migrated(BUCKET, "memory://results", "one", [], 0.2)["failed"].startswith("TimeoutExpired")
    assert bucket.cat_file("results/one/patch.diff") == b""
    assert migrated(BUCKET, "memory://results", "one", [], 60)["failed"] == ""
    assert bucket.cat_file("results/one/patch.diff") != b""


def test_a_tool_that_dies_or_is_asked_wrongly_is_a_failure() -> None:
    with pytest.raises(ValueError, match=r"exit status 2: .*no-such-option"):
        run({"train.py": CUDA.encode()}, ["--no-such-option"], 60)


def test_a_project_without_sources_has_nothing_to_migrate(bucket: Any) -> None:
    bucket.pipe_file("code/one/settings.yaml", b"x: 1")
    done = migrated(BUCKET, "memory://results", "one", [], 60)
    assert (done["files"], done["to_change"], done["not_processed"], done["failed"]) == (0, 0, 0, "")


def test_a_result_that_was_cut_off_is_made_anew(bucket: Any) -> None:
    bucket.pipe_file("code/one/train.py", CUDA.encode())
    bucket.pipe_file("results/one/done.json", b'{"digest": "')
    assert migrated(BUCKET, "memory://results", "one", [], 60)["to_change"] == 1


def test_a_text_that_is_not_utf8_comes_through_the_patch(bucket: Any, tmp_path: Path) -> None:
    text = "# -*- coding: latin-1 -*-\n# é\n".encode("latin-1") + CUDA.encode()
    bucket.pipe_file("code/one/train.py", text)
    migrated(BUCKET, "memory://results", "one", [], 60)
    (tmp_path / "train.py").write_bytes(text)
    applied = subprocess.run(
        ["git", "apply", "-"], cwd=tmp_path, input=bucket.cat_file("results/one/patch.diff")
    )
    assert applied.returncode == 0
    assert (tmp_path / "train.py").read_bytes() == migrate_source(text).data


@pytest.mark.slow
def test_a_cluster_migrates_all_projects_and_a_second_run_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(
        tmp_path / "code",
        good={"train.py": CUDA}, broken={"train.py": "import torch\ndef (cuda:\n", "other.py": CUDA},
        plain={"main.py": "print(1)\n"}, empty={"README.md": "nothing\n"},
    )  # fmt: skip
    arguments = [str(tmp_path / "code"), str(tmp_path / "results"), "--workers", "2", "--", "--target", "2.5"]
    monkeypatch.setattr("sys.argv", ["dask_fleet.py", *arguments])
    assert main() == 0
    told = {done["project"]: done for done in map(json.loads, capsys.readouterr().out.splitlines())}
    assert sorted(told) == ["broken", "empty", "good", "plain"]
    assert told["broken"] == read(tmp_path / "results", "broken")
    assert [told[name]["to_change"] for name in sorted(told)] == [1, 0, 1, 0]
    assert [told[name]["not_processed"] for name in sorted(told)] == [1, 0, 0, 0]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.*")}
    assert len(before) == 12
    assert main() == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.*")} == before


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_no_project(tmp_path: Path) -> None:
    plant(tmp_path / "code", **{f"project{number}": {"train.py": CUDA} for number in range(6)})
    with here(2) as client:
        ended = fleet(client, str(tmp_path / "code"), str(tmp_path / "results"), [], 120)
        told = [next(ended)]
        os.kill(next(iter(client.run(os.getpid).values())), 9)
        told.extend(ended)
    assert sorted(done["project"] for done in told) == [f"project{number}" for number in range(6)]
    assert [done["failed"] for done in told] == [""] * 6
    assert all((tmp_path / "results" / done["project"] / "patch.diff").read_text() for done in told)


@pytest.mark.slow
def test_a_project_that_kills_its_workers_fails_alone_and_is_tried_again(tmp_path: Path) -> None:
    source, results, tool = tmp_path / "code", tmp_path / "results", tmp_path / "tool.py"
    good = {f"good{number}": {"train.py": CUDA} for number in range(3)}
    plant(source, bad={"train.py": CUDA, "deadly.py": ""}, **good)
    tool.write_text(DEADLY)
    preload = f"import dask_fleet\ndask_fleet.TOOL = {(sys.executable, str(tool))}\n"
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        here(2, preload=[preload]) as client,
    ):
        ended = fleet(client, str(source), str(results), [], 120)
        told = {done["project"]: done["failed"] for done in ended}
    assert told.pop("bad").startswith("KilledWorker")
    assert told == dict.fromkeys(("good0", "good1", "good2"), "")
    assert read(results, "bad")["failed"].startswith("KilledWorker")
    assert migrated(str(source), str(results), "bad", [], 120)["failed"] == ""


def repository(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("_py", ".py")).write_text(text)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "start"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@pytest.fixture
def as_multi_gitter(tmp_path: Path) -> Runs:
    """Runs the script in a repository with the environment that multi-gitter documents."""
    tool = tmp_path / "bin" / "xla-migrate"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m xla_migrate "$@"\n')
    tool.chmod(0o755)

    def ran(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        given = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}", "REPOSITORY": "org/name"}
        given |= {"PYTHONPATH": os.pathsep.join(sys.path), "XLA_MIGRATE_CACHE_DIR": str(tmp_path / "cache")}
        script = ROOT / "recipes" / "migrate_repository"
        return subprocess.run(
            [script], cwd=folder, env={**given, **variables}, capture_output=True, text=True
        )

    return ran


def changed(folder: Path) -> list[str]:
    command = ["git", "status", "--porcelain"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.split()[
        1::2
    ]


def test_a_repository_is_migrated_and_its_findings_kept_outside(
    tmp_path: Path, as_multi_gitter: Runs
) -> None:
    clone = repository(tmp_path / "clone", train_py=CUDA + "torch.cuda.nothing_known()\n", other_py="x = 1\n")
    reports = str(tmp_path / "reports")
    ran = as_multi_gitter(clone, XLA_MIGRATE_REPORTS=reports, XLA_MIGRATE_OPTIONS="--target 2.1")
    assert ran.returncode == 0, ran.stderr
    assert changed(clone) == ["train.py"]
    assert "xm.xla_device()" in (clone / "train.py").read_text()
    assert "XLA290" in (tmp_path / "reports" / "org" / "name.md").read_text()
    assert json.loads((tmp_path / "reports" / "org" / "name.json").read_text())["target"] == "2.1"


@pytest.mark.slow
def test_a_repository_with_nothing_to_migrate_is_left_alone(tmp_path: Path, as_multi_gitter: Runs) -> None:
    clone = repository(tmp_path / "clone", main_py="print(1)\n")
    assert as_multi_gitter(clone).returncode == 0
    assert changed(clone) == []


@pytest.mark.slow
def test_a_repository_that_cannot_be_processed_gets_no_pull_request(
    tmp_path: Path, as_multi_gitter: Runs
) -> None:
    clone = repository(tmp_path / "clone", train_py=CUDA, broken_py="import torch\ndef (cuda:\n")
    assert as_multi_gitter(clone).returncode == 2
    clone = repository(tmp_path / "other", train_py=CUDA)
    assert as_multi_gitter(clone, XLA_MIGRATE_OPTIONS="--no-such-option").returncode == 2
    assert changed(clone) == []


@pytest.mark.slow
def test_a_dry_run_shows_the_diff(tmp_path: Path, as_multi_gitter: Runs) -> None:
    clone = repository(tmp_path / "clone", train_py=CUDA)
    assert "+++ b/train.py" in as_multi_gitter(clone, DRY_RUN="true").stdout
    again = repository(tmp_path / "again", train_py=CUDA)
    assert "+++ b/train.py" not in as_multi_gitter(again).stdout


def test_outside_of_multi_gitter_nothing_is_touched(tmp_path: Path, as_multi_gitter: Runs) -> None:
    clone = repository(tmp_path / "clone", train_py=CUDA)
    ran = as_multi_gitter(clone, REPOSITORY="")
    assert ran.returncode != 0
    assert "is set by multi-gitter" in ran.stderr
    assert changed(clone) == []
