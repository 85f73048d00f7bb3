"""A model that is made and given to its optimizer in one function, and moved in another one.

``load_train_objs()`` of the tutorials builds both, ``Trainer.__init__`` moves the model. It can be moved
where it is made: the later move of the same model to the same device is then none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.early_moves.block import followed
from xla_transforms.early_moves.travel import Travel
from xla_transforms.models import Move, key, surely_follows
from xla_transforms.plan import Planned
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.scopes import Binding
from xla_transforms.tree import method, value_of

Read = tuple[cst.BaseExpression, cst.Call]
"""A model, and the call that reads its parameters for an optimizer."""


class Maker:
    """The function in which optimizers take the parameters of a model that moves later, elsewhere."""

    def __init__(
        self, context: Context, function: cst.FunctionDef, reads: Sequence[Read], move: Move
    ) -> None:
        self.context, self.function, self.reads, self.move = context, function, reads, move
        self.model = reads[0][0]

    @classmethod
    def of(cls, context: Context, reads: Sequence[Read], move: Move) -> Maker | None:
        """``reads`` are all that come too early for the move."""
        index, roles = context.index, context.roles
        if any(roles.index(model) is not index for model, _ in reads):
            return None
        functions = {index.function_of(read) for _, read in reads}
        keys = {key(roles, model) for model, _ in reads}
        function = functions.pop()
        if functions or function is None or len(keys) > 1 or None in keys:
            return None
        return cls(context, function, reads, move) if function is not index.function_of(move.call) else None

    def safe(self) -> bool:
        """Whether the model comes from here to the move in any case, and nobody asks before where it is."""
        roles, start = self.context.roles, self.statement
        if start is None or self._origin is None or not self._made_before(start) or not self._once():
            return False
        if self.context.distributed and self.context.replicas.starts.before(start):
            return False
        travel = Travel(roles, self._origin, start, self.move)
        return self._goes_to_device() and surely_follows(roles, start, self.move.call) and travel.harmless()

    @cached_property
    def statement(self) -> cst.CSTNode | None:
        """The statement of the function's own block in which an optimizer first takes the parameters."""
        index, body = self.context.index, self.function.body
        if not isinstance(body, cst.IndentedBlock):
            return None
        return next((s for s in body.body if any(index.within(r, s) for _, r in self.reads)), None)

    @cached_property
    def _origin(self) -> cst.CSTNode | None:
        """What makes the model, which is nothing else, here and at the move."""
        roles = self.context.roles
        found = [roles.origins(node, Kind.MODEL) for node in (self.model, self.move.model)]
        same = found[0] == found[1] and len(found[0]) == 1
        return next(iter(found[0])) if same else None

    def _made_before(self, start: cst.CSTNode) -> bool:
        """Whether the model has its last value in the function above a statement."""
        index = self.context.index
        ours = [b for b in self._bindings() if index.within(b.statement, self.function)]
        made = [b for b in ours if b.value is not None and b.node is not self.function]
        end = index.source.offsets(start)[0]
        return bool(made) and made == ours and all(index.source.offsets(b.node)[0] < end for b in ours)

    def _bindings(self) -> Iterator[Binding]:
        index, model = self.context.index, self.model
        if isinstance(model, cst.Name):
            yield from index.scope_of(model).bindings.get(model.value, ())
        elif isinstance(model, cst.Attribute):
            found = index.attributes.get(model.attr.value, ())
            ours = key(self.context.roles, model)
            yield from (
                b
                for b in found
                if isinstance(b.node, cst.Attribute) and key(self.context.roles, b.node) == ours
            )

    def _once(self) -> bool:
        """Whether one call runs the function, and no other one can."""
        roles, name = self.context.roles, self.function.name.value
        if self.function.decorators or len(callers(roles, self.function)) != 1:
            return False
        named = (n for index in roles.program.modules.values() for n in index.named(name))
        return name == "__init__" or all(_only_calls(roles, n) for n in named)

    def _goes_to_device(self) -> bool:
        """Whether the move goes to the XLA device whatever the options are, and nothing follows it."""
        roles, call = self.context.roles, self.move.call
        given = value_of(call, "device", 0)
        if self.context.placing.guarded(call) or self._tied():
            return False
        if given is None:
            return method(call) == "cuda"
        return roles.places(given) == {"cuda"} or roles.kinds(given) == {Kind.NUMBER}

    def _tied(self) -> bool:
        """Whether a line was put behind the move, to make ties again: it would come too late."""
        line = self.context.index.statement_of(self.move.call)
        return line is None or followed(self.context, line)

    def write(self, change: Planned) -> None:
        """Write a move above the first optimizer; the later one stays, and moves nothing."""
        assert self.statement is not None
        text = self.context.index.source.code(self.model)
        change.before(self.statement, f"{text} = {text}.to({self._device(self.statement, change)})")

    def _device(self, start: cst.CSTNode, change: Planned) -> str:
        """A variable of the function itself, else the target's expression: others may be set later."""
        found = self.context.placing.visible(start)
        if found is not None and not found.may_be_cpu:
            owner = self.context.index.scope_of(start).owner(found.text.partition(".")[0])
            if owner is not None and owner.node is self.function:
                return found.text
        return change.spell(self.context.target.device)


def _only_calls(roles: Roles, name: cst.Name) -> bool:
    parent = roles.index(name).parent(name)
    defines = isinstance(parent, (cst.FunctionDef, cst.ImportAlias))
    return defines or (isinstance(parent, cst.Call) and parent.func is name)
