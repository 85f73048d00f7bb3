"""When Python looks for garbage."""

from __future__ import annotations

import gc
import weakref

import pytest

from xla_transforms import collecting
from xla_transforms.collecting import collect_if_many, no_collections


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_little_garbage_stays() -> None:
    with no_collections():
        gc.collect()
        left = weakref.ref(Cycle())
        collect_if_many()
        assert left() is not None


def test_much_garbage_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_MANY", 100)
    with no_collections():
        left = weakref.ref(Cycle())
        held = [Cycle() for _ in range(200)]
        collect_if_many()
        assert left() is None
        assert len(held) == 200


def test_collections_begin_again_unless_they_were_off() -> None:
    with no_collections():
        with no_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
