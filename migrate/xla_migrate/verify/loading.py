"""Watches what DataLoaders hand out: which samples, in which pass, in which order."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from typing import Any

from torch.utils.data import DataLoader, RandomSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from xla_migrate.verify.hooks import after
from xla_migrate.verify.measure import batch_digest
from xla_migrate.verify.trace import Batch


class Ordered:
    """A sampler that gives its samples in the order of another run; behind it, what that run left out."""

    def __init__(self, usual: RandomSampler, passes: list[list[int]]) -> None:
        self.usual, self.passes, self.begun = usual, passes, 0

    def __len__(self) -> int:
        return len(self.usual)

    def __iter__(self) -> Iterator[int]:
        order = self.passes[self.begun] if self.begun < len(self.passes) else list(self.usual)
        self.begun += 1
        yield from order
        yield from sorted(set(range(len(self.usual))) - set(order))


def order_samples(orders: Mapping[str, list[list[int]]]) -> None:
    """Let the DataLoaders of these numbers that shuffle give their samples in these orders, pass by pass."""
    numbers = count()

    def made(loader: Any, result: Any, args: Any) -> None:
        passes = orders.get(str(next(numbers)))
        batches: Any = getattr(loader, "batch_sampler", None)
        usual = getattr(batches, "sampler", None)
        if passes and isinstance(usual, RandomSampler) and not usual.replacement:
            batches.sampler = Ordered(usual, passes)

    after(DataLoader, "__init__", made)


def fold_batches(times: int, whole: Collection[int] = ()) -> None:
    """Let every DataLoader that counts its batches itself make them so many times as large, but for those
    of some numbers."""
    original: Any = DataLoader.__init__
    numbers = count()
    place = list(inspect.signature(original).parameters).index("batch_size") - 1

    @functools.wraps(original)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        if next(numbers) in whole:
            pass
        elif len(args) > place:
            args = (*args[:place], _times(args[place], times), *args[place + 1 :])
        elif kwargs.get("batch_sampler") is None:
            kwargs["batch_size"] = _times(kwargs.get("batch_size", 1), times)
        original(self, *args, **kwargs)

    setattr(DataLoader, "__init__", begin)  # noqa: B010  (mypy refuses the plain assignment)


def _times(size: int | None, times: int) -> int | None:
    return None if size is None else size * times


class Loading:
    """Notes every batch. With ``values=False`` batches are only counted."""

    def __init__(self, backwards: Callable[[], int], values: bool = True) -> None:
        self.values = values
        self.backwards = backwards
        self.count = 0
        self.batches: list[Batch] = []
        self._made_so_far = 0
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._passes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._source: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
        self._ahead: weakref.WeakKeyDictionary[Any, deque[Any]] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Hook into torch's loaders for the rest of the process, once."""
        after(DataLoader, "__init__", self._made)
        after(DataLoader, "__iter__", self._begun)
        after(_BaseDataLoaderIter, "_reset", self._reset)
        after(_BaseDataLoaderIter, "_next_index", self._drawn)
        after(_BaseDataLoaderIter, "__next__", self._yielded)

    def _made(self, loader: Any, result: Any, args: Any) -> None:
        self._numbers[loader] = self._made_so_far
        self._made_so_far += 1

    def _begun(self, loader: Any, iterator: Any, args: Any) -> None:
        number = self._passes[loader] = self._passes.get(loader, -1) + 1
        self._source[iterator] = (self._numbers.get(loader, -1), number)

    def _reset(self, iterator: Any, result: Any, args: Any) -> None:
        self._ahead.pop(iterator, None)

    def _drawn(self, iterator: Any, samples: Any, args: Any) -> None:
        self._ahead.setdefault(iterator, deque()).append(samples)

    def _yielded(self, iterator: Any, batch: Any, args: Any) -> None:
        self.count += 1
        if not self.values:
            return
        ahead = self._ahead.get(iterator)
        samples = _positions(ahead.popleft() if ahead else None)
        loader, number = self._source.get(iterator, (-1, 0))
        self.batches.append(Batch(loader, number, self.backwards(), samples, batch_digest(batch)))


def _positions(drawn: Any) -> list[int] | None:
    """What a sampler gave, where these are positions of a dataset."""
    given = drawn if isinstance(drawn, (list, tuple)) else [drawn]
    try:
        return [int(one) for one in given]
    except (TypeError, ValueError):
        return None
