from __future__ import annotations

import json

import pytest
from running import Cli

pytestmark = pytest.mark.usefixtures("stub")


def test_rules_are_listed_by_code(cli: Cli) -> None:
    ran = cli("rules")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.text.split("\n")[:-1]] == [
        "XLA001", "XLA002", "XLA005", "XLA007", "XLA008", "XLA011", "XLA012", "XLA013", "XLA101",
        "XLA941", "XLA942", "XLA943",
    ]  # fmt: skip
    assert f"XLA101  warning  safe     {'device-name':<20}  The device is named xla.\n" in ran.text


def test_rules_as_json(cli: Cli) -> None:
    rules = json.loads(cli("rules", "--json").text)
    assert next(rule for rule in rules if rule["code"] == "XLA101") == {
        "code": "XLA101",
        "name": "device-name",
        "severity": "warning",
        "safety": "safe",
        "effort": "low",
        "summary": "The device is named xla.",
        "why": "CUDA is not there.",
        "page": "docs/rules/XLA101.md",
        "targets": ["2.9", "2.5", "2.1", "sagemaker"],
    }


@pytest.mark.parametrize("name", ["XLA101", "xla101", "device-name", "Device-Name"])
def test_a_rule_is_explained_by_code_or_name(cli: Cli, name: str) -> None:
    ran = cli("explain", name)
    assert ran.code == 0
    assert ran.text.startswith(
        "XLA101 device-name\nseverity warning, safety safe, effort low\n\n"
        "The device is named xla.\n\nCUDA is not there.\n\nFor 2.9, 2.5, 2.1, sagemaker:\n"
    )
    assert '    -device = torch.device("cuda")\n    +device = torch.device("xla")\n' in ran.text


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("101", "did you mean XLA101?"),
        ("device-nam", "did you mean device-name?"),
        ("XLA102", "xla-migrate rules lists them"),
        ("zzz", "xla-migrate rules lists them"),
    ],
)
def test_an_unknown_rule_is_a_usage_error(cli: Cli, name: str, hint: str) -> None:
    ran = cli("explain", name)
    assert ran.code == 2
    assert hint in ran.err
