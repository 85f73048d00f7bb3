"""What is not imported costs nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import xla_migrate
from xla_migrate.cli import COMMANDS
from xla_migrate.cli.migrate import migrate
from xla_migrate.cli.usage import HELP

HEAVY = {"black", "click", "libcst", "pathspec", "rich", "torch", "typing", "dataclasses", "re"}


def imported_by(*arguments: str) -> set[str]:
    code = f"import sys; from xla_migrate.cli import main; main({list(arguments)}); " + (
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-S", "-c", code]
    path = ":".join(path for path in sys.path if path)
    ran = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
    )
    return set(ran.stderr.split("\n")[-2].split())


@pytest.mark.parametrize("option", ["--help", "-h", "--version"])
def test_help_and_version_import_nothing_heavy(option: str) -> None:
    modules = imported_by(option)
    assert "xla_migrate.cli" in modules
    assert modules & HEAVY == set()
    assert not any(name.startswith("xla_transforms") for name in modules)


def test_a_file_without_gpu_code_is_done_without_the_heavy_packages(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    modules = imported_by(str(tmp_path / "a.py"))
    assert "xla_transforms.engine" in modules
    assert modules & {"black", "libcst", "pathspec", "rich", "torch"} == set()


def test_the_package_imports_nothing_by_itself_and_offers_its_names() -> None:
    command = [sys.executable, "-c", "import xla_migrate, sys; print(*sys.modules)"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not {"libcst", "xla_transforms", "click"} & set(ran.stdout.split())
    assert set(xla_migrate.__all__) <= set(dir(xla_migrate))
    assert all(hasattr(xla_migrate, name) for name in xla_migrate.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = xla_migrate.nothing


def test_the_help_names_every_option_and_command_and_no_other() -> None:
    names = (name for param in migrate.params for name in (*param.opts, *param.secondary_opts))
    options = {name for name in names if name.startswith("-")}
    assert set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", HELP)) == options | {"-h", "--help"}
    commands = HELP.split("Commands:\n")[1].split("\n\n")[0]
    assert set(re.findall(r"^  (\w+)", commands, re.MULTILINE)) == set(COMMANDS)


def test_the_help_names_the_defaults_and_choices() -> None:
    sections = re.split(r"\n  (?=-)", HELP.split("Commands:")[0])
    described = {name: text for text in sections for name in re.findall(r"--[\w-]+", text)}
    for param in migrate.params:
        text = described.get(max(param.opts, key=len), "")
        if isinstance(param.default, str):
            assert f"[default: {param.default}]" in text
        for choice in getattr(param.type, "choices", ()):
            assert re.search(rf"\b{choice}\b", text)


def test_help_behind_other_arguments_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    from xla_migrate.cli import main

    assert main(["--help"]) == 0
    first = capsys.readouterr().out
    assert main(["train.py", "--check", "-h"]) == 0
    assert capsys.readouterr().out == first == HELP


def test_the_help_fits_a_terminal() -> None:
    assert max(map(len, HELP.split("\n"))) <= 80


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    from xla_migrate.cli import main

    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'version = "{xla_migrate.__version__}"' in project
    for arguments in (["--version"], ["x.py", "--version"]):
        assert main(arguments) == 0
        assert capsys.readouterr().out == f"xla-migrate {xla_migrate.__version__}\n"


@pytest.mark.slow
def test_help_costs_at_most_six_times_an_empty_program() -> None:
    import resource

    def cost(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    pairs = [(cost("-c", "pass"), cost("-m", "xla_migrate", "--help")) for _ in range(15)]
    empty, ours = (sorted(times)[len(times) // 2] for times in zip(*pairs, strict=True))
    assert ours <= 6 * empty
