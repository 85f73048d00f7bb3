"""Each format of a report: what it says, and that nothing in a file or its name can break it."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt
from running import Cli

from xla_migrate.escape import code, inline, markup
from xla_migrate.reports import FORMATS
from xla_migrate.reports.json import schema
from xla_migrate.reports.markdown import LIMIT

pytestmark = pytest.mark.usefixtures("stub")

CUDA = b'import torch\nd = "cuda"  # note: warning\n# note: error\n'
NASTY = "a`b``c|d<script>@team #1 ::error::%0A,:x\\ *b* [l](u) &amp; www.x.y http://z $x$"
MACHINES = sorted(set(FORMATS) - {"text", "concise"})


@pytest.fixture
def train(here: Path) -> Path:
    (here / "train.py").write_bytes(CUDA)
    return here / "train.py"


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_says_the_same_twice_and_tells_of_failures(cli: Cli, train: Path, name: str) -> None:
    (train.parent / "b.py").write_bytes(b"def (\n")
    ran = cli("train.py", "b.py", "no.py", "--output-format", name)
    assert ran.code == 2
    assert ran.out == cli("train.py", "b.py", "no.py", "--output-format", name).out
    assert "b.py" in (ran.err if name in ("text", "concise") else ran.text)
    assert train.read_bytes() == CUDA


@pytest.mark.parametrize("name", MACHINES)
def test_a_file_with_nothing_to_say_gives_a_whole_report(cli: Cli, train: Path, name: str) -> None:
    train.write_bytes(b"x = 1\n")
    ran = cli("train.py", "--output-format", name)
    assert ran.code == 0
    if "json" in name or name in ("sarif", "gitlab"):
        assert "train.py" in ran.text or json.loads(ran.text) is not None
    else:
        assert "nothing to migrate" in ran.text.lower()


@pytest.mark.parametrize("arguments", [(), ("--inplace",), ("-o", "out.py"), ("--target", "auto")])
def test_the_json_report_fits_its_schema(cli: Cli, train: Path, arguments: tuple[str, ...]) -> None:
    Draft202012Validator.check_schema(schema())
    report = json.loads(cli("train.py", "--output-format", "json", *arguments).text)
    Draft202012Validator(schema()).validate(report)


def test_the_schema_refuses_what_is_no_report(cli: Cli, train: Path) -> None:
    report = json.loads(cli("train.py", "--output-format", "json").text)
    report["findings"][0]["severity"] = "fatal"
    report["changes"][0]["spans"][0].pop("line")
    errors = [list(error.path) for error in Draft202012Validator(schema()).iter_errors(report)]
    assert ["findings", 0, "severity"] in errors
    assert ["changes", 0, "spans", 0] in errors


def test_annotations_of_github_escape_what_would_end_them(cli: Cli, here: Path) -> None:
    (here / "a,b:%c.py").write_bytes(CUDA)
    file, text = "file=a%2Cb%3A%25c.py", "title=XLA101 device-name::look here%0Ado that"
    lines = cli("a,b:%c.py", "--output-format", "github").text.split("\n")
    assert lines[:3] == [
        f"::error {file},line=3,col=3,endColumn=13,{text}",
        f"::warning {file},line=2,col=15,endColumn=27,{text}",
        f"::notice {file},line=2,title=xla-migrate::1 change to PyTorch/XLA pending; --inplace writes them",
    ]
    assert lines[3].startswith("1 of 1 file to migrate (1 change); ")


def test_what_is_written_is_no_longer_pending(cli: Cli, train: Path) -> None:
    assert "notice" not in cli("train.py", "--inplace", "--output-format", "github").text


def test_a_fixed_finding_asks_for_nothing(cli: Cli, train: Path) -> None:
    train.write_bytes(b"# note: error fixed\n")
    assert cli("train.py", "--output-format", "github").text.startswith("::notice ")
    (entry,) = json.loads(cli("train.py", "--output-format", "gitlab").text)
    assert entry["severity"] == "info"


def entries(text: str) -> dict[str, Any]:
    found = {entry["fingerprint"]: entry for entry in json.loads(text)}
    assert len(found) == len(json.loads(text))
    return found


def test_fingerprints_of_gitlab_stay_where_lines_move(cli: Cli, train: Path) -> None:
    train.write_bytes(CUDA + b"# note: error\n")
    before = entries(cli("train.py", "--output-format", "gitlab").text)
    assert len(before) == 4
    train.write_bytes(b"# a new line\n" + CUDA + b"# note: error\n")
    after = entries(cli("train.py", "--output-format", "gitlab").text)
    assert after.keys() == before.keys()
    moved = {key: entry["location"]["lines"]["begin"] for key, entry in after.items()}
    assert moved == {key: entry["location"]["lines"]["begin"] + 1 for key, entry in before.items()}


def test_columns_of_rdjson_count_bytes(cli: Cli, train: Path) -> None:
    train.write_text('é = "cuda"  # note: warning\n', encoding="utf-8")
    finding, change = json.loads(cli("train.py", "--output-format", "rdjson").text)["diagnostics"]
    assert finding["location"]["range"]["start"] == {"line": 1, "column": 16}
    (suggestion,) = change["suggestions"]
    place = {"start": {"line": 1, "column": 7}, "end": {"line": 1, "column": 11}}
    assert suggestion == {"range": place, "text": "xla"}


def test_sarif_has_places_from_the_root_and_fixes(cli: Cli, here: Path) -> None:
    (here / "src x").mkdir()
    (here / "src x" / "käse.py").write_bytes(CUDA)
    log = json.loads(cli(".", "--output-format", "sarif").text)
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["XLA101"]
    assert [result["level"] for result in run["results"]] == ["warning", "error", "note"]
    location = run["results"][2]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "src%20x/k%C3%A4se.py", "uriBaseId": "%SRCROOT%"}
    assert run["originalUriBaseIds"]["%SRCROOT%"]["uri"] == here.as_uri() + "/"
    (replacement,) = run["results"][2]["fixes"][0]["artifactChanges"][0]["replacements"]
    region = {"startLine": 2, "startColumn": 6, "endLine": 2, "endColumn": 10}
    assert replacement == {"deletedRegion": region, "insertedContent": {"text": "xla"}}


def rendered(text: str) -> str:
    return MarkdownIt("commonmark").enable("table").render(text)


TEXTS = [NASTY, "- x", "+ x", "1. x", "2) x", "# x", "=", "a\n\n# b", "`", "``", " ` "]


@pytest.mark.parametrize("text", TEXTS)
def test_markdown_shows_a_text_as_it_is(text: str) -> None:
    for safe in (inline, markup):
        shown = rendered(safe(text))
        plain = html.unescape(re.sub("<[^>]*>", "", shown)).replace("\u2060", "").strip()
        assert " ".join(plain.split()) == " ".join(text.split())
        assert "<script" not in shown
    assert not re.search(r"@\w|(?<!&)#\d|://\w|www\.", rendered(inline(text)))
    span = rendered(code(text))
    assert html.unescape(re.sub("<[^>]*>", "", span)).strip() == text.replace("\n", " ").strip()
    assert span.startswith("<p><code>")


def test_a_diff_cannot_leave_its_block(cli: Cli, train: Path) -> None:
    train.write_bytes(b"cuda = '''\n```\n</details>@team\n````\n'''\n")
    text = cli("train.py", "--output-format", "markdown").text
    tokens = MarkdownIt("commonmark").parse(text)
    (fence,) = [token for token in tokens if token.type == "fence"]
    assert fence.content.endswith(" ````\n '''\n") or "</details>@team" in fence.content
    assert not [t for t in tokens if t.type == "inline" and "@team" in t.content]


@pytest.mark.parametrize(("files", "lines"), [(1, 100), (300, 10), (1, 3_000)])
def test_markdown_stays_below_the_limit_of_a_comment(
    cli: Cli, here: Path, files: int, lines: int
) -> None:
    for number in range(files):
        (here / f"a{number}.py").write_text("cuda = 'a rather long line'  # note: warning 😀\n" * lines)
    text = cli(".", "--output-format", "markdown").text
    assert len(text.encode("utf-16-le")) // 2 <= LIMIT
    assert f"{files} of {files} file" in text
    assert "| XLA101 device-name |" in text
    if (files, lines) != (1, 100):
        assert "left out here" in text


def test_paths_cannot_break_a_report(cli: Cli, here: Path) -> None:
    name = "a`b|<b>@team.py"
    (here / name).write_bytes(CUDA)
    text = cli(name, "--output-format", "markdown").text
    shown = re.sub("<[^>]*>", "", rendered(text))
    assert f" {html.escape(name)}:3 " in shown
    page = cli(name, "--output-format", "html").text
    assert "<b>@team" not in page
    assert "a`b|&lt;b&gt;@team.py" in page


def test_the_result_of_a_verification_is_shown(cli: Cli, train: Path, here: Path) -> None:
    losses = [
        {"number": n, "native": 1.0 / n, "migrated": 1.0 / n + 1e-3, "difference": 1e-3 * n, "bound": 1e-5}
        for n in range(1, 9)
    ]
    losses.append({"number": 9, "native": "NaN", "migrated": None, "difference": None, "bound": None})
    report = {"version": 1, "outcome": "diverged", "headline": "loss <1> differs", "losses": losses,
              "performance": {"executions_by_step": [1, 2], "compilations_by_step": [1, 0],
                              "problems": ["a & b"]}}  # fmt: skip
    (here / "v.json").write_text(json.dumps(report))
    arguments = ("train.py", "--verified", "v.json", "--output-format")
    page = cli(*arguments, "html").text
    assert page.count("<figure>") == 4
    assert '<p class="verdict diverged">Diverged</p>' in page
    assert "Loss &lt;1&gt; differs" in page
    assert "a &amp; b" in page
    assert "First beyond its bound at backward 1." in page
    assert "**verify: diverged.** loss &lt;1&gt; differs" in cli(*arguments, "markdown").text


def test_a_report_may_lack_what_could_not_be_measured(cli: Cli, train: Path, here: Path) -> None:
    (here / "v.json").write_text(json.dumps({"version": 1, "outcome": "not comparable", "performance": None}))
    page = cli("train.py", "--verified", "v.json", "--output-format", "html").text
    assert '<p class="verdict not-comparable">Not comparable</p>' in page
    assert "<figure>" not in page
