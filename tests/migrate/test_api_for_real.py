"""The library with the real engine: what holds whatever the passes write."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import Cli

import xla_migrate
from xla_migrate import Result, migrate_source

SCRIPT = """\
import torch

device = torch.device("cuda")
model = torch.nn.Linear(2, 2).to(device)
print(model(torch.ones(1, 2, device=device)))
"""


def test_code_that_has_nothing_to_do_with_torch_comes_back_as_it_is() -> None:
    result = migrate_source("x = 'cuda'\r\n\f\ty = 1")
    assert (result.code, result.findings, result.failed) == ("x = 'cuda'\r\n\f\ty = 1", (), False)


@pytest.mark.parametrize(
    ("code", "rule", "line"),
    [
        ("import torch\nx = torch.device('cuda'\n", "XLA001", 2),
        ("import torch\nprint 'cuda'\n", "XLA001", 2),
        ("import torch  # cuda\nx = '\ud800'\n", "XLA002", 2),
        (b"import torch  # cuda\n\xff\n", "XLA002", 2),
        (b"# coding: nonsense\nimport torch  # cuda\n", "XLA002", 1),
    ],
)
def test_what_is_no_python_is_a_finding_with_its_place(
    code: str | bytes, rule: str, line: int
) -> None:
    result = migrate_source(code, path="bad.py")
    assert result.failed
    assert result.findings[0].code == rule
    assert result.findings[0].severity.label == "error"
    assert result.findings[0].span.line >= line
    assert result.code == (code if isinstance(code, str) else code.decode("utf-8", "replace"))


texts = st.one_of(
    st.text(max_size=200),
    st.text(st.sampled_from("\0\r\n\f\t\ud800\ufeff'\"\\#(): x=1"), max_size=60),
    st.lists(
        st.sampled_from(
            [
                "import torch\n",
                "cuda",
                "\r\n",
                "x = torch.device('cuda')\n",
                "if x:\n",
                "\t",
                "'",
                "(",
            ]
        ),
        max_size=12,
    ).map("".join),
)


def check(result: Result, source: str) -> None:
    assert result.patch.apply(source) == result.code
    assert result.patch.reverse(result.code) == source
    if result.failed:
        assert result.code == source
        assert result.findings


@settings(max_examples=200, deadline=None)
@given(texts)
def test_no_text_is_too_odd(text: str) -> None:
    check(migrate_source("import torch  # cuda\n" + text), "import torch  # cuda\n" + text)
    check(migrate_source(text), text)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=100))
def test_no_bytes_are_too_odd(data: bytes) -> None:
    for whole in (data, b"import torch  # cuda\n" + data):
        result = migrate_source(whole)
        assert result.data == whole or not result.failed
        check(result, result.patch.outcome.source)


def test_the_command_migrates_a_script_for_real(cli: Cli, here: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    preview = cli("train.py")
    assert preview.code == 1
    assert '-device = torch.device("cuda")\n' in preview.text
    assert cli("train.py", "--inplace", "--fail-on", "never").code == 0
    assert Path("train.py").read_text() == xla_migrate.migrate_source(SCRIPT).code != SCRIPT
    assert cli("train.py", "--check", "--fail-on", "never").code == 0
    compile(Path("train.py").read_text(), "train.py", "exec")
