"""The comparison of printed lines sees what it should see."""

from __future__ import annotations

import pytest
from printed import first_difference


@pytest.mark.parametrize(
    ("native", "migrated"),
    [
        ("loss 0.1234\n", "loss 0.1235\n"),
        ("on cuda:0\n", "on xla:0\n"),
        ("acc 12/20\n", "acc 12/20\n"),
    ],
)
def test_rounding_and_the_name_of_the_device_do_not_count(native: str, migrated: str) -> None:
    assert first_difference(native, migrated, 1e-4) is None


@pytest.mark.parametrize(
    ("native", "migrated"),
    [
        ("loss 0.1234\n", "loss 0.1334\n"),
        ("acc 12/20\n", "acc 13/20\n"),
        ("a\nb\n", "a\n"),
        ("loss 0.1\n", "loss tensor(0.1)\n"),
    ],
)
def test_other_numbers_words_and_lines_count(native: str, migrated: str) -> None:
    assert first_difference(native, migrated, 1e-4) is not None
