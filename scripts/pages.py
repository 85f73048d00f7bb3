"""The pages that are written from the code: the list of rules, and the example of the README."""

from __future__ import annotations

import re
from pathlib import Path

from xla_migrate import migrate_source
from xla_migrate.cli.rules import known_rules
from xla_transforms.findings import Rule
from xla_transforms.passes import PASSES

ROOT = Path(__file__).parents[1]
RULES = ROOT / "docs" / "rules.md"
README = ROOT / "README.md"

# The first code block of the README is the native script, the second what becomes of it.
_EXAMPLE = re.compile(r"(```python\n)(.*?)(^```\n.*?```python\n)(.*?)(^```$)", re.MULTILINE | re.DOTALL)

_GROUPS = {
    "0": "Files that cannot be migrated",
    "1": "Device",
    "2": "CUDA utilities",
    "3": "Mixed precision",
    "4": "Optimizers",
    "5": "Loaders and transfers",
    "6": "Step and barrier",
    "7": "Logging and host reads",
    "8": "Checkpoints",
    "9": "Shapes, packages, frameworks and launchers",
}
_HEAD = """\
# Rules

<!-- Written by scripts/generate_docs from the rules in the code; do not edit. -->

Every change and every finding names one of these rules. `xla-migrate explain CODE` prints the same text.
*Severity* is that of the rule's findings, where a single finding is not given another one; it decides, with
`--fail-on`, about the exit status. *Safety* tells what the rule's changes do: `safe` keeps the behaviour,
`unsafe` may alter it, `display` is only shown.
"""


def rules_page() -> str:
    """The whole page as markdown."""
    homes = {rule.code: module.__name__.replace(".", "/") for module in PASSES for rule in module.RULES}
    sections: list[str] = [_HEAD]
    group = ""
    for rule in known_rules():
        if rule.code[3] != group:
            group = rule.code[3]
            sections.append(f"## {_GROUPS[group]}\n")
        sections.append(_section(rule, homes.get(rule.code, "")))
    return "\n".join(sections)


def into_page(page: Path, marker: str, text: str) -> None:
    """Put ``text`` in the place of all that stands below the line ``marker``. Raises ``ValueError``
    where the page has no such line."""
    head, found, _ = page.read_text().partition(f"{marker}\n")
    if not found:
        raise ValueError(f"{page} has no line {marker}")
    page.write_text(f"{head}{found}\n{text}\n")


def readme() -> str:
    """The README with the example as it is migrated today."""

    def current(match: re.Match[str]) -> str:
        opening, native, between, _, closing = match.groups()
        return f"{opening}{native}{between}{migrate_source(native).code}{closing}"

    return _EXAMPLE.sub(current, README.read_text(), count=1)


def _section(rule: Rule, home: str) -> str:
    facts = [f"severity {rule.severity.label}", f"safety {rule.safety.value}"]
    facts += [f"`transforms/{home}.py`"] if home else []
    return f"### {rule.code} {rule.name}\n\n{', '.join(facts)}\n\n{rule.summary}\n\n{rule.why}\n"
