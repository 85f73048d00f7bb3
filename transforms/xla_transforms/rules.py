"""All rules: those of the passes, and those of the engine itself."""

from __future__ import annotations

from xla_transforms.findings import Effort, Rule, Safety, Severity
from xla_transforms.old_python import RULES as OLD_PYTHON

SYNTAX = Rule(
    "XLA001",
    "syntax-error",
    "The file is not Python 3 and was left as it is.",
    "Nothing can be said about code that does not parse. Convert Python 2 code first.",
    Severity.ERROR,
    Safety.DISPLAY,
)
ENCODING = Rule(
    "XLA002",
    "undecodable",
    "The file's bytes do not fit its encoding; it was left as it is.",
    "A file is read by PEP 263: its byte-order mark, its coding line, else UTF-8.",
    Severity.ERROR,
    Safety.DISPLAY,
    by_hand=Effort.LOW,
)
UNREADABLE = Rule(
    "XLA003",
    "unsupported-source",
    "The file parses but cannot be edited in place; it was left as it is.",
    "Only what is written back byte for byte may be edited; very deep nesting exceeds the parser.",
    Severity.ERROR,
    Safety.DISPLAY,
)
WITHDRAWN = Rule(
    "XLA004",
    "change-withdrawn",
    "The planned changes did not give a sound module and were withdrawn.",
    "Output that does not compile, or uses a name that nothing binds, is never written.",
    Severity.ERROR,
    Safety.DISPLAY,
)
FAULT = Rule(
    "XLA006",
    "internal-fault",
    "The tool failed on this file and left it as it was.",
    "An error of the tool in one file must not cost the others; please report the file.",
    Severity.ERROR,
    Safety.DISPLAY,
    by_hand=Effort.LOW,
)
SHARED = Rule(
    "XLA009",
    "shared-file",
    "Several programs share the file and want different things of it; it was left as it is.",
    "One file cannot serve a script that was made for one device and one made for replicas at once.",
    Severity.ERROR,
    Safety.DISPLAY,
)
LARGE = Rule(
    "XLA016",
    "program-too-large",
    "The program of the file is too large to be analysed as a whole; the file was left as it is.",
    "What expressions are is followed through all files of a program: a bound on it lets each run end.",
    Severity.ERROR,
    Safety.DISPLAY,
)
ENGINE_RULES = (SYNTAX, ENCODING, UNREADABLE, WITHDRAWN, FAULT, SHARED, LARGE, *OLD_PYTHON)


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    from xla_transforms.passes import PASSES

    found = [*ENGINE_RULES, *(rule for module in PASSES for rule in module.RULES)]
    return tuple(sorted(found, key=lambda rule: rule.code))
