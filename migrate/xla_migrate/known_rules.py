"""All rules that a run can name: those of the migration, and those about files, notebooks and commands."""

from __future__ import annotations

from xla_transforms.findings import Rule


def known_rules() -> list[Rule]:
    """Every rule, by code."""
    from xla_migrate.files import FILE_RULE
    from xla_migrate.launches import RULES as LAUNCH_RULES
    from xla_migrate.notebooks.rules import RULES as NOTEBOOK_RULES
    from xla_transforms.rules import all_rules

    return sorted((*all_rules(), FILE_RULE, *LAUNCH_RULES, *NOTEBOOK_RULES), key=lambda rule: rule.code)


def rule_fields(rule: Rule) -> dict[str, str]:
    """A rule as plain data."""
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.label,
        "safety": rule.safety.value,
        "summary": rule.summary,
        "why": rule.why,
    }
