"""The frame of all HTML pages: one file that asks for nothing else, no script, no request.

Templates of Jinja2, which escapes all that they are given; what a terminal could not show is spelled out.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from xla_migrate.reports import plots
from xla_migrate.reports.terminal import shown

if TYPE_CHECKING:
    from jinja2 import Environment, Template


def template(name: str) -> Template:
    """A template of this folder by its file name."""
    return _environment().get_template(name)


def spelled(text: str) -> str:
    """The same with control characters spelled out, and nothing that UTF-8 cannot hold."""
    return shown(text).encode("utf-8", "backslashreplace").decode()


def _finalized(content: Any) -> Any:
    """What a template is about to write: texts spelled out, except those that are markup already."""
    return spelled(content) if type(content) is str else content


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader
    from markupsafe import Markup

    folder = files("xla_migrate.reports")
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_finalized,
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
    )  # fmt: skip
    environment.filters["capital"] = lambda text: text[:1].upper() + text[1:]
    environment.globals |= {
        "style": Markup(folder.joinpath("page.css").read_text(encoding="utf-8")),
        "drawn": lambda plot: Markup(spelled(plots.svg(plot))),
        "table": plots.table,
        "undrawable": lambda plot: [plots.undrawable(one, plot.unit) for one in plot.series],
    }
    return environment
