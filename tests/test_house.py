"""The house rules: small functions and files, complete rules, nothing that belongs to one machine."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from xla_migrate.known_rules import known_rules
from xla_transforms.findings import Rule, Safety
from xla_transforms.passes import PASSES

ROOT = Path(__file__).parents[1]
LIMITS = (40, 500)  # lines of a function and of a file
TEST_LIMITS = (80, 1000)  # with the scripts that tests are about
CODE_ROOTS = ("migrate", "transforms", "tests", "scripts", "recipes")
SKIPPED = {".git", ".venv", "build", "dist"}

FOREIGN = re.compile(
    r"(?<![\w.:/])/(?:home|root|work|Users|mnt|opt|tmp)/\w"  # an absolute path
    r"|\bfiles\.python" + r"hosted\b|\bpy" + r"pi\.org\b|\bregistry\.npm" + r"js\b"
)


def files_of(*folders: str, kinds: set[str] | None = None) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            parts = path.relative_to(ROOT).parts
            if not path.is_file() or SKIPPED & set(parts) or any(p.endswith("cache__") for p in parts):
                continue
            if kinds is None or path.suffix in kinds:
                yield path


MODULES = list(files_of(*CODE_ROOTS, kinds={".py"}))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_file_is_short_and_so_are_its_functions(path: Path) -> None:
    text = path.read_text()
    function_limit, file_limit = TEST_LIMITS if name_of(path).startswith("tests/") else LIMITS
    lines = len(text.splitlines())
    assert lines <= file_limit
    long = [
        f"{node.name} (line {node.lineno}): {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= function_limit
    ]
    assert long == []


def test_nothing_names_a_path_or_host_of_one_machine() -> None:
    texts = {".cfg", ".json", ".md", ".py", ".toml", ""}
    places = [*CODE_ROOTS, "docs", "golden", ".ci"]
    found = []
    for path in (*files_of(*places, kinds=texts), *ROOT.glob("*.md"), ROOT / "pyproject.toml"):
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            if FOREIGN.search(line):
                found.append(f"{name_of(path)}:{number}: {line.strip()}")
    assert found == []


def test_rules_have_codes_and_names_of_their_own() -> None:
    rules = known_rules()
    for field in ("code", "name"):
        values = [getattr(rule, field) for rule in rules]
        assert sorted(set(values)) == sorted(values)


@pytest.mark.parametrize("rule", known_rules(), ids=lambda rule: rule.code)
def test_a_rule_says_all_that_its_page_needs(rule: Rule) -> None:
    assert re.fullmatch(r"XLA\d{3}", rule.code)
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", rule.name)
    for text in (rule.summary, rule.why):
        assert len(text) > 20
        assert text.endswith((".", ")"))
    assert "\n" not in rule.summary + rule.why


@pytest.mark.parametrize("module", PASSES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_pass_says_what_it_does_and_offers_its_rules(module: ast.Module) -> None:
    assert module.__doc__  # type: ignore[attr-defined]
    assert module.RULES  # type: ignore[attr-defined]
    own = {value for value in vars(module).values() if isinstance(value, Rule)}
    assert own == set(module.RULES)  # type: ignore[attr-defined]


def uses(module: ast.Module, name: str) -> set[str]:
    """The methods that a module hands a rule to, as their first argument; "" where it is used otherwise."""
    tree = ast.parse(Path(module.__file__).read_text())  # type: ignore[attr-defined]
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    handed = {id(call.args[0]): call.func.attr for call in calls if call.args}  # type: ignore[attr-defined]
    listed = {id(entry) for n in ast.walk(tree) if isinstance(n, ast.Tuple) for entry in n.elts}
    loads = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return {handed.get(id(n), "") for n in loads if n.id == name and id(n) not in listed}


@pytest.mark.parametrize("module", PASSES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_rule_that_only_tells_something_is_for_display_and_no_other(module: ast.Module) -> None:
    for name, rule in vars(module).items():
        if isinstance(rule, Rule) and name.isupper():
            found = uses(module, name)
            assert not (rule.safety is Safety.DISPLAY and "change" in found), name
            assert rule.safety is Safety.DISPLAY or found != {"report"}, name


def test_no_import_runs_upwards_between_the_floors() -> None:
    command = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    assert command, "import-linter is part of the dev extra"
    ran = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
