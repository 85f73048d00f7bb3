"""``xla-migrate map``, and which files a module's name or an entry with its imports stands for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Cli
from trees import plant

from xla_migrate.commands import installed_commands
from xla_migrate.following import follow

ENGINE = """\
def fit(model, loader, optimizer):
    for x, y in loader:
        loss = (model(x.cuda()) - y.cuda()).square().mean()
        loss.backward()
        optimizer.step()
"""
MAIN = """\
import torch
from torch.utils.data import DataLoader

from .engine import fit


def main():
    model = torch.nn.Linear(8, 1).cuda()
    fit(model, DataLoader(data, 4), torch.optim.SGD(model.parameters(), lr=0.1))


if __name__ == "__main__":
    main()
"""
OTHER = "import torch\n\nfrom ours.engine import fit\n\nfit(net.cuda(), loader, make())\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {"ours/__init__.py": "", "ours/main.py": MAIN, "ours/engine.py": ENGINE, "other.py": OTHER}
    plant(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_a_map_starts_with_what_resolves(cli: Cli) -> None:
    ran = cli("map", "ours")
    assert ran.code == 0
    assert [line.replace("ours/", "") for line in ran.text.splitlines()] == [
        "1 program trains; in 1 of them entry, loader, step, save and device resolve",
        "",
        "1. main.py  python main.py",
        "   entry   python main.py",
        "   loader  main.py:9",
        "   step    torch.optim.SGD",
        "   save    nothing is saved",
        "   device  moves by cuda()",
        "   entry python main.py  main.py:12",
        "     function main()  main.py:7",
        "       model model = torch.nn.Linear(8, 1)  main.py:8",
        "       loader DataLoader(data, 4)  main.py:9",
        "       optimizer torch.optim.SGD(model.parameters(), lr=0.1)  main.py:9  <- model main.py:8",
        "       function fit()  engine.py:1",
        "         loop for x, y in loader: forward, backward, step  engine.py:2  <- loader main.py:9",
        "           backward loss.backward()  engine.py:4",
        "           step optimizer.step()  engine.py:5  <- optimizer main.py:9",
    ]


@pytest.mark.usefixtures("project")
def test_a_map_for_programs_has_the_reasons(cli: Cli) -> None:
    told = json.loads(cli("map", ".", "--json").text)
    assert told["share"] == {"programs": 2, "resolved": 1}
    assert [p["name"] for p in told["programs"]] == ["other.py", "ours/main.py"]
    unknown = told["programs"][0]["answers"]["step"]["unknown"]
    assert [u["place"]["path"] for u in unknown] == ["ours/engine.py"]
    assert "make" in unknown[0]["reason"]
    assert {part["role"] for part in told["parts"]} >= {"model", "loader", "optimizer", "backward", "step"}


@pytest.mark.usefixtures("project")
def test_a_module_is_mapped_with_what_it_imports(cli: Cli) -> None:
    told = json.loads(cli("map", "-m", "ours.main", "--json").text)
    assert told["share"] == {"programs": 1, "resolved": 1}


def test_a_file_that_is_not_there_is_told(cli: Cli) -> None:
    ran = cli("map", "nowhere.py")
    assert ran.code == 2
    assert "nowhere.py: no such file" in ran.err


def test_nothing_to_map_is_a_usage_error(cli: Cli) -> None:
    assert cli("map").code == 2
    assert "no module 'nowhere'" in cli("map", "-m", "nowhere").err


@pytest.mark.usefixtures("project")
def test_imports_are_followed_and_nothing_else() -> None:
    assert follow(["ours/main.py"]) == ["ours/main.py", "ours/__init__.py", "ours/engine.py"]
    assert follow(["other.py"]) == ["other.py", "ours/__init__.py", "ours/engine.py"]


def test_a_module_beside_the_entry_is_followed(project: Path) -> None:
    plant(project / "tools", {"train.py": "import helpers\nimport torch\n", "helpers.py": "", "a.py": ""})
    assert follow(["tools/train.py"]) == ["tools/train.py", "tools/helpers.py"]


def test_an_entry_in_the_folder_of_its_package_is_followed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "ours")
    assert follow(["main.py"]) == ["main.py", "../ours/__init__.py", "../ours/engine.py"]


def test_a_module_is_migrated_and_files_that_it_does_not_import_stay(cli: Cli, project: Path) -> None:
    assert cli("-m", "ours.main", "--inplace").code in (0, 1)
    assert "torch_xla" in (project / "ours/main.py").read_text()
    assert (project / "other.py").read_text() == OTHER


@pytest.mark.usefixtures("project")
def test_standard_input_imports_nothing(cli: Cli) -> None:
    assert "needs a file" in cli("-", "--follow").err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[project.scripts]\nours-train = "ours.main:main"\n'),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n    ours-train = ours.main:main\n"),
        ("setup.py", "setup(entry_points={'console_scripts': ['ours-train = ours.main:main']})\n"),
        ("ours-1.0.dist-info/entry_points.txt", "[console_scripts]\nours-train = ours.main:main [extra]\n"),
    ],
)
def test_installed_commands_are_read(project: Path, name: str, text: str) -> None:
    plant(project, {name: text})
    assert installed_commands(["."]) == {"ours-train": "ours.main:main"}
    assert installed_commands(["ours/main.py"]) == {"ours-train": "ours.main:main"}


@pytest.mark.parametrize(
    ("name", "text"),
    [("pyproject.toml", "[project"), ("setup.cfg", "["), ("setup.py", "setup(entry_points=made())")],
)
def test_settings_that_cannot_be_read_name_no_command(project: Path, name: str, text: str) -> None:
    plant(project, {name: text})
    assert installed_commands(["."]) == {}
