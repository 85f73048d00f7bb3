"""All rules that a run can name: those of the migration, and those about files, notebooks and commands."""

from __future__ import annotations

from typing import Any

from xla_transforms.findings import Rule


def known_rules() -> list[Rule]:
    """Every rule, by code."""
    from xla_migrate.choosing import RULES as CHOICE_RULES
    from xla_migrate.files import FILE_RULE
    from xla_migrate.launches import RULES as LAUNCH_RULES
    from xla_migrate.notebooks.rules import RULES as NOTEBOOK_RULES
    from xla_transforms.rules import all_rules

    found = (*all_rules(), FILE_RULE, *CHOICE_RULES, *LAUNCH_RULES, *NOTEBOOK_RULES)
    return sorted(found, key=lambda rule: rule.code)


def rule_fields(rule: Rule) -> dict[str, Any]:
    """A rule as plain data. ``targets`` are those for which its example shows something, in their order;
    null where it has no example."""
    from xla_migrate.rule_examples import example

    shown = example(rule.code)
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.label,
        "safety": rule.safety.value,
        "effort": rule.effort.value,
        "summary": rule.summary,
        "why": rule.why,
        "page": f"docs/rules/{rule.code}.md",
        "targets": None if shown is None else list(shown.targets),
    }
