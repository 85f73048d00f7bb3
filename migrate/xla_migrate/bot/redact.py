"""Secrets stay out of logs and of what is told to people."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterable

HIDDEN = "[hidden]"
# The prefixes of GitHub's and GitLab's tokens, signed web tokens, credentials in URLs and headers, keys.
_SHAPES = re.compile(
    r"\b(?:gh[pousr]_\w{8,}|github_pat_\w{8,}|v1\.[0-9a-f]{40}|gl(?:pat|dt|rt|cbt|ptt|ft|soat)-[\w.-]{8,}"
    r"|eyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?)"
    r"|(?<=://)[^/\s@:]*:[^/\s@]+(?=@)"
    r"|(?i:(?<=bearer )|(?<=basic )|(?<=token ))[\w+/=.~-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)


class Redactor(logging.Filter):
    """A filter of log records; also callable on any text.

    Put it on handlers: a filter of a logger does not see what the loggers below it pass on.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        found = {part for secret in secrets for part in (secret, secret.strip()) if len(part) >= 4}
        self._secrets = sorted(found, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return _SHAPES.sub(HIDDEN, text)

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            message += "\n" + "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        if record.stack_info:
            message += "\n" + record.stack_info
        record.msg, record.args = self(message), None
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def set_up(secrets: Iterable[str], level: int = logging.INFO) -> Redactor:
    """Log to the standard error, without secrets; gives the filter for other texts."""
    redactor = Redactor(secrets)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(redactor)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return redactor
