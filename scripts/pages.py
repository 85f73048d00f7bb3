"""The pages that are written from the code: the rules, the targets, and the example of the README."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from xla_migrate import migrate_source
from xla_migrate.escape import markup
from xla_migrate.known_rules import known_rules
from xla_migrate.rule_examples import SCRIPT, WITHOUT, Example, example, shown
from xla_transforms.findings import Rule, Safety
from xla_transforms.passes import PASSES
from xla_transforms.targets import DEFAULT, TARGETS
from xla_transforms.targets.base import Spelling, Target

ROOT = Path(__file__).parents[1]
RULES = ROOT / "docs" / "rules.md"
RULE_PAGES = ROOT / "docs" / "rules"
EXAMPLES = ROOT / "migrate" / "xla_migrate" / "examples"
TARGETS_PAGE = ROOT / "docs" / "targets.md"
SCHEMA = ROOT / "docs" / "report.schema.json"
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

Every change and every finding names one of these rules. `xla-migrate explain CODE` prints what its page says.
*Severity* is that of the rule's findings, where a single finding is not given another one; it decides, with
`--fail-on`, about the exit status. *Safety* tells what the rule's changes do: `safe` keeps the behaviour,
`unsafe` may alter it and waits for `--unsafe-fixes`, `display` changes nothing. *Effort* is what is left to
do by hand: a line (`low`), a place in the script (`medium`), its design (`high`).
"""


def rules_page() -> str:
    """The list of all rules as markdown."""
    sections: list[str] = [_HEAD]
    group = ""
    for rule in known_rules():
        if rule.code[3] != group:
            group = rule.code[3]
            sections.append(f"\n## {_GROUPS[group]}\n\n| rule | severity | safety | effort | |")
            sections.append("| --- | --- | --- | --- | --- |")
        facts = f"{rule.severity.label} | {rule.safety.value} | {rule.effort.value}"
        link = f"[{rule.code} {rule.name}](rules/{rule.code}.md)"
        sections.append(f"| {link} | {facts} | {rule.summary} |")
    return "\n".join(sections) + "\n"


def rule_page(rule: Rule) -> str:
    """The page of one rule as markdown: what it does, why, its example for each target, links."""
    homes = {rule.code: module.__name__.replace(".", "/") for module in PASSES for rule in module.RULES}
    facts = [f"severity {rule.severity.label}", f"safety {rule.safety.value}", f"effort {rule.effort.value}"]
    facts += [f"`transforms/{homes[rule.code]}.py`"] if rule.code in homes else []
    parts = [f"# {rule.code} {rule.name}", _MADE, ", ".join(facts), rule.summary, rule.why]
    parts += [f"Effect: {_SAFETY[rule.safety]}"]
    given = example(rule.code)
    if given is not None:
        parts += ["## Example", *_native(given), *_shown_targets(rule, given)]
    elif rule.code in WITHOUT:
        parts += [f"It has no example: {WITHOUT[rule.code]}."]
    links = _links(rule)
    parts += ["## Links", "\n".join(f"- {link}" for link in links)] if links else []
    return "\n\n".join(parts) + "\n"


_MADE = "<!-- Written by scripts/generate_docs from the rule and its example; do not edit. -->"
_SAFETY = {
    Safety.SAFE: "its changes keep what the script trains, as far as XLA can.",
    Safety.UNSAFE: "its changes may alter what the script does: they wait for `--unsafe-fixes`.",
    Safety.DISPLAY: "it changes nothing itself; it tells what to do.",
}


def _native(given: Example) -> Iterator[str]:
    """The files of an example, each but a lone script behind its name."""
    for name, text in given.files.items():
        if name != SCRIPT:
            yield f"`{name}`"
        language = {"py": "python", "ipynb": "python", "sh": "sh", "yaml": "yaml"}[name.rpartition(".")[2]]
        yield f"```{language}\n{text}```"


def _shown_targets(rule: Rule, given: Example) -> Iterator[str]:
    options = "with `--distributed`, " if given.distributed is True else ""
    for one in shown(rule, given):
        yield f"### {options}for {', '.join(one.targets)}"
        if one.diff:
            yield f"```diff\n{one.diff}```"
        if one.told:
            yield "\n".join(f"- {markup(text)}" for text in one.told)


def _links(rule: Rule) -> list[str]:
    """The upstream pages that a rule names: issues, and releases of pytorch/xla."""
    text = f"{rule.summary} {rule.why}"
    issues = re.findall(r"\b([\w-]+/[\w.-]+)#(\d+)", text)
    found = [f"[{repo}#{number}](https://github.com/{repo}/issues/{number})" for repo, number in issues]
    releases = dict.fromkeys(re.findall(r"\bpytorch/xla (v\d+\.\d+(?:\.\d+)?)", text))
    whole = [release if release.count(".") == 2 else f"{release}.0" for release in releases]
    return found + [f"[pytorch/xla {r}](https://github.com/pytorch/xla/tree/{r})" for r in whole]


def example_file(rule: Rule) -> str | None:
    """The file of a rule's example with the targets for which it shows something."""
    given = example(rule.code)
    if given is None:
        return None
    speaking = {target for one in shown(rule, given) for target in one.targets}
    options = ["--distributed"] if given.distributed is True else []
    options += ["--target", given.target] if given.target != DEFAULT else []
    head = f"# options: {' '.join(options)}\n" if options else ""
    return f"{head}# targets: {' '.join(t for t in TARGETS if t in speaking)}\n{given.text}"


def into_page(page: Path, marker: str, text: str) -> None:
    """Put ``text`` in the place of all that stands below the line ``marker``, up to the next heading.
    Raises ``ValueError`` where the page has no such line."""
    head, found, rest = page.read_text().partition(f"{marker}\n")
    if not found:
        raise ValueError(f"{page} has no line {marker}")
    _, heading, after = rest.partition("\n## ")
    page.write_text(f"{head}{found}\n{text}\n{heading}{after}")


_TARGETS_HEAD = """\
# Targets

<!-- Written by scripts/generate_docs from the tables in the code; do not edit. -->

`--target` says which release of torch_xla the migrated script is for. A number stands for the target that
covers it (`--target torch_xla==2.6` is 2.5). `--target auto` takes what the project asks to have installed:
the nearest folder upwards with a requirements file, `pyproject.toml`, `setup.cfg`, `setup.py`,
`environment.yml` or `Dockerfile` that names torch_xla or torch decides; a container of SageMaker's Training
Compiler, or its class `TrainingCompilerConfig`, means `sagemaker`. The summary tells what was chosen, and
by what.
"""
_TARGETS_NOTES = """\

## Mixed precision

- **2.9** has no scaler of its own and no CUDA: autocast computes in bfloat16, and gradient scalers are
  taken out.
- **2.5 and 2.1** keep the scaler as `torch_xla.amp.GradScaler`, with syncfree optimizers: it skips a step
  without reading anything. Gradients are reduced before it unscales them. `torch.autocast("xla")` is
  written since `torch_xla.amp.autocast(device)` fails on a CPU and, before 2.8, on Trainium. Where XLA runs
  on an NVIDIA GPU it is the other way round: tensors heed CUDA's autocast there, and XLA307 tells what to
  write.
- **sagemaker** computes in what the script chose, by default float16: `torch_xla.amp.autocast` is CUDA's
  own.
- With such a scaler a syncfree optimizer needs its whole state on the device: states that are loaded are
  moved (XLA407). What a torch optimizer saved lacks a part of it, so that native checkpoints of Adam cannot
  go on.

## What is not the same everywhere

- Before 2.3 torch cannot let a move keep a model's parameters: where that would be needed (2.1, sagemaker),
  an optimizer that is built too early, where neither line can be put in front of the other nor the model be
  moved where it is made, is an error that is reported (XLA412, XLA422).
- `xm.save` of the SageMaker containers waits for all replicas; called on one alone it never returns.
- Activation checkpointing needs 1.12 there, and the broadcast of initial weights 1.13.

Scripts for 2.9 and 2.1 are run on these releases by the tests, and those for `sagemaker` on 2.1, which
lacks little of it; 2.5 and 1.13 were compared with their tagged sources.
"""


def targets_page() -> str:
    """What each target writes, as markdown."""
    known = list(TARGETS.values())
    lines = ["| | " + " | ".join(f"`{t.name}`" for t in known) + " |", "| --- " * (len(known) + 1) + "|"]
    rows = [("for", [t.title + (" (default)" if t.name == DEFAULT else "") for t in known])]
    for name in Target.__dataclass_fields__:
        values = [getattr(t, name) for t in known]
        if any(isinstance(value, Spelling) for value in values):
            rows.append((name.replace("_", " "), [_shown(value) for value in values]))
    lines += [f"| {name} | " + " | ".join(_once(texts)) + " |" for name, texts in rows]
    return "\n".join([_TARGETS_HEAD, *lines]) + "\n" + _TARGETS_NOTES


def _shown(value: Spelling | None) -> str:
    return f"`{value.shown('x', 'y', 'f')}`" if value is not None else "none"


def _once(texts: list[str]) -> list[str]:
    """A text that is that of the column before is left out."""
    return [text if not i or text != texts[i - 1] else '"' for i, text in enumerate(texts)]


def schema_page() -> str:
    """The schema of the report for programs, as the package has it."""
    return files("xla_migrate.reports").joinpath("report.schema.json").read_text(encoding="utf-8")


def readme() -> str:
    """The README with the example as it is migrated today."""

    def current(match: re.Match[str]) -> str:
        opening, native, between, _, closing = match.groups()
        return f"{opening}{native}{between}{migrate_source(native).code}{closing}"

    return _EXAMPLE.sub(current, README.read_text(), count=1)
