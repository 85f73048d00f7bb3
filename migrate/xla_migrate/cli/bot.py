"""``xla-migrate bot``: the pull-request bot as a job of a workflow and as a service."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from xla_migrate.bot.job import Conditions

CONTEXT = {"help_option_names": ["-h", "--help"]}
EXTRA = ("githubkit", "gitlab", "hishel", "httpx", "jwt", "pydantic", "starlette", "uvicorn")
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False)
EVENT = click.option(
    "--event", type=FILE, envvar="GITHUB_EVENT_PATH", required=True,
    metavar="FILE", help="The event as JSON.  [default: $GITHUB_EVENT_PATH]",
)  # fmt: skip
SANDBOX = click.option(
    "--sandbox", metavar="COMMAND",
    help="Run code of pull requests by this command, where their base branch asks for it.",
)  # fmt: skip


@click.group(context_settings=CONTEXT)
def bot() -> None:
    """Show on pull requests what a migration would change.

    Needs the extra: pip install 'xla-migrate[bot]'. docs/bot.md is the how-to.
    """


@bot.command(context_settings=CONTEXT)
@EVENT
@click.option("--repository", default=".", type=FOLDER, metavar="FOLDER",
              help="A local repository with head and base of the pull request.  [default: .]")  # fmt: skip
@click.option("--out", type=FILE, required=True, metavar="FILE", help="The report to write.")
@click.option("--allow-running-code", is_flag=True,
              help="Run verify here, where the base branch asks for it: for jobs without token.")  # fmt: skip
@SANDBOX
def run(event: Path, repository: str, out: Path, allow_running_code: bool, sandbox: str | None) -> None:
    """Examine the pull request of an event and write a report; needs no token.

    Exit status: 0 the report is written, 2 it is not.
    """
    with _told():
        from xla_migrate.bot import action, report

        found = action.examine(event, repository, _conditions(sandbox, allow_running_code))
        out.write_bytes(report.write(found))
        click.echo("\n".join(action.told(found)))


@bot.command(context_settings=CONTEXT)
@EVENT
@click.option("--report", "file", type=FILE, metavar="FILE",
              help="The report of `bot run`; without it the pull request is examined here.")  # fmt: skip
def publish(event: Path, file: Path | None) -> None:
    """Bring a report to its pull request, or do what a comment asks for; runs no code of the pull request.

    Reads GITHUB_TOKEN, GITHUB_REPOSITORY, GITHUB_EVENT_NAME and GITHUB_API_URL.
    Exit status: 0 posted, or there was nothing to post; 2 it could not be posted.
    """
    with _told():
        from xla_migrate.bot import action, redact, report

        hidden = redact.set_up([os.environ[name] for name in action.SECRETS if os.environ.get(name)])
        with _hiding(hidden):
            data = None
            if file is not None:
                with open(file, "rb") as opened:
                    data = opened.read(report.LARGEST + 1)
            click.echo(hidden(action.bring(event, data, os.environ)))


@bot.command(context_settings=CONTEXT)
@click.option("--forge", type=click.Choice(["github", "gitlab"]), default="github",
              help="Whose webhooks these are.  [default: github]")  # fmt: skip
@click.option("--host", default="127.0.0.1", help="The address to listen at.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, help="The port.  [default: 8080]")
@click.option("--database", type=FILE, default=Path("xla-migrate-bot.sqlite"), metavar="FILE",
              help="The queue.  [default: xla-migrate-bot.sqlite]")  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1, 64), default=2, help="Pull requests at a time.  [default: 2]"
)
@SANDBOX
def serve(sandbox: str | None, **given: Any) -> None:
    """Listen for webhooks and work on what they ask for; docs/bot.md lists the environment it reads."""
    with _told():
        from xla_migrate.bot.service import Options, serve

        serve(Options(**given), _conditions(sandbox, False), dict(os.environ))


def _conditions(sandbox: str | None, here: bool) -> Conditions:
    from xla_migrate.bot.job import Conditions

    return Conditions(sandbox=shlex.split(sandbox) if sandbox else () if here else None)


@contextmanager
def _told() -> Iterator[None]:
    """What keeps a command from its work, as one line and exit status 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        message = f"{error.name} is not installed: pip install 'xla-migrate[bot]'"
        raise click.UsageError(message) from error
    except Exception as error:
        if not _is_answer(error):
            raise
        click.echo(f"xla-migrate: {error}", err=True)
        raise SystemExit(2) from error


@contextmanager
def _hiding(hidden: Any) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not _is_answer(error):
            raise
        click.echo(f"xla-migrate: {hidden(str(error))}", err=True)
        raise SystemExit(2) from None


def _is_answer(error: Exception) -> bool:
    from xla_migrate.bot.action import WrongUse
    from xla_migrate.bot.forge import ForgeError
    from xla_migrate.bot.queue import InUse
    from xla_migrate.bot.report import BadReport
    from xla_migrate.bot.service import BadEnvironment

    return isinstance(error, (BadEnvironment, BadReport, ForgeError, InUse, OSError, WrongUse))
