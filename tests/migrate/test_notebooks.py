"""Notebooks: what becomes of their cells, and of everything else in their files."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from notebook_files import cell, notebook, sources
from running import Cli

from xla_migrate import migrate_file, migrate_project, migrate_source
from xla_migrate.api import Result
from xla_migrate.notebooks import NotebookOutcome

IMPORTS = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader"
DEVICE = "device = torch.device('cuda')"
MODEL = "model = nn.Linear(8, 1).to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
LOADER = "loader = DataLoader(data, batch_size=16, drop_last=True)"
LOOP = (
    "for x, y in loader:\n    x, y = x.to(device), y.to(device)\n    optimizer.zero_grad()\n"
    "    loss = nn.functional.mse_loss(model(x), y)\n    loss.backward()\n    optimizer.step()"
)


def migrated(*cells: object, **options: object) -> Result:
    return migrate_source(notebook(*cells), path="demo.ipynb", **options)  # type: ignore[arg-type]


def after(*cells: object) -> list[str]:
    """The sources of the migrated notebook, which is a valid one."""
    result = migrated(*cells)
    assert not result.failed, result.findings
    nbformat.validate(nbformat.reads(result.code, as_version=4))
    assert migrate_source(result.code, path="demo.ipynb").code == result.code
    return sources(result.code)


def codes(result: Result) -> list[str]:
    return [finding.code for finding in result.findings]


def test_a_notebook_without_torch_stays() -> None:
    assert not migrated("x = 1", "y = 'cuda'").changed


def test_a_notebook_in_another_language_stays() -> None:
    text = notebook("library(torch)\nmodel$cuda()", language="R")
    result = migrate_source(text, path="demo.ipynb")
    assert (result.code, result.findings) == (text, ())


def test_prose_stays() -> None:
    prose = cell("import torch\nmodel.cuda()", kind="markdown")
    assert after(prose, "import torch\nx.cuda()")[0] == "import torch\nmodel.cuda()"


def test_the_same_text_by_another_name_is_no_notebook() -> None:
    result = migrate_source(notebook("import torch\nx.cuda()"), path="demo.json")
    assert not result.changed


def test_cells_are_one_program() -> None:
    assert after(IMPORTS, DEVICE, LOADER, MODEL, LOOP) == [
        IMPORTS + "\nimport torch_xla\nimport torch_xla.core.xla_model as xm\n"
        "import torch_xla.distributed.parallel_loader as pl",
        "device = torch_xla.device()",
        LOADER + "\nloader = pl.MpDeviceLoader(loader, device)",
        MODEL,
        LOOP.replace("    x, y = x.to(device), y.to(device)\n", "").replace(
            "optimizer.step()", "xm.optimizer_step(optimizer)"
        ),
    ]


def test_a_loop_in_each_of_two_cells() -> None:
    found = after(IMPORTS, DEVICE, LOADER, MODEL, LOOP, "print(loss.item())", LOOP)
    assert found[4] == found[6]
    assert "xm.optimizer_step(optimizer)" in found[4]


def test_imports_go_to_the_cell_with_the_imports() -> None:
    found = after("%pip install torch", "import torch", "x = torch.ones(2).cuda()")
    assert found == [
        "%pip install torch",
        "import torch\nimport torch_xla",
        "x = torch.ones(2).to(torch_xla.device())",
    ]


def test_a_cell_that_becomes_empty() -> None:
    found = after("import torch", "torch.backends.cudnn.benchmark = True", "x = torch.ones(2).cuda()")
    assert found[1] == ""


@pytest.mark.parametrize(
    "line",
    [
        "%matplotlib inline",
        "%load_ext autoreload\n%autoreload 2",
        "!pip install 'torch' && echo \"it's\"",
        "!python a.py \\\n    --lr 1",
        "?model",
        "model??",
        "torch.nn.Linear?",
        "files = !ls (",
        "a, b = %sql select 'x",
        "if x:\n    %matplotlib inline",
        "%timeit model(x)",
        "/print 1",
    ],
)
def test_lines_of_ipython_stay(line: str) -> None:
    found = after("import torch", f"{line}\nx = torch.ones(2).cuda()\n{line}", line)
    assert found[1] == f"{line}\nx = torch.ones(2).to(torch_xla.device())\n{line}"
    assert found[2] == line


@pytest.mark.parametrize(
    "text",
    [
        "y = '''\n%matplotlib inline\n!ls\n'''",
        "y = (x\n  % 3)",
        "y = 4 \\\n  % 3",
        'print("lr = %f" % lr)',
        "# %time x\n# !ls",
        "y = {\n  'a': 1,  # it's (\n}",
        'y["a = %d" % 1] = 2',
    ],
)
def test_what_looks_like_a_magic_is_python(text: str) -> None:
    found = after("import torch", f"{text}\nx = torch.ones(2).cuda()")
    assert found[1] == f"{text}\nx = torch.ones(2).to(torch_xla.device())"


@pytest.mark.parametrize(
    "heading", ["%%time", "%%capture out --no-stderr", "%%time\n%%capture", "\n%%timeit -n 3"]
)
def test_cells_that_a_magic_runs_as_python(heading: str) -> None:
    found = after("import torch", f"{heading}\nx = torch.ones(2).cuda()")
    assert found[1] == f"{heading}\nx = torch.ones(2).to(torch_xla.device())"


def test_imports_go_below_the_magic_of_a_cell() -> None:
    (found,) = after("%%time\nfrom torch import *\nx = ones(2).to('cuda')")
    assert found.startswith("%%time\nfrom torch import *\n")


def test_a_statement_behind_time_is_read() -> None:
    found = after(
        IMPORTS, DEVICE, "%time model = nn.Linear(2, 2).cuda()", "def f():\n    %time model.cuda(); 1"
    )
    assert found[2:] == [
        "%time model = nn.Linear(2, 2).to(device)",
        "def f():\n    %time model.to(device); 1",
    ]


def test_a_statement_that_would_not_stay_one_line_is_not_read() -> None:
    condition = "%time y = x.cuda() if torch.cuda.is_available() else x"
    result = migrated("import torch", "x = torch.ones(2).cuda()", condition, "torch.cuda.synchronize()")
    assert sources(result.code)[2].startswith("%time y = ")
    assert "\n" not in sources(result.code)[2]


def test_awaiting_at_the_top() -> None:
    found = after("import torch", "x = await load()", "async for y in x:\n    z = y.cuda()")
    assert found[1:] == ["x = await load()", "async for y in x:\n    z = y.to(torch_xla.device())"]


@pytest.mark.parametrize("magic", ["%%bash", "%%writefile train.py", "%%html", "%%cython -a"])
def test_cells_for_something_else_stay(magic: str) -> None:
    found = after("import torch", f"{magic}\nx = 'cuda' (", "x = torch.ones(2).cuda()")
    assert found[1] == f"{magic}\nx = 'cuda' ("
    assert "torch_xla.device()" in found[2]


def test_a_script_that_a_cell_writes_is_reported() -> None:
    result = migrated(
        "import torch", "%%writefile train.py\nimport torch\nx.cuda()", "x = torch.ones(2).cuda()"
    )
    assert codes(result) == ["XLA013"]
    assert result.findings[0].message == "cell 2 is not the notebook's Python: %%writefile"


def test_code_that_a_magic_hides_is_reported() -> None:
    result = migrated("import torch\nx = torch.ones(2).cuda()", "%timeit -n 3 x.cuda()")
    assert codes(result) == ["XLA013"]
    assert result.findings[0].message == "cell 2 gives %timeit code that was not read"


def test_a_cell_with_a_language_of_its_own_stays() -> None:
    other = cell("let x = cuda;", vscode={"languageId": "javascript"})
    assert after("import torch", other, "x = torch.ones(2).cuda()")[1] == "let x = cuda;"


@pytest.mark.parametrize(
    "broken", ["x = (", "print 'cuda'", "  x = 1", "'''", "x.cuda(async=True)", "x = 1 \\"]
)
def test_a_cell_that_is_not_python_is_reported_and_the_others_are_done(broken: str) -> None:
    result = migrated("import torch", cell("a\nb", kind="markdown"), broken, "x = torch.ones(2).cuda()")
    assert codes(result) == ["XLA012"]
    assert result.findings[0].message.startswith("cell 3 is not Python 3: ")
    assert sources(result.code)[2:] == [broken, "x = torch.ones(2).to(torch_xla.device())"]
    assert not result.failed


def test_findings_are_placed_in_the_file_and_in_the_cell() -> None:
    result = migrated("import torch\nx = torch.ones(2).cuda()", "y = 2\n\nif y:\n    print(x '\\'")
    (finding,) = result.findings
    lines = result.patch.outcome.source.split("\n")
    assert "print(x '" in lines[finding.span.line - 1]
    outcome = result.patch.outcome
    assert isinstance(outcome, NotebookOutcome)
    place = outcome.cell_place(finding.span.start)
    assert place is not None
    assert place[:2] == (2, 4)


def test_places_in_a_migrated_cell() -> None:
    result = migrated("import torch\n\nx = torch.ones(2).cuda()\nnote = 1", "y = 1")
    outcome = result.patch.outcome
    assert isinstance(outcome, NotebookOutcome)
    offset = outcome.source.index("note")
    assert outcome.cell_place(offset) == (1, 4, 1)
    assert outcome.cell_place(offset, migrated=True) == (1, 5, 1)
    assert outcome.cell_place(0) is None


def test_changes_are_placed_in_the_file() -> None:
    result = migrated("import torch", "x = 1", 'y = "\\"é\\u00e9\\t" + f(torch.ones(2).cuda())')
    (span,) = next(change.spans for change in result.changes if change.code.startswith("XLA1"))
    text = result.patch.outcome.source
    assert text[span.start : span.end] == "torch.ones(2).cuda()"
    assert text.split("\n")[span.line - 1][span.column - 1 :].startswith("torch.ones(2)")


def test_some_of_the_changes() -> None:
    result = migrated(IMPORTS, DEVICE, LOADER, MODEL, LOOP)
    source = result.patch.outcome.source
    chosen = [change for change in result.changes if change.code == "XLA101"]
    found = sources(result.patch.narrow(chosen).apply(source))
    assert found == [IMPORTS + "\nimport torch_xla", "device = torch_xla.device()", LOADER, MODEL, LOOP]
    assert result.patch.narrow(result.changes).edits == result.patch.edits


@pytest.mark.parametrize("indent", [None, 1, 2, 4])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_other_byte_stays(indent: int | None, listed: bool, newline: str) -> None:
    cells = [
        cell(s, listed=listed) for s in ("import torch\ny = 'é😀'", "z = 1", "x = torch.ones(2).cuda()\nz")
    ]
    text = notebook(*cells, indent=indent).replace("\n", newline)
    result = migrate_source(text.encode(), path="demo.ipynb")
    # the added line is the only one that differs, but for the one that uses it
    old, new = text, result.code
    assert json.loads(new)["cells"][1] == json.loads(old)["cells"][1]
    back = new.replace(".to(torch_xla.device())", ".cuda()")
    added = "import torch_xla\\n" if not listed else None
    if added is None:
        inner = newline + " " * (4 * (indent or 0)) if indent else " "
        added = f'{inner}"import torch_xla\\n",'
    assert back.replace(added, "", 1) == old


def test_escapes_are_written_as_the_file_writes_them() -> None:
    text = json.dumps(json.loads(notebook("import torch\nx = f('é😀', torch.ones(2).cuda())  # é")), indent=1)
    assert text.isascii()
    result = migrate_source(text, path="demo.ipynb")
    assert result.code.isascii()
    assert sources(result.code)[0].endswith("x = f('é😀', torch.ones(2).to(torch_xla.device()))  # é")


@pytest.mark.parametrize("mark", ["\ufeff", ""])
@pytest.mark.parametrize("ending", ["", "\n", "\n\n"])
def test_the_ends_of_the_file_stay(mark: str, ending: str) -> None:
    text = mark + notebook("import torch\nx = torch.ones(2).cuda()").rstrip("\n") + ending
    result = migrate_source(text, path="demo.ipynb")
    assert result.changed
    assert result.code.startswith(mark + "{")
    assert result.code.endswith("}" + ending)


def test_windows_newlines_in_a_source_stay() -> None:
    (found,) = after("import torch\r\n\r\nx = torch.ones(2).cuda()\r\n")
    assert found == "import torch\r\nimport torch_xla\r\n\r\nx = torch.ones(2).to(torch_xla.device())\r\n"


def test_an_encoding_that_a_cell_declares_counts_for_nothing() -> None:
    found = after("# -*- coding: latin-1 -*-\nimport torch", "y = 'é'\nx = torch.ones(2).cuda()")
    assert found[1].startswith("y = 'é'\n")


def test_half_a_character_leaves_its_cell_alone() -> None:
    text = notebook("import torch\nx = torch.ones(2).cuda()", "y = 'HALF'").replace("HALF", "\\ud83d")
    result = migrate_source(text, path="demo.ipynb")
    assert codes(result) == ["XLA012"]
    assert "\\ud83d" in result.code


def test_a_name_that_the_masks_would_take() -> None:
    found = after("# cell 1\n# cell 2\n_magic_2_0 = 1\nimport torch", "!ls\nx = torch.ones(2).cuda()")
    assert found[0].startswith("# cell 1\n# cell 2\n_magic_2_0 = 1\nimport torch")
    assert found[1] == "!ls\nx = torch.ones(2).to(torch_xla.device())"


def test_changed_lines_are_formatted_cell_by_cell() -> None:
    long = "print(some_function(argument_number_one, model.cuda(), argument_number_two_is_longer))"
    found = after("import torch", DEVICE, "b=2", long, long + ";", "b=2\n" + long)
    assert found[2] == "b=2"
    assert [source.count("\n") for source in found[3:]] == [2, 0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"cells": [1,, "torch"]}', "not a notebook: no JSON: "),
        ("", "nothing"),
        ('["torch"]', "not a notebook: it names no nbformat"),
        ('{"nbformat": 3, "worksheets": ["torch"]}', "the notebook is of the old format 3"),
        ('{"nbformat": 5, "cells": ["torch"]}', "the notebook is of a format that is not known: 5"),
        ('{"nbformat": 4, "cells": "torch"}', "not a notebook: it has no list of cells"),
        ('{"nbformat": 4, "cells": ["torch"]}', "not a notebook: cell 1 has no source"),
        (
            '{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["torch", 3]}]}',
            "not a notebook: the source of cell 1 is no text",
        ),
        ('{"nbformat": 4, "torch": ' + "[" * 100_000, "not a notebook: nested too deeply"),
    ],
)
def test_what_is_no_notebook_is_left_and_said(text: str, message: str) -> None:
    result = migrate_source(text, path="demo.ipynb")
    assert result.code == text
    if message == "nothing":
        assert (result.failed, result.findings) == (False, ())
        return
    assert result.failed
    assert result.findings[0].code == "XLA011"
    assert result.findings[0].message.startswith(message)


def test_the_place_where_it_is_no_json() -> None:
    result = migrate_source('{\n "torch": 1,,\n}', path="demo.ipynb")
    assert (result.findings[0].span.line, result.findings[0].span.column) == (2, 13)


def test_bytes_that_are_no_text() -> None:
    result = migrate_source(b'{"torch": "\xff"}', path="demo.ipynb")
    assert result.findings[0].message == "not a notebook: byte 0xff is not utf-8"


def test_training_in_replicas_cannot_start_from_a_notebook() -> None:
    result = migrated(IMPORTS, DEVICE, LOADER, MODEL, LOOP, distributed=True)
    (finding,) = [f for f in result.findings if f.code == "XLA163"]
    assert "notebook" in finding.message


def test_processes_that_a_notebook_spawns_are_left() -> None:
    worker = (
        "import torch.distributed as dist\nimport torch.multiprocessing as mp\n"
        "from torch.nn.parallel import DistributedDataParallel\n\ndef worker(rank):\n"
        "    dist.init_process_group('nccl', rank=rank, world_size=2)\n"
        "    model = DistributedDataParallel(nn.Linear(2, 2).cuda(rank))"
    )
    result = migrated(IMPORTS, worker, "mp.spawn(worker, nprocs=2)")
    (finding,) = [f for f in result.findings if f.code == "XLA163"]
    assert "a module that the notebook imports" in finding.advice
    assert "mp.spawn(worker, nprocs=2)" in sources(result.code)


def test_a_notebook_and_the_modules_that_it_imports_are_one_program(here: Path) -> None:
    (here / "nets.py").write_text(
        "import torch\n\n\ndef place(model, device):\n    return model.to(device)\n"
    )
    (here / "demo.ipynb").write_text(
        notebook("import torch\nfrom nets import place", "m = place(torch.nn.Linear(2, 2), 'cuda')")
    )
    results = migrate_project(".")
    assert sources(results["demo.ipynb"].code)[1] == "m = place(torch.nn.Linear(2, 2), torch_xla.device())"
    assert not results["nets.py"].changed


def test_a_notebook_is_written_in_place(here: Path, cli: Cli) -> None:
    (here / "demo.ipynb").write_text(notebook("import torch", "x = torch.ones(2).cuda()"))
    assert cli("--inplace", "demo.ipynb").code == 0
    assert sources((here / "demo.ipynb").read_text())[1] == "x = torch.ones(2).to(torch_xla.device())"
    assert not migrate_file("demo.ipynb").changed


def test_a_notebook_from_standard_input(cli: Cli) -> None:
    text = notebook("import torch", "x = torch.ones(2).cuda()")
    ran = cli("-", "--stdin-filename", "demo.ipynb", stdin=text.encode())
    assert sources(ran.text)[1] == "x = torch.ones(2).to(torch_xla.device())"


def test_folders_are_walked_for_notebooks_but_not_for_their_checkpoints(here: Path) -> None:
    for name in ("a/demo.ipynb", "a/.ipynb_checkpoints/demo-checkpoint.ipynb"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(notebook("import torch", "x = torch.ones(2).cuda()"))
    assert list(migrate_project(".")) == ["a/demo.ipynb"]


def test_the_preview_shows_a_diff_for_each_cell(here: Path, cli: Cli) -> None:
    cells = ("import torch", cell("# prose", kind="markdown"), "\nx = torch.ones(2).cuda()", "print 'cuda'")
    (here / "demo.ipynb").write_text(notebook(*cells))
    ran = cli("demo.ipynb")
    assert ran.code == 1
    first, second = ran.text.split("--- a/demo.ipynb:cell 3\t\n")
    assert first == (
        "--- a/demo.ipynb:cell 1\t\n+++ b/demo.ipynb:cell 1\t\n"
        "@@ -1 +1,2 @@\n import torch\n+import torch_xla\n"
    )
    assert second.startswith(
        "+++ b/demo.ipynb:cell 3\t\n@@ -1,2 +1,2 @@\n \n"
        "-x = torch.ones(2).cuda()\n+x = torch.ones(2).to(torch_xla.device())\n"
    )
    assert "    demo.ipynb:cell 4:1:1  | " in second
    concise = cli("demo.ipynb", "--output-format", "concise", "--inplace").text
    assert "demo.ipynb:cell 4:1:1: error XLA012 cell 4 is not Python 3: " in concise


def test_a_patch_is_one_of_the_file(here: Path, cli: Cli) -> None:
    text = notebook("import torch", "x = torch.ones(2).cuda()")
    (here / "demo.ipynb").write_text(text)
    assert '+    "x = torch.ones(2).to(torch_xla.device())"' in cli("--diff", "demo.ipynb").text.split("\n")


# ---- comments that say what is to be left alone


SEEDED = "model = nn.Linear(8, 1).cuda()\ntorch.cuda.manual_seed(1)"


def left_out(*cells: object) -> list[str]:
    return [one.change.code for one in migrated(*cells).left_out]


@pytest.mark.parametrize("listed", [True, False])
def test_a_comment_leaves_its_line_alone(listed: bool) -> None:
    hidden = SEEDED.replace("seed(1)", "seed(1)  # xla-migrate: ignore[XLA221] seeded elsewhere")
    result = migrated(IMPORTS, cell("Prose", "markdown"), cell(hidden, listed=listed))
    assert [one.change.code for one in result.left_out] == ["XLA221"]
    assert hidden.split("\n")[1] in sources(result.code)[2]
    assert "to(torch_xla.device())" in sources(result.code)[2]
    (finding,) = [f for f in result.findings if f.code == "XLA007"]
    assert "ignored by the comment in cell 3:2 (seeded elsewhere)" in finding.message
    assert "cell 3:2: XLA221" in finding.advice


@pytest.mark.parametrize(
    ("above", "codes"),
    [
        ("# xla-migrate: ignore[XLA104]\n", ["XLA104"]),
        ("# xla-migrate: ignore-start[XLA2]\n", ["XLA221"]),
        ("# xla-migrate: ignore-start\n# xla-migrate: ignore-end\n", []),
        ("# xla-migrate: ignore-cell\n", ["XLA104", "XLA221"]),
        ("# xla-migrate: ignore-cell[XLA221]\n", ["XLA221"]),
        ("%%time\n# xla-migrate: ignore-cell[XLA221]\n", ["XLA221"]),
        ("%matplotlib inline\n!ls \\\n  -l\n# xla-migrate: ignore[XLA104]\n", ["XLA104"]),
    ],
)
def test_a_comment_may_speak_of_a_statement_a_range_or_the_cell(above: str, codes: list[str]) -> None:
    assert left_out(IMPORTS, above + SEEDED) == codes
    other = "torch.cuda.manual_seed_all(1)"
    assert left_out(IMPORTS, above + SEEDED, other) == codes
    assert left_out(IMPORTS, other, above + SEEDED) == codes


def test_a_comment_may_speak_of_the_whole_notebook() -> None:
    assert left_out("# xla-migrate: ignore-file[XLA221]\n" + IMPORTS, SEEDED, SEEDED) == ["XLA221"] * 2


def test_a_comment_that_ends_a_cell_does_not_reach_the_next_one() -> None:
    text = notebook(IMPORTS + "\n# xla-migrate: ignore[XLA104]", SEEDED)
    result = migrate_source(text, path="demo.ipynb")
    assert result.left_out == ()
    (finding,) = [f for f in result.findings if f.code == "XLA008"]
    assert finding.message == "this comment hides nothing"
    assert text[finding.span.start :].startswith("# xla-migrate: ignore[XLA104]")


def test_a_cell_for_something_else_is_hidden_by_a_comment_in_it() -> None:
    written = "%%writefile train.py\nimport torch\nmodel.cuda()\n"
    assert "XLA013" in codes(migrated(SEEDED, written))
    hidden = migrated(SEEDED, written.replace("import", "# xla-migrate: ignore[XLA013]\nimport"))
    assert "XLA013" not in codes(hidden)
    assert "XLA008" not in codes(hidden)


def test_a_script_has_no_cells() -> None:
    script = f"{IMPORTS}\n# xla-migrate: ignore-cell\n# xla-migrate: ignore-line\n{SEEDED}\n"
    result = migrate_source(script, path="train.py")
    assert result.left_out == ()
    told = [f.message for f in result.findings if f.code == "XLA008"]
    assert told == ["only a notebook has cells", "there is no ignore-line"]


def test_comments_are_added_to_cells_and_hide_what_was_found(here: Path, cli: Cli) -> None:
    loop = LOOP.replace("loader", "DataLoader(data, batch_size=16)")
    cells = (
        cell("Prose: é", "markdown"),
        IMPORTS,
        f"{DEVICE}\n{MODEL}",
        f"%matplotlib inline\n{loop}\n    lost = [loss.item() for loss in \\\n        [loss]]",
        "%timeit model(torch.zeros(2, 8).cuda())\n!torchrun --nproc_per_node 2 train.py",
    )
    text = notebook(*cells)
    (here / "demo.ipynb").write_text(text)
    before = migrate_file("demo.ipynb")
    found = {f.code for f in before.findings if not f.fixed and not f.code.startswith("XLA00")}
    assert len(found) > 1
    assert cli("demo.ipynb", "--add-ignore").code == 0
    after = migrate_file("demo.ipynb")
    assert [f.code for f in after.findings if not f.fixed and not f.code.startswith("XLA007")] == []
    nbformat.validate(nbformat.reads(Path("demo.ipynb").read_text(), as_version=4))
    new = sources(Path("demo.ipynb").read_text())
    assert new[:2] == sources(text)[:2]
    bare = ["\n".join(line.split("  # xla-migrate")[0] for line in one.split("\n")
                      if not line.strip().startswith("# xla-migrate")) for one in new]  # fmt: skip
    assert bare == sources(text)
