"""One job from its pull request to what is posted, and the threads that do the jobs of a service."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from xla_migrate import escape
from xla_migrate.bot import applying, children, comment
from xla_migrate.bot.events import Job
from xla_migrate.bot.forge import Denied, Forge, Later, PullRequest, Rejected, Unavailable
from xla_migrate.bot.job import CannotExamine, Conditions, Source, look
from xla_migrate.bot.publish import LIMIT, Outdated, own_comment, publish, say
from xla_migrate.bot.queue import Queue, Taken
from xla_migrate.bot.report import Report
from xla_migrate.bot.settings import BadSettings, Settings, read

ATTEMPTS = 6
_log = logging.getLogger(__name__)


class Access(Protocol):
    """How a service gets at the repository of a job."""

    def forge(self, job: Job) -> Forge: ...

    def token(self, job: Job) -> str:
        """What git may read the repository with, and do nothing else where the forge has such tokens."""


def settings_of(forge: Forge, pull: PullRequest) -> Settings:
    """The base's settings; those by default where they cannot be read, which the report tells."""
    try:
        return read(forge.file(pull.base, "pyproject.toml"))
    except BadSettings:
        return Settings()


def do(
    job: Job, forge: Forge, token: Callable[[], str], conditions: Conditions, current: Callable[[], None]
) -> str:
    """Do a job; gives a few words for the log. ``current`` raises where it is not wanted any more."""
    pull = forge.pull_request(job.number)
    if not pull.open:
        return "closed"
    if job.kind == "apply":
        return _apply(job, forge, pull, token, conditions, current)
    sticky = own_comment(forge, job.number)
    if sticky is not None and comment.head_of(sticky.body) == pull.head:
        return "posted before"
    try:
        report = look(_source(pull, token()), conditions)
    except CannotExamine as error:
        current()
        say(forge, job.number, comment.failure(pull.head, str(error)))
        return f"not examined: {error}"
    done = publish(forge, job.number, report, settings_of(forge, pull), current=current)
    return "posted" if done else "posted before"


def _source(pull: PullRequest, token: str) -> Source:
    return Source(pull.source, pull.head, pull.base, token)


def _apply(
    job: Job, forge: Forge, pull: PullRequest, token: Callable[[], str], conditions: Conditions,
    current: Callable[[], None],
) -> str:  # fmt: skip
    settings = settings_of(forge, pull)
    done, report = False, None
    try:
        applying.allowed(forge, job.user, settings)
        if applying.done_already(forge, pull, job.key):
            return "applied before"
        report = look(_source(pull, token()), replace(conditions, sandbox=None), contents=True)
        current()
        told = applying.apply(forge, pull, report, settings, job.key)
        done = True
    except applying.Refused as error:
        told = f"Not applied: {error}."
    except CannotExamine as error:
        told = f"Not applied: {escape.inline(str(error))}."
    if job.comment:
        forge.react(job.number, job.comment, done)
    if report is not None or done:
        _note(forge, pull, report, told)
    return told


def _note(forge: Forge, pull: PullRequest, report: Report | None, told: str) -> None:
    """The one comment says what became of the command; a stranger's vain command changes nothing in it."""
    sticky = own_comment(forge, pull.number)
    if sticky is None and report is not None:
        text = comment.body(report, (), min(LIMIT, forge.body_limit), ref=pull.ref, apply=False, note=told)
        say(forge, pull.number, text)
    elif sticky is not None:
        say(forge, pull.number, comment.with_note(sticky.body, told, min(LIMIT, forge.body_limit)))


class Workers:
    """Threads that empty a queue until they are told to stop."""

    def __init__(
        self,
        queue: Queue,
        access: Access,
        conditions: Conditions,
        count: int = 2,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._queue, self._access, self._conditions, self._clock = queue, access, conditions, clock
        self._news, self._ends = threading.Condition(), False
        self._threads = [
            threading.Thread(target=self._work, name=f"worker-{n}", daemon=True) for n in range(count)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        with self._news:
            self._news.notify()

    def stop(self) -> None:
        """End what is being done (it stays in the queue) and wait for the threads."""
        self._ends = True
        with self._news:
            self._news.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while not self._ends:
            try:
                if not self.one():
                    with self._news:
                        self._news.wait(1.0)
            except Exception:  # a disk that is full, say: the queue is as it was
                _log.exception("the queue cannot be worked on")
                time.sleep(1.0)

    def one(self) -> bool:
        """Do one job that is due; false where there is none."""
        taken = self._queue.take(self._clock())
        if taken is None:
            return False
        try:
            said = self._done(taken)
        except children.Stopped:
            if self._ends:
                self._queue.put_off(taken, self._clock(), "the service ended")
        except (Outdated, Unavailable, Later) as error:
            self._again(taken, str(error), getattr(error, "seconds", 0.0))
        except (Denied, Rejected) as error:
            self._give_up(taken, str(error))
        except Exception as error:
            _log.exception("a fault of the bot")
            self._again(taken, f"{type(error).__name__}: {error}")
        else:
            self._queue.finish(taken, said)
            _log.info("%s #%d: %s", taken.job.repository, taken.job.number, said)
        return True

    def _done(self, taken: Taken) -> str:
        def stopped() -> bool:
            return self._ends or not self._queue.is_wanted(taken)

        def current() -> None:
            if stopped():
                raise children.Stopped

        conditions = replace(self._conditions, stop=stopped)
        forge = self._access.forge(taken.job)
        return do(taken.job, forge, lambda: self._access.token(taken.job), conditions, current)

    def _again(self, taken: Taken, said: str, seconds: float = 0.0) -> None:
        if taken.attempts >= ATTEMPTS:
            self._give_up(taken, said)
        else:
            _log.warning("%s #%d is put off: %s", taken.job.repository, taken.job.number, said)
            self._queue.put_off(taken, self._clock() + max(seconds, 2.0**taken.attempts), said)

    def _give_up(self, taken: Taken, said: str) -> None:
        _log.error("%s #%d is given up: %s", taken.job.repository, taken.job.number, said)
        self._queue.fail(taken, said)
