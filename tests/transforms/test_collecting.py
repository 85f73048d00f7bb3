"""When Python looks for garbage."""

from __future__ import annotations

import gc
import weakref

import pytest

from xla_transforms import collecting
from xla_transforms.collecting import collect_if_many, collect_lately_made, no_collections


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


def test_what_was_lately_made_and_left_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_SOME", 100)
    with no_collections():
        gc.collect()
        lasting = Cycle()
        of_old = weakref.ref(lasting)
        for _ in range(2):  # seen in use twice, it is not looked at again
            held = [Cycle() for _ in range(200)]
            left = weakref.ref(Cycle())
            collect_lately_made()
            assert left() is None
        del lasting, held
        more = [Cycle() for _ in range(200)]
        collect_lately_made()
        assert len(more) == 200
        assert of_old() is not None


def test_collections_begin_again_unless_they_were_off() -> None:
    with no_collections():
        with no_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
