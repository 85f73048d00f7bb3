"""Models on their way to the device: which statement moves which model, and who took its parameters before.

On CUDA ``module.to(device)`` changes the data of its parameters in place; on XLA it makes new parameters.
Whoever holds the old ones (an optimizer, the other end of a tie) keeps them. Source: pytorch v2.9,
``torch/nn/modules/module.py``, ``_apply`` and ``compute_should_use_set_data``; pytorch/xla#1623, #2719.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from xla_transforms.plan import Planned
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.catalog import MODEL_METHODS_SAME
from xla_transforms.roles.classes import is_self
from xla_transforms.scopes import How, ModuleIndex, parameters
from xla_transforms.tree import COMPREHENSIONS, body_of, children, dotted, method, receiver, value_of, walk

_SWITCH = "__future__.set_swap_module_params_on_conversion"
_READS = ("parameters", "named_parameters")
_DEEP = 4
_CHOOSING = (
    cst.If, cst.IfExp, cst.BooleanOperation, cst.For, cst.While, cst.Try, cst.TryStar, cst.Match,
    cst.Lambda, *COMPREHENSIONS,
)  # fmt: skip
Path = list[tuple[cst.CSTNode, cst.CSTNode]]


@dataclass(eq=False)
class Move:
    """A call that moves a model to the device.

    ``model`` is what is moved, ``holder`` the variable or attribute that is the model afterwards, ``small``
    the small statement the call stands in.
    """

    call: cst.Call
    model: cst.BaseExpression
    holder: cst.BaseExpression | None
    small: cst.CSTNode


def moves(roles: Roles) -> list[Move]:
    """Every move of a model to the device in the program."""
    calls = (*roles.program.calls.get("to", ()), *roles.program.calls.get("cuda", ()))
    found = (_move(roles, call) for call in calls if to_device(roles, call))
    return [move for move in found if move is not None]


def returns_to_host(roles: Roles) -> list[Move]:
    """Every move of a model to the CPU in the program."""
    calls = (*roles.program.calls.get("to", ()), *roles.program.calls.get("cpu", ()))
    found = (_move(roles, call) for call in calls if to_host(roles, call))
    return [move for move in found if move is not None]


def _move(roles: Roles, call: cst.Call) -> Move | None:
    model, index = moved_by(call), roles.index(call)
    small = next((a for a in index.ancestors(call) if isinstance(a, cst.BaseSmallStatement)), None)
    if model is None or small is None or roles.dead(call):
        return None
    holder = _holder(index, call, model, small)
    known = _is_model(roles, model) or (isinstance(model, cst.Call) and _is_model(roles, holder))
    return Move(call, model, holder, small) if known else None


def moved_by(call: cst.Call) -> cst.BaseExpression | None:
    """``net`` for ``net.eval().cpu()``."""
    model = receiver(call)
    while isinstance(model, cst.Call) and method(model) in MODEL_METHODS_SAME:
        model = receiver(model)
    return model


def _is_model(roles: Roles, model: cst.BaseExpression | None) -> bool:
    facts = roles.facts(model) if model is not None else frozenset()
    pretrained = any(
        f.detail.startswith("transformers.") and f.detail.endswith(".from_pretrained") for f in facts
    )
    return roles.kinds(model) == {Kind.MODEL} or pretrained


def to_host(roles: Roles, call: cst.Call) -> bool:
    """Whether a method is called that brings what it belongs to to the CPU."""
    if method(call) == "cpu":
        return True
    return method(call) == "to" and bool(call.args) and roles.places(call.args[0].value) == {"cpu"}


def to_device(roles: Roles, call: cst.Call) -> bool:
    """Whether a method is called that brings a model to the device."""
    if method(call) != "to":
        return method(call) == "cuda"
    given = value_of(call, "device", 0)
    if given is None or roles.path(given).startswith("torch."):
        return False
    return roles.places(given) != {"cpu"} and Kind.TENSOR not in roles.kinds(given)


def _holder(
    index: ModuleIndex, call: cst.CSTNode, model: cst.BaseExpression, small: cst.CSTNode
) -> cst.BaseExpression | None:
    """What names the moved model after the statement."""
    if isinstance(small, cst.Expr):
        return model if isinstance(model, (cst.Name, cst.Attribute)) else None
    target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
    if not isinstance(small, cst.Assign) or target is None:
        return None
    if isinstance(target, (cst.Name, cst.Attribute)):
        return target if outermost(index, call) is small.value else None
    if isinstance(target, cst.Tuple) and isinstance(small.value, cst.Tuple):
        for left, right in zip(target.elements, small.value.elements, strict=False):
            if right.value is call:
                return left.value
    return None


def outermost(index: ModuleIndex, call: cst.CSTNode) -> cst.CSTNode:
    """The whole chain ``net.to(device).train()`` that a move is part of."""
    parent = index.parent(call)
    above = index.parent(parent) if isinstance(parent, cst.Attribute) else None
    return outermost(index, above) if isinstance(above, cst.Call) else call


def key(roles: Roles, node: cst.BaseExpression | None) -> tuple[object, str] | None:
    """What two expressions share that name the same variable or the same attribute of ``self``."""
    if isinstance(node, cst.Name):
        return roles.index(node).scope_of(node).owner(node.value), node.value
    if isinstance(node, cst.Attribute) and is_self(roles, node.value):
        return roles.index(node).class_of(node), node.attr.value
    if isinstance(node, cst.Attribute) and dotted(node):
        return None, dotted(node)
    return None


def same_model(roles: Roles, one: cst.BaseExpression, move: Move) -> bool:
    """Whether a move moves the model that an expression is, alone or as a part of another one."""
    return moved_itself(roles, one, move) or any(_same(roles, one, p) for p in parts(roles, move.model))


def moved_itself(roles: Roles, one: cst.BaseExpression, move: Move) -> bool:
    """Whether an expression and a move speak of the same model."""
    ours = key(roles, one)
    return (ours is not None and ours == key(roles, move.holder)) or _same(roles, one, move.model)


def _same(roles: Roles, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    ours = key(roles, one)
    if ours is not None and ours == key(roles, other):
        return True
    functions = {roles.index(n).function_of(n) for n in (one, other)}
    if len(functions) == 1 and isinstance(one, cst.Name) and isinstance(other, cst.Name):
        return False
    shared = roles.origins(one, Kind.MODEL) & roles.origins(other, Kind.MODEL)
    return any(_made_once(roles, origin) for origin in shared)


def parts(roles: Roles, model: cst.BaseExpression, depth: int = 0) -> Iterator[cst.BaseExpression]:
    """The models of which another one is made: ``net`` of ``nn.Sequential(net)``, what a class keeps."""
    for origin in roles.origins(model, Kind.MODEL) if depth < _DEEP else ():
        if isinstance(origin, cst.ClassDef):
            found = list(_kept(roles, origin, model))
        elif isinstance(origin, cst.Call) and roles.path(origin.func).startswith("torch.nn."):
            found = [n for arg in origin.args for n in _models_in(roles, arg.value)]
        else:
            continue
        for part in found:
            yield part
            yield from parts(roles, part, depth + 1)


def _models_in(roles: Roles, value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The models among the entries of a list or dict, or the one that an expression is."""
    if roles.kinds(value) == {Kind.MODEL}:
        yield value
    elif isinstance(value, (cst.List, cst.Tuple, cst.Dict)):
        for element in value.elements:
            yield from _models_in(roles, element.value)
    elif isinstance(value, cst.Name):
        held = [b.value for b in roles.bindings(value)]
        if len(held) == 1 and isinstance(held[0], (cst.List, cst.Tuple, cst.Dict)):
            yield from _models_in(roles, held[0])


def _kept(
    roles: Roles, owner: cst.ClassDef, model: cst.BaseExpression
) -> Iterator[cst.BaseExpression]:
    """The models that a class keeps, what its constructor is given as what ``model``'s call gives."""
    made = {model, *(b.value for b in roles.bindings(model))} if isinstance(model, cst.Name) else {model}
    for assign in roles.index(owner).inside(owner, cst.Assign):
        target = assign.targets[0].target
        if not isinstance(target, cst.Attribute) or not is_self(roles, target.value):
            continue
        given = arguments(roles, assign.value)
        ours = [value for site, value in given if site in made] or [value for _, value in given]
        for value in ours if given else [assign.value]:
            if roles.kinds(value) == {Kind.MODEL}:
                yield value


def arguments(roles: Roles, node: cst.CSTNode) -> list[tuple[cst.Call, cst.BaseExpression]]:
    """What each call of a function gives for a parameter, where a name is one and nothing else."""
    bindings = roles.bindings(node) if isinstance(node, cst.Name) else []
    param = bindings[0].node if len(bindings) == 1 and bindings[0].how is How.PARAMETER else None
    function = bindings[0].statement if param is not None else None  # a lambda's are not followed
    if not isinstance(param, cst.Param) or not isinstance(function, cst.FunctionDef):
        return []
    position, name = parameters(function).index(param), param.name.value
    given = [(site, value_of(site, name, position - bound)) for site, bound in callers(roles, function)]
    return [(site, value) for site, value in given if value is not None]


def _made_once(roles: Roles, origin: cst.CSTNode) -> bool:
    if not isinstance(origin, cst.ClassDef):
        return isinstance(origin, cst.Call)
    calls = roles.program.calls.get(origin.name.value, ())
    return sum(any(f.node is origin for f in roles.facts(c.func)) for c in calls) == 1


@dataclass(frozen=True, eq=False)
class Taken:
    """A model whose parameters an optimizer takes.

    ``maker`` is the call that makes the optimizer of it, a helper's where that is given the model or the
    parameters, ``read`` the one that reads the parameters.
    """

    maker: cst.Call
    model: cst.BaseExpression
    read: cst.Call


def taken(roles: Roles, optimizer: cst.Call) -> list[Taken]:
    """What an optimizer takes, of a helper that several calls run what each of them gives it."""
    found = [_by_parameter(roles, arg.value) for arg in optimizer.args]
    every = [one for more in found for one in more]
    for model, read in parameters_taken(roles, optimizer).items():
        sites = arguments(roles, model)
        several = len(sites) > 1 and all(roles.kinds(value) == {Kind.MODEL} for _, value in sites)
        every += [Taken(s, v, s) for s, v in sites] if several else [Taken(optimizer, model, read)]
    return every


def _by_parameter(roles: Roles, node: cst.BaseExpression, depth: int = 0) -> Iterator[Taken]:
    """What a helper's parameter brings to the optimizer: ``build(net.parameters())``."""
    for site, value in arguments(roles, node) if depth < _DEEP else ():
        if roles.kinds(value) != {Kind.MODEL}:
            for model, read in _reads_in(roles, [value]).items():
                yield Taken(site, model, read)
            yield from _by_parameter(roles, value, depth + 1)


def parameters_taken(roles: Roles, optimizer: cst.Call) -> dict[cst.BaseExpression, cst.Call]:
    """The models whose parameters an optimizer takes, each with the first call that reads them."""
    found = _reads_in(roles, [arg.value for arg in optimizer.args])
    return found or _read_around(roles, optimizer)


def _reads_in(roles: Roles, nodes: Iterable[cst.CSTNode]) -> dict[cst.BaseExpression, cst.Call]:
    """The models whose parameters are read in expressions or in what their names stand for."""
    found: dict[cst.BaseExpression, cst.Call] = {}
    seen: set[cst.CSTNode] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, cst.Call) and method(node) in _READS:
            found.update(dict.fromkeys(_prefixes(roles, receiver(node)), node))
        elif isinstance(node, cst.Name):
            stack += [b.value for b in roles.bindings(node) if b.value is not None]
        stack += children(node)
    return found


def _read_around(roles: Roles, optimizer: cst.Call) -> dict[cst.BaseExpression, cst.Call]:
    """The models whose parameters are read above the optimizer in its function."""
    index = roles.index(optimizer)
    function = index.function_of(optimizer)
    found: dict[cst.BaseExpression, cst.Call] = {}
    for node in walk(function) if function is not None else ():
        before = index.source.offsets(node)[0] < index.source.offsets(optimizer)[0]
        if isinstance(node, cst.Call) and method(node) in _READS and before:
            found.update(dict.fromkeys(_prefixes(roles, receiver(node)), node))
    return found


def _prefixes(roles: Roles, node: cst.CSTNode | None) -> Iterator[cst.BaseExpression]:
    """``a.b`` and ``a`` for ``a.b``, those that are models."""
    while isinstance(node, (cst.Name, cst.Attribute)):
        if roles.kinds(node) == {Kind.MODEL}:
            yield node
        if isinstance(node, cst.Name):
            return
        node = node.value


def comes_before(roles: Roles, one: cst.CSTNode, other: cst.CSTNode) -> bool | None:
    """Whether one node runs before another one, ``None`` where that is not known."""
    answers = {_earlier(roles, a, b) for a in _paths(roles, one) for b in _paths(roles, other)}
    return answers.pop() if len(answers) == 1 else None


def surely_follows(roles: Roles, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether a node runs behind another one in any case, if nothing ends the program before."""
    pairs = [(a, b) for a in _paths(roles, one) for b in _paths(roles, other)]
    return comes_before(roles, one, other) is True and all(_unconditional(roles, *pair) for pair in pairs)


def _unconditional(roles: Roles, one: Path, other: Path) -> bool:
    """Whether no choice or loop lies on the other path where the two part, or further in."""
    shared = sum(a[0] is b[0] and a[1] is b[1] for a, b in zip(one, other, strict=False))
    around: set[cst.CSTNode] = set()
    if shared < len(one):
        scope, node = one[shared]
        around = {node, *roles.index(scope).ancestors(node)}
    for scope, node in other[shared:]:
        for outer, inner in _steps(roles.index(scope), node):
            if outer is scope or outer in around:
                break
            if isinstance(outer, _CHOOSING) and not _always(roles, outer, inner):
                return False
    return True


def _always(roles: Roles, outer: cst.CSTNode, inner: cst.CSTNode) -> bool:
    """Whether a choice was made for good on CUDA."""
    return isinstance(outer, cst.If) and (inner is outer.test or roles.fold(outer.test) is not None)


def _exclusive(roles: Roles, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two nodes stand in different ways of one ``if``."""
    index = roles.index(one)
    if index is not roles.index(other):
        return False
    ways: dict[cst.CSTNode, cst.CSTNode] = {a: c for a, c in _steps(index, one) if isinstance(a, cst.If)}
    return any(a in ways and ways[a] is not c for a, c in _steps(index, other))


def _steps(index: ModuleIndex, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    child = node
    for parent in index.ancestors(node):
        yield parent, child
        child = parent


def _earlier(roles: Roles, one: Path, other: Path) -> bool | None:
    for (scope, node), (other_scope, other_node) in zip(one, other, strict=False):
        if scope is not other_scope or _exclusive(roles, node, other_node):
            return None
        if node is not other_node:
            offsets = roles.index(scope).source.offsets
            return offsets(node)[1] < offsets(other_node)[1]  # ``a().b()``: the inner call runs first
    return None


def _paths(roles: Roles, node: cst.CSTNode, depth: int = 0) -> list[Path]:
    """How a node is reached: for each way the functions from the outside in, with the calls in them."""
    index = roles.index(node)
    function = index.function_of(node)
    here = (function or index.source.module, node)
    sites = [site for site, _ in callers(roles, function)] if function is not None and depth < 6 else []
    outer = [path for site in sites for path in _paths(roles, site, depth + 1)]
    return [[*path, here] for path in outer] or [[here]]


def keep_identity(change: Planned, statement: cst.CSTNode) -> None:
    """Let the moves in a statement keep the parameters' identity, as CUDA's do.

    Only there: with the switch on, ``load_state_dict`` fails on recurrent layers, which hold weak
    references to their parameters (pytorch v2.9, ``torch/nn/modules/rnn.py``).
    """
    switch = f"{change.use('torch')}.{_SWITCH}"
    change.before(statement, f"{switch}(True)")
    if not any(isinstance(small, cst.Return) for small in body_of(statement)):
        change.after(statement, f"{switch}(False)")
