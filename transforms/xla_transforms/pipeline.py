"""From texts to outcomes: one parse, one analysis, all passes, one rendering, one check."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from xla_transforms import check
from xla_transforms.cleanup import unused_imports
from xla_transforms.context import Context
from xla_transforms.edits import line_edits
from xla_transforms.encoding import SourceError
from xla_transforms.findings import Finding, Span
from xla_transforms.formatting import format_changed
from xla_transforms.grouping import FRAMEWORK, GPU, groups, module_name
from xla_transforms.mapping import Mapper, ProjectMap
from xla_transforms.outcome import Outcome, said_once
from xla_transforms.passes import PASSES, WITHOUT_CUDA
from xla_transforms.plan import Conflict, Plan, Render, Site
from xla_transforms.program import Program, concerns
from xla_transforms.render import Renderer
from xla_transforms.replicas import Replicas
from xla_transforms.roles import Roles
from xla_transforms.rules import WITHDRAWN
from xla_transforms.settings import Settings
from xla_transforms.source import Source, syntax_error
from xla_transforms.targets import target

Failure = Callable[[str, bytes, SourceError], Outcome]


def migrate_texts(
    texts: dict[str, tuple[str, bytes, str]],
    settings: Settings,
    failure: Failure,
    others: Collection[str] = (),
) -> dict[str, Outcome]:
    """Migrate decoded modules (text, bytes, encoding by path), those that import one another together.

    ``others`` are the paths of the files beside them that have nothing to migrate.
    """
    batch = _Batch(texts, settings, failure)
    for group in batch.groups(others):
        batch.migrate(group)
    return said_once({path: batch.outcomes[path] for path in texts})


def map_texts(
    texts: dict[str, tuple[str, bytes, str]],
    settings: Settings,
    failure: Failure,
    commands: Mapping[str, str],
) -> ProjectMap:
    """Map decoded modules, those that import one another together; see ``engine.map_program``."""
    batch, project = _Batch(texts, settings, failure), ProjectMap()
    for group in batch.groups(()):
        Mapper(batch.analysed(group), project, commands).run()
    failed = ((path, outcome) for path, outcome in batch.outcomes.items() if outcome.failed)
    project.failed = {path: outcome.findings[0].message for path, outcome in failed}
    return project


@dataclass
class _Batch:
    """The modules of one run, and what became of them."""

    texts: dict[str, tuple[str, bytes, str]]
    settings: Settings
    failure: Failure
    sources: dict[str, Source] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def groups(self, others: Collection[str]) -> Iterator[dict[str, str]]:
        """The programs, as paths by module name; ``others`` are files that are there, too."""
        paths: dict[str, str] = {}
        for path in filter(self.readable, self.texts):
            # a.py and a/__init__.py have one name, which only one of them can keep
            name = module_name(path)
            paths[name if name not in paths else f"{name}:{path}"] = path
        modules = {name: self.texts[path][0] for name, path in paths.items()}
        for group in groups(modules, map(module_name, others)):
            yield {name: paths[name] for name in group}

    def readable(self, path: str) -> bool:
        """Whether a module is Python; where it does not concern the tool Python's own parser may say so.

        One that says nothing of GPUs is read with the program it belongs to, or not at all.
        """
        text = self.texts[path][0]
        if not _speaks(text):
            return True
        return (not concerns(text) and check.parse(text) is not None) or self._parsed(path)

    def _parsed(self, path: str) -> bool:
        text, data, encoding = self.texts[path]
        try:
            self.sources[path] = self.sources.get(path) or Source(text, path)
        except SourceError as error:
            left = Outcome(path, data, text, text, encoding)
            self.outcomes[path] = self.failure(path, data, error) if _speaks(text) else left
        return path in self.sources

    def migrate(self, group: dict[str, str]) -> None:
        """Migrate a program, given as paths by module name; one that does not concern the tool is left."""
        said = [self.texts[path][0] for path in group.values()]
        if not (any(map(concerns, said)) and any(map(_speaks, said))):
            for path in group.values():
                text, data, encoding = self.texts[path]
                self.outcomes[path] = Outcome(path, data, text, text, encoding)
            return
        roles = self.analysed(group)
        program = roles.program
        for name, path in group.items():
            if name not in program.modules:
                continue
            _, data, encoding = self.texts[path]
            context = Context(program.modules[name], roles, Plan(program.modules[name]), self.settings)
            self.outcomes[path] = _guarded(_Module(context, data, encoding, path), self.failure)
        self._keep_whole({n: path for n, path in group.items() if n in program.modules}, program)

    def _keep_whole(self, group: dict[str, str], program: Program) -> None:
        """Withdraw what belongs with the changes of a file that keeps none: a half would run nowhere."""
        for name in [n for n, path in group.items() if _refused(self.outcomes[path])]:
            for index in program.related(program.modules[name]):
                path = group[index.name]
                self.outcomes[path] = self._without(path, group[name])

    def _without(self, path: str, other: str) -> Outcome:
        """The outcome of a file without its changes, which belong with those of another one."""
        outcome = self.outcomes[path]
        if not outcome.edits:
            return outcome
        reason = f"they belong with those of {other}, which are not sound"
        kept = replace(outcome, code=outcome.source, edits=(), changes=(), _narrower=None)
        return _withdrawn(kept, self.sources[path].span_of(0, 0), reason)

    def analysed(self, group: dict[str, str]) -> Roles:
        """The analysis of a program, without the modules that cannot be parsed.

        Its processes stay several where they are to and can be started.
        """
        program = Program((name, self.sources[path]) for name, path in group.items() if self._parsed(path))
        wanted = self.settings.distributed
        roles = Roles(program, replicated=False if wanted is False else None)
        outside = target(self.settings.target).launcher_entry
        if roles.replicated and roles.once("replicas", lambda: Replicas(roles, wanted, outside)).obstacle:
            return Roles(program, replicated=False)
        return roles


def _guarded(module: _Module, failure: Failure) -> Outcome:
    """Run all passes over a module; whatever goes wrong leaves this file alone, and the others go on."""
    try:
        for step in PASSES:
            if module.context.names_cuda or step in WITHOUT_CUDA:
                step.run(module.context)
        return module.outcome(None)
    except SourceError as error:
        return failure(module.path, module.data, error)
    except RecursionError:
        return failure(module.path, module.data, SourceError("XLA003", "nested too deeply to analyse"))
    except Exception as error:
        reason = f"the tool failed on this file ({type(error).__name__}: {error}); it was left as it is"
        return failure(module.path, module.data, SourceError("XLA006", reason))


def _refused(outcome: Outcome) -> bool:
    return outcome.failed or any(finding.code == WITHDRAWN.code for finding in outcome.findings)


def _withdrawn(outcome: Outcome, span: Span, reason: str) -> Outcome:
    """The outcome of a file that keeps none of its changes, with the reason."""
    advice = "please report this file; migrate it by the findings below meanwhile"
    message = f"all changes withdrawn: {reason}"
    finding = Finding(WITHDRAWN.code, WITHDRAWN.name, WITHDRAWN.severity, message, span, advice)
    return replace(outcome, findings=(finding, *outcome.findings))


def _speaks(text: str) -> bool:
    of_torch = "torch" in text and GPU.search(text) is not None
    return of_torch or FRAMEWORK.search(text) is not None


def _writes(text: str) -> Callable[[Render], str]:
    return lambda render: text


@dataclass
class _Module:
    """A planned module, ready to be rendered with all or some of its changes."""

    context: Context
    data: bytes
    encoding: str
    path: str

    def outcome(self, ids: Collection[int] | None) -> Outcome:
        ids = ids if ids is None else self._completed(ids)
        source, plan = self.context.index.source, self.context.plan
        findings = tuple(sorted(plan.findings, key=lambda f: (f.span, f.code, f.message)))
        text = source.text
        base = Outcome(
            self.path, self.data, text, text, self.encoding, findings=findings, _narrower=self.outcome
        )
        sites = plan.sites(ids)
        if not sites:
            return base
        try:
            code = self._sound(sites, ids)
        except Conflict as error:
            return _withdrawn(base, source.span_of(0, 0), str(error))
        if code is None and check.parse(text) is None:  # the parser takes what Python refuses
            raise syntax_error(text, SyntaxError())
        if code is None:
            reason = "the result would not compile or would use an unbound name"
            return _withdrawn(base, source.span_of(0, 0), reason)
        edits = tuple(line_edits(source.text, code))
        changes = tuple(c for c in plan.changes() if ids is None or c.id in ids)
        return replace(base, code=code, edits=edits, changes=changes)

    def _completed(self, ids: Collection[int]) -> Collection[int]:
        """Some of the changes with those that they rest on, a name that they leave unbound among it."""
        plan = self.context.plan
        chosen = plan.completed(ids)
        while sites := plan.sites(chosen):
            try:
                unbound = self._unbound(self._written(sites, chosen))
            except Conflict:
                break
            more = plan.completed(chosen | plan.binding(unbound)) if unbound else chosen
            if unbound and more == chosen:
                more = plan.completed(chosen | plan.about(unbound))
            if more == chosen:
                break
            chosen = more
        return chosen

    def _sound(self, sites: list[Site], ids: Collection[int] | None) -> str | None:
        """The new text, formatted and checked; ``None`` where it is not sound."""
        code = self._written(sites, ids)
        source = self.context.index.source
        if not source.is_notebook:  # its cells are formatted one by one, by who knows them
            code = format_changed(source.text, code, self.context.settings.black)
        tree = check.parse(code)
        return None if tree is None or not check.compiles(tree) or self._unbound(code) else code

    def _written(self, sites: list[Site], ids: Collection[int] | None) -> str:
        code = Renderer(self.context.index, sites).code()
        return Renderer(self.context.index, [*sites, *self._import_sites(code, ids)]).code()

    def _unbound(self, code: str) -> set[str]:
        """The names that nothing binds in the new text, but for those that nothing bound before."""
        tree = check.parse(code)
        unbound = check.names(tree).unbound if tree is not None else set()
        old = check.parse(self.context.index.source.text) if unbound else None
        return unbound - (check.names(old).unbound if old is not None else set())

    def _import_sites(self, code: str, ids: Collection[int] | None) -> list[Site]:
        plan, source = self.context.plan, self.context.index.source
        wanted = plan.wanted_imports(ids)
        sites = unused_imports(self.context.index, code, plan.imports.replaced(wanted))
        first = min(site.start for site in plan.sites(ids))
        for offset, lines in plan.imports.placed(wanted, first).items():
            text = "".join(line + source.newline for line in lines)
            at_end = offset == len(source.text) and not source.text.endswith(("\n", "\r"))
            text = (source.newline if at_end and source.text else "") + text
            text += source.newline if plan.imports.apart() and offset < len(source.text) else ""
            sites.append(Site(offset, offset, _writes(text), 0, -1))
        return sites
