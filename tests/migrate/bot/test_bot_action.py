"""The pair of jobs of a workflow, and the commands of the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import TOKEN
from github_stand_in import NAME, GitHub
from pull_requests import PLAIN, TRAIN, Repository, examined

from xla_migrate.bot import action, report, working
from xla_migrate.bot.backoff import Backoff
from xla_migrate.bot.job import Conditions

LOGIN = "xla-migrate[bot]"
ROOT = Path(__file__).parents[3]


def event(folder: Path, payload: dict[str, Any]) -> Path:
    file = folder / "event.json"
    file.write_text(json.dumps({**payload, "repository": {"full_name": NAME}}))
    return file


def pulled(repository: Repository, number: int) -> dict[str, Any]:
    head, base = {"sha": repository.head(number)}, {"sha": repository.base()}
    return {"action": "opened", "pull_request": {"number": number, "head": head, "base": base}}


def ran(repository: Repository, number: int, owner: str = "acme") -> dict[str, Any]:
    run = {"head_repository": {"owner": {"login": owner}}, "head_branch": repository.pulls[number]}
    return {"action": "completed", "workflow_run": {**run, "head_sha": repository.head(number)}}


def environment(github: GitHub, name: str) -> dict[str, str]:
    return {
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": NAME,
        "GITHUB_API_URL": github.address,
        "GITHUB_EVENT_NAME": name,
        "XLA_MIGRATE_LOGIN": LOGIN,
    }


def test_the_first_job_writes_a_report_without_token_and_network(
    repository: Repository, tmp_path: Path
) -> None:
    number = repository.pull({"train.py": TRAIN})
    out, given = tmp_path / "report.json", event(tmp_path, pulled(repository, number))
    command = [sys.executable, "-m", "xla_migrate", "bot", "run", "--event", str(given)]
    ended = subprocess.run(
        [*command, "--repository", str(repository.folder), "--out", str(out)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    found = report.read(out.read_bytes())
    assert (found.head, found.base) == (repository.head(number), repository.base())
    assert [file.path for file in found.changed] == ["train.py"]
    assert "1 file to train on PyTorch/XLA" in ended.stdout


def test_no_code_is_run_beside_a_token(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = repository.pull({"train.py": TRAIN})
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    with pytest.raises(action.WrongUse, match="no code"):
        action.examine(
            event(tmp_path, pulled(repository, number)), str(repository.folder), Conditions(sandbox=())
        )


def test_what_cannot_be_examined_is_a_report_that_says_so(repository: Repository, tmp_path: Path) -> None:
    payload = {"pull_request": {"head": {"sha": "a" * 40}, "base": {"sha": repository.base()}}}
    found = action.examine(event(tmp_path, payload), str(repository.folder), Conditions())
    assert "git fetch" in found.problems[0]


def test_findings_are_shown_by_commands_that_text_cannot_break(repository: Repository) -> None:
    number = repository.pull({"train.py": TRAIN + "g = torch.cuda.CUDAGraph()\n"})
    lines = list(action.told(examined(repository, number)))
    assert any(line.startswith("::error file=train.py,line=12") for line in lines)
    assert all("\n" not in line for line in lines)


def test_a_run_of_a_workflow_is_published_to_the_pull_request_that_it_ran_on(
    repository: Repository, github: GitHub, backoff: Backoff, tmp_path: Path
) -> None:
    repository.pull({"a.py": PLAIN}, branch="other")
    number = repository.pull({"train.py": TRAIN})
    github.forks.add(number)
    found = report.write(examined(repository, number))
    given = event(tmp_path, ran(repository, number, "stranger"))
    assert action.bring(given, found, environment(github, "workflow_run"), backoff) == "posted"
    assert [one["number"] for one in github.comments] == [number]


def test_a_report_that_names_another_head_than_the_run_is_not_posted(
    repository: Repository, github: GitHub, backoff: Backoff, tmp_path: Path
) -> None:
    victim = repository.pull({"train.py": TRAIN}, branch="victim")
    number = repository.pull({"a.py": PLAIN})
    forged = report.write(examined(repository, victim))
    given = event(tmp_path, ran(repository, number))
    assert "has another head" in action.bring(given, forged, environment(github, "workflow_run"), backoff)
    assert github.comments == []


def test_a_run_whose_head_no_pull_request_has_is_told(
    repository: Repository, github: GitHub, backoff: Backoff, tmp_path: Path
) -> None:
    number = repository.pull({"a.py": PLAIN})
    payload = ran(repository, number)
    payload["workflow_run"]["head_sha"] = "a" * 40
    with pytest.raises(action.WrongUse, match="no open pull request"):
        action.bring(event(tmp_path, payload), b"{}", environment(github, "workflow_run"), backoff)


def test_a_command_is_done_where_its_comment_was_written(
    repository: Repository, github: GitHub, backoff: Backoff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = repository.pull({"train.py": TRAIN})
    found = examined(repository, number, contents=True)
    monkeypatch.setattr(working, "look", lambda source, conditions, contents=False: found)
    comment = {"id": 3, "body": "/xla-migrate apply", "user": {"login": "owner", "type": "User"}}
    payload = {"action": "created", "issue": {"number": number, "pull_request": {}}, "comment": comment}
    action.bring(event(tmp_path, payload), None, environment(github, "issue_comment"), backoff)
    assert len(github.companions) == 1


def test_an_event_of_no_concern_is_nothing_to_do(github: GitHub, backoff: Backoff, tmp_path: Path) -> None:
    assert action.bring(event(tmp_path, {}), None, environment(github, "push"), backoff) == "nothing to do"


def test_publishing_without_a_token_is_told() -> None:
    command = [sys.executable, "-m", "xla_migrate", "bot", "publish", "--event", "none.json"]
    ended = subprocess.run(
        command, capture_output=True, text=True, env={"PATH": "", "PYTHONPATH": ":".join(sys.path)}
    )
    assert ended.returncode == 2
    assert ended.stderr.strip().endswith("GITHUB_TOKEN and GITHUB_REPOSITORY have to be set")


@pytest.mark.parametrize("command", ["run --event e --out o", "publish --event e", "serve"])
def test_without_the_extra_the_command_says_how_to_install_it(tmp_path: Path, command: str) -> None:
    for name in ("githubkit", "starlette", "pydantic"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('no', name={name!r})\n")
    program = "import sys; from xla_migrate.cli import main; sys.exit(main(sys.argv[1:]))"
    path = ":".join([str(tmp_path), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-c", program, "bot", *command.split()],
        capture_output=True, text=True, env={"PATH": "", "PYTHONPATH": path}, cwd=tmp_path,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "is not installed: pip install 'xla-migrate[bot]'" in ended.stderr


STEPS = {step["name"]: step for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]}


@pytest.mark.parametrize("name", STEPS)
def test_the_action_puts_no_text_of_strangers_into_a_script(name: str) -> None:
    assert "${{" not in STEPS[name]["run"]


def stepped(folder: Path, name: str, **variables: str) -> list[str]:
    """The arguments that a step of the action calls the command line with."""
    program = folder / "bin" / "xla-migrate"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    given = {
        "PLACE": str(folder),
        "RUNNER_TEMP": str(folder),
        "GITHUB_WORKSPACE": "/w",
        "PATH": "/usr/bin:/bin",
    }
    command = ["bash", "-e", "-o", "pipefail", "-c", STEPS[name]["run"]]
    ended = subprocess.run(command, env={**given, **variables}, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


def test_the_step_that_examines_calls_the_command_with_its_inputs(tmp_path: Path) -> None:
    asked = stepped(tmp_path, "Run", ALLOW="false", REPORT="", REPOSITORY=".")
    assert asked == ["bot", "run", "--repository", "/w/.", "--out", "/w/xla-migrate.json"]


def test_an_input_is_never_a_command(tmp_path: Path) -> None:
    asked = stepped(tmp_path, "Run", ALLOW="true", REPORT="a b; touch evil $(id)", REPOSITORY="c d")
    assert asked[3:] == ["/w/c d", "--out", "/w/a b; touch evil $(id)", "--allow-running-code"]


@pytest.mark.parametrize(("report", "wanted"), [("", []), ("r.json", ["--report", "/w/r.json"])])
def test_the_step_that_publishes_calls_the_command_with_its_inputs(
    tmp_path: Path, report: str, wanted: list[str]
) -> None:
    assert stepped(tmp_path, "Publish", GITHUB_TOKEN="x", REPORT=report) == ["bot", "publish", *wanted]


def workflows() -> list[str]:
    """The two workflows that the guide shows."""
    blocks = (ROOT / "docs" / "bot.md").read_text().split("```yaml\n")[1:]
    return [block.split("```")[0] for block in blocks[:2]]


def test_the_workflows_of_the_guide_part_the_token_from_the_code() -> None:
    first, second = workflows()
    assert "pull_request:" in first
    assert "permissions:\n  contents: read\n" in first
    assert "persist-credentials: false" in first
    assert "secrets." not in first
    assert "github.token" not in first
    assert "workflow_run:" in second
    assert "actions/checkout" not in second


def test_only_the_job_that_applies_may_write_contents() -> None:
    second = yaml.safe_load(workflows()[1])
    assert second["permissions"] == {}
    rights = {name: job["permissions"]["contents"] for name, job in second["jobs"].items()}
    assert rights == {"publish": "read", "apply": "write"}


def written(folder: Path) -> Path:
    """A repository that has the workflows of the guide, beside the action."""
    place = folder / ".github" / "workflows"
    place.mkdir(parents=True)
    for number, text in enumerate(workflows()):
        (place / f"{number}.yml").write_text(text)
    (folder / "action.yml").write_text((ROOT / "action.yml").read_text())
    return place


@pytest.mark.parametrize(
    ("schema", "files"),
    [("vendor.github-actions", ["action.yml"])]
    + [("vendor.github-workflows", [f".github/workflows/{n}.yml"]) for n in range(2)],
)
def test_the_action_and_the_workflows_are_what_githubs_schemas_ask_for(
    tmp_path: Path, schema: str, files: list[str]
) -> None:
    written(tmp_path)
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout


def test_an_audit_finds_only_what_the_guide_says_itself(tmp_path: Path) -> None:
    """The second workflow has to be started by others' runs and comments; pinning is the reader's."""
    written(tmp_path)
    audit = str(Path(sys.executable).with_name("zizmor"))
    command = [audit, "--offline", "--no-progress", "--format", "json", "."]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    found = {one["ident"] for one in json.loads(ended.stdout) if not one["ignored"]}
    assert found == {"unpinned-uses", "dangerous-triggers"}
