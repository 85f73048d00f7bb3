"""Migrate every project of a bucket on a Dask cluster: a task a project, its results beside one another.

    python recipes/dask_fleet.py s3://code/all s3://code/results --scheduler tcp://host:8786 -- --target 2.5
    python recipes/dask_fleet.py projects results --workers 4

Each folder of the first address is a project: files that may import one another, migrated together as its own
``[tool.xla-migrate]`` and the options behind ``--`` ask for it. Below the second address its folder gets

    report.json    the JSON report: findings, changes, the state of each file
    patch.diff     for ``git apply`` at the root of the project; empty where nothing changes
    done.json      written last: counts, and the digest of what all of it was made of

A project whose ``done.json`` has the digest of its files, options and tool is not migrated again. One that
fails (too little time or memory, workers that die) has the reason there, is tried again by the next run, and
costs no other project anything. Exit status: 0, or 1 where a project failed. A file that cannot be processed,
since it is not Python, is no such failure: the report names it, and the project's other files are migrated.

Workers need xla-migrate, fsspec and the file system of the addresses (s3fs, gcsfs, adlfs ...). The sources
are only read.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

import dask
import fsspec
from dask.distributed import Client, Future, KilledWorker, as_completed, wait

READ = (
    "*.py",
    "*.ipynb",
    "*.toml",
    "*.cfg",
    "*.txt",
    "*.y*ml",
    "*.sh",
    "Makefile",
    "Dockerfile*",
    ".gitignore",
)
"""What the tool reads of a project: no data and no checkpoints travel."""
SOURCE = re.compile(r".*\.(py|ipynb)").fullmatch
NOTHING: tuple[dict[str, Any], str] = ({"files": [], "findings": [], "changes": []}, "")
LARGEST = 10_000_000
"""Bytes of a file; a larger one is data, whatever its name."""
TOOL = (sys.executable, "-m", "xla_migrate")


def projects(source: str) -> list[str]:
    """The names of the folders right below an address."""
    files, root = fsspec.url_to_fs(source)
    return sorted(
        PurePosixPath(one["name"]).name for one in files.ls(root, detail=True) if one["type"] == "directory"
    )


def migrated(source: str, results: str, name: str, options: Sequence[str], timeout: float) -> dict[str, Any]:
    """Migrate one project, unless that was done, and write what came of it. Returns what ``done.json`` says.

    ``timeout`` is in seconds. What the network or the file system has against it is raised.
    """
    texts = contents(f"{source.rstrip('/')}/{name}")
    digest = digest_of(texts, options)
    known = earlier(results, name)
    if known.get("digest") == digest and not known["failed"]:
        return known
    try:
        report, patch = run(texts, options, timeout) if any(map(SOURCE, texts)) else NOTHING
    except (subprocess.SubprocessError, ValueError) as error:
        return failed(results, name, f"{type(error).__name__}: {error}")
    done = {"project": name, "digest": digest, "failed": "", **counts(report)}
    put(results, name, {"report.json": report, "patch.diff": patch, "done.json": done})
    return done


def contents(project: str) -> dict[str, bytes]:
    """The files of a project that the tool reads, by their path from its root."""
    files, root = fsspec.url_to_fs(project)
    texts = {}
    for path, found in files.find(root, detail=True).items():
        place = PurePosixPath(path).relative_to(root)
        if (
            ".." not in place.parts
            and found["size"] <= LARGEST
            and any(fnmatch(place.name, one) for one in READ)
        ):
            texts[str(place)] = files.cat_file(path)
    return texts


def digest_of(texts: Mapping[str, bytes], options: Sequence[str]) -> str:
    """What the outcome depends on: the files, the options and the release of the tool."""
    told = [
        version("xla-migrate"),
        *options,
        *(f"{name} {sha256(texts[name]).hexdigest()}" for name in sorted(texts)),
    ]
    return sha256(json.dumps(told).encode()).hexdigest()


def run(texts: Mapping[str, bytes], options: Sequence[str], timeout: float) -> tuple[dict[str, Any], str]:
    """The report and the patch of the tool on a copy of these files. A process of its own keeps what it
    takes, and its end, from the worker. Raises ``ValueError`` where it makes no report."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)
        folder.mkdir(exist_ok=True)
        variables = {
            **os.environ,
            "XLA_MIGRATE_CACHE_DIR": str(Path(scratch) / "cache"),
        }  # the patch is not found anew
        command = [*TOOL, ".", "--jobs", "1", *options]
        told, patch = (
            subprocess.run([*command, *form], cwd=folder, env=variables, timeout=timeout, capture_output=True)
            for form in (["--output-format", "json"], ["--diff", "--quiet"])
        )
    if not told.stdout or told.returncode < 0:
        last = told.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ValueError(f"exit status {told.returncode}: {''.join(last)}")
    report: dict[str, Any] = json.loads(told.stdout)
    return report, patch.stdout.decode("utf-8", "surrogateescape")


def counts(report: Mapping[str, Any]) -> dict[str, int]:
    """How many files there are, would change and were not understood; findings by severity."""
    states = Counter(file["status"] for file in report["files"])
    graves = Counter(finding["severity"] for finding in report["findings"])
    files = {"files": len(report["files"]), "to_change": states["pending"], "not_processed": states["failed"]}
    return {**files, **{f"{severity}s": graves[severity] for severity in ("error", "warning", "info")}}


def earlier(results: str, name: str) -> dict[str, Any]:
    """What ``done.json`` of a project says; empty where there is none, or none to be trusted."""
    files, root = fsspec.url_to_fs(f"{results.rstrip('/')}/{name}/done.json")
    try:
        found = json.loads(files.cat_file(root))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) and {"digest", "failed"} <= found.keys() else {}


def failed(results: str, name: str, reason: str) -> dict[str, Any]:
    """Write that a project failed, and why."""
    done = {"project": name, "digest": "", "failed": reason}
    put(results, name, {"report.json": {}, "patch.diff": "", "done.json": done})
    return done


def put(results: str, name: str, written: Mapping[str, Any]) -> None:
    """Write results of a project: texts, or JSON of what is none."""
    files, root = fsspec.url_to_fs(f"{results.rstrip('/')}/{name}")
    files.makedirs(root, exist_ok=True)
    for place, what in written.items():
        text = what if isinstance(what, str) else json.dumps(what, indent=1) + "\n"
        files.pipe_file(f"{root}/{place}", text.encode("utf-8", "surrogateescape"))


def fleet(
    client: Client, source: str, results: str, options: Sequence[str], timeout: float
) -> Iterator[dict[str, Any]]:
    """Migrate all projects; what ``done.json`` says of each, as they end.

    A project that went down with several workers may only have waited where another one brought them down:
    such projects are tried again at the end, one at a time.
    """

    def submitted(name: str) -> Future[Any]:
        return client.submit(migrated, source, results, name, options, timeout, pure=False)

    futures = {submitted(name): name for name in projects(source)}
    suspects = []
    for future in as_completed(list(futures)):
        name = futures.pop(future)
        if future.status == "error" and isinstance(future.exception(), KilledWorker):
            suspects.append(name)
        else:
            yield _told(future, results, name)
    for name in suspects:
        again = submitted(name)
        wait(again)
        yield _told(again, results, name)


def _told(future: Future[Any], results: str, name: str) -> dict[str, Any]:
    """What was written, read where it was written: what a worker returns is lost where that dies."""
    if future.status != "error":
        return earlier(results, name)
    error = future.exception()
    return failed(results, name, f"{type(error).__name__}: {error}")


@contextmanager
def here(workers: int | None, **options: Any) -> Iterator[Client]:
    """A cluster of so many processes on this machine, which ends with the client."""
    # A worker that is not back in time is given up for good, and 15 seconds are little on a busy machine.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"})
    with Client(n_workers=workers, threads_per_worker=1, dashboard_address=None, **options) as client:
        started = len(client.cluster.workers)
        yield client
        # A worker that was killed and is on its way back cannot be ended: distributed asserts that it runs.
        with suppress(TimeoutError):
            client.wait_for_workers(started, timeout=60)


def main() -> int:
    given = _arguments()
    faulty = 0
    with Client(given.scheduler) if given.scheduler else here(given.workers) as client:
        for done in fleet(client, given.source, given.results, given.options, given.timeout):
            faulty += bool(done["failed"])
            print(json.dumps(done), flush=True)
    return int(faulty > 0)


def _arguments() -> argparse.Namespace:
    title = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(description=title, epilog="Options of xla-migrate stand behind a --.")
    parser.add_argument(
        "source", help="the address of a folder of projects (any of fsspec: s3://, gs://, a path)"
    )
    parser.add_argument("results", help="the address of the folder that gets the results")
    parser.add_argument(
        "--scheduler", help="the address of a cluster's scheduler; without it, one on this machine"
    )
    parser.add_argument(
        "--workers", type=int, help="processes on this machine (as many as processors by default)"
    )
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for a project (1800)")
    given, behind = sys.argv[1:], []
    if "--" in given:
        given, behind = given[: given.index("--")], given[given.index("--") + 1 :]
    return parser.parse_args(given, argparse.Namespace(options=behind))


if __name__ == "__main__":
    sys.exit(main())
