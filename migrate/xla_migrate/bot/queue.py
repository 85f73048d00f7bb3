"""The jobs of a service on the disk: what was accepted is done, once, whatever becomes of the process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from xla_migrate.bot.events import Job

_SCHEMA = """
CREATE TABLE IF NOT EXISTS deliveries (id TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    forge TEXT NOT NULL, repository TEXT NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL,
    key TEXT NOT NULL, installation INTEGER NOT NULL, user TEXT NOT NULL, comment INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued'
        CHECK (state IN ('queued', 'running', 'done', 'superseded', 'failed')),
    attempts INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL, said TEXT NOT NULL DEFAULT '',
    UNIQUE (forge, repository, number, kind, key)
);
CREATE INDEX IF NOT EXISTS waiting ON jobs (state, due);
"""
_NEXT = """
SELECT id, attempts, forge, repository, number, kind, key, installation, user, comment FROM jobs AS mine
WHERE state = 'queued' AND due <= ? AND NOT EXISTS (
    SELECT 1 FROM jobs AS other WHERE other.state = 'running' AND other.forge = mine.forge
    AND other.repository = mine.repository AND other.number = mine.number
) ORDER BY id LIMIT 1
"""
_FIELDS = ("forge", "repository", "number", "kind", "key", "installation", "user", "comment")


class InUse(Exception):
    """Another process has the queue."""


@dataclass(frozen=True)
class Taken:
    """A job in the hands of a worker; ``attempts`` counts this one."""

    id: int
    job: Job
    attempts: int


class Queue:
    """A file that one process at a time works on, with as many threads as it likes.

    Raises ``InUse`` where another process does. Times are seconds of the caller's clock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = _locked(path.with_name(path.name + ".lock"))
        with self._transaction() as database:
            for statement in _SCHEMA.split(";\n"):
                database.execute(statement)
            # What was running when an earlier process ended has to be run again.
            database.execute("UPDATE jobs SET state = 'queued' WHERE state = 'running'")

    def close(self) -> None:
        self._lock.close()

    def accept(self, delivery: str, job: Job | None, now: float) -> bool:
        """Note a delivery with what it asks for; false where the delivery, or such a job, was here before.

        An older review of the same pull request is not wanted any more, though a worker may have it.
        """
        with self._transaction() as database:
            if not database.execute(
                "INSERT OR IGNORE INTO deliveries VALUES (?, ?)", (delivery, now)
            ).rowcount:
                return False
            if job is None:
                return True
            names, marks = ", ".join(_FIELDS), ", ".join("?" * len(_FIELDS))
            values = asdict(job)
            added = database.execute(
                f"INSERT OR IGNORE INTO jobs ({names}, due) VALUES ({marks}, ?)",
                (*(values[f] for f in _FIELDS), now),
            )
            if added.rowcount and job.kind == "review":
                database.execute(
                    "UPDATE jobs SET state = 'superseded' WHERE forge = ? AND repository = ? AND number = ?"
                    " AND kind = 'review' AND id < ? AND state IN ('queued', 'running')",
                    (job.forge, job.repository, job.number, added.lastrowid),
                )
            return bool(added.rowcount)

    def take(self, now: float) -> Taken | None:
        """The oldest job that is due, of a pull request that no other worker has in hand."""
        with self._transaction() as database:
            row = database.execute(_NEXT, (now,)).fetchone()
            if row is None:
                return None
            database.execute(
                "UPDATE jobs SET state = 'running', attempts = attempts + 1 WHERE id = ?", (row[0],)
            )
            return Taken(row[0], Job(*row[2:]), row[1] + 1)

    def is_wanted(self, taken: Taken) -> bool:
        with self._transaction("DEFERRED") as database:
            found = database.execute("SELECT state FROM jobs WHERE id = ?", (taken.id,)).fetchone()
        return found is not None and found[0] == "running"

    def finish(self, taken: Taken, said: str) -> None:
        self._leave(taken, "done", said)

    def fail(self, taken: Taken, said: str) -> None:
        self._leave(taken, "failed", said)

    def put_off(self, taken: Taken, due: float, said: str) -> None:
        self._leave(taken, "queued", said, due)

    def states(self) -> dict[str, int]:
        """How many jobs are in each state."""
        with self._transaction("DEFERRED") as database:
            return dict(database.execute("SELECT state, COUNT(*) FROM jobs GROUP BY state").fetchall())

    def forget(self, before: float) -> None:
        """Drop deliveries and finished reviews that are older; a command stays known for ever."""
        with self._transaction() as database:
            database.execute("DELETE FROM deliveries WHERE at < ?", (before,))
            database.execute(
                "DELETE FROM jobs WHERE due < ? AND kind = 'review' AND state NOT IN ('queued', 'running')",
                (before,),
            )

    def _leave(self, taken: Taken, state: str, said: str, due: float | None = None) -> None:
        with self._transaction() as database:
            database.execute(
                "UPDATE jobs SET state = ?, said = ?, due = COALESCE(?, due)"
                " WHERE id = ? AND state = 'running'",
                (state, said[:1000], due, taken.id),
            )

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """A connection of one's own, since threads share none; an immediate one holds the only write lock."""
        database = sqlite3.connect(self._path, timeout=60.0, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute(f"BEGIN {kind}")
            yield database
            database.execute("COMMIT")
        finally:
            database.close()  # what is not committed is undone


def _locked(path: Path) -> IO[str]:
    import fcntl

    file = open(path, "w")  # noqa: SIM115 - it is locked for as long as it is open
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise InUse(f"{path.name} is locked: another process works on this queue") from error
    return file
