"""The queue loses nothing, doubles nothing, and survives."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from xla_migrate.bot.events import Job
from xla_migrate.bot.queue import InUse, Queue


def review(number: int = 1, key: str = "a") -> Job:
    return Job("github", "acme/train", number, "review", key)


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(tmp_path / "queue.sqlite")


def test_a_delivery_that_asks_for_nothing_is_remembered(queue: Queue) -> None:
    assert queue.accept("1", None, 0.0)
    assert not queue.accept("1", review(), 0.0)
    assert queue.take(0.0) is None


def test_a_delivery_that_is_sent_again_is_no_second_job(queue: Queue) -> None:
    assert queue.accept("1", review(), 0.0)
    assert not queue.accept("1", review(), 0.0)
    assert queue.states() == {"queued": 1}


def test_a_replay_under_another_number_is_no_second_job(queue: Queue) -> None:
    """The number is not part of what is signed."""
    assert queue.accept("1", review(), 0.0)
    taken = queue.take(0.0)
    assert taken is not None
    queue.finish(taken, "posted")
    assert not queue.accept("2", review(), 0.0)
    assert queue.take(0.0) is None


def test_a_newer_push_cancels_the_older_review_even_in_a_workers_hands(queue: Queue) -> None:
    queue.accept("1", review(key="a"), 0.0)
    taken = queue.take(0.0)
    assert taken is not None
    assert queue.is_wanted(taken)
    queue.accept("2", review(key="b"), 0.0)
    assert not queue.is_wanted(taken)
    queue.finish(taken, "too late")
    newer = queue.take(0.0)
    assert newer is not None
    assert newer.job.key == "b"
    assert queue.states() == {"superseded": 1, "running": 1}


def test_a_push_cancels_neither_commands_nor_other_pull_requests(queue: Queue) -> None:
    queue.accept("1", review(number=2), 0.0)
    queue.accept("2", Job("github", "acme/train", 1, "apply", "comment-1"), 0.0)
    queue.accept("3", review(), 0.0)
    assert queue.states() == {"queued": 3}


def test_two_workers_are_never_at_one_pull_request(queue: Queue) -> None:
    queue.accept("1", review(), 0.0)
    queue.accept("2", Job("github", "acme/train", 1, "apply", "comment-1"), 0.0)
    queue.accept("3", review(number=2), 0.0)
    first, second, third = (queue.take(0.0) for _ in range(3))
    assert first is not None
    assert second is not None
    assert (first.job.number, second.job.number, third) == (1, 2, None)
    queue.finish(first, "")
    command = queue.take(0.0)
    assert command is not None
    assert command.job.kind == "apply"


def test_what_is_put_off_comes_when_it_is_due_and_counts_its_attempts(queue: Queue) -> None:
    queue.accept("1", review(), 0.0)
    taken = queue.take(0.0)
    assert taken is not None
    queue.put_off(taken, 60.0, "rate limit")
    assert queue.take(59.0) is None
    again = queue.take(60.0)
    assert again is not None
    assert again.attempts == 2


def test_what_was_running_when_the_process_ended_is_run_again(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "queue.sqlite")
    queue.accept("1", review(), 0.0)
    assert queue.take(0.0) is not None
    queue.close()
    after = Queue(tmp_path / "queue.sqlite")
    again = after.take(0.0)
    assert again is not None
    assert again.attempts == 2
    assert not after.accept("1", review(), 0.0)


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    first = Queue(tmp_path / "queue.sqlite")
    with pytest.raises(InUse):
        Queue(tmp_path / "queue.sqlite")
    first.close()
    Queue(tmp_path / "queue.sqlite").close()


def test_old_deliveries_are_forgotten_and_waiting_jobs_are_not(queue: Queue) -> None:
    queue.accept("1", review(), 0.0)
    queue.forget(100.0)
    assert queue.states() == {"queued": 1}
    taken = queue.take(0.0)
    assert taken is not None
    queue.finish(taken, "")
    queue.forget(100.0)
    assert queue.states() == {}


def test_a_command_is_never_forgotten(queue: Queue) -> None:
    command = Job("github", "acme/train", 1, "apply", "comment-1")
    queue.accept("1", command, 0.0)
    taken = queue.take(0.0)
    assert taken is not None
    queue.finish(taken, "")
    queue.forget(100.0)
    assert not queue.accept("2", command, 100.0)


def test_threads_that_accept_and_take_at_once_see_each_job_once(queue: Queue) -> None:
    seen: list[int] = []

    def accept(start: int) -> None:
        for number in range(start, start + 20):
            queue.accept(f"{number}", review(number=number), 0.0)
            queue.accept(f"{number}", review(number=number), 0.0)

    def take() -> None:
        while len(seen) < 100:
            taken = queue.take(0.0)
            if taken is not None:
                seen.append(taken.job.number)
                queue.finish(taken, "")

    threads = [threading.Thread(target=accept, args=(n * 20,)) for n in range(5)]
    threads += [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(seen) == list(range(100))
