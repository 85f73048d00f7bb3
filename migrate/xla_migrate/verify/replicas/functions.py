"""``xm``'s cross-replica functions, carried through the host.

Every replica receives what all of them have, and computes the result itself, in the order of the
ranks: so all of them get the same bits. Pending operations on what is carried are computed first.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from xla_migrate.verify.calls import Calls
from xla_migrate.verify.replicas.gradients import Reductions
from xla_migrate.verify.replicas.meeting import Announcement, Meeting

Tensors = list[torch.Tensor]
Groups = Sequence[Sequence[int]] | None

REDUCE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": torch.add,
    "mul": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
}

NAMED = (
    "all_gather_bucketized", "all_reduce_bucketized_gradients", "broadcast_master_param",
    "collective_broadcast", "optimizer_step", "reduce_gradients", "reduce_scatter_bucketized", "save",
)  # fmt: skip
"""Functions that pass through those replaced here, or are noted only."""

TAGGED = ("mesh_reduce", "rendezvous", "xla_rendezvous")


class Carrier:
    """The replaced functions of one replica."""

    def __init__(self, meeting: Meeting, calls: Calls, reductions: Reductions) -> None:
        self.meeting, self.calls, self.reductions = meeting, calls, reductions

    def install(self) -> None:
        """Put them into ``torch_xla.core.xla_model``."""
        xm: Any = importlib.import_module("torch_xla.core.xla_model")
        replaced = (
            self.all_reduce, self.all_gather, self.all_to_all, self.reduce_scatter,
            self.collective_permute, self.rendezvous, self.xla_rendezvous,
        )  # fmt: skip
        for function in replaced:
            if hasattr(xm, function.__name__):
                setattr(xm, function.__name__, _plain(function))
        for name in ("send", "recv"):
            setattr(xm, name, functools.partial(_refuse, name))
        for function in replaced[:5]:
            self.calls.watch([xm], function.__name__, f"xm.{function.__name__}")
        for name in NAMED:
            self.calls.watch([xm], name, f"xm.{name}")
        for name in TAGGED:
            self.calls.watch([xm], name, f"xm.{name}", _tag)

    def members(self, groups: Groups) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Who takes part in a call, and who shares a result with this replica."""
        everyone = tuple(range(self.meeting.world))
        if not groups:
            return everyone, everyone
        mine = next((tuple(group) for group in groups if self.meeting.rank in group), None)
        if mine is None:
            raise ValueError(f"replica {self.meeting.rank} is in none of the groups {groups}")
        whole = {rank for group in groups for rank in group} == set(everyone)
        return (everyone if whole else mine), mine

    def gather(self, what: str, tensors: Tensors, groups: Groups = None) -> list[Tensors]:
        """The tensors of each member of this replica's group, on the host."""
        host = _on_host(tensors)
        present, mine = self.members(groups)
        shapes = [(list(tensor.shape), str(tensor.dtype)) for tensor in host]
        payload = b"".join(_bytes(tensor) for tensor in host)
        with self.calls.named(what) as text:
            said = Announcement(f"{text.partition(' at ')[0]} {shapes}", f"{text}{_sizes(host)}")
            self.calls.carry(sum(tensor.numel() for tensor in host))
            received = self.meeting.exchange(said, payload, present)
        return [_tensors(received[present.index(rank)], host) for rank in mine]

    def reduced(self, what: str, kind: str, tensors: Tensors, scale: float, groups: Groups) -> Tensors:
        """What all members have together, on the host."""
        if kind not in REDUCE:
            raise ValueError(f"Invalid reduce type: {kind}")
        gathered = self.gather(what, tensors, groups)
        totals = [functools.reduce(REDUCE[kind], copies) for copies in zip(*gathered, strict=True)]
        return [total * scale if scale != 1.0 else total for total in totals]

    def all_reduce(
        self, reduce_type: str, inputs: Any, scale: float = 1.0, groups: Groups = None,
        pin_layout: bool = True,
    ) -> Any:  # fmt: skip
        single = isinstance(inputs, torch.Tensor)
        tensors = [inputs] if single else list(inputs)
        self.reductions.reduced([] if single else tensors)
        totals = self.reduced("xm.all_reduce", reduce_type, tensors, scale, groups)
        if single:
            return totals[0].to(inputs.device)
        _write(tensors, totals)
        return inputs

    def all_gather(
        self, value: Any, dim: int = 0, groups: Groups = None, output: Any = None,
        pin_layout: bool = True, *rest: Any, **options: Any,
    ) -> Any:  # fmt: skip
        single = isinstance(value, torch.Tensor)
        tensors = [value] if single else list(value)
        gathered = self.gather("xm.all_gather", tensors, groups)
        joined = [torch.cat(copies, dim) for copies in zip(*gathered, strict=True)]
        return _handed_out(joined, tensors, output, single)

    def all_to_all(
        self, value: torch.Tensor, split_dimension: int, concat_dimension: int, split_count: int,
        groups: Groups = None, pin_layout: bool = True,
    ) -> torch.Tensor:  # fmt: skip
        gathered = self.gather("xm.all_to_all", [value], groups)
        place = self.members(groups)[1].index(self.meeting.rank)
        parts = [copy.chunk(split_count, split_dimension)[place] for (copy,) in gathered]
        return torch.cat(parts, concat_dimension).to(value.device)

    def reduce_scatter(
        self, reduce_type: str, input: Any, scale: float, scatter_dim: int, shard_count: int,
        groups: Groups = None, output: Any = None, pin_layout: bool = True, *rest: Any, **options: Any,
    ) -> Any:  # fmt: skip
        single = isinstance(input, torch.Tensor)
        tensors = [input] if single else list(input)
        self.reductions.reduced(tensors)
        totals = self.reduced("xm.reduce_scatter", reduce_type, tensors, scale, groups)
        place = self.members(groups)[1].index(self.meeting.rank)
        shards = [total.chunk(shard_count, scatter_dim)[place] for total in totals]
        return _handed_out(shards, tensors, output, single)

    def collective_permute(self, value: torch.Tensor, pairs: Sequence[Sequence[int]]) -> torch.Tensor:
        gathered = self.gather("xm.collective_permute", [value])
        for source, target in pairs:
            if target == self.meeting.rank:
                return gathered[source][0].to(value.device)
        return torch.zeros_like(value)

    def xla_rendezvous(
        self, payload: bytes = b"", ordinals: Any = None, tag: str | None = None
    ) -> list[bytes]:
        if ordinals and len(ordinals) != self.meeting.world:
            raise ValueError("only rendezvous of all replicas are supported")
        if not isinstance(payload, bytes):
            raise TypeError(f"`payload` must be bytes, not {type(payload)}")
        _barrier()
        with self.calls.named(f"xm.rendezvous({tag!r})") as text:
            kind = text.partition("(")[0].partition(" at ")[0]
            return self.meeting.exchange(Announcement(kind, text), payload)

    def rendezvous(self, tag: str, payload: bytes = b"", replicas: Any = ()) -> list[bytes]:
        return self.xla_rendezvous(payload, replicas or None, tag)


def _plain(method: Any) -> Any:
    """A function, not a method: user code may look at its signature."""

    @functools.wraps(method)
    def function(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return function


def _tag(*args: Any, **kwargs: Any) -> str:
    tag = kwargs.get("tag", args[0] if args else None)
    return f"({tag!r})" if isinstance(tag, str) else ""


def _refuse(name: str, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(f"xm.{name} between replicas is not carried; use xm.collective_permute")


def _barrier() -> None:
    torch_xla: Any = importlib.import_module("torch_xla")
    if hasattr(torch_xla, "sync"):
        torch_xla.sync()
    else:
        importlib.import_module("torch_xla.core.xla_model").mark_step()


def _on_host(tensors: Tensors) -> Tensors:
    """Copies on the host, after one execution of all that is pending on them."""
    xla: Any = importlib.import_module("torch_xla")._XLAC
    for tensor in tensors:
        xla._xla_get_tensor_id(tensor)  # raises torch_xla's own error for a tensor of the CPU
    # not _xla_sync_multi: it gives away the buffers of gradients that came together over several syncs
    xla._xla_step_marker(xla._xla_get_default_device(), [], wait=True)
    return [tensor.detach().cpu() for tensor in tensors]


def _bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _tensors(data: bytes, like: Tensors) -> Tensors:
    whole, start, found = bytearray(data), 0, []
    for tensor in like:
        size = tensor.numel() * tensor.element_size()
        part = torch.empty_like(tensor)
        if size:
            part = torch.frombuffer(whole[start : start + size], dtype=tensor.dtype).reshape(tensor.shape)
        found.append(part)
        start += size
    return found


def _sizes(tensors: Tensors) -> str:
    if len(tensors) == 1:
        return f" for a tensor of shape {list(tensors[0].shape)}"
    return f" for {len(tensors)} tensors" if tensors else ""


def _write(targets: Tensors, values: Tensors) -> None:
    for target, value in zip(targets, values, strict=True):
        target.data.copy_(value.to(target.device))


def _handed_out(values: Tensors, inputs: Tensors, output: Any, single: bool) -> Any:
    if output is not None:
        _write([output] if single else list(output), values)
        return output
    placed = [value.to(given.device) for value, given in zip(values, inputs, strict=True)]
    return placed[0] if single else placed
