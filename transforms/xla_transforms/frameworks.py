"""Who trains: the script itself, transformers' Trainer, or Accelerate around the script's own loop."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from xla_transforms import lightning
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.classes import bases
from xla_transforms.roles.facts import of_kind
from xla_transforms.scopes import ModuleIndex
from xla_transforms.tree import is_main_guard, method, receiver, value_of, walk

_TRAINERS = ("Trainer", "Seq2SeqTrainer")
_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments")
_TRL = ("SFT", "DPO", "KTO", "ORPO", "CPO", "Reward", "GRPO", "RLOO", "PRM", "BCO", "GKD", "OnlineDPO")
_SENTENCES = ("SentenceTransformer", "CrossEncoder", "SparseEncoder")
# Classes of other packages that are transformers' (trl v0.9 to v0.24; sentence-transformers v3 to v5).
_DERIVED: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {
    ("trl", _TRAINERS): tuple(f"{kind}Trainer" for kind in _TRL),
    ("trl", _ARGUMENTS): tuple(f"{kind}Config" for kind in _TRL),
    ("sentence_transformers", _TRAINERS): tuple(f"{kind}Trainer" for kind in _SENTENCES),
    ("sentence_transformers", _ARGUMENTS): tuple(f"{kind}TrainingArguments" for kind in _SENTENCES),
}
# What tells TrainingArguments more, and gives them back (transformers v4.57, training_args.py).
SETTERS = (
    "set_training", "set_evaluate", "set_testing", "set_save", "set_logging", "set_push_to_hub",
    "set_optimizer", "set_lr_scheduler", "set_dataloader",
)  # fmt: skip
_MAKERS = ("from_pretrained", "from_config")
# Calls that hand the steps to an engine of CUDA, and what that is called.
_ENGINES = {
    "deepspeed.initialize": "DeepSpeed",
    "horovod.torch.init": "Horovod",
    "smdistributed.dataparallel.torch.distributed.init_process_group": "SageMaker's smdistributed",
    "smdistributed.modelparallel.torch.init": "SageMaker's smdistributed",
    "torch.sagemaker.init": "SageMaker's model parallelism",
    "colossalai.launch": "Colossal-AI",
    "colossalai.launch_from_torch": "Colossal-AI",
}
# What makes the loaders, models and optimizers that it is given fit for XLA, and steps by itself.
_MAIN_PROCESS = (  # accelerate v1.15, accelerator.py; transformers v4.57, training_args.py and trainer.py
    "is_main_process", "is_local_main_process", "is_last_process", "is_world_process_zero",
    "is_local_process_zero", "should_save",
)  # fmt: skip
ACCELERATORS = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")


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
        if not self.program.mentions(*_named(_ARGUMENTS)):
            return []
        every = (c for index in self.program.modules.values() for c in index.all(cst.ClassDef))
        mine = [c for c in every if isinstance(c, cst.ClassDef) and c.bases]
        return [c for c in mine if any(_of_transformers(b, _ARGUMENTS) for b in bases(self.roles, c))]

    @cached_property
    def lightning(self) -> list[cst.Call]:
        """Every call that makes Lightning's Trainer or Fabric."""
        return lightning.trainers(self.roles)

    @cached_property
    def prepares(self) -> bool:
        """Whether Accelerate or Fabric prepares what the program's loops use: they then do what XLA needs."""
        calls = self.program.calls.get("Accelerator", ()) if self.program.mentions("accelerate") else ()
        fabric = any(self.roles.path(call.func).endswith(".Fabric") for call in self.lightning)
        return fabric or any(self.roles.path(call.func) in ACCELERATORS for call in calls)

    @cached_property
    def group_free(self) -> str:
        """The framework that starts the program's processes, which on XLA join no process group; or none."""
        if self.program.calls.get("init_process_group"):
            return ""
        if self.lightning or lightning.imported(self.roles):
            return "Lightning"
        return "Accelerate" if self.prepares else "transformers' Trainer" if self.trainers else ""

    def accelerator_in(self, index: ModuleIndex) -> str:
        """The name under which a module has the Accelerator that it makes; empty where it makes none."""
        calls = self.program.calls.get("Accelerator", ()) if self.prepares else ()
        for call in (c for c in calls if self.roles.index(c) is index):
            assign = index.parent(call)
            if isinstance(assign, cst.Assign) and self.roles.path(call.func) in ACCELERATORS:
                return index.source.code(assign.targets[0].target)
        return ""

    def alone(self, node: cst.CSTNode) -> bool:
        """Whether a condition around a node asks Accelerate or Trainer for their main process."""
        if not self.prepares and not self.trainers:
            return False
        tests = (a.test for a in self.roles.index(node).ancestors(node) if isinstance(a, cst.If))
        asked = (n.attr.value for test in tests for n in walk(test) if isinstance(n, cst.Attribute))
        return any(name in _MAIN_PROCESS for name in asked)

    @cached_property
    def engine(self) -> tuple[cst.Call, str] | None:
        """The call by which another engine, made for CUDA, does the program's steps, and its name.

        None where the program can do without: where the call stands under a condition.
        """
        names = {path.rpartition(".")[2] for path in _ENGINES}
        packages = {path.partition(".")[0] for path in _ENGINES}
        if not self.program.mentions(*packages):
            return None
        for call in (c for name in names for c in self.program.calls.get(name, ())):
            name = _ENGINES.get(self.roles.path(call.func), "")
            if name and self._always(call, frozenset()):
                return call, name
        return None

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
        return self._is_instance(node, _TRAINERS)

    def holds_arguments(self, node: cst.CSTNode | None) -> bool:
        """Whether an expression is an instance of TrainingArguments, be it given back by a setter of one."""
        if isinstance(node, cst.Call) and method(node) in SETTERS:
            return self.holds_arguments(receiver(node))
        return self._is_instance(node, _ARGUMENTS) or self._given_back(node)

    def _given_back(self, node: cst.CSTNode | None) -> bool:
        """Whether a variable holds what a setter gave back: ``args = args.set_optimizer(...)``."""
        bindings = self.roles.bindings(node) if isinstance(node, cst.Name) else []
        values = [binding.value for binding in bindings if not binding.path]
        made = [value for value in values if method(value) in SETTERS]
        if not made:
            return False
        with self.roles.guarded(("arguments", node)) as free:
            return free and any(map(self.holds_arguments, made))

    def _is_instance(self, node: cst.CSTNode | None, names: tuple[str, ...]) -> bool:
        if node is None:
            return False
        facts = self.roles.facts(node)
        owners = [f.node for f in of_kind(facts, Kind.INSTANCE) if isinstance(f.node, cst.ClassDef)]
        paths = [f.detail for f in facts] + [b for o in owners for b in bases(self.roles, o)]
        return any(_of_transformers(path, names) for path in paths)

    def _always(self, call: cst.Call, seen: frozenset[cst.CSTNode]) -> bool:
        """Whether no condition decides about a call, nor about each call of the function it stands in."""
        index = self.roles.index(call)
        tried = any(isinstance(a, cst.Try) for a in index.ancestors(call))
        branch = index.branch(call)
        if tried or (branch is not None and not (branch.outer is None and is_main_guard(branch.statement))):
            return False
        function = index.function_of(call)
        if function is None or function in seen:
            return True
        sites = [site for site, _ in callers(self.roles, function)]
        return not sites or any(self._always(site, seen | {function}) for site in sites)

    def _made(self, names: tuple[str, ...]) -> list[cst.Call]:
        if not self.program.mentions(*_named(names)):
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
    """Whether a path is one of transformers' own classes, or of those that other packages derive from it."""
    package, _, name = path.rpartition(".") if isinstance(path, str) else ("", "", "")
    home = package.partition(".")[0]
    return (home == "transformers" and name in names) or name in _DERIVED.get((home, names), ())


def _named(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of classes, and of all that other packages derive from them."""
    return (*names, *(name for (_, of), derived in _DERIVED.items() if of == names for name in derived))
