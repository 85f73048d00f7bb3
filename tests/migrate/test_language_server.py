"""The language server, started as an editor starts it and asked over its standard streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from editor import Editor, editor

from xla_migrate import migrate_project, migrate_source
from xla_migrate.cli import main

pytestmark = pytest.mark.slow  # each test starts a server

SCRIPT = """\
import torch

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.ones(3, 8, 4):
    optimizer.zero_grad()
    loss = model(x.cuda()).sum()
    loss.backward()
    optimizer.step()
    print(loss.item())
print(torch.cuda.get_device_capability())
torch.cuda.synchronize()
"""
HINT = 4


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Editor]:
    with editor(cache=tmp_path / "cache") as started:
        yield started


def uri(path: Path) -> str:
    return path.as_uri()


def test_nothing_is_said_of_code_without_gpus(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    assert running.open(uri(tmp_path / "a.py"), "x = 1\n") == []
    assert running.actions(uri(tmp_path / "a.py"), 0, 1) == []
    assert running.stop() == 0


def test_findings_are_diagnostics_and_changes_are_hints(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    path = tmp_path / "train.py"
    found = running.open(uri(path), SCRIPT)
    expected = migrate_source(SCRIPT, path=str(path))
    hints = [one for one in found if one["severity"] == HINT]
    told = [one for one in found if one["severity"] != HINT]
    assert [one["code"] for one in told] == [finding.code for finding in expected.findings]
    assert [one["code"] for one in hints] == [change.code for change in expected.changes]
    assert expected.findings
    assert expected.changes
    for one, finding in zip(told, expected.findings, strict=True):
        assert one["source"] == "xla-migrate"
        assert one["message"].startswith(finding.message)
        assert running.cut(SCRIPT, one["range"]) == SCRIPT[finding.span.start : finding.span.end]
    page = Path(unquote(urlparse(hints[0]["codeDescription"]["href"]).path))
    assert page.read_text().startswith(f"{hints[0]['code']} ")


def test_the_severities_are_those_of_the_findings(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    code = "import torch\nmodel = torch.nn.Linear(4, 2).cuda()\ngraph = torch.cuda.CUDAGraph()\n"
    found = running.open(uri(tmp_path / "a.py"), code)
    findings = migrate_source(code).findings
    assert findings
    severities = {"ERROR": 1, "WARNING": 2, "INFO": 3}
    expected = [3 if one.fixed else severities[one.severity.name] for one in findings]
    assert [one["severity"] for one in found if one["severity"] != HINT] == expected
    assert 1 in expected


def test_a_fix_is_one_change_with_those_that_it_needs(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    path = tmp_path / "train.py"
    running.open(uri(path), SCRIPT)
    expected = migrate_source(SCRIPT, path=str(path))
    for action in running.actions(uri(path), 11, 11, ["quickfix"]):
        (changed,) = action["edit"]["documentChanges"]
        assert changed["textDocument"] == {"uri": uri(path), "version": 1}
        result = running.edited(SCRIPT, changed["edits"])
        compile(result, "train.py", "exec")
        change = next(one for one in expected.changes if one.code == action["diagnostics"][0]["code"])
        assert result == expected.patch.narrow([change]).outcome.code
        assert result != expected.code
        break
    else:
        pytest.fail("nothing is offered for torch.cuda.synchronize()")


def test_the_whole_file_is_a_source_action(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    path = tmp_path / "train.py"
    running.open(uri(path), SCRIPT)
    (action,) = running.actions(uri(path), 0, 0, ["source"])
    assert action["kind"] == "source.xlaMigrate.file"
    edits = action["edit"]["documentChanges"][0]["edits"]
    assert running.edited(SCRIPT, edits) == migrate_source(SCRIPT, path=str(path)).code
    assert running.actions(uri(path), 0, 0, ["source.fixAll"]) == []


def test_a_client_that_knows_no_versions_gets_plain_edits(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None, versions=False)
    path = tmp_path / "train.py"
    running.open(uri(path), SCRIPT)
    (action,) = running.actions(uri(path), 0, 0, ["source"])
    edits = action["edit"]["changes"][uri(path)]
    assert running.edited(SCRIPT, edits) == migrate_source(SCRIPT, path=str(path)).code


ODD = {
    "other alphabets": 'import torch\ns = "\U0001f680\u00fc"; m = torch.ones(1).cuda(); s = "\u00fc"\n',
    "carriage returns": "import torch\r\nif True:\r\n\tm = torch.nn.Linear(1, 1).cuda()\r\n",
    "tabs": "import torch\nif True:\n\tm = torch.nn.Linear(1, 1).cuda(); n = m.cuda()\n",
    "separators that end no line": 'import torch\ns = "\u2028\x0c\x85"\nm = torch.nn.Linear(1, 1).cuda()\n',
    "a mark at the beginning": "\ufeffimport torch\nm = torch.nn.Linear(1, 1).cuda()\n",
    "another encoding": '# coding: latin-1\nimport torch\ns = "\u00e9"; m = torch.nn.Linear(1, 1).cuda()\n',
}


@pytest.mark.parametrize(
    ("asked", "agreed"), [(None, "utf-16"), (["utf-8", "utf-16"], "utf-8"), (["utf-32"], "utf-32")]
)
def test_positions_fit_the_text_in_every_encoding(
    running: Editor, tmp_path: Path, asked: list[str] | None, agreed: str
) -> None:
    running.start(tmp_path, asked)
    assert running.encoding == agreed
    for name, code in ODD.items():
        path = tmp_path / name / "a.py"
        found = running.open(uri(path), code)
        expected = migrate_source(code, path=str(path))
        spans = [one.span for one in expected.findings] + [one.spans[0] for one in expected.changes]
        cuts = [running.cut(code, one["range"]) for one in found]
        assert cuts == [code[span.start : span.end] for span in spans], name
        (action,) = running.actions(uri(path), 0, 0, ["source"])
        edits = action["edit"]["documentChanges"][0]["edits"]
        assert running.edited(code, edits) == expected.code != code, name


def test_text_that_is_typed_is_looked_at_once_it_rests(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    path = tmp_path / "train.py"
    running.open(uri(path), "")
    for version in range(2, 40):
        running.change(uri(path), SCRIPT[: version * 4], version)
    running.change(uri(path), SCRIPT, 40)
    assert running.diagnostics(uri(path), 40)
    (action,) = running.actions(uri(path), 0, 0, ["source"])
    assert action["edit"]["documentChanges"][0]["textDocument"]["version"] == 40


def test_actions_wait_for_the_text_that_they_are_asked_for(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    path = tmp_path / "train.py"
    running.open(uri(path), "")
    running.change(uri(path), SCRIPT, 2)
    (action,) = running.actions(uri(path), 0, 0, ["source"])
    edits = action["edit"]["documentChanges"][0]["edits"]
    assert running.edited(SCRIPT, edits) == migrate_source(SCRIPT, path=str(path)).code


def test_half_typed_code_is_told_and_does_not_end_the_server(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    path = tmp_path / "train.py"
    found = running.open(uri(path), SCRIPT + "def (\n")
    assert [one["severity"] for one in found] == [1]
    running.change(uri(path), SCRIPT, 2)
    assert len(running.diagnostics(uri(path), 2)) > 1


MODEL = "import torch\n\n\ndef build(device):\n    return torch.nn.Linear(4, 2).to(device)\n"
MAIN = """\
import torch
from model import build

device = torch.device("cuda")
model = build(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.ones(3, 8, 4):
    optimizer.zero_grad()
    model(x.to(device)).sum().backward()
    optimizer.step()
"""
HELPER = "import torch\n\n\ndef wait():\n    torch.cuda.synchronize()\n"


def test_files_that_import_one_another_are_one_program(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    main_text = MAIN + "import helper\n\nhelper.wait()\n"
    for name, text in {"train.py": main_text, "model.py": MODEL, "helper.py": HELPER}.items():
        (tmp_path / name).write_text(text)
    running.open(uri(tmp_path / "train.py"), main_text)
    actions = running.actions(uri(tmp_path / "train.py"), 0, 0, ["source"])
    assert [one["kind"] for one in actions] == ["source.xlaMigrate.file", "source.xlaMigrate.program"]
    expected = {Path(path).name: one for path, one in migrate_project(tmp_path).items() if one.changed}
    changed = {
        Path(one["textDocument"]["uri"]).name: one for one in actions[1]["edit"]["documentChanges"]
    }
    assert set(changed) == set(expected) >= {"train.py", "helper.py"}
    for name, one in changed.items():
        text = (tmp_path / name).read_text()
        assert running.edited(text, one["edits"]) == expected[name].code
    assert changed["helper.py"]["textDocument"]["version"] is None


def test_an_open_file_counts_as_the_editor_shows_it(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    helper, train = tmp_path / "helper.py", tmp_path / "train.py"
    helper.write_text("")
    train.write_text(MAIN + "import helper\n\nhelper.wait()\n")
    running.open(uri(helper), HELPER)
    running.open(uri(train), train.read_text())
    actions = running.actions(uri(train), 0, 0, ["source.xlaMigrate.program"])
    names = {Path(one["textDocument"]["uri"]).name for one in actions[0]["edit"]["documentChanges"]}
    assert names == {"helper.py", "train.py"}
    assert helper.read_text() == ""


def test_imports_are_followed_anew_where_a_file_is_saved(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    train = tmp_path / "train.py"
    (tmp_path / "helper.py").write_text(HELPER)
    running.open(uri(train), MAIN)
    assert running.actions(uri(train), 0, 0, ["source.xlaMigrate.program"]) == []
    running.change(uri(train), MAIN + "import helper\n", 2)
    running.notify("textDocument/didSave", textDocument={"uri": uri(train)})
    (action,) = running.actions(uri(train), 0, 0, ["source.xlaMigrate.program"])
    assert len(action["edit"]["documentChanges"]) == 2


def test_a_closed_document_has_no_diagnostics(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    path = tmp_path / "train.py"
    assert running.open(uri(path), SCRIPT)
    running.notify("textDocument/didClose", textDocument={"uri": uri(path)})
    assert running.diagnostics(uri(path), None) == []


def test_a_document_that_was_never_saved_is_looked_at_too(running: Editor) -> None:
    running.start(None, None)
    assert running.open("untitled:Untitled-1", SCRIPT)


def test_target_and_site_are_options(tmp_path: Path) -> None:
    with editor("--target", "2.1", "--docs", "https://example.org/xla/", cache=tmp_path) as running:
        running.start(None, None)
        found = running.open(uri(tmp_path / "a.py"), SCRIPT)
        assert found[-1]["codeDescription"]["href"].startswith("https://example.org/xla/rules/")
        (action,) = running.actions(uri(tmp_path / "a.py"), 0, 0, ["source"])
        edits = action["edit"]["documentChanges"][0]["edits"]
        assert running.edited(SCRIPT, edits) == migrate_source(SCRIPT, target="2.1").code


def test_the_settings_of_the_project_and_comments_count(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    settings = '[tool.xla-migrate]\ntarget = "2.1"\nignore = ["XLA206"]\n'
    (tmp_path / "pyproject.toml").write_text(settings)
    code = SCRIPT.replace("synchronize()", "synchronize()  # xla-migrate: ignore[XLA201] wanted")
    found = running.open(uri(tmp_path / "train.py"), code)
    assert "XLA206" not in {one["code"] for one in found}
    (action,) = running.actions(uri(tmp_path / "train.py"), 0, 0, ["source"])
    result = running.edited(code, action["edit"]["documentChanges"][0]["edits"])
    assert "torch.cuda.synchronize()" in result
    assert "xm.xla_device()" in result


def test_an_unknown_target_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lsp", "--target", "9"]) == 2
    assert "unknown target '9'" in capsys.readouterr().err


def test_without_the_extra_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    for name in [one for one in sys.modules if one.partition(".")[0] in ("pygls", "lsprotocol")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [one for one in sys.modules if one.startswith("xla_migrate.lsp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    assert main(["lsp"]) == 2
    assert "pip install 'xla-migrate[lsp]'" in capsys.readouterr().err


CELLS = (
    ("markdown", "# Prose about torch and cuda"),
    ("python", "import torch\n%matplotlib inline\n"),
    ("python", "é = '🐍'; model = torch.nn.Linear(4, 2).cuda()\ntorch.cuda.synchronize()"),
    ("python", "print(torch.cuda.get_device_capability())"),
)


def test_findings_and_fixes_of_a_notebook_stand_in_its_cells(running: Editor, tmp_path: Path) -> None:
    capabilities = running.start(tmp_path, None)
    assert capabilities["notebookDocumentSync"]["notebookSelector"]
    notebook = uri(tmp_path / "demo.ipynb")
    found = running.open_notebook(notebook, CELLS)
    prose, imports, model, asked = found
    assert (found[prose], found[imports]) == ([], [])
    cut = {one["code"]: running.cut(CELLS[2][1], one["range"]) for one in found[model]}
    assert cut["XLA104"] == "torch.nn.Linear(4, 2).cuda()"
    assert cut["XLA201"] == "torch.cuda.synchronize()"
    (told,) = [one for one in found[asked] if one["severity"] != HINT]
    assert "get_device_capability" in running.cut(CELLS[3][1], told["range"])
    assert running.actions(imports, 0, 1, only=["quickfix"]) == []
    fixes = running.actions(model, 0, 0, only=["quickfix"])
    (edits,) = [fix["edit"]["documentChanges"] for fix in fixes if "XLA104" in fix["title"]]
    texts = {address: text for address, (_, text) in zip(found, CELLS, strict=True)}
    new = {one["textDocument"]["uri"]: one for one in edits}
    assert set(new) == {imports, model}
    assert new[model]["textDocument"]["version"] == 1
    assert running.edited(texts[imports], new[imports]["edits"]) == (
        "import torch\nimport torch_xla\n%matplotlib inline\n"
    )
    assert running.edited(texts[model], new[model]["edits"]) == (
        "é = '🐍'; model = torch.nn.Linear(4, 2).to(torch_xla.device())\ntorch.cuda.synchronize()"
    )
    (whole,) = running.actions(model, 0, 0, only=["source"])
    assert whole["title"] == "Migrate the whole notebook to PyTorch/XLA"


def test_cells_are_followed_as_they_are_edited_moved_and_closed(running: Editor, tmp_path: Path) -> None:
    running.start(tmp_path, None)
    notebook = uri(tmp_path / "demo.ipynb")
    prose, imports, model, asked = running.open_notebook(notebook, CELLS)
    line = len("é = '🐍'; ".encode("utf-16-le")) // 2
    change = {"range": {"start": {"line": 0, "character": line}, "end": {"line": 1, "character": 24}},
              "text": "torch.cuda.empty_cache()"}  # fmt: skip
    text = [{"document": {"uri": model, "version": 2}, "changes": [change]}]
    running.change_notebook(notebook, 2, textContent=text)
    (hint,) = running.diagnostics(model, 2)
    assert hint["code"] == "XLA203"
    assert running.cut("é = '🐍'; torch.cuda.empty_cache()", hint["range"]) == "; torch.cuda.empty_cache()"
    fresh = running.cell(notebook, 9, "python", "torch.cuda.ipc_collect()")
    array = {"start": 2, "deleteCount": 2, "cells": [{"kind": 2, "document": fresh["uri"]}]}
    closed = [{"uri": model}, {"uri": asked}]
    running.change_notebook(
        notebook, 3, structure={"array": array, "didOpen": [fresh], "didClose": closed}
    )
    assert running.diagnostics(model, None) == []
    assert [one["code"] for one in running.diagnostics(fresh["uri"], 1)] == ["XLA203"]
    running.notify("notebookDocument/didClose", notebookDocument={"uri": notebook},
                   cellTextDocuments=[{"uri": one} for one in (prose, imports, fresh["uri"])])  # fmt: skip
    assert running.diagnostics(fresh["uri"], None) == []
    assert running.actions(fresh["uri"], 0, 0) == []


def test_a_notebook_and_the_modules_that_it_imports_are_one_program_in_the_editor(
    running: Editor, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text("import torch\n\ndef make():\n    return torch.nn.Linear(4, 2).cuda()\n")
    running.start(tmp_path, None)
    cells = [("python", "import net, torch\nmodel = net.make()\ntorch.cuda.synchronize()")]
    ((cell, _),) = running.open_notebook(uri(tmp_path / "demo.ipynb"), cells).items()
    (_, program) = running.actions(cell, 0, 0, only=["source"])
    assert program["title"] == "Migrate the whole program to PyTorch/XLA (2 files)"
    written = [one["textDocument"]["uri"] for one in program["edit"]["documentChanges"]]
    assert written == [cell, uri(tmp_path / "net.py")]


def test_nothing_is_said_of_what_the_project_excludes(running: Editor, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.xla-migrate]\nexclude = ["gen/"]\n')
    (tmp_path / "gen").mkdir()
    running.start(tmp_path, None)
    assert running.open(uri(tmp_path / "gen/train.py"), SCRIPT) == []
    assert running.actions(uri(tmp_path / "gen/train.py"), 0, 3) == []
    assert running.open(uri(tmp_path / "train.py"), SCRIPT) != []
