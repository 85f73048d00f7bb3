"""Who trains: the script itself, transformers' Trainer, or Accelerate around the script's own loop."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.classes import bases
from xla_transforms.roles.facts import of_kind
from xla_transforms.tree import value_of

_TRAINERS = ("Trainer", "Seq2SeqTrainer")
_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments")
_MAKERS = ("from_pretrained", "from_config")
# What makes the loaders, models and optimizers that it is given fit for XLA, and steps by itself.
_PREPARING = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")


class Frameworks:
    """The frameworks that a program hands its training to."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self.program = roles.program

    def classes(self, made: cst.CSTNode) -> frozenset[str]:
        """The dotted paths of a class and its bases, for the expression that names the class."""
        found: set[str] = set()
        for item in self.roles.facts(made):
            if item.kind is Kind.NAME:
                found.add(item.detail)
            elif item.kind is Kind.CLASS and isinstance(item.node, cst.ClassDef):
                found.update(base for base in bases(self.roles, item.node) if isinstance(base, str))
        return frozenset(found)

    @cached_property
    def trainers(self) -> list[cst.Call]:
        """Every call that makes transformers' Trainer or a subclass of it."""
        return self._made(_TRAINERS)

    @cached_property
    def arguments(self) -> list[cst.Call]:
        """Every call that makes TrainingArguments or a subclass of it."""
        return self._made(_ARGUMENTS)

    @cached_property
    def argument_parsers(self) -> list[cst.Call]:
        """The calls of ``HfArgumentParser`` that read TrainingArguments from the command line."""
        calls = self.program.calls.get("HfArgumentParser", ())
        return [call for call in calls if any(map(self._is_arguments, self._dataclasses(call)))]

    @cached_property
    def argument_classes(self) -> list[cst.ClassDef]:
        """The program's own subclasses of TrainingArguments."""
        if not self.program.mentions(*_ARGUMENTS):
            return []
        every = (c for index in self.program.modules.values() for c in index.all(cst.ClassDef))
        mine = [c for c in every if isinstance(c, cst.ClassDef) and c.bases]
        return [c for c in mine if any(_of_transformers(b, _ARGUMENTS) for b in bases(self.roles, c))]

    @cached_property
    def prepares(self) -> bool:
        """Whether Accelerate prepares what the program's loops use: they then do what XLA needs."""
        calls = self.program.calls.get("Accelerator", ()) if self.program.mentions("accelerate") else ()
        return any(self.roles.path(call.func) in _PREPARING for call in calls)

    @property
    def trains(self) -> bool:
        """Whether transformers' Trainer or Accelerate trains: on CUDA, be it named or not."""
        return self.prepares or bool(self.trainers)

    @cached_property
    def models(self) -> frozenset[str]:
        """The names of transformers' classes of models that the program makes."""
        calls = self.program.calls
        made = [c.func for name in _MAKERS for c in calls.get(name, ())]
        owners = [f.value for f in made if isinstance(f, cst.Attribute)]
        named = [c.func for name, found in calls.items() if "For" in name or "Model" in name for c in found]
        paths = {self.roles.path(node) for node in (*owners, *named)}
        names = {p.rpartition(".")[2] for p in paths if p.startswith("transformers.")}
        return frozenset(n for n in names if "For" in n or n.endswith("Model"))

    def is_trainer(self, node: cst.CSTNode | None) -> bool:
        """Whether an expression is an instance of transformers' Trainer."""
        if node is None:
            return False
        facts = self.roles.facts(node)
        owners = [f.node for f in of_kind(facts, Kind.INSTANCE) if isinstance(f.node, cst.ClassDef)]
        paths = [f.detail for f in facts] + [b for o in owners for b in bases(self.roles, o)]
        return any(_of_transformers(path, _TRAINERS) for path in paths)

    def _made(self, names: tuple[str, ...]) -> list[cst.Call]:
        if not self.program.mentions(*names):
            return []
        every = (c for calls in self.program.calls.values() for c in calls if not self.roles.dead(c))
        found = {c: None for c in every if any(_of_transformers(p, names) for p in self._paths(c))}
        return list(found)

    def _paths(self, call: cst.Call) -> frozenset[str]:
        named = isinstance(call.func, (cst.Name, cst.Attribute))
        return self.classes(call.func) if named else frozenset()

    def _dataclasses(self, call: cst.Call) -> list[cst.BaseExpression]:
        given = value_of(call, "dataclass_types", 0)
        if isinstance(given, (cst.Tuple, cst.List)):
            return [element.value for element in given.elements]
        return [given] if given is not None else []

    def _is_arguments(self, node: cst.BaseExpression) -> bool:
        return any(_of_transformers(path, _ARGUMENTS) for path in self.classes(node))


def _of_transformers(path: object, names: tuple[str, ...]) -> bool:
    package, _, name = path.rpartition(".") if isinstance(path, str) else ("", "", "")
    return name in names and (package == "transformers" or package.startswith("transformers."))
