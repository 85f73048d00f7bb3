"""A real git repository with pull requests, as a forge keeps it."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from xla_migrate.bot.examine import examine
from xla_migrate.bot.report import Report
from xla_migrate.bot.workspace import Limits, Workspace

HEAD = "import torch\n\n"
TRAIN = (
    HEAD
    + """device = torch.device("cuda")
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4, device=device)
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)
PLAIN = "def double(x):\n    return 2 * x\n"
_AS = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")


class Repository:
    """A bare repository; ``pull`` makes branches that the forge knows by ``refs/pull/N/head``."""

    def __init__(self, folder: Path, files: dict[str, str | bytes] | None = None) -> None:
        self._numbers = itertools.count()
        self.folder, self._copy = folder / "origin.git", folder / "copy"
        self._run("init", "--quiet", "--bare", "-b", "main", str(self.folder), at=folder)
        self._run("clone", "--quiet", str(self.folder), str(self._copy), at=folder)
        self.push("main", files if files is not None else {"README.md": "# ours\n"})
        self.pulls: dict[int, str] = {}

    def push(self, branch: str, files: dict[str, str | bytes], executable: str = "") -> str:
        """A commit on a branch, which is made from main where it is new; gives its id."""
        known = branch != "main" and self.git("branch", "--list", branch)
        start = f"origin/{branch}" if known else "origin/main" if branch != "main" else ""
        if start:
            self._run("fetch", "--quiet", "origin")
            self._run("checkout", "--quiet", "-B", branch, start)
        for path, text in files.items():
            target = self._copy / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text if isinstance(text, bytes) else text.encode())
            if path == executable:
                target.chmod(0o755)
        self._run("add", "--all")
        self._run("commit", "--quiet", "--allow-empty", "-m", f"work on {branch}")
        self._run("push", "--quiet", "--force", "origin", f"HEAD:refs/heads/{branch}")
        for number, of in getattr(self, "pulls", {}).items():
            if of == branch:
                self.git("update-ref", f"refs/pull/{number}/head", f"refs/heads/{branch}")
        return self.git("rev-parse", f"refs/heads/{branch}")

    def pull(self, files: dict[str, str | bytes], branch: str = "topic", executable: str = "") -> int:
        """Open a pull request with these files; gives its number."""
        head = self.push(branch, files, executable)
        number = len(self.pulls) + 1
        self.pulls[number] = branch
        self.git("update-ref", f"refs/pull/{number}/head", head)
        return number

    def head(self, number: int) -> str:
        return self.git("rev-parse", f"refs/pull/{number}/head")

    def base(self) -> str:
        return self.git("rev-parse", "refs/heads/main")

    def show(self, commit: str, path: str) -> str:
        return self.git("show", f"{commit}:{path}", strip=False)

    def git(self, *arguments: str, given: bytes | None = None, strip: bool = True, check: bool = True) -> str:
        """Run git in the bare repository; gives what it says."""
        command = ["git", "-C", str(self.folder), *_AS, *arguments]
        ran = subprocess.run(command, input=given, capture_output=True, check=check)
        said = ran.stdout.decode("utf-8", "surrogateescape")
        return said.strip() if strip else said

    def tree(self, base: str, changed: dict[str, tuple[str, str]]) -> str:
        """The tree of ``base`` with other files, each as mode and blob; gives its id."""
        index = self.folder / f"index-{next(self._numbers)}"
        lines = "".join(f"{mode} {blob}\t{path}\n" for path, (mode, blob) in changed.items())
        said = ""
        for arguments in (["read-tree", base], ["update-index", "--index-info"], ["write-tree"]):
            command = ["git", "-C", str(self.folder), "-c", "core.bare=false", *arguments]
            environment = {**os.environ, "GIT_INDEX_FILE": str(index)}
            given = lines.encode() if arguments[0] == "update-index" else b""
            ran = subprocess.run(command, input=given, env=environment, check=True, capture_output=True)
            said = ran.stdout.decode().strip()
        return said

    def commit(self, parent: str, files: dict[str, bytes], message: str) -> str:
        """A commit with these files, on no branch yet; gives its id."""
        changed = {
            path: ("100644", self.git("hash-object", "-w", "--stdin", given=d)) for path, d in files.items()
        }
        return self.git("commit-tree", self.tree(parent, changed), "-p", parent, given=message.encode())

    def _run(self, *arguments: str, at: Path | None = None) -> None:
        subprocess.run(
            ["git", "-C", str(at or self._copy), *_AS, *arguments], capture_output=True, check=True
        )


def examined(repository: Repository, number: int, *, contents: bool = False) -> Report:
    """The report on a pull request's head, made in this process and once for each content."""
    head, base = repository.head(number), repository.base()
    trees = tuple(repository.git("rev-parse", f"{commit}^{{tree}}") for commit in (head, base))
    if (*trees, contents) not in _EXAMINED:
        _EXAMINED[(*trees, contents)] = _examined(repository, head, base, contents)
    return replace(_EXAMINED[(*trees, contents)], head=head, base=base)


_EXAMINED: dict[tuple[str | bool, ...], Report] = {}


def _examined(repository: Repository, head: str, base: str, contents: bool) -> Report:
    with tempfile.TemporaryDirectory() as name:
        workspace = Workspace(Path(name), Limits())
        workspace.fetch(str(repository.folder), [head, base])
        workspace.lay_out(head, base, Path(name) / "tree")
        return examine(Path(name) / "tree", head, base, contents=contents)
