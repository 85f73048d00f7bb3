"""Which changes of a run are made, and which findings are told: by rules, comments, safety and number.

What is left out is told (XLA007) and takes along what needs it: no script is migrated in part in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from xla_migrate.documents import Document
from xla_migrate.launches import is_launcher
from xla_migrate.notebooks import NotebookOutcome
from xla_migrate.notebooks.showing import cell_place
from xla_migrate.project import ProjectSettings, known
from xla_transforms.findings import Change, Finding, Rule, Safety, Severity, Span
from xla_transforms.ignores import Ignore, ignores, is_named

if TYPE_CHECKING:
    from xla_transforms.outcome import Outcome

LEFT_OUT = Rule(
    "XLA007",
    "change-left-out",
    "Changes were left out, because a comment, an option or the settings say so.",
    "What is migrated around them expects them, so they are never passed over in silence. Changes that need "
    "one that is left out are left out with it.",
    Severity.WARNING,
    Safety.DISPLAY,
)
UNUSED = Rule(
    "XLA008",
    "unused-ignore",
    "A comment tells xla-migrate to ignore what is not there.",
    "It would hide the next thing of its kind that is written there.",
    Severity.INFO,
    Safety.DISPLAY,
)
RULES = (LEFT_OUT, UNUSED)

PerFile = tuple[Callable[[str], bool], tuple[str, ...]]
_ALWAYS_TOLD = {f"XLA00{number}" for number in range(1, 7)}
_LISTED = 5
_KINDS = ("", "file", "cell", "start", "end")
_NOWHERE = {
    "end": "no ignore-start of the same rules stands above this ignore-end",
    "cell": "only a notebook has cells",
}


class Because(Enum):
    """Why a change was left out."""

    COMMENT = "comment"
    RULES = "rules"
    UNSAFE = "unsafe"
    LATER = "later"
    REFUSED = "refused"


@dataclass(frozen=True)
class Reason:
    """Why, and the same in words that follow "left out: "."""

    because: Because
    text: str


UNSAFE = Reason(Because.UNSAFE, "it may change what the script does; --unsafe-fixes makes it")
UNSELECTED = Reason(Because.RULES, "its rule is not selected, or is ignored")
REFUSED = Reason(Because.REFUSED, "it was refused")


@dataclass(frozen=True)
class LeftOut:
    """A change that was not made; ``needed`` says that it went because it needs one that did."""

    change: Change
    reason: Reason
    needed: bool = False


@dataclass(frozen=True)
class Policy:
    """What a run may change and tell.

    ``select`` (empty: all) and ``ignore`` name rules: a code, the beginning of codes, a name, or ``ALL``;
    ``per_file`` ignores rules in the files for which its function is true. ``unsafe`` makes changes that may
    alter what the script does.
    """

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    per_file: Sequence[PerFile] = ()
    unsafe: bool = False

    @classmethod
    def of(
        cls,
        settings: ProjectSettings,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        unsafe: bool = False,
    ) -> Policy:
        """What is asked for and, where that says nothing, what a project says. Raises ``BadSettings``."""
        chosen, ignored = known(select) or settings.select, known(ignore) or settings.ignore
        return cls(chosen, ignored, settings.per_file(), unsafe)

    def ignores(self, path: str, code: str, name: str) -> bool:
        """Whether a rule is ignored in a file."""
        ignored = [*self.ignore, *(one for matches, rules in self.per_file if matches(path) for one in rules)]
        return any(is_named(code, name, one) for one in ignored)

    def wants(self, path: str, code: str, name: str) -> bool:
        """Whether a rule counts in a file."""
        selected = not self.select or any(is_named(code, name, one) for one in self.select)
        return selected and not self.ignores(path, code, name)


@dataclass
class _Selection:
    """One document with the comments in it."""

    document: Document
    policy: Policy
    comments: list[Ignore] = field(default_factory=list)

    def gone(self, change: Change) -> Reason | None:
        """Why a change is not to be made."""
        hidden = [self._ignored(span, change.code, change.name) for span in change.spans]
        by = next((one for one in hidden if one is not None), None)
        if by is not None:
            told = f" ({by.reason})" if by.reason else ""
            return Reason(Because.COMMENT, f"ignored by the comment in {place(self.document, by.span)}{told}")
        if not self.policy.wants(self.document.path, change.code, change.name):
            return UNSELECTED
        return UNSAFE if change.safety is Safety.UNSAFE and not self.policy.unsafe else None

    def told(self, finding: Finding) -> bool:
        if finding.code in _ALWAYS_TOLD:
            return True
        hidden = self._ignored(finding.span, finding.code, finding.name)
        return hidden is None and self.policy.wants(self.document.path, finding.code, finding.name)

    def _ignored(self, span: Span, code: str, name: str) -> Ignore | None:
        hiding = [one for one in self.comments if one.hides(span, code, name)]
        for one in hiding:
            one.used = True
        return hiding[0] if hiding else None


def choose(documents: Iterable[Document], policy: Policy) -> None:
    """Take out of each document what is not wanted, and say what was left out."""
    for document in documents:
        outcome = document.outcome
        if outcome is None or outcome.failed or not _speaks(outcome):
            continue
        chosen = _Selection(document, policy, _comments(document, outcome))
        gone = {change.id: why for change in outcome.changes if (why := chosen.gone(change)) is not None}
        findings = tuple(finding for finding in outcome.findings if chosen.told(finding))
        document.outcome = replace(outcome, findings=findings)
        leave_out(document, gone)
        _tell(document, [*_unused(chosen, outcome)])


def _speaks(outcome: Outcome) -> bool:
    """Whether there is anything to choose from; of most files of a large tree there is not."""
    return bool(outcome.changes or outcome.findings) or b"xla-migrate:" in outcome.original


def _comments(document: Document, outcome: Outcome) -> list[Ignore]:
    """What a script or a notebook itself says is to be left alone."""
    if isinstance(outcome, NotebookOutcome):
        from xla_migrate.notebooks.ignoring import cell_ignores

        return cell_ignores(outcome)
    return [] if is_launcher(document.path) else ignores(outcome.source)


def place(document: Document, span: Span) -> str:
    """A place in words: a line, of a notebook its cell and line."""
    cell = document.outcome and cell_place(document.outcome, span.start)
    return cell.rpartition(":")[0] if cell else f"line {span.line}"


def leave_out(document: Document, gone: Mapping[int, Reason]) -> None:
    """Take changes, given by id, out of a document, with those that need them."""
    before = document.outcome
    if before is None or not gone:
        return
    after = before.without(gone)
    kept = {change.id for change in after.changes}
    left = [change for change in before.changes if change.id not in kept]
    more = [LeftOut(c, gone.get(c.id) or _cause(before, c, gone), needed=c.id not in gone) for c in left]
    document.left_out = (*document.left_out, *more)
    findings = tuple(_as_it_is(finding, left, after) for finding in before.findings)
    document.outcome = replace(after, findings=findings)


def _cause(outcome: Outcome, change: Change, gone: Mapping[int, Reason]) -> Reason:
    """Why a change goes that nobody asked about: for one that it needs."""
    reasons = list(dict.fromkeys(gone.values()))
    if len(reasons) > 1:
        needs = [one.id for one in outcome.narrow([change.id]).changes]
        reasons = [gone[one] for one in needs if one in gone] + reasons
    return reasons[0]


def _as_it_is(finding: Finding, left: Sequence[Change], after: Outcome) -> Finding:
    """A finding whose change was left out is not done."""
    if not finding.fixed or _made(finding, after.changes) or not _made(finding, left):
        return finding
    return replace(finding, fixed=False)


def _made(finding: Finding, changes: Iterable[Change]) -> bool:
    span = finding.span
    spans = [one for change in changes if change.code == finding.code for one in change.spans]
    return any(one.line <= span.end_line and span.line <= one.end_line for one in spans)


def tell(documents: Sequence[Document], policy: Policy) -> None:
    """Report what was left out, in each document once for each reason."""
    rest = any(document.changed for document in documents)
    for document in (d for d in documents if d.left_out):
        by_reason: dict[Reason, list[LeftOut]] = {}
        for one in document.left_out:
            by_reason.setdefault(one.reason, []).append(one)
        found = [_finding(document, reason, several, rest) for reason, several in by_reason.items()]
        _tell(document, [one for one in found if not policy.ignores(document.path, one.code, one.name)])


def _tell(document: Document, found: Sequence[Finding]) -> None:
    if found and document.outcome is not None:
        findings = sorted((*document.outcome.findings, *found), key=lambda one: (one.span, one.code))
        document.outcome = replace(document.outcome, findings=tuple(findings))


def _finding(document: Document, reason: Reason, several: Sequence[LeftOut], rest: bool) -> Finding:
    asked = [one.change for one in several if not one.needed]
    needed = [one.change for one in several if one.needed]
    changes = "1 change is" if len(asked) == 1 else f"{len(asked)} changes are"
    message = f"{changes} left out: {reason.text}"
    if needed:
        codes = ", ".join(sorted({change.code for change in needed}))
        message += f"; {len(needed)} that need what was left out went with it ({codes})"
    places = [f"{place(document, c.spans[0])}: {c.code} {c.message}" for c in asked[:_LISTED]]
    places += [f"{len(asked) - _LISTED} more"] if len(asked) > _LISTED else []
    around = "; what is migrated around them expects them" if rest else ""
    severity = _severity(document, reason, asked) if rest else Severity.INFO
    span = min(change.spans[0] for change in (*asked, *needed))
    advice = "; ".join(places) + around
    return Finding(LEFT_OUT.code, LEFT_OUT.name, severity, message, span, advice)


def _severity(document: Document, reason: Reason, asked: Sequence[Change]) -> Severity:
    """That of the rules where a change waits for a word of the user and nothing else tells of it."""
    if reason.because is not Because.UNSAFE:
        return Severity.WARNING
    assert document.outcome is not None
    open_codes = {finding.code for finding in document.outcome.findings if not finding.fixed}
    silent = [_rules()[c.code].severity for c in asked if c.code in _rules() and c.code not in open_codes]
    return max(silent, default=Severity.INFO)


def _unused(chosen: _Selection, outcome: Outcome) -> Iterator[Finding]:
    """Comments that hide nothing. A script that is migrated has them from before: there they may stay."""
    wanted = chosen.policy.wants(outcome.path, UNUSED.code, UNUSED.name)
    if not chosen.comments or "torch_xla" in outcome.source or not wanted:
        return
    known = _rules().values()
    for one in chosen.comments:
        unknown = [name for name in one.rules if not any(is_named(r.code, r.name, name) for r in known)]
        if unknown:
            message = f"there is no rule {unknown[0]}"
        elif one.kind in _NOWHERE and one.start == one.end:
            message = _NOWHERE[one.kind]
        elif one.kind not in _KINDS:
            message = f"there is no ignore-{one.kind}"
        elif one.used:
            continue
        else:
            message = "this comment hides nothing"
        advice = "xla-migrate rules lists the rules" if unknown else "take it out"
        yield Finding(UNUSED.code, UNUSED.name, UNUSED.severity, message, one.span, advice)


def _rules() -> dict[str, Rule]:
    from xla_migrate.known_rules import known_rules

    return {rule.code: rule for rule in known_rules()}


def limit(documents: Sequence[Document], number: int) -> None:
    """Leave out all but the first changes of a run, so many at most; what belongs together stays together."""
    left = number
    smallest = 0
    for document in documents:
        outcome = document.outcome
        if outcome is None or outcome.failed or not outcome.changes:
            continue
        kept: set[int] = set()
        for change in sorted(outcome.changes, key=lambda change: change.spans[0]):
            more = set() if change.id in kept or not left else _with(outcome, kept, change)
            smallest = min(smallest or len(more), len(more)) if more else smallest
            if more and len(more) <= left:
                kept |= more
                left -= len(more)
        needs = f"; the smallest that belongs together has {smallest}" if left == number and smallest else ""
        reason = Reason(Because.LATER, f"--max-changes {number} leaves it for later{needs}")
        leave_out(document, {c.id: reason for c in outcome.changes if c.id not in kept})


def _with(outcome: Outcome, kept: set[int], change: Change) -> set[int]:
    """The changes that a change adds to those that are kept: itself, and what it needs."""
    return {one.id for one in outcome.narrow([*kept, change.id]).changes} - kept
