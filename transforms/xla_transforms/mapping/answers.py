"""Whether what has to be known of a program resolves: its entry, loaders, steps, saves and devices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from xla_transforms.loops.effects import Effect, Effects
from xla_transforms.mapping.feeds import sources
from xla_transforms.mapping.makers import Makers, text_of
from xla_transforms.mapping.parts import Answer, Part, Unknown
from xla_transforms.mapping.reach import Reach, uses_gradient
from xla_transforms.mapping.reasons import Reasons
from xla_transforms.mapping.trees import loops_in
from xla_transforms.roles import Kind
from xla_transforms.roles.classes import find_method
from xla_transforms.roles.facts import of_kind
from xla_transforms.saves import Saved
from xla_transforms.tree import argument, method, receiver, value_of

_TRAINS = Effect.BACKWARD | Effect.STEP
_PLACED = frozenset(
    {Kind.DEVICE, Kind.STRING, Kind.NUMBER, Kind.TENSOR, Kind.MODEL, Kind.OPTION, Kind.ENVIRONMENT}
)
_STEPPED = (Kind.OPTIMIZER, Kind.SCALER, Kind.SCHEDULER)


class Answers:
    """Asks the questions of one program, of what its entry reaches.

    A step and a loader resolve where the call that makes them is seen, a save where it is known what is
    saved, the device where it is known of each model, and of each move in a training loop.
    """

    def __init__(self, reach: Reach, makers: Makers, effects: Effects, reached: list[cst.CSTNode]) -> None:
        self.roles, self.makers, self.effects = reach.roles, makers, effects
        self.calls = [call for code in reached for call in reach.calls(code)]
        self.reasons = Reasons(reach.roles, set(self.calls))
        self.reach = reach
        self.loops = [x for code in reached for x in loops_in(code) if effects.of_loop(x) & _TRAINS]

    def parts(self, role: str) -> list[tuple[cst.Call, Part]]:
        """The parts of a role that are reached, with their calls."""
        return [(call, part) for call, part in self.reached if part.role == role]

    @cached_property
    def reached(self) -> list[tuple[cst.Call, Part]]:
        """The parts that the entry reaches, with their calls."""
        return [(call, self.makers.at[call]) for call in self.calls if call in self.makers.at]

    def step(self) -> Answer:
        """Whether each thing that is stepped is known, and where it was made."""
        steps = self.parts("step")
        unknown = [u for call, part in steps for u in self._stepped(call, part)]
        names = [p.detail for _, p in steps]
        if not {"optimizer", "scaler"} & set(names) and not unknown:
            by_hand = [x for x in self.loops if any(map(uses_gradient, self.reach.everything(x.body)))]
            if by_hand:
                return Answer(True, f"parameters are changed by hand in {self.makers.place(by_hand[0])}")
            call, part = self.parts("backward")[0]
            reason = "no optimizer is seen to step behind this backward pass"
            unknown = [Unknown("step", part.place, text_of(self.roles, call), reason)]
        own = {part.id for call, part in self.reached if part.role in ("optimizer", "scaler", "scheduler")}
        made = {self.makers.parts[i].detail for _, p in steps for i in p.uses if i in own}
        return Answer(not unknown, ", ".join(sorted(filter(None, made))), unknown=tuple(unknown))

    def _stepped(self, call: cst.Call, part: Part) -> Iterator[Unknown]:
        base = receiver(call)
        reason = self.reasons.why(base, *_STEPPED, *([Kind.INSTANCE] if self._steps_itself(base) else []))
        if not reason and not part.uses and not self._declared(receiver(call)):
            reason = "it is stepped like an optimizer, and no call is seen to make it"
            reason += self.reasons.behind(base, *_STEPPED)
        if reason and part.detail != Kind.SCHEDULER.value:
            yield Unknown("step", part.place, part.text, reason)

    def _steps_itself(self, node: cst.CSTNode | None) -> bool:
        """Whether a class of the program, whose own ``step`` is followed, may be what is stepped."""
        facts = self.roles.facts(node) if node is not None else frozenset()
        owners = [f.node for f in of_kind(facts, Kind.INSTANCE) if isinstance(f.node, cst.ClassDef)]
        return bool(owners) and all(find_method(self.roles, owner, "step") is not None for owner in owners)

    def _declared(self, node: cst.CSTNode | None) -> bool:
        """Whether annotations say what arrives in an expression."""
        return node is not None and any(f.detail == "declared" for f in self.roles.facts(node))

    def loader(self) -> Answer:
        """Whether what drives each training loop is known."""
        unknown: list[Unknown] = []
        fed: set[str] = set()
        own = {part.id for _, part in self.parts("loader")}
        for loop in self.loops:
            for source in sources(self.reach, loop):
                made = self.makers.origins(source, Kind.LOADER)
                fed |= {str(self.makers.parts[i].place) for i in made if i in own}
                unknown += self._unfed(loop, source, known=bool(made))
        if fed or unknown:
            return Answer(not unknown, ", ".join(sorted(fed)), unknown=tuple(unknown))
        return Answer(True, "no loader: the loops make their batches themselves", needed=False)

    def _unfed(self, loop: cst.CSTNode, source: cst.BaseExpression, *, known: bool) -> Iterator[Unknown]:
        reason = self.reasons.why(source, Kind.LOADER)
        if reason or not (known or self._declared(source)):
            text = reason or "no call is seen to make it"
            yield Unknown("loader", self.makers.place(loop), text_of(self.roles, source), text)

    def save(self) -> Answer:
        """Whether what each save writes is known."""
        saves = self.parts("save")
        unknown = []
        for call, part in saves:
            if part.detail == Saved.UNSEEN.value:
                reason = self.reasons.why(value_of(call, "obj", 0))
                unknown.append(Unknown("save", part.place, part.text, reason))
        if not saves:
            return Answer(True, "nothing is saved", needed=False)
        return Answer(not unknown, ", ".join(sorted(str(p.place) for _, p in saves)), unknown=tuple(unknown))

    def device(self) -> Answer:
        """Whether it is known to which device each move goes."""
        unknown: list[Unknown] = []
        moved = False
        for call, target in self._moves():
            moved = True
            reason = self.reasons.why(target, *_PLACED) if target is not None else ""
            if reason and target is not None and not self.roles.kinds(target) & _PLACED:
                place = self.makers.place(call)
                unknown.append(Unknown("device", place, text_of(self.roles, call), reason))
        if not moved:
            return Answer(True, "nothing is moved to a device", needed=False)
        made = sorted({str(part.place) for _, part in self.parts("device")})
        return Answer(not unknown, ", ".join(made) or "moves by cuda()", unknown=tuple(unknown))

    def _moves(self) -> Iterator[tuple[cst.Call, cst.BaseExpression | None]]:
        """The moves of models, and those in the training loops with all that they call."""
        inside = {call for code in self.reach.everything(*self.loops) for call in self.reach.calls(code)}
        for call in self.calls:
            if call not in inside and not self.roles.may_be(receiver(call), Kind.MODEL):
                continue
            name = method(call)
            if name == "cuda" and not self.roles.path(call.func):
                yield call, None
            elif name == "to" and not self.roles.path(call.func):
                given = value_of(call, "device", 0)
                typed = given is not None and (self._is_dtype(given) or argument(call, "dtype") is not None)
                if given is not None and not typed:
                    yield call, given

    def _is_dtype(self, node: cst.BaseExpression) -> bool:
        names = {f.detail for f in of_kind(self.roles.facts(node), Kind.NAME)}
        named = all(n.startswith("torch.") and n.count(".") == 1 for n in names)
        kinds = self.roles.kinds(node)
        return bool(kinds) and kinds <= {Kind.NAME, Kind.DTYPE} and named
