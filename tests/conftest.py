"""Options of the whole test suite, and which slow tests share a process."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_cache(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test knows what another one, or the user, migrated before."""
    name = f"cache-{abs(hash(request.node.nodeid))}"
    monkeypatch.setenv("XLA_MIGRATE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / name))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="write the expected files of golden/ anew and print what changed",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With ``-n``, tests that share recorded runs (one golden case, or one file) share a worker."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        shared = callspec is not None and "runs" in callspec.params
        item.add_marker(pytest.mark.xdist_group(callspec.id if shared else str(item.path)))
