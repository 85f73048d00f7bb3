"""Where the page of a rule is found: on a published site, or as a file made on this machine."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

from xla_migrate import __version__
from xla_migrate.known_rules import known_rules
from xla_migrate.rule_examples import explained
from xla_migrate.work import default_folder


@cache
def address(code: str, site: str = "") -> str | None:
    """The address of a rule's page on ``site``, the root of the published documentation; without it, of a
    file in the folder for caches. ``None`` for an unknown rule, and where no file can be written."""
    rule = next((rule for rule in known_rules() if rule.code == code), None)
    if rule is None:
        return None
    if site:
        return f"{site.rstrip('/')}/rules/{rule.code}/"
    path = default_folder().absolute() / f"rules-{__version__}" / f"{code}.txt"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(explained(rule)) + "\n", encoding="utf-8")
        return Path(path).as_uri()
    return None

