"""The pages of the documentation: their commands do what is shown, and together they make a site."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
import yaml
from console import fits, pages, rewritten, trained

from xla_migrate.cli import COMMANDS
from xla_migrate.cli.migrate import migrate

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GUIDES = [DOCS / "index.md", DOCS / "tutorial.md", DOCS / "editors.md", DOCS / "limits.md"]
GUIDES += sorted((DOCS / "howto").glob("*.md"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_output_fits_what_is_shown_of_it() -> None:
    assert fits("a\nb\n", "a\nb\n")
    assert not fits("a\nb\n", "a\nB\n")
    assert fits("a\n...\nd\n", "a\nb\nc\nd\n")
    assert fits("a ...\n", "a 1.5 s\n")
    assert not fits("a ...\n", "a 1\nb\n")
    assert not fits("a\n...\nd\n", "a\nb\nc\n")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_print_what_the_page_shows(page: Path) -> None:
    assert page.read_text() == rewritten(page), "scripts/generate_docs writes it anew"


def test_the_page_of_the_library_says_what_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(DOCS / "howto" / "library.md"), module_relative=False)
    assert (failed, tried > 10) == (0, True)


def _options(command: click.Command) -> Iterator[str]:
    for param in command.params:
        yield from (*param.opts, *param.secondary_opts)
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        yield from _options(below)


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_a_guide_names_only_options_that_exist(page: Path) -> None:
    commands = [migrate, *(getattr(import_module(module), name) for name, module in COMMANDS.items())]
    known = {option for command in commands for option in _options(command)}
    scripts = {"--no-cuda", "--epochs"}  # of the scripts that are migrated
    printed = re.compile(r"^```(?:console|diff)\n.*?^```$", re.MULTILINE | re.DOTALL)
    typed = printed.sub(lambda block: "\n".join(re.findall(r"^\$ .*", block[0], re.M)), page.read_text())
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", typed))
    assert named <= known | scripts


def _pages_of(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        yield from (page for below in entry.values() for page in _pages_of(below))
    elif isinstance(entry, list):
        yield from (page for below in entry for page in _pages_of(below))


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    named = list(_pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    below = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert sorted(named) == sorted(page for page in below if not page.startswith("rules/")), "see mkdocs.yml"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    page = (tmp_path / "site" / "api" / "index.html").read_text()
    for name in ("migrate_source", "migrate_project", "Patch", "narrow", "Finding"):
        assert re.search(rf'id="[\w.]*\b{name}"', page), name
    assert "Raises" in page


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in pages() if "<!-- trains -->" in p.read_text()], ids=name_of)
def test_what_is_trained_ends_as_the_page_shows(page: Path) -> None:
    for command, shown, found in trained(page):
        assert fits(shown, found), f"{command}\n{found}"
