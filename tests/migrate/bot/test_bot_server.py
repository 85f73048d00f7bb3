"""The service over HTTP: what it lets in, and that each delivery is worked on once, whatever happens."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import TOKEN
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from github_stand_in import BOT, NAME, Fault, GitHub
from pull_requests import PLAIN, TRAIN, Repository, examined
from serving import served

from xla_migrate.bot import server, working
from xla_migrate.bot.access import GitHubApp, GitHubToken
from xla_migrate.bot.backoff import Backoff
from xla_migrate.bot.events import Job
from xla_migrate.bot.forge import Forge
from xla_migrate.bot.job import Conditions, Source
from xla_migrate.bot.queue import Queue
from xla_migrate.bot.report import Report
from xla_migrate.bot.server import application, signature
from xla_migrate.bot.working import Workers

SECRET = "a-secret-of-the-webhook"


def delivery(
    number: int, head: str, event: str = "pull_request", name: str = "", secret: str = SECRET
) -> dict[str, Any]:
    pull = {"number": number, "head": {"sha": head}}
    payload = {"action": "opened", "pull_request": pull, "repository": {"full_name": NAME}}
    body = json.dumps({**payload, "installation": {"id": 77}}).encode()
    headers = {"X-GitHub-Event": event, "X-GitHub-Delivery": name or f"{number}-{head}"}
    return {"content": body, "headers": {**headers, "X-Hub-Signature-256": signature(secret, body)}}


class Nobody:
    """Access to a forge that is not asked for anything."""

    def forge(self, job: Job) -> Forge:
        raise AssertionError

    def token(self, job: Job) -> str:
        return ""


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    made = Queue(tmp_path / "queue.sqlite")
    yield made
    made.close()


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that workers did; each of them only notes it."""
    jobs: list[Job] = []
    monkeypatch.setattr(Workers, "_done", lambda self, taken: jobs.append(taken.job) or "noted")
    return jobs


@pytest.fixture
def address(queue: Queue, done: list[Job]) -> Iterator[str]:
    with served(application(queue, Workers(queue, Nobody(), Conditions()), SECRET)) as at:
        yield at


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not come about"
        time.sleep(0.02)


@pytest.mark.parametrize("given", ["", "sha256=", "sha256=" + "0" * 64, "sha1=" + "0" * 40, "\xff"])
def test_a_delivery_without_the_right_signature_is_refused(address: str, queue: Queue, given: str) -> None:
    sent = delivery(1, "a" * 40)
    sent["headers"]["X-Hub-Signature-256"] = given.encode("latin-1")
    assert httpx.post(f"{address}/webhook", **sent).status_code == 401
    assert queue.states() == {}


def test_a_body_that_was_changed_is_refused(address: str, queue: Queue) -> None:
    sent = delivery(1, "a" * 40)
    sent["content"] = sent["content"].replace(b"aaaa", b"bbbb")
    assert httpx.post(f"{address}/webhook", **sent).status_code == 401
    assert queue.states() == {}


def test_the_signature_is_compared_in_constant_time(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr(server.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or False)
    assert httpx.post(f"{address}/webhook", **delivery(1, "a" * 40)).status_code == 401
    assert len(compared) == 1


@pytest.mark.parametrize("missing", ["X-GitHub-Event", "X-GitHub-Delivery"])
def test_a_delivery_that_lacks_a_header_is_refused(address: str, missing: str) -> None:
    sent = delivery(1, "a" * 40)
    del sent["headers"][missing]
    assert httpx.post(f"{address}/webhook", **sent).status_code == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 100_000])
def test_a_signed_body_that_is_no_object_is_refused(address: str, body: bytes) -> None:
    headers = {
        "X-GitHub-Event": "ping",
        "X-GitHub-Delivery": "1",
        "X-Hub-Signature-256": signature(SECRET, body),
    }
    assert httpx.post(f"{address}/webhook", content=body, headers=headers).status_code == 400


def test_a_body_without_end_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LARGEST", 1000)
    sent = delivery(1, "a" * 40)
    assert httpx.post(f"{address}/webhook", content=b"x" * 2000, headers=sent["headers"]).status_code == 413


def test_a_ping_is_answered_and_other_paths_are_not(address: str, queue: Queue) -> None:
    assert httpx.post(f"{address}/webhook", **delivery(1, "a" * 40, "ping")).json() == {"delivery": "ignored"}
    assert httpx.get(f"{address}/webhook").status_code == 405
    assert httpx.get(f"{address}/").status_code == 404
    assert httpx.get(f"{address}/health").json() == {"status": "ok", "jobs": {}}


def test_a_replay_is_answered_and_not_worked_on(address: str, queue: Queue, done: list[Job]) -> None:
    sent = delivery(1, "a" * 40)
    answers = [httpx.post(f"{address}/webhook", **sent) for _ in range(2)]
    again = httpx.post(f"{address}/webhook", **delivery(1, "a" * 40, name="another"))
    assert [one.json()["delivery"] for one in (*answers, again)] == ["accepted", "repeated", "repeated"]
    wait_for(lambda: queue.states() == {"done": 1})
    assert len(done) == 1


def test_a_short_secret_is_not_started_with(queue: Queue) -> None:
    with pytest.raises(ValueError, match="fewer than 16"):
        application(queue, Workers(queue, Nobody(), Conditions()), "short")


def test_two_hundred_deliveries_at_once_are_all_done_once(
    address: str, queue: Queue, done: list[Job]
) -> None:
    sent = [delivery(number, "a" * 40) for number in range(200)] * 2
    with httpx.Client(timeout=60) as client, ThreadPoolExecutor(50) as pool:
        codes = list(pool.map(lambda one: client.post(f"{address}/webhook", **one).status_code, sent))
    assert sorted(codes) == [200] * 200 + [202] * 200
    wait_for(lambda: queue.states() == {"done": 200})
    assert sorted(job.number for job in done) == list(range(200))


def test_gitlab_is_known_by_its_token(queue: Queue, done: list[Job]) -> None:
    payload = {
        "object_attributes": {"iid": 4, "action": "open", "last_commit": {"id": "c" * 40}},
        "project": {"id": 1},
    }
    headers = {"X-Gitlab-Event": "Merge Request Hook", "X-Gitlab-Event-UUID": "1", "X-Gitlab-Token": SECRET}
    app = application(queue, Workers(queue, Nobody(), Conditions()), SECRET, gitlab=True)
    with served(app) as at:
        wrong = httpx.post(f"{at}/webhook", json=payload, headers={**headers, "X-Gitlab-Token": "another"})
        right = httpx.post(f"{at}/webhook", json=payload, headers=headers)
        wait_for(lambda: queue.states() == {"done": 1})
    assert (wrong.status_code, right.status_code) == (401, 202)


@pytest.fixture
def in_this_process(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees are examined in this process: a child costs a second."""

    def look(source: Source, conditions: Conditions, *, contents: bool = False) -> Report:
        if conditions.stop():
            raise working.children.Stopped
        numbers = [n for n in repository.pulls if repository.head(n) == source.head]
        return examined(repository, numbers[0], contents=contents)

    monkeypatch.setattr(working, "look", look)


def worker(queue: Queue, github: GitHub, backoff: Backoff) -> Workers:
    return Workers(
        queue, GitHubToken(TOKEN, BOT, github.address, backoff), Conditions(), clock=lambda: github.now
    )


def review(number: int, key: str) -> Job:
    return Job("github", NAME, number, "review", key)


@pytest.mark.usefixtures("in_this_process")
def test_a_delivery_ends_as_a_comment_of_the_app(
    repository: Repository, github: GitHub, backoff: Backoff, queue: Queue
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    github.app_key, github.tokens = public.decode(), {}
    number = repository.pull({"train.py": TRAIN})
    access = GitHubApp(f"app-{os.getpid()}-{time.monotonic_ns()}", pem, github.address, backoff)
    with served(application(queue, Workers(queue, access, Conditions()), SECRET)) as at:
        httpx.post(f"{at}/webhook", **delivery(number, repository.head(number)))
        wait_for(lambda: queue.states() == {"done": 1})
    assert [one["user"]["login"] for one in github.comments] == [BOT]
    assert {token.writes for token in github.tokens.values()} == {True, False}


@pytest.mark.usefixtures("in_this_process")
def test_a_push_while_the_bot_works_cancels_what_it_does(
    repository: Repository, github: GitHub, backoff: Backoff, queue: Queue
) -> None:
    number = repository.pull({"train.py": TRAIN})
    pushed: list[str] = []

    def push(request: str) -> None:
        if request.endswith("/pulls/1/files") and not pushed:
            pushed.append(repository.push("topic", {"a.py": PLAIN}))
            queue.accept("2", review(number, pushed[0]), 0.0)

    github.slow = push
    queue.accept("1", review(number, repository.head(number)), 0.0)
    workers = worker(queue, github, backoff)
    while workers.one():
        pass
    assert {one["at"] for one in github.review_comments} == {pushed[0]}
    assert [run["head_sha"] for run in github.check_runs] == pushed
    assert len(github.comments) == 1
    assert queue.states() == {"superseded": 1, "done": 1}


@pytest.mark.usefixtures("in_this_process")
def test_deliveries_in_the_wrong_order_end_with_the_newest_head(
    repository: Repository, github: GitHub, backoff: Backoff, queue: Queue
) -> None:
    number = repository.pull({"train.py": TRAIN})
    older, newer = repository.head(number), repository.push("topic", {"a.py": PLAIN})
    queue.accept("2", review(number, newer), 0.0)
    queue.accept("1", review(number, older), 0.0)
    workers = worker(queue, github, backoff)
    while workers.one():
        pass
    assert [run["head_sha"] for run in github.check_runs] == [newer]


@pytest.mark.usefixtures("in_this_process")
def test_a_long_rate_limit_puts_the_job_off_until_it_is_over(
    repository: Repository, github: GitHub, backoff: Backoff, queue: Queue
) -> None:
    number = repository.pull({"a.py": PLAIN})
    headers = {"retry_after": "3600", "x_ratelimit_remaining": "0"}
    github.faults.append(Fault("GET", r"/pulls/1$", 403, "API rate limit exceeded", headers))
    queue.accept("1", review(number, repository.head(number)), 0.0)
    workers = worker(queue, github, backoff)
    assert workers.one()
    assert not workers.one()
    assert queue.states() == {"queued": 1}
    github.now += 3601
    assert workers.one()
    assert queue.states() == {"done": 1}


@pytest.mark.usefixtures("in_this_process")
def test_a_server_that_never_answers_is_given_up_and_told(
    repository: Repository, github: GitHub, backoff: Backoff, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    number = repository.pull({"a.py": PLAIN})
    github.faults.append(Fault("GET", r"/pulls/1$", 503, times=10_000))
    queue.accept("1", review(number, repository.head(number)), 0.0)
    workers = worker(queue, github, backoff)
    with caplog.at_level(logging.ERROR):
        while queue.states() != {"failed": 1}:
            github.now += 10_000
            workers.one()
    assert "given up" in caplog.text
    assert TOKEN not in caplog.text


def test_a_head_that_cannot_be_fetched_is_told_in_the_comment(
    repository: Repository, github: GitHub, backoff: Backoff, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = repository.pull({"a.py": PLAIN})

    def look(source: Source, conditions: Conditions, *, contents: bool = False) -> Report:
        raise working.CannotExamine("git fetch: <no> such @thing")

    monkeypatch.setattr(working, "look", look)
    queue.accept("1", review(number, repository.head(number)), 0.0)
    assert worker(queue, github, backoff).one()
    [said] = github.comments
    assert "could not look" in said["body"]
    assert "<no>" not in said["body"]


class Service:
    """``xla-migrate bot serve`` in a process of its own, on the same queue each time it is started."""

    def __init__(self, folder: Path, github: GitHub) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._folder, self._github = folder, github
        self.log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {
            **os.environ,
            "XLA_MIGRATE_WEBHOOK_SECRET": SECRET,
            "XLA_MIGRATE_TOKEN": TOKEN,
            "XLA_MIGRATE_LOGIN": BOT,
            "GITHUB_API_URL": self._github.address,
        }
        command = [sys.executable, "-m", "xla_migrate", "bot", "serve", "--port", str(self.port)]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [*command, "--database", str(self._folder / "queue.sqlite")],
                env=environment,
                stderr=log,
                stdout=log,
            )
        wait_for(self._answers)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/health").status_code == 200
        except httpx.HTTPError:
            return False

    def states(self) -> dict[str, int]:
        return dict(httpx.get(f"http://127.0.0.1:{self.port}/health").json()["jobs"])

    def send(self, number: int, head: str) -> int:
        return httpx.post(
            f"http://127.0.0.1:{self.port}/webhook", timeout=60, **delivery(number, head)
        ).status_code

    def end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=60)
            self._process = None


@pytest.fixture
def service(tmp_path: Path, github: GitHub) -> Iterator[Service]:
    made = Service(tmp_path, github)
    yield made
    made.end(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["/reviews", "/check-runs", "/issues/1/comments"])
def test_a_kill_in_the_middle_and_a_restart_post_everything_once(
    repository: Repository, github: GitHub, service: Service, where: str
) -> None:
    """The request at which the process dies is carried out: it never hears of it."""
    number = repository.pull({"train.py": TRAIN})
    reached, dead = threading.Event(), threading.Event()

    def hold(request: str) -> None:
        if request.startswith("POST") and request.endswith(where) and not reached.is_set():
            reached.set()
            dead.wait(60)

    github.slow = hold
    service.start()
    assert service.send(number, repository.head(number)) == 202
    assert reached.wait(60)
    service.end(signal.SIGKILL)
    dead.set()
    wait_for(
        lambda: any(request.endswith(where) and request.startswith("POST") for request in github.requests)
    )
    service.start()
    wait_for(lambda: service.states() == {"done": 1})
    assert len(github.reviews) == len(github.check_runs) == len(github.comments) == 1
    assert service.send(number, repository.head(number)) == 200
    assert TOKEN not in service.log.read_text()
    assert SECRET not in service.log.read_text()


@pytest.mark.slow
def test_a_service_that_is_told_to_end_leaves_its_work_in_the_queue(
    repository: Repository, github: GitHub, service: Service
) -> None:
    number = repository.pull({"train.py": TRAIN})
    reached, go_on = threading.Event(), threading.Event()

    def hold(request: str) -> None:
        if request.endswith("/pulls/1/files") and not go_on.is_set():
            reached.set()
            go_on.wait(60)

    github.slow = hold
    service.start()
    service.send(number, repository.head(number))
    assert reached.wait(60)
    threading.Timer(1.0, go_on.set).start()
    service.end(signal.SIGTERM)
    assert github.comments == []
    service.start()
    wait_for(lambda: service.states() == {"done": 1})
    assert len(github.reviews) == len(github.comments) == 1


@pytest.mark.slow
@pytest.mark.parametrize("github", ["plain"], indirect=True)
def test_two_hundred_pull_requests_at_once_get_one_comment_each(
    repository: Repository, github: GitHub, backoff: Backoff, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = repository.pull({"train.py": TRAIN})
    report = examined(repository, first)
    monkeypatch.setattr(working, "look", lambda source, conditions, contents=False: report)
    for number in range(first + 1, 201):
        repository.pulls[number] = "topic"
        repository.git("update-ref", f"refs/pull/{number}/head", repository.head(first))
    workers = Workers(queue, GitHubToken(TOKEN, BOT, github.address, backoff), Conditions(), count=4)
    with served(application(queue, workers, SECRET)) as at, httpx.Client(timeout=300) as client:
        with ThreadPoolExecutor(40) as pool:
            sent = [delivery(number, repository.head(first)) for number in range(1, 201)] * 2
            list(pool.map(lambda one: client.post(f"{at}/webhook", **one).raise_for_status(), sent))
        wait_for(lambda: queue.states() == {"done": 200}, 500)
    assert sorted(one["number"] for one in github.comments) == list(range(1, 201))
    assert sorted(one["number"] for one in github.reviews) == list(range(1, 201))
