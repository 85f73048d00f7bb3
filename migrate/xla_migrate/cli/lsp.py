"""``xla-migrate lsp``."""

from __future__ import annotations

import click

from xla_migrate.cli import offers
from xla_migrate.releases import AUTO
from xla_transforms.targets import DEFAULT
from xla_transforms.targets import target as known_target

_CONTEXT = {"help_option_names": ["-h", "--help"]}
_EXTRA = ("attrs", "lsprotocol", "pygls")


@click.command(context_settings=_CONTEXT)
@click.option("--target", default="", metavar="RELEASE", shell_complete=offers.targets,
              help=f"The torch_xla release to write for, or auto.  [default: the project's, else {DEFAULT}]")
@click.option("--docs", default="", metavar="URL",
              help="The root of a published site of the documentation, to link rules to.")  # fmt: skip
def lsp(target: str, docs: str) -> None:
    """Serve an editor on standard input and output, by the Language Server Protocol.

    Needs the extra: pip install 'xla-migrate[lsp]'. docs/editors.md tells how editors start it.
    """
    try:
        known_target(DEFAULT if target in ("", AUTO) else target)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    try:
        from xla_migrate.lsp.server import Options, made
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise click.UsageError(f"{error.name} is not installed: pip install 'xla-migrate[lsp]'") from error
    made(Options(target, docs)).start_io()
