"""What a base branch may ask of the bot, and how a mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.bot.examine import examine
from xla_migrate.bot.settings import BadSettings, Settings, Verification, read

HEAD = "[tool.xla-migrate.bot]\n"


@pytest.mark.parametrize(
    "text", [None, b"", b"[project]\nname = 'x'\n", b"[tool.xla-migrate]\ntarget = '2.9'\n"]
)
def test_without_a_table_the_defaults_count(text: bytes | None) -> None:
    assert read(text) == Settings()


def test_all_keys_are_read() -> None:
    text = HEAD + (
        'paths = ["src"]\ntarget = "2.5"\ndistributed = true\nsuggestions = 3\n'
        'apply = "commit"\nfail-on = "error"\n[tool.xla-migrate.bot.verify]\nscript = "train.py"\n'
        'arguments = ["--epochs", "1"]\nsteps = 5\nrun-code = true\ntimeout = 60\n'
    )
    verify = Verification("train.py", ("--epochs", "1"), 5, True, 60)
    assert read(text.encode()) == Settings(("src",), "2.5", True, 3, "commit", "error", verify)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("suggestion = 3", "no key 'suggestion': did you mean 'suggestions'?"),
        ("suggestions = 31", "a number from 0 to 30"),
        ("suggestions = true", "a number from 0 to 30"),
        ("apply = 'push'", "one of commit, pull-request, never"),
        ("paths = 'src'", "a list of texts"),
        ("distributed = 'yes'", 'true, false or "auto"'),
        ("verify = { steps = 3 }", "a table that names its script"),
        ("verify = { script = 'a.py', run_code = true }", "did you mean 'run-code'?"),
        ("target = 2.9", "a text"),
        ("target = '1.0'", "unknown target '1.0'"),
        ("paths = [", "cannot be read"),
    ],
)
def test_a_mistake_is_told_with_its_key(line: str, told: str) -> None:
    with pytest.raises(BadSettings) as error:
        read((HEAD + line + "\n").encode())
    assert told in str(error.value)


SCRIPT = "import torch\nmodel = torch.nn.Linear(2, 1).cuda()\ntorch.cuda.manual_seed(1)\n"


def test_the_settings_of_every_migration_count_here_too(tmp_path: Path) -> None:
    general = '[tool.xla-migrate]\ntarget = "2.1"\nignore = ["XLA221"]\nexclude = ["gen/"]\n'
    (tmp_path / "gen").mkdir()
    for name in ("train.py", "gen/c.py"):
        (tmp_path / name).write_text(SCRIPT)
    (tmp_path / "pyproject.toml").write_text(general)
    found = examine(tmp_path, "0" * 40, "1" * 40)
    assert (found.target, found.command) == ("2.1", "xla-migrate . --target 2.1")
    assert [file.path for file in found.files] == ["train.py"]
    assert "XLA221" not in {change.code for change in found.files[0].changes}
    (tmp_path / "pyproject.toml").write_text(general + HEAD + 'target = "2.9"\ndistributed = false\n')
    found = examine(tmp_path, "0" * 40, "1" * 40)
    assert (found.target, found.command) == ("2.9", "xla-migrate . --target 2.9 --no-distributed")


def test_a_mistake_in_the_settings_of_every_migration_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.xla-migrate]\nignroe = []\n")
    problem = "pyproject.toml: [tool.xla-migrate] knows no key 'ignroe'; did you mean 'ignore'?"
    assert examine(tmp_path, "0" * 40, "1" * 40).problems == (problem,)
