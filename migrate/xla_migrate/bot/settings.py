"""``[tool.xla-migrate.bot]``: what a repository asks of the bot, read from the base branch alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Literal, cast

from xla_migrate.config import parsed, table
from xla_migrate.releases import AUTO
from xla_transforms.targets import DEFAULT, target

Apply = Literal["commit", "pull-request", "never"]
FailOn = Literal["never", "error", "changes"]
_CHOICES = {"apply": ("commit", "pull-request", "never"), "fail-on": ("never", "error", "changes")}
MOST_SUGGESTIONS = 30


class BadSettings(ValueError):
    """The configuration says something that has no meaning; the text says what, in the user's words."""


@dataclass(frozen=True)
class Verification:
    """``script`` with ``arguments`` is run natively and migrated, for ``steps`` optimizer steps; ``run-code``
    must say that this may be done with the code of a pull request. ``timeout`` is in seconds."""

    script: str
    arguments: tuple[str, ...] = ()
    steps: int = 3
    run_code: bool = False
    timeout: int = 900


@dataclass(frozen=True)
class Settings:
    """``paths`` are migrated (relative to the repository's root); ``target`` and ``distributed`` are ``None``
    where ``[tool.xla-migrate]`` counts, as it does for all else; ``suggestions`` is the most that are made
    for one head; ``apply`` says what becomes of ``/xla-migrate apply``, ``fail_on`` what fails the check."""

    paths: tuple[str, ...] = (".",)
    target: str | None = None
    distributed: bool | Literal["auto"] | None = None
    suggestions: int = MOST_SUGGESTIONS
    apply: Apply = "pull-request"
    fail_on: FailOn = "never"
    verify: Verification | None = None

    @property
    def spread(self) -> list[str]:
        """The option of a command line that says the same as ``distributed``."""
        said = {True: ["--distributed"], False: ["--no-distributed"]}
        return said[self.distributed] if isinstance(self.distributed, bool) else []


def read(pyproject: bytes | None) -> Settings:
    """The settings in the text of a ``pyproject.toml``; those by default where there is none.

    Raises ``BadSettings``, also where the file cannot be parsed.
    """
    if pyproject is None:
        return Settings()
    try:
        tables = parsed(pyproject)
    except ValueError as error:
        raise BadSettings(f"pyproject.toml cannot be read: {error}") from error
    given = table(table(table(tables, "tool"), "xla-migrate"), "bot")
    return Settings(**_values(Settings, given, "tool.xla-migrate.bot"))


def _values(kind: type[Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    known = {field.name.replace("_", "-"): field.name for field in fields(kind)}
    values = {}
    for key, value in given.items():
        if key not in known:
            alike = get_close_matches(key, known, 1)
            nearest = f": did you mean {alike[0]!r}?" if alike else ""
            raise BadSettings(f"[{where}] has no key {key!r}{nearest}")
        values[known[key]] = _value(key, value, f"[{where}] {key}")
    return values


def _value(key: str, value: Any, where: str) -> Any:
    if key == "verify":
        return _verification(value, where)
    if key in _CHOICES:
        return _required(value in _CHOICES[key], value, where, f"one of {', '.join(_CHOICES[key])}")
    if key in ("paths", "arguments"):
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return tuple(_required(fits, value, where, "a list of texts"))
    if key in ("steps", "suggestions", "timeout"):
        limits = {"steps": (1, 1000), "suggestions": (0, MOST_SUGGESTIONS), "timeout": (1, 3600)}[key]
        fits = type(value) is int and limits[0] <= value <= limits[1]
        return _required(fits, value, where, f"a number from {limits[0]} to {limits[1]}")
    if key == "run-code":
        return _required(isinstance(value, bool), value, where, "true or false")
    if key == "distributed":
        return _required(isinstance(value, bool) or value == "auto", value, where, 'true, false or "auto"')
    text = _required(isinstance(value, str) and value != "", value, where, "a text")
    return _target(text) if key == "target" else text


def _target(name: str) -> str:
    try:
        target(DEFAULT if name == AUTO else name)
    except ValueError as error:
        raise BadSettings(f"[tool.xla-migrate.bot] target: {error}") from error
    return name


def _verification(value: Any, where: str) -> Verification:
    given = _required(isinstance(value, dict), value, where, "a table")
    values = _values(Verification, given, "tool.xla-migrate.bot.verify")
    return Verification(**_required("script" in values, values, where, "a table that names its script"))


def _required(fits: bool, value: Any, where: str, wanted: str) -> Any:
    if not fits:
        raise BadSettings(f"{where} is {value!r}, not {wanted}")
    return cast("Any", value)
