"""Parameters of which each process holds a part: found while a script runs, joined when all have ended.

Both libraries cut a flattened parameter into pieces in the order of the ranks, at other places and with other
padding; so only whole parameters can be compared. Sources: PyTorch 2.9, ``torch/distributed/fsdp/
_flat_param.py``; pytorch/xla v2.9.0, ``torch_xla/distributed/fsdp/xla_fully_sharded_data_parallel.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xla_migrate.verify.trace import Array, Shard, Step, Trace

_WRAPPERS = ("module.", "_fsdp_shard.", "_fsdp_wrapped_module.", "_fpw_module.")
_SEPARATOR = "_FSDP_SHARD_SEPARATOR_"  # stands for a dot in torch_xla's names


def plain_name(name: str) -> str:
    """The name that a parameter has in the model itself, without what wrappers put before it."""
    name = name.replace(_SEPARATOR, ".").removeprefix(_WRAPPERS[0])
    for wrapper in _WRAPPERS[1:]:
        name = name.replace(wrapper, "")
    return name


def shards_in(modules: Iterable[Any]) -> dict[int, Shard]:
    """What the processes' own pieces are of, by the ``id`` of the parameter that holds one."""
    return {id(parameter): shard for module in modules for parameter, shard in _held_by(module)}


def _held_by(module: Any) -> Iterator[tuple[Any, Shard]]:
    members = vars(module)
    for parameter in members.get("sharded_params", ()):  # torch_xla's
        shape, size = list(parameter._orig_size), parameter.numel()
        start = min(members["rank"] * size, math.prod(shape))
        yield parameter, Shard(shape, start, min(size, math.prod(shape) - start))
    flat = getattr(members.get("_handle"), "flat_param", None)
    if flat is None or flat._params is None:
        return
    pieces = getattr(flat, "_shard_param_infos", None) or [None] * len(flat._params)
    for parameter, shape, piece in zip(flat._params, flat._shapes, pieces, strict=True):
        whole = Shard(list(shape), 0, math.prod(shape))  # one process shards nothing
        if piece is not None:
            whole = replace(whole, start=piece.intra_param_start_idx or 0, size=piece.numel_in_shard or 0)
        yield parameter, whole


def joined(traces: Sequence[Trace]) -> list[Trace]:
    """The traces of one run's processes with whole parameters, in the order of their names, where any was
    recorded in parts; as they are where none was, or where a process did not come to its end."""
    if not any(shard for trace in traces for group in trace.shards for shard in group):
        return list(traces)
    alike = all(trace.shards and len(trace.steps) == len(traces[0].steps) for trace in traces)
    if not alike or any(trace.failure for trace in traces):
        return list(traces)
    parameters = [
        [_whole([t.parameters[i][j] for t in traces], [t.shards[i][j] for t in traces]) for j in order]
        for i, order in enumerate(_orders(traces[0]))
    ]
    steps = [_step(taken, traces) for taken in zip(*(trace.steps for trace in traces), strict=True)]
    names = [[group[j] for j in order] for group, order in _named(traces[0])]
    return [replace(t, parameters=parameters, names=names, steps=_own(t, steps), shards=[]) for t in traces]


def _named(trace: Trace) -> Iterable[tuple[list[str], list[int]]]:
    return zip(trace.names, _orders(trace), strict=True)


def _orders(trace: Trace) -> list[list[int]]:
    return [sorted(range(len(group)), key=group.__getitem__) for group in trace.names]


def _own(trace: Trace, steps: Sequence[Step]) -> list[Step]:
    """The joint steps, each with what is the process's own."""
    own = (replace(t, order=o.order, draws=o.draws) for t, o in zip(steps, trace.steps, strict=True))
    return list(own)


def _whole(parts: Sequence[Array], shards: Sequence[Shard | None]) -> Array:
    if shards[0] is None:
        return parts[0]
    pieces = [part.ravel()[: s.size] for part, s in zip(parts, shards, strict=True) if s is not None]
    array: Array = np.concatenate(pieces).reshape(shards[0].shape)
    return array


def _step(taken: Sequence[Step], traces: Sequence[Trace]) -> Step:
    first = taken[0]
    shards = traces[0].shards[first.optimizer]
    order = _orders(traces[0])[first.optimizer]

    def over(values: Sequence[Sequence[float]], power: int) -> list[float]:
        columns = [[one[j] for one in values] for j in order]
        parted = [shards[j] is not None for j in order]
        sums = (sum(v**power for v in c) ** (1 / power) if p else c[0]
                for c, p in zip(columns, parted, strict=True))  # fmt: skip
        return list(sums)

    gradients = over([step.gradients for step in taken], 2)
    missing = set.intersection(*(set(step.unreached) for step in taken))
    return replace(
        first,
        norms=over([step.norms for step in taken], 2),
        digests=over([step.digests for step in taken], 1),
        gradients=gradients,
        gradient_norm=math.sqrt(sum(value * value for value in gradients)),
        unreached=sorted(order.index(j) for j in missing),
    )
