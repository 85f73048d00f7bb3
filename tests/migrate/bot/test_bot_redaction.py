"""No secret reaches a log, however it gets into a record."""

from __future__ import annotations

import logging

import pytest

from xla_migrate.bot.redact import HIDDEN, Redactor

SECRET = "s3cret-of-the-webhook"
SHAPES = [
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "ghs_0123456789abcdefghij",
    "github_pat_11ABCDEFG0123456789_abcdef",
    "glpat-abcdefghij0123456789",
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.c2lnbmF0dXJl",
    "https://x-access-token:ghs0123456789@github.com/a/b",
    "Authorization: Bearer abcdefgh12345678",
    "AUTHORIZATION: basic eC1hY2Nlc3MtdG9rZW46Z2hz",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("text", SHAPES)
def test_what_looks_like_a_token_is_hidden(text: str) -> None:
    shown = Redactor()(f"before {text} after")
    assert HIDDEN in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    for part in ("0123456789", "abcdefgh12345678", "eC1hY2Nlc3", "MIIEow", "c2lnbmF0dXJl"):
        assert part not in shown


@pytest.mark.parametrize("text", ["a token of time", "0fb5d1e9" * 5, "https://example.org/a@b", "x: y"])
def test_what_is_no_token_stays(text: str) -> None:
    assert Redactor()(text) == text


def test_messages_arguments_and_tracebacks_are_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    redactor = Redactor([SECRET])
    caplog.handler.addFilter(redactor)
    log = logging.getLogger("some.library")
    try:
        log.warning("a %s b", SECRET)
        log.warning(SECRET)
        try:
            raise ValueError(f"no access with {SECRET}")
        except ValueError:
            log.exception("failed")
    finally:
        caplog.handler.removeFilter(redactor)
    assert SECRET not in caplog.text
    assert caplog.text.count(HIDDEN) == 3
    assert "ValueError" in caplog.text
