"""Training jobs that a script starts on SageMaker: which class makes them, on which machines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.facts import of_kind
from xla_transforms.scopes import ModuleIndex
from xla_transforms.targets.instances import COMPILED_FAMILIES, COMPILED_RELEASES, GPUS
from xla_transforms.tree import given, number_value, string_value, value_of

_HOMES = {
    "sagemaker.huggingface.HuggingFace": "huggingface",
    "sagemaker.huggingface.estimator.HuggingFace": "huggingface",
    "sagemaker.pytorch.PyTorch": "pytorch",
    "sagemaker.pytorch.estimator.PyTorch": "pytorch",
    "sagemaker.estimator.Estimator": "container",
    "sagemaker.modules.train.ModelTrainer": "trainer",
    "sagemaker.modules.train.model_trainer.ModelTrainer": "trainer",
    "sagemaker.train.ModelTrainer": "trainer",
    "sagemaker.train.model_trainer.ModelTrainer": "trainer",
}
_OF_TORCH = re.compile("pytorch|huggingface|trcomp", re.IGNORECASE)
Entry = cst.DictElement


@dataclass(eq=False)
class Job:
    """A call that describes a training job.

    ``kind`` is huggingface, pytorch, trainer (ModelTrainer) or container (an Estimator that is given one).
    """

    roles: Roles
    call: cst.Call
    kind: str

    @cached_property
    def instance(self) -> str:
        """The type of its machines where the script says it, such as ``ml.p3.8xlarge``."""
        return constant(self.roles, self._machine("instance_type"))

    @property
    def gpus(self) -> int | None:
        """How many GPUs one of its machines has."""
        return GPUS.get(self.instance)

    @cached_property
    def devices(self) -> int | None:
        """How many GPUs all its machines have."""
        count = self._machine("instance_count")
        machines = 1 if count is None and self.kind == "trainer" else _number(self.roles, count)
        return None if self.gpus is None or machines is None else int(self.gpus * machines)

    @cached_property
    def release(self) -> tuple[int, ...]:
        """Major and minor release of PyTorch in its container; empty where it is not known."""
        name = "pytorch_version" if self.kind == "huggingface" else "framework_version"
        parts = constant(self.roles, self.value(name)).split(".")[:2]
        return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()

    @cached_property
    def refused(self) -> str:
        """Why an estimator would refuse Training Compiler; empty where it takes it."""
        if self.kind == "trainer":
            return ""
        if self.kind == "container":
            return "" if "trcomp" in self.image else "its container is none of Training Compiler's"
        family = self.instance.split(".")[1] if self.instance.count(".") == 2 else ""
        low, high = COMPILED_RELEASES[self.kind]
        releases = f"{'.'.join(map(str, low))} to {'.'.join(map(str, high))}"
        if self.value("image_uri") is not None:
            return "it takes no image_uri: a container is chosen by the versions"
        if self.value("instance_groups") is not None:
            return "it takes no instance_groups, but instance_type and instance_count"
        if family and family not in COMPILED_FAMILIES:
            return f"it does not run on {self.instance}, only on {', '.join(COMPILED_FAMILIES)}"
        if not self.release:
            return f"which PyTorch the job gets is not known here; it has to be {releases}"
        return "" if low <= self.release <= high else f"it runs with PyTorch {releases} in this estimator"

    @cached_property
    def image(self) -> str:
        """How a script writes the container of a job, be it through a variable."""
        value = self.value("image_uri") or value_of(self.call, "image_uri", 0)
        held = [b.value for b in self.roles.bindings(value)] if isinstance(value, cst.Name) else []
        written = [node for node in (value, *held) if node is not None]
        return " ".join(self.roles.index(node).source.code(node) for node in written)

    def value(self, name: str) -> cst.BaseExpression | None:
        found = given(self.call, name)
        return found.value if found is not None else None

    def mapping(self, name: str) -> cst.Dict | None:
        """The one literal that an argument takes its entries from."""
        value = self.value(name)
        if value is None or isinstance(value, cst.Dict):
            return value
        found = [f.node for f in of_kind(self.roles.facts(value), Kind.MAPPING)]
        return found[0] if len(found) == 1 and isinstance(found[0], cst.Dict) else None

    def _machine(self, name: str) -> cst.BaseExpression | None:
        """An argument about machines: of the call, or of the ``Compute`` that it is given."""
        holder = self.value("compute") if self.kind == "trainer" else self.call
        if holder is not None and not isinstance(holder, cst.Call):
            calls = [f.node for f in self.roles.facts(holder) if isinstance(f.node, cst.Call)]
            holder = calls[0] if len(calls) == 1 else None
        found = given(holder, name) if isinstance(holder, cst.Call) else None
        return found.value if found is not None else None


def jobs(roles: Roles, index: ModuleIndex) -> Iterator[Job]:
    """The jobs that a module describes."""
    if "sagemaker" not in index.source.text:
        return
    for call in index.all(cst.Call):
        assert isinstance(call, cst.Call)
        kind = _HOMES.get(roles.path(call.func))
        if kind is not None and not roles.dead(call):
            job = Job(roles, call, kind)
            if kind != "container" or _OF_TORCH.search(job.image):
                yield job


def entry(mapping: cst.Dict, key: str) -> Entry | None:
    """The entry of a dict literal for a key."""
    entries = (e for e in mapping.elements if isinstance(e, cst.DictElement))
    return next((e for e in entries if string_value(e.key) == key), None)


def constant(roles: Roles, node: cst.BaseExpression | None) -> str:
    """The text that an expression always is, else nothing."""
    if node is None:
        return ""
    facts = roles.facts(node)
    texts = {f.detail for f in of_kind(facts, Kind.STRING)}
    return string_value(node) or (texts.pop() if len(texts) == 1 and len(facts) == 1 else "")


def _number(roles: Roles, node: cst.BaseExpression | None) -> int | float | None:
    if isinstance(node, cst.Name):
        values = [b.value for b in roles.bindings(node)]
        node = values[0] if len(values) == 1 else None
    return number_value(node)
