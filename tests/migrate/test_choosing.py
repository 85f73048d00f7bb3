"""What a run may change: rules, comments, safety, number; what is left out is told, with what needs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import Cli

from xla_migrate import ProjectSettings, migrate_project, migrate_source, project_settings
from xla_transforms.check import names, parse

GOLDEN = Path(__file__).parents[2] / "golden"
SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(8, 2), torch.randn(8, 1))
loader = DataLoader(data, batch_size=2)
model = nn.Linear(2, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.cuda.manual_seed(1)
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""
SYNCED = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).cuda()
model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
model = DDP(model)
"""


@pytest.fixture
def train(here: Path) -> Path:
    (here / "train.py").write_text(SCRIPT)
    return here / "train.py"


def ran(cli: Cli, *arguments: str) -> dict[str, Any]:
    return json.loads(cli("train.py", "--output-format", "json", *arguments).text)


def codes(report: dict[str, Any], what: str = "changes") -> set[str]:
    return {one["code"] for one in report[what]}


# ---- without a word of the user nothing is left out


def test_all_safe_changes_are_made(cli: Cli, train: Path) -> None:
    report = ran(cli)
    assert report["left_out"] == []
    assert {"XLA104", "XLA501", "XLA502", "XLA611"} <= codes(report)
    assert codes(report, "findings") & {"XLA007", "XLA008"} == set()


# ---- rules


def test_a_rule_that_is_ignored_takes_along_what_needs_it(cli: Cli, train: Path) -> None:
    report = ran(cli, "--ignore", "device-loader")
    assert codes(report) & {"XLA501", "XLA502"} == set()
    assert {one["code"]: one["needed"] for one in report["left_out"]} == {"XLA501": False, "XLA502": True}
    (finding,) = [f for f in report["findings"] if f["code"] == "XLA007"]
    assert finding["severity"] == "warning"
    assert "1 change is left out: its rule is not selected, or is ignored" in finding["message"]
    assert "went with it (XLA502)" in finding["message"]
    assert "what is migrated around them expects them" in finding["advice"]
    cli("train.py", "--ignore", "device-loader", "--inplace")
    text = train.read_text()
    assert "MpDeviceLoader" not in text
    assert "x, y = x.cuda(), y.cuda()" in text or "x.to(" in text


def test_only_selected_rules_count(cli: Cli, train: Path) -> None:
    report = ran(cli, "--select", "XLA2")
    assert codes(report) == {"XLA221"}
    (finding,) = report["findings"]
    assert finding["code"] == "XLA007"


def test_what_is_left_out_is_told_unless_that_is_ignored_too(cli: Cli, train: Path) -> None:
    assert ran(cli, "--select", "XLA2", "--ignore", "XLA007")["findings"] == []


@pytest.mark.parametrize(
    ("rule", "hint"), [("autocst", "did you mean 'autocast'?"), ("XLA399", "there is no rule 'XLA399'")]
)
def test_an_unknown_rule_is_a_wrong_command_line(cli: Cli, train: Path, rule: str, hint: str) -> None:
    for option in ("--select", "--ignore"):
        wrong = cli("train.py", option, rule)
        assert wrong.code == 2
        assert hint in wrong.err


# ---- comments


def test_a_comment_leaves_its_line_alone_and_gives_its_reason(cli: Cli, train: Path) -> None:
    train.write_text(SCRIPT.replace("seed(1)", "seed(1)  # xla-migrate: ignore[XLA221] seeded elsewhere"))
    report = ran(cli)
    assert "XLA221" not in codes(report)
    assert [(one["code"], one["reason"]) for one in report["left_out"]] == [("XLA221", "comment")]
    (finding,) = [f for f in report["findings"] if f["code"] == "XLA007"]
    assert "ignored by the comment in line 9 (seeded elsewhere)" in finding["message"]
    cli("train.py", "--inplace")
    assert "torch.cuda.manual_seed(1)  # xla-migrate: ignore[XLA221] seeded elsewhere\n" in train.read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# xla-migrate: ignore[cuda-move]\n", ""),
        ("# xla-migrate: ignore\n# another\n\n", ""),
        ("# xla-migrate: ignore-start[XLA1]\n", "# xla-migrate: ignore-end[XLA1]\n"),
        ("# xla-migrate: ignore-file[XLA104] later\n", ""),
    ],
)
def test_a_comment_may_stand_above_around_or_speak_of_the_file(
    cli: Cli, train: Path, before: str, after: str
) -> None:
    line = "model = nn.Linear(2, 1).cuda()\n"
    train.write_text(SCRIPT.replace(line, before + line + after))
    report = ran(cli)
    assert "XLA104" in codes(report, "left_out")
    assert "XLA008" not in codes(report, "findings")


def test_a_comment_within_a_statement_holds_for_all_of_it(cli: Cli, train: Path) -> None:
    loader = "loader = DataLoader(\n    data,  # xla-migrate: ignore[XLA501]\n    batch_size=2,\n)\n"
    train.write_text(SCRIPT.replace("loader = DataLoader(data, batch_size=2)\n", loader))
    assert "XLA501" not in codes(ran(cli))


def test_a_comment_hides_the_findings_of_its_line(cli: Cli, train: Path) -> None:
    train.write_text(f"{SCRIPT}    if model(x).sum() > 0:\n        break\n")
    assert "XLA702" in codes(ran(cli), "findings")
    train.write_text(f"{SCRIPT}    if model(x).sum() > 0:  # xla-migrate: ignore[XLA702]\n        break\n")
    assert "XLA702" not in codes(ran(cli), "findings")


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# xla-migrate: ignore[XLA301]", "this comment hides nothing"),
        ("# xla-migrate: ignore-start[XLA301]", "this comment hides nothing"),
        ("# xla-migrate: ignore[XLA399]", "there is no rule XLA399"),
        ("# xla-migrate: ignore-end[XLA1]", "no ignore-start of the same rules stands above this ignore-end"),
    ],
)
def test_a_comment_that_hides_nothing_is_told(cli: Cli, train: Path, comment: str, message: str) -> None:
    train.write_text(SCRIPT.replace("from torch import nn\n", f"from torch import nn  {comment}\n"))
    (finding,) = [f for f in ran(cli)["findings"] if f["code"] == "XLA008"]
    assert (finding["line"], finding["message"]) == (2, message)


def test_a_text_that_only_looks_like_a_comment_is_none(cli: Cli, train: Path) -> None:
    train.write_text(SCRIPT.replace("import torch\n", 'import torch\nx = "# xla-migrate: ignore-file"\n', 1))
    assert ran(cli)["left_out"] == []


def test_in_a_migrated_script_its_comments_may_stay(cli: Cli, train: Path) -> None:
    train.write_text(SCRIPT.replace("seed(1)", "seed(1)  # xla-migrate: ignore[XLA221]"))
    cli("train.py", "--inplace")
    assert "XLA008" not in codes(ran(cli), "findings")


def test_ignores_can_be_added_for_all_that_is_found(cli: Cli, train: Path) -> None:
    read = "    if model(x).sum() > 0:\n        text = '''a\n#'''.format(model(x).item())  # why\n"
    train.write_bytes((SCRIPT + read).replace("\n", "\r\n").encode())
    found = [f for f in ran(cli)["findings"] if not f["fixed"]]
    assert len(found) > 1
    added = cli("train.py", "--add-ignore")
    assert added.code == 0
    text = train.read_bytes().decode()
    assert "    if model(x).sum() > 0:  # xla-migrate: ignore[XLA702]\r\n" in text
    assert text.replace("\r\n", "").count("\n") == 0
    assert [f for f in ran(cli)["findings"] if not f["fixed"]] == []
    again = text
    assert cli("train.py", "--add-ignore").code == 0
    assert train.read_bytes().decode() == again


def test_an_ignore_that_is_there_gets_the_other_rules(cli: Cli, train: Path) -> None:
    branch = "    if model(x).sum() > 0:  # xla-migrate: ignore[XLA104] mine\n        break\n"
    train.write_text(SCRIPT + branch)
    cli("train.py", "--add-ignore")
    assert "    if model(x).sum() > 0:  # xla-migrate: ignore[XLA104, XLA702] mine\n" in train.read_text()


# ---- safety


def test_unsafe_changes_wait_and_are_counted(cli: Cli, train: Path) -> None:
    train.write_text(SYNCED)
    report = ran(cli, "--distributed")
    assert "XLA146" not in codes(report)
    assert report["summary"]["unsafe_waiting"] == 1
    assert "XLA146" in codes(report, "findings")
    text = cli("train.py", "--distributed").text
    assert "1 unsafe change waits (--unsafe-fixes)" in text
    assert "convert_sync_batchnorm(model)\n" in text


def test_unsafe_changes_are_made_where_asked_for(cli: Cli, train: Path) -> None:
    train.write_text(SYNCED)
    report = ran(cli, "--distributed", "--unsafe-fixes")
    assert "XLA146" in codes(report)
    assert report["left_out"] == []


def test_a_finding_whose_change_waits_is_not_done() -> None:
    text = (GOLDEN / "hf_trainer_fixed_length/native.py").read_text()
    safe, unsafe = (migrate_source(text, unsafe_fixes=one) for one in (False, True))
    done = [[f.fixed for f in result.findings if f.code == "XLA901"] for result in (safe, unsafe)]
    assert not any(done[0])
    assert any(done[1])
    assert "XLA901" in {one.change.code for one in safe.left_out}
    assert 'padding="max_length"' not in safe.code


# ---- number


@pytest.mark.parametrize("number", [0, 1, 2, 5, 1000])
def test_so_many_changes_at_most_are_made(cli: Cli, train: Path, number: int) -> None:
    report = ran(cli, "--max-changes", str(number))
    total = len(report["changes"]) + len(report["left_out"])
    assert len(report["changes"]) <= number
    assert (len(report["left_out"]) == 0) is (number >= total)
    assert {one["reason"] for one in report["left_out"]} <= {"later"}
    assert ("XLA007" in codes(report, "findings")) is bool(report["left_out"])


def test_step_by_step_the_whole_is_reached(cli: Cli, train: Path, here: Path) -> None:
    whole = ran(cli)
    kept = [len(ran(cli, "--max-changes", str(n))["changes"]) for n in range(1, len(whole["changes"]) + 1)]
    assert kept == sorted(kept)
    assert kept[-1] == len(whole["changes"])


# ---- asking


def test_each_change_is_asked_for_with_its_diff(cli: Cli, train: Path) -> None:
    asked = cli("train.py", "--interactive", "--inplace", stdin=b"?\nn\na\n")
    assert "y  make this change" in asked.err
    assert "Make this change [y,n,a,q,?]" in asked.err
    assert "train.py:6: one variable holds the device (XLA103 device-variable, safe" in asked.err
    assert "\n+" in asked.err
    assert "1 change is left out: it was refused" in asked.text
    assert "xm.optimizer_step(optimizer)" in train.read_text()


def test_no_leaves_all_that_follows(cli: Cli, train: Path) -> None:
    cli("train.py", "--interactive", "--inplace", stdin=b"q\n")
    assert train.read_text() == SCRIPT


def test_all_is_as_without_asking(cli: Cli, train: Path) -> None:
    cli("train.py", "--interactive", "--inplace", stdin=b"a\n")
    assert train.read_text() == migrate_source(SCRIPT).code


def test_an_answer_that_ends_is_no_answer(cli: Cli, train: Path) -> None:
    assert cli("train.py", "--interactive", "--inplace", stdin=b"y\n").code != 0
    assert train.read_text() == SCRIPT


@pytest.mark.parametrize(
    "arguments",
    [
        ("--interactive",),
        ("--interactive", "--check"),
        ("--add-ignore", "--inplace"),
        ("--max-changes", "-1"),
    ],
)
def test_what_cannot_be_asked_is_refused(cli: Cli, train: Path, arguments: tuple[str, ...]) -> None:
    assert cli("train.py", *arguments).code == 2
    assert train.read_text() == SCRIPT


# ---- the settings of a project


def project(here: Path, text: str) -> None:
    (here / "pyproject.toml").write_text(f"[tool.xla-migrate]\n{text}\n")


def test_the_settings_count_where_the_command_line_says_nothing(cli: Cli, train: Path, here: Path) -> None:
    project(here, 'ignore = ["XLA221"]\ntarget = "2.5"\ndistributed = false')
    report = ran(cli)
    assert report["target"] == "2.5"
    assert codes(report, "left_out") == {"XLA221"}
    assert ran(cli, "--target", "2.9", "--ignore", "XLA301")["left_out"] == []


def test_files_have_rules_of_their_own_and_may_be_passed_over(cli: Cli, here: Path) -> None:
    for name in ("a.py", "old/b.py", "gen/c.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(SCRIPT)
    project(here, 'exclude = ["gen/"]\n[tool.xla-migrate.per-file-ignores]\n"old/*" = ["XLA221"]')
    report = json.loads(cli(".", "--output-format", "json").text)
    assert {one["path"] for one in report["files"]} == {"a.py", "old/b.py"}
    assert {one["path"] for one in report["left_out"]} == {"old/b.py"}
    named = json.loads(cli("gen/c.py", "--output-format", "json").text)
    assert [one["path"] for one in named["files"]] == ["gen/c.py"]
    only = json.loads(cli(".", "--exclude", "old,gen", "--output-format", "json").text)
    assert {one["path"] for one in only["files"]} == {"a.py"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('ignroe = ["XLA1"]', "knows no key 'ignroe'; did you mean 'ignore'?"),
        ('ignore = ["autocst"]', "ignore: there is no rule 'autocst'; did you mean 'autocast'?"),
        ('select = "XLA1"', "select has to be a list of texts"),
        ('target = "0.1"', "target: unknown target '0.1'"),
        ('distributed = "maybe"', 'distributed has to be true, false or "auto"'),
        ("per-file-ignores = 1", "per-file-ignores has to be a table"),
        ("exclude = [1]", "exclude has to be a list of texts"),
    ],
)
def test_settings_that_cannot_be_understood_are_errors(
    cli: Cli, train: Path, here: Path, text: str, message: str
) -> None:
    project(here, text)
    wrong = cli("train.py")
    assert wrong.code == 2
    assert message in " ".join(wrong.err.split())


def test_settings_that_cannot_be_read_are_no_silence(cli: Cli, train: Path, here: Path) -> None:
    project(here, 'ignore = ["XLA221"')
    wrong = cli("train.py")
    assert wrong.code == 2
    assert "[tool.xla-migrate] cannot be read" in " ".join(wrong.err.split())


def test_what_is_excluded_is_not_followed_into(cli: Cli, here: Path) -> None:
    for name in ("train.py", "gen/c.py", "own.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(SCRIPT)
    (here / "train.py").write_text("import gen.c\nimport own\n" + SCRIPT)
    project(here, 'exclude = ["gen/", "train.py"]')
    report = json.loads(cli("train.py", "--follow", "--output-format", "json").text)
    assert {one["path"] for one in report["files"]} == {"train.py", "own.py"}
    shown = json.loads(cli("map", "train.py", "--follow", "--json").text)
    assert "gen/c.py" not in json.dumps(shown)
    assert "own.py" in json.dumps(shown)


def test_the_library_counts_settings_where_it_is_given_them(here: Path) -> None:
    project(here, 'target = "2.1"\nignore = ["XLA221"]\nexclude = ["gen/"]')
    for name in ("train.py", "gen/c.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(SCRIPT)
    alone = migrate_source(SCRIPT, path="train.py")
    assert alone.left_out == ()
    settings = project_settings("train.py")
    with_them = migrate_source(SCRIPT, path="train.py", settings=settings)
    assert [one.change.code for one in with_them.left_out] == ["XLA221"]
    assert "xm.xla_device()" in with_them.code
    assert "xm.xla_device()" not in migrate_source(SCRIPT, settings=settings, target="2.9").code
    assert migrate_source(SCRIPT, settings=settings, ignore=["XLA301"]).left_out == ()
    assert set(migrate_project(".", settings=settings)) == {"train.py"}
    assert set(migrate_project(".")) == {"gen/c.py", "train.py"}


def test_settings_of_a_project_that_has_none_are_empty(here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.black]\nline-length = "\n')
    assert project_settings([here]) == ProjectSettings()


def test_settings_are_looked_for_up_to_the_root_of_the_repository(cli: Cli, here: Path) -> None:
    project(here, 'ignore = ["XLA221"]')
    (here / "r/sub").mkdir(parents=True)
    (here / "r/sub/train.py").write_text(SCRIPT)
    report = json.loads(cli("r/sub/train.py", "--output-format", "json").text)
    assert codes(report, "left_out") == {"XLA221"}
    subprocess.run(["git", "init", "-q", str(here / "r")], check=True)
    report = json.loads(cli("r/sub/train.py", "--output-format", "json").text)
    assert report["left_out"] == []


# ---- whatever is left out, the rest is a sound program, and all of it is told


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(case=st.sampled_from(sorted(p.parent.name for p in GOLDEN.glob("*/native.py"))), data=st.data())
def test_any_rules_of_a_golden_case_may_be_ignored(case: str, data: st.DataObject) -> None:
    text = (GOLDEN / case / "native.py").read_bytes().decode("utf-8-sig")
    whole = migrate_source(text, unsafe_fixes=True)
    rules = sorted({change.code for change in whole.changes})
    if not rules:
        return
    ignored = data.draw(st.lists(st.sampled_from(rules), unique=True, min_size=1, max_size=3))
    part = migrate_source(text, unsafe_fixes=True, ignore=ignored)
    kept, left = {c.id for c in part.changes}, {one.change.id for one in part.left_out}
    assert kept | left == {c.id for c in whole.changes}
    assert not kept & left
    assert not {c.code for c in part.changes} & set(ignored)
    assert "XLA007" in {f.code for f in part.findings}
    tree, before = parse(part.code), parse(text)
    assert tree is not None
    assert before is not None
    assert names(tree).unbound <= names(before).unbound
