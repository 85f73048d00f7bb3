"""From texts to outcomes: one parse, one analysis, all passes, one rendering, one check."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xla_transforms import check
from xla_transforms.cleanup import unused_imports
from xla_transforms.collecting import collect_lately_made
from xla_transforms.context import Context
from xla_transforms.edits import line_edits
from xla_transforms.encoding import SourceError
from xla_transforms.findings import Finding, Span
from xla_transforms.formatting import format_changed
from xla_transforms.grouping import FRAMEWORK, GPU, RELATED, groups, module_name
from xla_transforms.mapping import Mapper, ProjectMap
from xla_transforms.outcome import Outcome, said_once
from xla_transforms.passes import PASSES, WITHOUT_CUDA
from xla_transforms.plan import Conflict, Plan, Render, Site
from xla_transforms.program import Program, concerns
from xla_transforms.render import Renderer
from xla_transforms.replicas import Replicas
from xla_transforms.roles import Roles
from xla_transforms.roles.questions import TooMuch
from xla_transforms.rules import LARGE, SHARED, WITHDRAWN
from xla_transforms.settings import Settings
from xla_transforms.source import Source, syntax_error
from xla_transforms.targets import target
from xla_transforms.unread import Unread

Failure = Callable[[str, bytes, SourceError], Outcome]


def migrate_texts(
    texts: dict[str, tuple[str, bytes, str]], settings: Settings, failure: Failure
) -> dict[str, Outcome]:
    """Migrate decoded modules (text, bytes, encoding by path), those that import one another together."""
    batch = _Batch(texts, settings, failure)
    for group in batch.groups():
        batch.migrate(group)
    return said_once({path: batch.outcome(path) for path in texts})


def map_texts(
    texts: dict[str, tuple[str, bytes, str]],
    settings: Settings,
    failure: Failure,
    commands: Mapping[str, str],
) -> ProjectMap:
    """Map decoded modules, those that import one another together; see ``engine.map_program``."""
    batch, project = _Batch(texts, settings, failure), ProjectMap()
    read: set[str] = set()
    for group in batch.groups(mapped=True):
        try:
            Mapper(batch.analysed(group), project, commands).run()
        except TooMuch:
            batch.give_up(group)
        read.update(batch.paths[name] for name in group)
    failed = ((path, outcome) for path, found in batch.found.items() for outcome in found if outcome.failed)
    project.failed = {path: outcome.findings[0].message for path, outcome in failed}
    project.others += [path for path in texts if path not in read and path not in project.failed]
    return project


@dataclass
class _Batch:
    """The modules of one run, and what became of them."""

    texts: dict[str, tuple[str, bytes, str]]
    settings: Settings
    failure: Failure
    sources: dict[str, Source] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)  # by module name
    found: dict[str, list[Outcome]] = field(default_factory=dict)  # by path; of what is shared several
    speaking: dict[str, bool] = field(default_factory=dict)  # of texts

    def groups(self, mapped: bool = False) -> list[tuple[str, ...]]:
        """The programs. With ``mapped`` every module with torch makes one of those that import it."""
        for path in filter(self._readable, self.texts):
            # a.py and a/__init__.py have one name, which only one of them can keep
            name = module_name(path)
            self.paths[name if name not in self.paths else f"{name}:{path}"] = path
        modules = {name: self.texts[path][0] for name, path in self.paths.items()}
        own = {n for n, text in modules.items() if (mapped and "torch" in text) or self._own(text)}
        return groups(modules, own)

    def _own(self, text: str) -> bool:
        """Whether a module makes one program of those that import it."""
        return self._speaks(text) or RELATED.search(text) is not None

    def _speaks(self, text: str) -> bool:
        if text not in self.speaking:
            of_torch = "torch" in text and GPU.search(text) is not None
            self.speaking[text] = of_torch or FRAMEWORK.search(text) is not None
        return self.speaking[text]

    def outcome(self, path: str) -> Outcome:
        """What became of a file. Where programs that share it want different things it is left."""
        text, data, encoding = self.texts[path]
        found = self.found.get(path) or [Outcome(path, data, text, text, encoding)]
        if any(outcome.code != found[0].code for outcome in found):
            return _disputed(Outcome(path, data, text, text, encoding), found)
        findings = dict.fromkeys(f for outcome in found for f in outcome.findings)
        return replace(found[0], findings=tuple(findings))

    def _readable(self, path: str) -> bool:
        """Whether a module is Python; where it does not concern the tool Python's own parser may say so.

        One that is no program's own is read with those that import it, or not at all.
        """
        text = self.texts[path][0]
        if not self._speaks(text):
            return True
        return (not concerns(text) and check.parse(text) is not None) or self._parsed(path)

    def _parsed(self, path: str) -> bool:
        text, data, encoding = self.texts[path]
        try:
            self.sources[path] = self.sources.get(path) or Source(text, path)
        except SourceError as error:
            left = Outcome(path, data, text, text, encoding)
            self.found[path] = [self.failure(path, data, error) if self._speaks(text) else left]
        return path in self.sources

    def migrate(self, group: Sequence[str]) -> None:
        """Migrate a program; one that does not concern the tool is left."""
        said = [self.texts[self.paths[name]][0] for name in group]
        if not (any(map(concerns, said)) and any(map(self._speaks, said))):
            return
        earlier = {path: list(found) for path, found in self.found.items()}
        try:
            self._migrate(group)
        except TooMuch:
            self.found = earlier
            self.give_up(group)

    def give_up(self, group: Sequence[str]) -> None:
        """Leave a program that is too large, and say so in each of its files that speaks of GPUs."""
        message = f"its program of {len(group)} files is too large to be analysed whole; it was left as it is"
        advice = "migrate the entries one by one, each with what it imports: xla-migrate -m package.train"
        for path in (self.paths[name] for name in group):
            text, data, _ = self.texts[path]
            if self._speaks(text):
                error = SourceError(LARGE.code, message, advice=advice)
                self.found[path] = [self.failure(path, data, error)]

    def _migrate(self, group: Sequence[str]) -> None:
        roles = self._native(group)
        program = roles.program
        scripts = self._apart(roles)
        rest = tuple(name for name in program.modules if name not in scripts)
        for script in scripts:
            whole = {index.name for index in program.reachable(program.modules[script])}
            shared = tuple(name for name in rest if name in whole)
            self._write((script,), shared, self.analysed((script, *shared)))
        self._write(rest, (), self.analysed(rest) if scripts else self._startable(roles))

    def _write(self, names: Sequence[str], beside: Sequence[str], roles: Roles) -> None:
        """Migrate modules of one program, of which those ``beside`` them are another one's to write."""
        others = tuple(self.paths[name] for name in beside)
        outcomes: dict[str, Outcome] = {}
        for name in names:
            path = self.paths[name]
            _, data, encoding = self.texts[path]
            index = roles.program.modules[name]
            context = Context(index, roles, Plan(index), self.settings, others)
            outcomes[name] = _guarded(_Module(context, data, encoding, path), self.failure)
            collect_lately_made()
        self._keep_whole(outcomes, roles.program)
        for name, outcome in outcomes.items():
            self.found.setdefault(self.paths[name], []).append(outcome)

    def _keep_whole(self, outcomes: dict[str, Outcome], program: Program) -> None:
        """Withdraw what belongs with the changes of a file that keeps none: a half would run nowhere."""
        for name in [n for n, outcome in outcomes.items() if _refused(outcome)]:
            for index in program.related(program.modules[name]):
                if index.name in outcomes:
                    outcomes[index.name] = self._without(outcomes[index.name], self.paths[name])

    def _without(self, outcome: Outcome, other: str) -> Outcome:
        """The outcome of a file without its changes, which belong with those of another one."""
        if not outcome.edits:
            return outcome
        reason = f"they belong with those of {other}, which are not sound"
        kept = replace(outcome, code=outcome.source, edits=(), changes=(), _narrower=None)
        return _withdrawn(kept, self.sources[outcome.path].span_of(0, 0), reason)

    def _apart(self, roles: Roles) -> list[str]:
        """The scripts of a program that cannot start their processes anew, where without them others can.

        None of them is imported; what they share with the others is written for those.
        """
        program = roles.program
        if len(program.modules) == 1 or self.settings.distributed is False:
            return []
        replicas = self._replicas(roles)
        if not replicas.asked:
            return []
        names = {index.name if index is not None else "" for index, *_ in replicas.starts.blocked}
        if not names or "" in names or any(program.imported(name) for name in names):
            return []
        sources = {n: index.source for n, index in program.modules.items() if n not in names}
        rest = self._replicas(Roles(Program(sources.items())))
        return sorted(names) if rest.asked and not rest.obstacle else []

    def _replicas(self, roles: Roles) -> Replicas:
        return Replicas.of(roles, self.settings.distributed, target(self.settings.target))

    def analysed(self, group: Sequence[str]) -> Roles:
        """The analysis of a program whose processes stay several where they are to and can be started."""
        return self._startable(self._native(group))

    def _native(self, group: Sequence[str]) -> Roles:
        """The analysis of a program as it is, without the modules that cannot be parsed."""
        paths = [(name, self.paths[name]) for name in group]
        program = Program((name, self.sources[path]) for name, path in paths if self._parsed(path))
        return Roles(program, replicated=False if self.settings.distributed is False else None)

    def _startable(self, roles: Roles) -> Roles:
        """The analysis of a program, as one of one process where nothing can start its several."""
        if roles.replicated and self._replicas(roles).obstacle:
            return Roles(roles.program, replicated=False)
        return roles


def _disputed(left: Outcome, found: list[Outcome]) -> Outcome:
    """A file that several programs share, as it was, with a finding at the first place that they dispute."""
    span = min(span for outcome in found for change in outcome.changes for span in change.spans)
    message = "the programs that import this file want different things of it"
    advice = "migrate the scripts one by one, each with the files that it imports"
    finding = Finding(SHARED.code, SHARED.name, SHARED.severity, message, span, advice)
    return replace(left, findings=(finding,))


def _guarded(module: _Module, failure: Failure) -> Outcome:
    """Run all passes over a module; whatever goes wrong leaves this file alone, and the others go on."""
    try:
        for step in PASSES:
            if module.context.names_cuda or step in WITHOUT_CUDA:
                step.run(module.context)
        return module.outcome(None)
    except TooMuch:
        raise
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


def _within(span: Span, site: Site) -> bool:
    return site.start <= span.start and span.end <= site.end


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
            gone = self._unread(sites)
            code = self._sound([*sites, *gone], ids)
        except Conflict as error:
            return _withdrawn(base, source.span_of(0, 0), str(error))
        if code is None and check.parse(text) is None:  # the parser takes what Python refuses
            raise syntax_error(text, SyntaxError())
        if code is None:
            reason = "the result would not compile or would use an unbound name"
            return _withdrawn(base, source.span_of(0, 0), reason)
        edits = tuple(line_edits(source.text, code))
        changes = tuple(c for c in plan.changes() if ids is None or c.id in ids)
        told = tuple(f for f in findings if f.fixed or not any(_within(f.span, site) for site in gone))
        return replace(base, code=code, edits=edits, changes=changes, findings=told)

    def _unread(self, sites: list[Site]) -> list[Site]:
        """Sites that take out the variables of which these take the last read, and what only those read."""
        index, gone = self.context.index, list[Site]()
        variables = Unread(self.context.roles, index)
        while more := variables.sites(Renderer(index, [*sites, *gone]).code(), [*sites, *gone]):
            gone += more
        return gone

    def _completed(self, ids: Collection[int]) -> Collection[int]:
        """Some of the changes with those that they rest on, a name that they leave unbound among it."""
        plan = self.context.plan
        chosen = plan.completed(ids)
        while sites := plan.sites(chosen):
            try:
                unbound = self._unbound(check.parse(self._written(sites, chosen)))
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
        return None if tree is None or not check.compiles(tree) or self._unbound(tree) else code

    def _written(self, sites: list[Site], ids: Collection[int] | None) -> str:
        code = Renderer(self.context.index, sites).code()
        return Renderer(self.context.index, [*sites, *self._import_sites(code, sites, ids)]).code()

    def _unbound(self, tree: ast.Module | None) -> set[str]:
        """The names that nothing binds in a new text, but for those that nothing bound before."""
        unbound = check.names(tree).unbound if tree is not None else set()
        old = self.context.index.source.names if unbound else None
        return unbound - (old.unbound if old is not None else set())

    def _import_sites(self, code: str, written: list[Site], ids: Collection[int] | None) -> list[Site]:
        plan, source = self.context.plan, self.context.index.source
        wanted = plan.wanted_imports(ids, [site for site in written if not site.change])
        removals = unused_imports(self.context.index, code, written, plan.imports.replaced(wanted))
        sites = []
        first = min(site.start for site in written)
        for offset, lines in plan.imports.placed(wanted, first).items():
            text = "".join(line + source.newline for line in lines)
            at_end = offset == len(source.text) and not source.text.endswith(("\n", "\r"))
            text = (source.newline if at_end and source.text else "") + text
            apart = plan.imports.apart() and source.text[offset : source.line_end(offset)].strip()
            text += source.newline if apart else ""
            sites.append(Site(offset, offset, _writes(text), 0, -1))
        return [*sites, *removals]
