"""Packages of npm that tests check against: installed once into pytest's cache, or the test is skipped."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest


def package(cache: pytest.Cache, name: str, version: str) -> Path:
    """The folder of an installed package; skips the test, with the reason, where npm cannot give it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"needs npm, to install {name}")
    folder = cache.mkdir("npm-" + name.replace("/", "-").lstrip("@"))
    found = folder / "node_modules" / name
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (found / "package.json").exists():
            command = [npm, "install", "--prefix", str(folder), "--no-save", "--ignore-scripts",
                       "--no-audit", "--no-fund", f"{name}@{version}"]  # fmt: skip
            try:
                ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            except subprocess.TimeoutExpired:
                pytest.skip(f"npm does not come to an end of installing {name}")
            if ran.returncode:
                pytest.skip(f"npm cannot install {name}: {ran.stderr.strip().splitlines()[-1:]}")
    return found
