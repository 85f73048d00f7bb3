"""The hooks of ``.pre-commit-hooks.yaml``, run by pre-commit itself in a repository made for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
NATIVE = "import torch\n\nmodel = torch.nn.Linear(4, 2).cuda()\n"
NO_INDEX = re.compile(r"No matching distribution|NewConnectionError|name resolution|timed out")


def test_both_hooks_are_given_the_project_and_not_the_staged_files() -> None:
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert list(hooks) == ["xla-migrate", "xla-migrate-diff"]
    for hook in hooks.values():
        assert hook["language"] == "python"
        assert hook["pass_filenames"] is False
        assert "python" in hook["types_or"]


def try_repo(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run all hooks over all files; skip where pre-commit cannot build their environment."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "GIT_DIR")}
    environment["PRE_COMMIT_COLOR"] = "never"
    command = [sys.executable, "-m", "pre_commit", "try-repo", str(ROOT), "--all-files", "--verbose"]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1) and NO_INDEX.search(ran.stdout + ran.stderr):
        pytest.skip("pre-commit cannot install the hooks: no package index is in reach")
    return ran


@pytest.mark.slow
def test_a_commit_is_stopped_until_the_script_is_migrated(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("pre-commit clones this checkout, which is no git repository")
    script = tmp_path / "train.py"
    script.write_text(NATIVE)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    ran = try_repo(tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    check, diff = ran.stdout.split("xla-migrate (diff)")
    assert re.search(r"^xla-migrate\.+Failed", check, re.MULTILINE)
    assert "train.py" in check
    assert "-model = torch.nn.Linear(4, 2).cuda()" in diff

    from xla_migrate import migrate_source

    script.write_text(migrate_source(NATIVE).code)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    ran = try_repo(tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(re.findall(r"\.Passed$", ran.stdout, re.MULTILINE)) == 2
