"""What a shell is told when the user presses the tab key."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xla_migrate.cli import COMMANDS, main
from xla_migrate.known_rules import known_rules
from xla_migrate.reports import FORMATS
from xla_transforms.targets import TARGETS


def offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> list[tuple[str, str]]:
    """Kind and word of each offer for the last of ``words``."""
    monkeypatch.setenv("_XLA_MIGRATE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["xla-migrate", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert main([]) == 0
    return [(kind, word) for kind, _, word in (x.partition(",") for x in capsys.readouterr().out.split())]


def plain(found: list[tuple[str, str]]) -> list[str]:
    return [word for kind, word in found if kind == "plain"]


def test_an_unknown_instruction_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_XLA_MIGRATE_COMPLETE", "tcsh_source")
    assert main([]) == 1


def test_the_first_word_is_a_command_or_a_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = offered(monkeypatch, capsys, "")
    assert plain(found) == sorted(COMMANDS)
    assert found[0] == ("file", "")
    assert plain(offered(monkeypatch, capsys, "ver")) == ["verify"]


def test_behind_a_path_no_command_is_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offered(monkeypatch, capsys, "train.py", "ver") == [("file", "ver")]


def test_options_are_offered_before_and_behind_paths(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plain(offered(monkeypatch, capsys, "--inp")) == ["--inplace"]
    assert plain(offered(monkeypatch, capsys, "train.py", "--che")) == ["--check"]


def test_the_values_of_options_are_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plain(offered(monkeypatch, capsys, "--target", "")) == [*TARGETS, "auto"]
    assert plain(offered(monkeypatch, capsys, "--output-format", "")) == list(FORMATS)
    assert plain(offered(monkeypatch, capsys, "train.py", "--fail-on", "w")) == ["warning"]


def test_commands_have_their_own_options_and_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plain(offered(monkeypatch, capsys, "rules", "--j")) == ["--json"]
    assert plain(offered(monkeypatch, capsys, "verify", "--target", "2.")) == ["2.9", "2.5", "2.1"]
    assert plain(offered(monkeypatch, capsys, "explain", "XLA60")) == [
        rule.code for rule in known_rules() if rule.code.startswith("XLA60")
    ]
    assert "no-speed-up" in plain(offered(monkeypatch, capsys, "explain", "no-"))


def test_bash_completes_by_the_script_that_the_documents_name(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    program = tmp_path / "xla-migrate"
    paths = [path for path in sys.path if path]
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {paths!r}\n"
        "from xla_migrate.cli import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    script = (
        'eval "$(_XLA_MIGRATE_COMPLETE=bash_source xla-migrate)"\n'
        "complete -p xla-migrate\n"
        "COMP_WORDS=(xla-migrate com) COMP_CWORD=1\n"
        "_xla_migrate_completion xla-migrate\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ran = subprocess.run([bash, "-c", script], capture_output=True, text=True, env=environment, check=True)
    first, second = ran.stdout.splitlines()
    assert first == "complete -o nosort -F _xla_migrate_completion xla-migrate"
    assert second.split() == ["compare"]
