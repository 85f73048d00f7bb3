"""The one way through: filter, parse, analyse, plan, apply, check. A pure function of bytes and settings."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from xla_transforms import check
from xla_transforms.context import Context, Settings
from xla_transforms.findings import Change, Edit, Finding, Span
from xla_transforms.cleanup import unused_imports
from xla_transforms.formatting import format_changed
from xla_transforms.passes import PASSES
from xla_transforms.plan import Conflict, Plan, Site
from xla_transforms.program import Program
from xla_transforms.render import Renderer, line_edits
from xla_transforms.roles import Roles
from xla_transforms.rules import ENGINE_RULES, WITHDRAWN
from xla_transforms.source import Source, SourceError, decode

__all__ = ["Outcome", "Settings", "migrate_bytes", "migrate_program"]

_TRIGGER = re.compile(rb"cuda|accelerator|device|gpu", re.IGNORECASE)
_RULES = {rule.code: rule for rule in ENGINE_RULES}


@dataclass(frozen=True)
class Outcome:
    """What came out for one file. ``data`` is what to write; it is ``original`` where nothing changed.

    ``edits`` replace pieces of ``source`` (offsets in characters) and give ``code``. ``failed`` means that
    the file could not be processed; a finding says why.
    """

    path: str
    original: bytes
    source: str = ""
    code: str = ""
    encoding: str = "utf-8"
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    edits: tuple[Edit, ...] = ()
    failed: bool = False
    _module: _Module | None = field(default=None, repr=False, compare=False)

    @property
    def data(self) -> bytes:
        return self.code.encode(self.encoding) if self.edits else self.original

    def narrow(self, ids: Collection[int]) -> Outcome:
        """The same outcome with only the changes of the given ids; the imports follow."""
        if self._module is None:
            return self
        return self._module.outcome(frozenset(ids))


def migrate_bytes(data: bytes, settings: Settings | None = None, path: str = "<unknown>") -> Outcome:
    """Migrate one file. Never raises: what cannot be read comes back as it is, with a finding."""
    return migrate_program({path: data}, settings)[path]


def migrate_program(
    files: Mapping[str, bytes], settings: Settings | None = None
) -> dict[str, Outcome]:
    """Migrate several modules that import one another as one program, by path. Never raises."""
    settings = settings or Settings()
    outcomes: dict[str, Outcome] = {}
    sources: dict[str, tuple[Source, bytes, str]] = {}
    for path, data in files.items():
        try:
            text, encoding = decode(data)
            if not _TRIGGER.search(data) or b"torch" not in data:
                outcomes[path] = Outcome(path, data, text, text, encoding)
                continue
            sources[path] = (Source(text, path), data, encoding)
        except SourceError as error:
            outcomes[path] = _failure(path, data, error)
    outcomes.update(_migrate(sources, settings))
    return {path: outcomes[path] for path in files}


def _migrate(
    sources: dict[str, tuple[Source, bytes, str]], settings: Settings
) -> dict[str, Outcome]:
    names = {path: _module_name(path) for path in sources}
    program = Program((names[path], source) for path, (source, _, _) in sources.items())
    roles = Roles(program)
    outcomes: dict[str, Outcome] = {}
    for path, (source, data, encoding) in sources.items():
        try:
            context = Context(program.modules[names[path]], roles, Plan(program.modules[names[path]]), settings)
            for module in PASSES:
                module.run(context)
            outcomes[path] = _Module(context, data, encoding, path).outcome(None)
        except SourceError as error:
            outcomes[path] = _failure(path, data, error)
        except RecursionError:
            error = SourceError("XLA003", "nested too deeply to analyse")
            outcomes[path] = _failure(path, data, error)
    return outcomes


def _module_name(path: str) -> str:
    parts = re.split(r"[/\\]", path.removesuffix(".py"))
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return ".".join(p for p in parts if p not in ("", ".", ".."))


def _failure(path: str, data: bytes, error: SourceError) -> Outcome:
    rule = _RULES[error.code]
    span = Span(0, 0, error.line, error.column, error.line, error.column)
    finding = Finding(rule.code, rule.name, rule.severity, error.message, span)
    text = data.decode("utf-8", "replace")
    return Outcome(path, data, text, text, findings=(finding,), failed=True)


@dataclass
class _Module:
    """A planned module, ready to be rendered with all or some of its changes."""

    context: Context
    data: bytes
    encoding: str
    path: str

    def outcome(self, ids: Collection[int] | None) -> Outcome:
        source, plan = self.context.index.source, self.context.plan
        findings = tuple(sorted(plan.findings, key=lambda f: (f.span, f.code, f.message)))
        base = Outcome(
            self.path, self.data, source.text, source.text, self.encoding, findings=findings, _module=self
        )
        sites = plan.sites(ids)
        if not sites:
            return base
        try:
            code = self._sound(sites, ids)
        except Conflict as error:
            return self._withdrawn(base, str(error))
        if code is None:
            return self._withdrawn(base, "the result would not compile or would use an unbound name")
        edits = tuple(line_edits(source.text, code))
        changes = tuple(c for c in plan.changes() if ids is None or c.id in ids)
        return replace(base, code=code, edits=edits, changes=changes)

    def _sound(self, sites: list[Site], ids: Collection[int] | None) -> str | None:
        """The new text, formatted and checked; ``None`` where it is not sound."""
        source = self.context.index.source
        old = check.parse(source.text)
        code = Renderer(self.context.index, sites).code()
        tree = check.parse(code)
        if tree is None:
            return None
        sites = [*sites, *self._import_sites(tree, ids)]
        code = Renderer(self.context.index, sites).code()
        code = format_changed(source.text, code, self.context.settings.black)
        tree = check.parse(code)
        if tree is None or (old is not None and check.unbound(tree) - check.unbound(old)):
            return None
        return code

    def _import_sites(self, tree: ast.Module, ids: Collection[int] | None) -> list[Site]:
        plan, source = self.context.plan, self.context.index.source
        lines = plan.imports.lines(plan.wanted_imports(ids))
        sites = unused_imports(self.context.index, check.used(tree))
        if lines:
            offset, apart = plan.imports.insertion()
            text = "".join(line + source.newline for line in lines)
            at_end = offset == len(source.text) and not source.text.endswith(("\n", "\r"))
            text = (source.newline if at_end and source.text else "") + text
            text += source.newline if apart and offset < len(source.text) else ""
            sites.append(Site(offset, offset, lambda render: text, 0, -1))
        return sites

    def _withdrawn(self, base: Outcome, reason: str) -> Outcome:
        span = self.context.index.source.span_of(0, 0)
        finding = Finding(
            WITHDRAWN.code, WITHDRAWN.name, WITHDRAWN.severity, f"all changes withdrawn: {reason}", span,
            "please report this file; migrate it by the findings below meanwhile",
        )  # fmt: skip
        return replace(base, findings=(finding, *base.findings))
