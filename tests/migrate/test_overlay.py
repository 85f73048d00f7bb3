"""Scratch copies: what is copied, what a link means in them, and what is left of them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import cast

import pytest
from trees import digest, plant

from xla_migrate.verify.overlay import CannotCopy, Overlay, in_words, is_too_much
from xla_migrate.verify.runner import Runner
from xla_migrate.verify.trace import Trace
from xla_migrate.verify.verifying import Options, Runs


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a home directory, the temporary files elsewhere."""
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    for folder in (home, temporary):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    files = {"setup.py": "", "app/train.py": "x = 1\n", "data/a.txt": "a" * 100}
    return plant(home / "project", files)


def test_the_originals_are_not_touched_and_nothing_is_left(project: Path) -> None:
    os.utime(project / "data" / "a.txt", (1, 1))
    before = digest(project)
    with Overlay(project / "app/train.py", project).copy() as scratch:
        (scratch.workdir / "data" / "a.txt").write_text("other")
        (scratch.workdir / "new").mkdir()
        place = scratch.path
    assert digest(project) == before
    assert not place.exists()


def test_an_exception_leaves_nothing_either(project: Path) -> None:
    places = []

    def interrupted() -> None:
        with Overlay(project / "app/train.py", project).copy() as scratch:
            places.append(scratch.path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not places[0].exists()


def test_a_copy_is_kept_on_demand(project: Path) -> None:
    with Overlay(project / "app/train.py", project).copy(keep=True) as scratch:
        pass
    assert scratch.script.read_text() == "x = 1\n"


def test_the_whole_project_of_the_script_is_copied(project: Path) -> None:
    overlay = Overlay(project / "app/train.py", project / "app")
    assert overlay.roots == [project]
    with overlay.copy() as scratch:
        assert (scratch.place(project) / "data" / "a.txt").exists()
        assert scratch.workdir == scratch.place(project / "app")
        assert scratch.original(f"{scratch.script}:3 in f") == f"{project / 'app/train.py'}:3 in f"


def test_modes_and_times_are_those_of_the_originals(project: Path) -> None:
    original = project / "data" / "a.txt"
    original.chmod(0o440)
    os.utime(original, (1000, 1000))
    (project / "data").chmod(0o550)
    with Overlay(project / "app/train.py", project).copy() as scratch:
        status = scratch.place(original).stat()
        assert (status.st_mode & 0o777, status.st_mtime) == (0o440, 1000)
        place = scratch.path
    (project / "data").chmod(0o750)
    assert not place.exists()


def test_a_working_directory_elsewhere_is_copied_too(project: Path) -> None:
    elsewhere = plant(project.parent / "run", {"mnist.txt": "m"})
    with Overlay(project / "app/train.py", elsewhere).copy() as scratch:
        assert (scratch.workdir / "mnist.txt").read_text() == "m"
        assert scratch.script.exists()


def test_a_working_directory_above_the_project_holds_it(project: Path) -> None:
    above = plant(project.parent / "all", {"one/setup.py": "", "one/train.py": "", "two/data.txt": ""})
    assert Overlay(above / "one/train.py", above).roots == [above]


def test_the_home_directory_is_never_copied(project: Path) -> None:
    home = project.parent
    plant(home, {"train.py": "", "helper.py": "", "private.txt": "", ".git/config": ""})
    overlay = Overlay(home / "train.py", home)
    assert overlay.roots == []
    with overlay.copy() as scratch:
        assert sorted(os.listdir(scratch.workdir)) == ["helper.py", "train.py"]


@pytest.mark.parametrize("folder", ["", "home", "temporary"])
def test_what_holds_the_home_directory_or_temporary_files_is_too_much(
    project: Path, folder: str
) -> None:
    top = project.parents[1]
    assert is_too_much(top / folder)
    assert is_too_much(Path("/"))
    assert not is_too_much(project)


def test_a_script_in_the_home_directory_run_from_a_project(project: Path) -> None:
    script = project.parent / "train.py"
    script.write_text("")
    overlay = Overlay(script, project)
    assert overlay.roots == [project]
    with overlay.copy() as scratch:
        assert scratch.script.exists()
        assert (scratch.workdir / "data" / "a.txt").exists()


def test_history_environments_and_caches_are_not_copied(project: Path) -> None:
    files = [".git/HEAD", "env/pyvenv.cfg", "env/lib/x.py", "conda/conda-meta/history"]
    files += ["app/__pycache__/train.pyc", "web/node_modules/x.js", ".mypy_cache/x"]
    plant(project, dict.fromkeys(files, ""))
    with Overlay(project / "app/train.py", project).copy() as scratch:
        copied = {path.relative_to(scratch.workdir).as_posix() for path in scratch.workdir.rglob("*")}
    assert copied == {"setup.py", "app", "app/train.py", "data", "data/a.txt", "web"}


def test_too_large_a_project_is_refused_with_its_largest_entries(project: Path) -> None:
    plant(project, {"runs/old.bin": "b" * 3000, "notes.txt": "n"})
    with pytest.raises(CannotCopy) as caught:
        Overlay(project / "app/train.py", project, limit=2000)
    message = str(caught.value)
    assert "holds 3.11 kB" in message
    assert "at most 2 kB" in message
    assert f"{project / 'runs'} (3 kB), {project / 'data'} (100 bytes)" in message
    assert f"--share {project / 'runs'}" in message
    assert "--copy-limit" in message


def test_what_is_shared_is_linked_and_does_not_count(project: Path) -> None:
    overlay = Overlay(project / "app/train.py", project, [project / "data"], limit=50)
    with overlay.copy() as scratch:
        assert (scratch.workdir / "data").is_symlink()
        assert (scratch.workdir / "data" / "a.txt").read_text() == "a" * 100
    assert (project / "data" / "a.txt").exists()
    assert str(project / "data") in overlay.guarded


def test_what_is_shared_outside_is_found_by_a_relative_path(project: Path) -> None:
    shared = plant(project.parent / "sets", {"mnist.txt": "m"})
    with Overlay(project / "app/train.py", project, [shared]).copy() as scratch:
        assert (scratch.workdir / "../sets/mnist.txt").read_text() == "m"


def test_what_is_to_be_shared_must_exist(project: Path) -> None:
    with pytest.raises(CannotCopy, match="does not exist"):
        Overlay(project / "app/train.py", project, [project / "nothing"])


@pytest.mark.parametrize("absolute", [False, True])
def test_a_link_within_the_project_leads_to_the_copy(project: Path, absolute: bool) -> None:
    target = project / "data" if absolute else Path("../data")
    (project / "app" / "inputs").symlink_to(target)
    with Overlay(project / "app/train.py", project).copy() as scratch:
        (scratch.workdir / "app" / "inputs" / "a.txt").write_text("changed")
        assert (scratch.workdir / "data" / "a.txt").read_text() == "changed"
    assert (project / "data" / "a.txt").read_text() == "a" * 100


@pytest.mark.parametrize("absolute", [False, True])
def test_a_link_out_of_the_project_leads_to_the_guarded_original(
    project: Path, absolute: bool
) -> None:
    sets = plant(project.parent / "sets", {"mnist.txt": "m"})
    (project / "inputs").symlink_to(sets if absolute else Path("../sets"))
    overlay = Overlay(project / "app/train.py", project)
    with overlay.copy() as scratch:
        assert (scratch.workdir / "inputs" / "mnist.txt").read_text() == "m"
    assert (sets / "mnist.txt").exists()
    assert str(sets) in overlay.guarded


def test_a_link_to_what_is_not_copied_leads_to_the_original(project: Path) -> None:
    plant(project, {"env/pyvenv.cfg": "", "env/lib/x.txt": "x"})
    (project / "app" / "lib").symlink_to("../env/lib")
    with Overlay(project / "app/train.py", project).copy() as scratch:
        assert (scratch.workdir / "app" / "lib" / "x.txt").read_text() == "x"


def test_links_that_lead_nowhere_or_in_a_circle_stay_so(project: Path) -> None:
    (project / "nowhere").symlink_to("missing")
    (project / "circle").symlink_to("circle")
    (project / "app" / "up").symlink_to("..")
    with Overlay(project / "app/train.py", project).copy() as scratch:
        assert not (scratch.workdir / "nowhere").exists()
        assert os.readlink(scratch.workdir / "circle") == "circle"
        assert (scratch.workdir / "app" / "up" / "setup.py").exists()


def test_the_home_directory_the_project_and_what_is_shared_are_guarded(project: Path) -> None:
    sets = plant(project.parents[1] / "sets", {"mnist.txt": "m"})
    guarded = Overlay(project / "app/train.py", project, [sets]).guarded
    assert guarded == sorted(map(str, (project.parent, project, sets)))


def test_a_full_disk_is_an_answer(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("xla_migrate.verify.overlay.copy_file", full)
    overlay = Overlay(project / "app/train.py", project)
    with pytest.raises(CannotCopy, match=r"No space left on device.*TMPDIR"), overlay.copy():
        pass
    assert os.listdir(tempfile.gettempdir()) == []


def test_contents_of_the_migration_replace_those_of_a_copy(project: Path) -> None:
    (project / "app/train.py").chmod(0o444)
    with Overlay(project / "app/train.py", project).copy() as scratch:
        scratch.write({project / "app/train.py": b"y = 2\n"})
        assert scratch.script.read_text() == "y = 2\n"
    assert (project / "app/train.py").read_text() == "x = 1\n"


def test_the_program_is_named_as_the_copies_are_and_ends_with_them(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is imported under a condition is found from the current folder, too, and by the package's root."""
    lazy = "def late():\n    import ours.used, ours.lazy, beside.far\n"
    files = {"__init__.py": "", "app/__init__.py": "", "app/train.py": lazy, "ours/__init__.py": ""}
    plant(project, {**files, "ours/used.py": "x = 1\n", "ours/lazy.py": "x = 2\n"})
    plant(project.parent, {"beside/far.py": "x = 3\n"})
    monkeypatch.chdir(project)
    script, used = project / "app/train.py", project / "ours/used.py"
    runs = Runs(cast("Runner", None), script, [], Options(), lambda stage, steps: None)
    named = runs.program(Trace("native", "values", sources=[str(script), str(used)]))
    shown = [os.path.relpath(name, project) for name in named]
    assert shown == ["app/train.py", "ours/used.py", "ours/__init__.py", "ours/lazy.py"]


@pytest.mark.parametrize(
    ("size", "text"), [(5, "5 bytes"), (2000, "2 kB"), (2 * 10**9, "2 GB"), (5_340_000, "5.34 MB")]
)
def test_sizes_are_told_in_words(size: int, text: str) -> None:
    assert in_words(size) == text
