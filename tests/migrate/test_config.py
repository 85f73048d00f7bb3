from __future__ import annotations

from pathlib import Path

import black
import pytest

from xla_migrate.config import black_settings
from xla_transforms.formatting import BlackSettings


def settings(here: Path, text: str) -> BlackSettings:
    (here / ".git").mkdir(exist_ok=True)
    (here / "pyproject.toml").write_text(text)
    return black_settings([str(here / "train.py")])


def test_without_a_project_the_defaults_count(here: Path) -> None:
    (here / ".git").mkdir()
    assert black_settings(["train.py"]) == BlackSettings()
    assert black_settings([]) == BlackSettings()


@pytest.mark.parametrize("text", ["[tool.black\n", "[tool]\nblack = 3\n", "tool = 1\n", ""])
def test_a_broken_project_file_is_as_good_as_none(here: Path, text: str) -> None:
    assert settings(here, text) == BlackSettings()


def test_the_users_settings_are_read(here: Path) -> None:
    text = """
        [tool.black]
        line-length = 100
        skip-string-normalization = true
        skip_magic_trailing_comma = true
        preview = true
        target-version = ["py39", "py310"]
    """
    assert settings(here, text) == BlackSettings(
        100, True, True, True, frozenset({"py39", "py310"})
    )


def test_the_project_of_a_file_below_it_is_found(here: Path) -> None:
    (here / "src/deep").mkdir(parents=True)
    (here / "src/pyproject.toml").write_text("[project]\nname = 'x'\n")
    (here / "pyproject.toml").write_text("[tool.black]\nline-length = 70\n")
    assert black_settings(["src/deep/train.py"]).line_length == 70
    assert black_settings(["src/deep"]).line_length == 70


def test_the_search_ends_at_the_repository(here: Path) -> None:
    (here / "pyproject.toml").write_text("[tool.black]\nline-length = 70\n")
    (here / "repo/.git").mkdir(parents=True)
    assert black_settings(["repo/train.py"]) == BlackSettings()


def test_files_of_two_projects_take_the_settings_of_what_holds_both(here: Path) -> None:
    (here / "pyproject.toml").write_text("[tool.black]\nline-length = 70\n")
    for name in ("a", "b"):
        (here / name).mkdir()
        (here / name / "pyproject.toml").write_text("[tool.black]\nline-length = 60\n")
    assert black_settings(["a/x.py", "b/x.py"]).line_length == 70
    assert black_settings(["a/x.py", "a/y.py"]).line_length == 60


@pytest.mark.parametrize(
    "wanted",
    [">=3.8", ">=3.8.1", ">3.8", ">3.8.2", "~=3.9", "==3.9.*", ">=3.7,<3.11", "<3.10.2", "!"],
)
def test_versions_are_inferred_as_black_infers_them(here: Path, wanted: str) -> None:
    inferred = black.files.infer_target_version({"project": {"requires-python": wanted}})
    known = {version.name.lower() for version in black.TargetVersion}
    ours = settings(here, f'[project]\nrequires-python = "{wanted}"\n').target_versions
    assert ours & known == {version.name.lower() for version in inferred or ()}
