"""The two commits of a pull request, fetched with git and laid out without a checkout.

A checkout would obey the tree (attributes, filters, links, submodules); here each file is read from git's
store and written as plain bytes, after its path was checked.
"""

from __future__ import annotations

import base64
import fnmatch
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from xla_migrate.bot import children
from xla_migrate.bot.report import is_within
from xla_migrate.launches import is_launcher

CONFIGURATION = ("pyproject.toml", ".gitignore", "requirements*.txt", "setup.cfg")
"""Files that tell tools what to do: they are taken from the base."""
_REGULAR = (b"100644 blob ", b"100755 blob ")


class CannotFetch(Exception):
    """The commits are not to be had; the text says why."""


class TooLarge(Exception):
    """The tree is beyond the limits; the text says of what there is too much."""


@dataclass(frozen=True)
class Limits:
    """Bytes of one file, of all that are looked at and of what git fetches; number of files; seconds for one
    command of git."""

    file: int = 1_000_000
    tree: int = 200_000_000
    store: int = 2_000_000_000
    files: int = 20_000
    seconds: float = 300.0


@dataclass(frozen=True)
class Entry:
    path: str
    blob: str
    size: int


class Workspace:
    """A folder of one job: git's store, and the trees that were laid out from it."""

    def __init__(self, folder: Path, limits: Limits, stop: Callable[[], bool] = lambda: False) -> None:
        self._folder, self._limits, self._stop = folder, limits, stop
        self._store = folder / "store.git"

    def fetch(self, source: str, commits: Sequence[str], token: str = "") -> None:
        """Get commits without their history. ``source`` is an address of https, or of a local repository.

        Raises ``CannotFetch``.
        """
        self._git("init", "--quiet", "--bare", str(self._store))
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
        self._git(
            "fetch", *options, "--end-of-options", source, *dict.fromkeys(commits), token=token, source=source
        )

    def read(self, commit: str, path: str) -> bytes | None:
        """A file of a commit; ``None`` where there is none, or it is none of plain bytes."""
        found = [entry for entry in self._entries(commit, path) if entry.path == path]
        return self._blobs(found)[0] if found and found[0].size <= self._limits.file else None

    def lay_out(self, head: str, base: str, into: Path, everything: bool = False) -> list[str]:
        """Write the head's tree with the base's configuration; gives what was left out, for people.

        Without ``everything``, only what a migration looks at. Raises ``TooLarge``.
        """
        left: list[str] = []
        of_head = [
            e for e in self._entries(head) if _is_code(e.path) or (everything and not _configures(e.path))
        ]
        of_base = [e for e in self._entries(base) if _configures(e.path)]
        wanted = []
        for entry in (*of_head, *of_base):
            if entry.size > self._limits.file:
                left.append(f"{entry.path} was left out: it has {entry.size:,} bytes")
            elif not is_within(entry.path):
                left.append(
                    "a file was left out: its path leads out of the work folder, or cannot be written"
                )
            else:
                wanted.append(entry)
        self._require_small(wanted)
        (into / ".git").mkdir(parents=True)  # the root, for those who look for one
        for start in range(0, len(wanted), 500):
            part = wanted[start : start + 500]
            for entry, data in zip(part, self._blobs(part), strict=True):
                _write(into, entry.path, data)
        return left

    def _require_small(self, entries: Sequence[Entry]) -> None:
        size = sum(entry.size for entry in entries)
        if len(entries) > self._limits.files or size > self._limits.tree:
            raise TooLarge(f"{len(entries):,} files with {size:,} bytes are more than the bot looks at")

    def _entries(self, commit: str, path: str = "") -> Iterator[Entry]:
        listed = self._git(
            "ls-tree", "-r", "-z", "-l", "--full-tree", commit, *(("--", path) if path else ())
        )
        for line in listed.split(b"\0"):
            facts, _, name = line.partition(b"\t")
            if facts.startswith(_REGULAR):
                _mode, _kind, blob, size = facts.decode().split()
                yield Entry(os.fsdecode(name), blob, int(size))

    def _blobs(self, entries: Sequence[Entry]) -> list[bytes]:
        asked = "".join(f"{entry.blob}\n" for entry in entries).encode()
        keep = sum(entry.size for entry in entries) + 200 * len(entries)
        answer = self._git("cat-file", "--batch", given=asked, keep=keep)
        found, position = [], 0
        for entry in entries:
            start = answer.index(b"\n", position) + 1
            found.append(answer[start : start + entry.size])
            position = start + entry.size + 1
        return found

    def _git(
        self, *arguments: str, token: str = "", source: str = "", given: bytes = b"", keep: int = 100_000_000
    ) -> bytes:
        env = children.environment(self._folder, **_GIT, **_credentials(source, token))
        command = ["git", *_OPTIONS, "--git-dir", str(self._store), *arguments]
        try:
            ended = children.run(
                command,
                self._folder,
                timeout=self._limits.seconds,
                env=env,
                stop=self._stop,
                given=given,
                keep=keep,
                largest=self._limits.store,
            )
        except children.TooLong as error:
            raise CannotFetch(f"git {arguments[0]}: {error}") from None
        if ended.status:
            said = (ended.err.strip().splitlines() or ["no reason given"])[-1]
            raise CannotFetch(f"git {arguments[0]}: {said}")
        return ended.out


_GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "https:file",
}
_OPTIONS = ("-c", f"core.hooksPath={os.devnull}", "-c", "gc.auto=0", "-c", "transfer.fsckObjects=false",
            "-c", "safe.directory=*")  # fmt: skip


def _credentials(source: str, token: str) -> dict[str, str]:
    """A header for one server alone, by the environment: the arguments of a process are no secret."""
    if not token or not source.startswith("https://"):
        return {}
    server = "/".join(source.split("/", 3)[:3]) + "/"
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{server}.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {secret}",
    }


def _configures(path: str) -> bool:
    name = PurePosixPath(path).name
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in CONFIGURATION)


def _is_code(path: str) -> bool:
    return (path.endswith(".py") or is_launcher(path)) and not _configures(path)


def _write(folder: Path, path: str, data: bytes) -> None:
    """Nothing in the folder is a link, so a path without ``..`` cannot leave it."""
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target, "xb") as file:
        file.write(data)
