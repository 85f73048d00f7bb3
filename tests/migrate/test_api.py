"""The library around the stub of the engine; ``test_api_for_real.py`` has the real one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import pytest
import stub_engine

from xla_migrate.patch import Patch, PatchError

CUDA = 'import torch\na = "cuda"\nb = "cuda"\n'
XLA = CUDA.replace("cuda", "xla")


@pytest.fixture
def api(stub: None) -> ModuleType:
    import xla_migrate.api

    return xla_migrate.api


@pytest.fixture
def patch(api: ModuleType) -> Patch:
    made: Patch = api.migrate_source(CUDA, path="train.py").patch
    return made


def test_clean_code_comes_back_as_it_is(api: ModuleType) -> None:
    result = api.migrate_source("x = 1\n")
    assert (result.code, result.changes, result.findings) == ("x = 1\n", (), ())
    assert not result.changed
    assert not result.patch
    assert result.patch.unified_diff() == ""


def test_migrated_code_comes_with_its_changes(api: ModuleType) -> None:
    result = api.migrate_source(CUDA)
    assert result.code == XLA
    assert result.data == XLA.encode()
    assert [change.spans[0].line for change in result.changes] == [2, 3]
    assert result.changed


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_bytes_of_a_file_are_taken_too(api: ModuleType, kind: type) -> None:
    result = api.migrate_source(kind(b"# coding: latin-1\n# \xe9\ncuda\n"))
    assert result.code == "# coding: latin-1\n# é\nxla\n"
    assert result.data == b"# coding: latin-1\n# \xe9\nxla\n"


def test_a_syntax_error_is_a_finding_with_its_place(api: ModuleType) -> None:
    result = api.migrate_source("cuda\ndef (\n", path="bad.py")
    assert result.failed
    assert result.code == "cuda\ndef (\n"
    (finding,) = result.findings
    assert (finding.code, finding.span.line, finding.severity.label) == ("XLA001", 2, "error")


def test_a_lone_surrogate_is_a_finding_with_its_place(api: ModuleType) -> None:
    text = "cuda\nx = '\ud800'\n"
    result = api.migrate_source(text)
    assert result.failed
    assert result.code == text
    (finding,) = result.findings
    assert (finding.code, finding.span.line, finding.span.column) == ("XLA002", 2, 6)
    assert finding.message == "character U+D800 does not exist in utf-8"


def test_a_character_that_the_declared_encoding_lacks_is_a_finding(api: ModuleType) -> None:
    result = api.migrate_source("# coding: latin-1\nx = 'é'\ny = '漢'\n")
    assert result.findings[0].message == "character U+6F22 does not exist in latin-1"
    assert result.findings[0].span.line == 3


@pytest.mark.parametrize("cookie", ["# coding: latin-1 cuda\n", "\n# coding: latin-1 cuda\n"])
def test_the_data_is_in_the_declared_encoding(api: ModuleType, cookie: str) -> None:
    code = cookie + "x = 'é'\n"
    result = api.migrate_source(code)
    assert result.code == code.replace("cuda", "xla")
    assert result.data == result.code.encode("latin-1")


@pytest.mark.parametrize(
    "text", ["# coding: nonsense\ncuda", "x\n\n# coding: latin-1\ncuda é", "\0cuda"]
)
def test_a_declaration_that_is_none_does_not_matter(api: ModuleType, text: str) -> None:
    assert api.migrate_source(text).code == text.replace("cuda", "xla")


def test_an_unknown_target_is_refused(api: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"unknown target '0.1'; known: "):
        api.migrate_source(CUDA, target="0.1")


def test_a_number_is_no_text(api: ModuleType) -> None:
    with pytest.raises(TypeError):
        api.migrate_source(3)


def test_a_patch_is_applied_to_its_own_source_only(patch: Patch) -> None:
    assert patch.apply(CUDA) == XLA
    with pytest.raises(PatchError):
        patch.apply(CUDA + "\n")


def test_a_patch_is_reversed_on_its_own_result_only(patch: Patch) -> None:
    assert patch.reverse(XLA) == CUDA
    with pytest.raises(PatchError):
        patch.reverse(CUDA)


def test_the_edits_of_a_patch_make_the_code(patch: Patch) -> None:
    text = CUDA
    for edit in reversed(patch.edits):
        text = text[: edit.start] + edit.text + text[edit.end :]
    assert text == XLA


def test_a_patch_is_shown_as_git_reads_it(patch: Patch, here: Path) -> None:
    Path("train.py").write_text(CUDA)
    diff = patch.unified_diff()
    assert diff.startswith("--- a/train.py\n")
    assert patch.unified_diff("other.py").startswith("--- a/other.py\n")
    subprocess.run(["git", "apply", "-"], input=diff.encode(), check=True)
    assert Path("train.py").read_text() == XLA


def test_a_patch_is_narrowed_to_some_changes(patch: Patch) -> None:
    second = patch.changes[1]
    for wanted in ([second], [second.id]):
        narrow = patch.narrow(wanted)
        assert narrow.apply(CUDA) == 'import torch\na = "cuda"\nb = "xla"\n'
        assert narrow.changes == (second,)
    assert not patch.narrow([])
    with pytest.raises(ValueError, match="no change 7"):
        patch.narrow([7])


def test_a_file_is_migrated_and_written_only_where_asked(api: ModuleType, here: Path) -> None:
    Path("train.py").write_text(CUDA)
    assert api.migrate_file("train.py").code == XLA
    assert Path("train.py").read_text() == CUDA
    assert api.migrate_file(Path("train.py"), write=True).changed
    assert Path("train.py").read_text() == XLA


@pytest.mark.parametrize(("name", "message"), [("no.py", "no such file"), (".", "is a directory")])
def test_a_file_that_cannot_be_read_is_a_failed_result(
    api: ModuleType, here: Path, name: str, message: str
) -> None:
    result = api.migrate_file(name)
    assert result.failed
    assert result.path == name
    assert message in result.findings[0].message
    assert (result.code, result.data, bool(result.patch)) == ("", b"", False)


def test_a_file_that_cannot_be_written_is_a_failed_result(api: ModuleType, here: Path) -> None:
    Path("train.py").write_text(CUDA)
    Path("train.py").chmod(0o444)
    result = api.migrate_file("train.py", write=True)
    assert result.failed
    assert result.findings[-1].message == "the file is read-only"
    assert Path("train.py").read_text() == CUDA


def test_a_project_is_migrated_as_one_program(
    api: ModuleType, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    real = stub_engine.migrate_program

    def program(files: dict[str, bytes], settings: stub_engine.Settings) -> object:
        seen.append(sorted(files))
        return real(files, settings)

    monkeypatch.setattr(stub_engine, "migrate_program", program)
    Path("src").mkdir()
    Path("src/a.py").write_text(CUDA)
    Path("src/b.py").write_text("import a\n" + CUDA)
    results = api.migrate_project([Path("src"), "no.py"], write=True)
    assert seen == [["src/a.py", "src/b.py"]]
    assert {name: result.failed for name, result in results.items()} == {
        "src/a.py": False,
        "src/b.py": False,
        "no.py": True,
    }
    assert Path("src/a.py").read_text() == XLA
    assert api.migrate_project("src")["src/b.py"].changes == ()


def test_the_users_black_settings_are_found_for_a_file(
    api: ModuleType, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    real = stub_engine.migrate_bytes
    monkeypatch.setattr(
        stub_engine, "migrate_bytes", lambda d, s, p: seen.append(s.black) or real(d, s, p)
    )
    Path("pyproject.toml").write_text("[tool.black]\nline-length = 70\n")
    Path("train.py").write_text(CUDA)
    api.migrate_file("train.py")
    assert seen[0].line_length == 70
