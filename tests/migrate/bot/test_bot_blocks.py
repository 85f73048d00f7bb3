"""Groups of blocks: each of them alone leaves what the migration of its changes alone gives."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from xla_migrate import migrate_source
from xla_migrate.bot.blocks import Block, groups

ROOT = Path(__file__).parents[3]
HEAD = 'import torch\n\ndevice = torch.device("cuda")\nmodel = torch.nn.Linear(4, 2).to(device)\n'


def applied(source: str, blocks: tuple[Block, ...]) -> str:
    lines = source.split("\n")
    for block in sorted(blocks, key=lambda block: -block.start):
        lines[block.start - 1 : block.end] = block.lines
    return "\n".join(lines)


SCRIPTS = sorted((ROOT / "golden").glob("*/native.py"))[::20]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.parent.name)
def test_all_groups_together_are_the_migration_and_each_leaves_a_script(path: Path) -> None:
    source = path.read_text()
    result = migrate_source(source)
    parts = groups(result.patch)
    assert applied(source, tuple(block for group in parts for block in group.blocks)) == result.code
    for group in parts:
        ast.parse(applied(source, group.blocks))
    assert sorted(id for group in parts for id in group.changes) == sorted(c.id for c in result.changes)
    lines = [line for g in parts for b in g.blocks for line in range(b.start, b.end + 1)]
    assert len(lines) == len(set(lines))


def test_an_import_is_in_the_group_of_what_uses_it() -> None:
    [group] = groups(migrate_source(HEAD).patch)
    assert any("import torch_xla" in block.lines for block in group.blocks)
    assert any("device = torch_xla.device()" in block.lines for block in group.blocks)


def test_independent_changes_are_groups_of_their_own() -> None:
    source = HEAD + "torch.backends.cudnn.benchmark = True\n"
    parts = groups(migrate_source(source).patch)
    assert len(parts) == 2
    assert [(b.start, b.end, b.lines) for b in parts[1].blocks] == [(5, 5, ())]


@pytest.mark.parametrize("text", [HEAD.replace("\n", "\r\n"), HEAD[:-1], HEAD + "\x0c\nx = 1\n"])
def test_lines_that_a_suggestion_cannot_hold_make_no_group(text: str) -> None:
    result = migrate_source(text)
    assert result.changed
    assert groups(result.patch) == ()


def test_nothing_to_change_makes_no_group() -> None:
    assert groups(migrate_source("x = 1\n").patch) == ()
