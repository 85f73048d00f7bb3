"""Where the replicas of one run meet: each collective is announced, compared, and carried by gloo."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

DIGEST, LENGTH, TEXT = 16, 8, 488
PATIENCE = 0.9
ENDED = b"the end".ljust(DIGEST)


class ReplicaError(RuntimeError):
    """The replicas do not do the same; says which of them does what, and where."""


@contextmanager
def silent() -> Iterator[None]:
    """What gloo says of its connections is not the script's output."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


@dataclass(frozen=True)
class Announcement:
    """What a replica is about to do. ``kind`` is what has to be the same everywhere, ``text`` is
    for people: ``calls xm.all_reduce at train.py:33``."""

    kind: str
    text: str

    def packed(self, length: int) -> torch.Tensor:
        digest = ENDED if not self.kind else hashlib.blake2b(self.kind.encode(), digest_size=DIGEST).digest()
        text = self.text.encode()[:TEXT].ljust(TEXT)
        return torch.frombuffer(bytearray(digest + length.to_bytes(LENGTH, "big") + text), dtype=torch.uint8)


class Meeting:
    """All replicas of a run, joined by a file (``rendezvous``) that none of them has used before.

    ``timeout`` is that of the run, in seconds: nobody waits so long for the others that no time is
    left to say so.
    """

    def __init__(self, rank: int, world: int, rendezvous: str, timeout: float) -> None:
        if os.path.exists("/sys/class/net/lo"):  # host names cannot be looked up everywhere
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self.rank, self.world, self.timeout = rank, world, timeout
        self.deadline = time.monotonic() + PATIENCE * timeout
        distributed: Any = dist
        self.store: Any = distributed.FileStore(rendezvous, world)
        self.broken: ReplicaError | None = None
        self._groups: dict[tuple[int, ...], Any] = {}
        # torch 2.1 has them here alone
        self._options: Any = importlib.import_module("torch._C._distributed_c10d").AllgatherOptions
        self._everyone = tuple(range(world))

    def exchange(
        self, announcement: Announcement, payload: bytes = b"", members: Sequence[int] | None = None
    ) -> list[bytes]:
        """The payloads of all ``members`` (default: everyone), in their order.

        Raises ReplicaError, in every replica, where one of them does something else.
        """
        if self.broken is not None:
            raise self.broken
        group = tuple(members or self._everyone)
        try:
            return self._exchange(announcement, payload, group)
        except ReplicaError as error:
            self.broken = error
            raise

    def leave(self, text: str) -> ReplicaError | None:
        """The script has ended here, as ``text`` says: tell the others, and return what is wrong
        where they go on."""
        try:
            self.exchange(Announcement("", text))
        except ReplicaError as error:
            return error
        return None

    def _exchange(
        self, announcement: Announcement, payload: bytes, group: tuple[int, ...]
    ) -> list[bytes]:
        said = self._gather(announcement.packed(len(payload)), group, announcement)
        self._compare(said, group)
        lengths = [int.from_bytes(one[DIGEST : DIGEST + LENGTH], "big") for one in said]
        longest = max(lengths)
        if not longest:
            return [b""] * len(group)
        padded = bytearray(payload.ljust(longest, b"\0"))
        carried = self._gather(torch.frombuffer(padded, dtype=torch.uint8), group, announcement)
        return [whole[:length] for whole, length in zip(carried, lengths, strict=True)]

    def _gather(
        self, mine: torch.Tensor, group: tuple[int, ...], announcement: Announcement
    ) -> list[bytes]:
        received = [torch.empty_like(mine) for _ in group]
        options = self._options()
        options.timeout = timedelta(seconds=max(self.deadline - time.monotonic(), 0.1))
        try:
            self._group(group).allgather([received], [mine], options).wait()
        except RuntimeError as error:
            late = "time" in str(error).lower()
            other = "another one does not come" if late else "another one has gone"
            raise ReplicaError(f"replica {self.rank} {announcement.text}; {other}") from error
        return [one.numpy().tobytes() for one in received]

    def _compare(self, said: list[bytes], group: tuple[int, ...]) -> None:
        if len({one[:DIGEST] for one in said}) == 1:
            return
        texts = [one[DIGEST + LENGTH :].decode(errors="replace").strip() for one in said]
        going_on = [one[:DIGEST] != ENDED for one in said]
        order = sorted(range(len(said)), key=lambda i: not going_on[i])
        raise ReplicaError("; ".join(f"replica {group[i]} {texts[i]}" for i in order))

    def _group(self, group: tuple[int, ...]) -> Any:
        if group not in self._groups:
            distributed: Any = dist
            store = distributed.PrefixStore(f"members {group}", self.store)
            place, limit = group.index(self.rank), timedelta(seconds=self.timeout)
            with silent():
                made = distributed.ProcessGroupGloo(store, place, len(group), limit)
            self._groups[group] = made
        return self._groups[group]
