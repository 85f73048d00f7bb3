"""Runs in several processes, and runs that know what earlier ones found."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from notebook_files import notebook
from running import Cli

from xla_migrate import documents, migrate_project, migration, work
from xla_migrate.files import uninterrupted
from xla_migrate.migration import migrate
from xla_migrate.work import Cache, How, cache
from xla_transforms import engine
from xla_transforms.encoding import SourceError
from xla_transforms.outcome import Outcome
from xla_transforms.settings import Settings

CUDA = "import torch\n\nx = torch.ones(1).cuda()  # é\n"
FILES = {
    "a/main.py": f"from util import f\n{CUDA}f(x)\n".encode(),
    "a/util.py": b"import torch\n\n\ndef f(x):\n    return x.cuda()\n",
    "b.py": "# coding: latin-1\nimport torch\n# é\nx = torch.ones(1).cuda()\n".encode("latin-1"),
    "old.py": b"import torch\nx = y.cuda(async=True)\n",
    "broken.py": b"import torch\nx = y.cuda(\n",
    "plain.py": b"x = 1\n",
    "bytes.py": b"import torch\nx = '\xff'.cuda()\n",
    "demo.ipynb": notebook("import torch", "x = torch.ones(1).cuda()").encode(),
    "crlf.py": CUDA.replace("\n", "\r\n").encode(),
}


def seen(outcomes: dict[str, Outcome]) -> list[tuple[object, ...]]:
    """All that is told of outcomes, in their order."""
    return [
        (path, o.data, o.source, o.code, o.edits, o.changes, o.findings, o.failed, o.original)
        for path, o in outcomes.items()
    ]


def run(files: dict[str, bytes], how: How = work.ALONE) -> dict[str, Outcome]:
    return migrate(files, Settings(), how).outcomes


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of what the engine is given, as far as this process gives it."""
    found: list[str] = []
    real = engine.migrate_program

    def program(files: dict[str, bytes], settings: Settings | None = None) -> dict[str, Outcome]:
        found.extend(files)
        return real(files, settings)

    monkeypatch.setattr(engine, "migrate_program", program)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_processes_and_earlier_runs_change_nothing(folder: Path) -> None:
    alone = seen(run(FILES))
    assert [path for path, *_ in alone] == list(FILES)
    assert seen(run(FILES, How(jobs=3))) == alone
    assert seen(run(FILES, How(cache=Cache(folder)))) == alone
    assert seen(run(FILES, How(cache=Cache(folder)))) == alone
    assert seen(run(FILES, How(jobs=2, cache=Cache(folder)))) == alone


def test_a_second_run_asks_the_engine_nothing(folder: Path, counted: list[str]) -> None:
    run(FILES, How(cache=Cache(folder)))
    assert set(counted) == set(FILES) - {"plain.py"}  # which is none of its business
    counted.clear()
    run(FILES, How(cache=Cache(folder)))
    assert counted == []


def test_a_file_that_changes_is_migrated_anew_with_its_program(folder: Path, counted: list[str]) -> None:
    run(FILES, How(cache=Cache(folder)))
    counted.clear()
    changed = {**FILES, "a/util.py": FILES["a/util.py"] + b"# new\n"}
    outcomes = run(changed, How(cache=Cache(folder)))
    assert sorted(counted) == ["a/main.py", "a/util.py"]
    assert outcomes["a/util.py"].code.endswith("# new\n")


def test_settings_are_part_of_the_question(folder: Path, counted: list[str]) -> None:
    files = {"b.py": FILES["b.py"]}
    for settings in (Settings(), Settings(target="2.1"), Settings(distributed=True), Settings(black=None)):
        counted.clear()
        migrate(files, settings, How(cache=Cache(folder)))
        assert counted == ["b.py"]


def test_another_tool_asks_anew(folder: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"b.py": FILES["b.py"]}
    run(files, How(cache=Cache(folder)))
    monkeypatch.setattr(cache, "_tool", lambda: b"another")
    counted.clear()
    run(files, How(cache=Cache(folder)))
    assert counted == ["b.py"]


@pytest.mark.parametrize("spoiled", [b"", b"x" * 200, None])
def test_spoiled_entries_are_made_anew(folder: Path, spoiled: bytes | None) -> None:
    alone = seen(run(FILES, How(cache=Cache(folder))))
    for path in entries(folder):
        path.write_bytes(path.read_bytes()[:-1] + b"\0" if spoiled is None else spoiled)
    assert seen(run(FILES, How(cache=Cache(folder)))) == alone
    assert seen(run(FILES, How(cache=Cache(folder)))) == alone


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_an_entry_of_other_files_is_not_taken(folder: Path) -> None:
    known, part = Cache(folder), work.Part({"a.py": CUDA.encode()}, Settings())
    known.put(part, [])
    assert known.get(part) is None


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert seen(run(FILES, How(cache=Cache(tmp_path / "file")))) == seen(run(FILES))


def test_the_entries_used_last_stay_below_the_limit(folder: Path) -> None:
    files = [{f"{n}.py": f"{CUDA}# {n}\n".encode()} for n in range(4)]
    for number, one in enumerate(files[:3]):
        run(one, How(cache=Cache(folder)))
        for path in entries(folder):
            if path.stat().st_mtime_ns > 10**12:
                os.utime(path, ns=(number, number))
    size = max(path.stat().st_size for path in entries(folder))
    run(files[3], How(cache=Cache(folder, 2 * size + 10)))
    assert sorted(path.stat().st_mtime_ns for path in entries(folder))[0] == 2
    assert len(entries(folder)) == 2


def test_the_layout_of_a_cell_is_known_the_second_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"a.ipynb": notebook(CUDA).encode()}
    first = migrate(files, Settings(), How(cache=Cache(folder))).outcomes["a.ipynb"]
    assert first.edits
    with monkeypatch.context() as without:
        without.setattr(migration, "format_changed", None)
        again = migrate(files, Settings(), How(cache=Cache(folder))).outcomes["a.ipynb"]
    assert again.code == first.code


def test_faults_are_not_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from xla_transforms import pipeline

    files = {"b.py": FILES["b.py"]}
    with monkeypatch.context() as broken:
        broken.setattr(pipeline, "Context", None)
        broken.setattr(pipeline, "_guarded", fault)
        broken.setattr(pipeline, "Context", lambda *_: None)
        assert run(files, How(cache=Cache(folder)))["b.py"].failed
    assert not run(files, How(cache=Cache(folder)))["b.py"].failed


def fault(module: object, failure: object) -> Outcome:
    return engine.failure("b.py", FILES["b.py"], SourceError("XLA006", "no"))


def test_some_of_the_changes_of_what_was_known(folder: Path) -> None:
    for _ in range(2):
        outcome = run(FILES, How(cache=Cache(folder)))["a/main.py"]
        assert outcome.narrow([]).code == outcome.source
        assert outcome.narrow([change.id for change in outcome.changes]).edits == outcome.edits


def test_a_process_that_dies_costs_its_own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    real = engine.migrate_bytes

    def dies(data: bytes, settings: Settings | None = None, path: str = "") -> Outcome:
        if path == "b.py":
            os._exit(9)
        return real(data, settings, path)

    monkeypatch.setattr(engine, "migrate_bytes", dies)
    outcomes = run(FILES, How(jobs=2))
    assert list(outcomes) == list(FILES)
    assert outcomes["b.py"].findings[0].code == "XLA006"
    assert outcomes["b.py"].data == FILES["b.py"]


def test_a_fault_in_one_program_does_not_cost_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    real = engine.migrate_program

    def fails(files: dict[str, bytes], settings: Settings | None = None) -> dict[str, Outcome]:
        if "a/main.py" in files:
            raise RecursionError("deep")
        return real(files, settings)

    monkeypatch.setattr(engine, "migrate_program", fails)
    outcomes = run(FILES)
    failed = [path for path, outcome in outcomes.items() if outcome.failed]
    assert failed == ["a/main.py", "a/util.py", "broken.py", "bytes.py"]
    assert "RecursionError: deep" in outcomes["a/main.py"].findings[0].message
    assert outcomes["b.py"].edits


def test_progress_counts_what_is_not_known(folder: Path) -> None:
    totals: list[int] = []
    steps: list[int] = []

    @contextmanager
    def progress(total: int) -> Iterator[object]:
        totals.append(total)
        yield lambda: steps.append(1)

    how = How(jobs=2, cache=Cache(folder), progress=progress)  # type: ignore[arg-type]
    run(FILES, how)
    run(FILES, how)
    assert totals == [7, 0]
    assert len(steps) == 7


def test_the_library_takes_jobs(here: Path) -> None:
    for name in ("a.py", "b.py"):
        (here / name).write_text(CUDA)
    alone, shared = migrate_project("."), migrate_project(".", jobs=2)
    assert [(n, r.code, r.changes) for n, r in alone.items()] == [
        (n, r.code, r.changes) for n, r in shared.items()
    ]


@pytest.fixture
def project(here: Path) -> Path:
    folder = here / "src"
    for name, data in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def test_the_command_line_says_the_same_however_the_work_is_done(project: Path, cli: Cli) -> None:
    options = (("--no-cache", "--jobs", "1"), ("--jobs", "2"), (), ("--no-cache", "--jobs", "3"))
    formats = ("text", "json", "sarif")
    for name in formats:
        told = [cli("src", *given, "--output-format", name) for given in options]
        assert len({(ran.code, ran.out, ran.err) for ran in told}) == 1


def test_the_folder_of_the_cache_is_chosen_by_the_environment(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XLA_MIGRATE_CACHE_DIR", str(tmp_path / "mine"))
    cli("src", "--no-cache")
    assert not (tmp_path / "mine").exists()
    cli("src")
    assert entries(tmp_path / "mine")


def test_an_interruption_while_files_are_migrated_writes_nothing(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> dict[str, Outcome]:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "migrate_program", interrupted)
    ran = cli("src", "--inplace", "--jobs", "1")
    assert (ran.code, ran.text) == (130, "")
    assert ran.err == "interrupted: nothing was written\n"
    assert {name: (project / name).read_bytes() for name in FILES} == FILES


def test_an_interruption_between_two_files_of_a_program_waits_for_the_second(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = documents.Document.write

    def write(document: documents.Document) -> None:
        real(document)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(documents.Document, "write", write)
    ran = cli("src", "--inplace")
    assert ran.code == 130
    assert (
        ran.err
        == "src/a/main.py: migrated\nsrc/a/util.py: migrated\ninterrupted: 2 files written, each whole\n"
    )
    for name in FILES:
        assert ((project / name).read_bytes() != FILES[name]) == name.startswith("a/")


def test_ctrl_c_is_heard_at_the_end() -> None:
    done = []

    def work_on() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        work_on()
    assert done == [1]


def test_an_earlier_run_helps_the_command_line(project: Path, cli: Cli, counted: list[str]) -> None:
    first = json.loads(cli("src", "--output-format", "json", "--jobs", "1").text)
    counted.clear()
    assert json.loads(cli("src", "--output-format", "json", "--jobs", "1").text) == first
    assert counted == []
