"""Which samples the replicas of a run see, in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest

from xla_migrate.verify.trace import Trace

Passes = dict[tuple[int, int], list[int]]
"""The samples by loader and pass, in order."""


def passes_of(trace: Trace) -> Passes:
    """The samples of each whole pass of the loaders that know them."""
    found: Passes = {}
    unknown = {(batch.loader, batch.epoch) for batch in trace.loaded if batch.samples is None}
    for batch in trace.loaded:
        found.setdefault((batch.loader, batch.epoch), []).extend(batch.samples or ())
    if trace.stopped and trace.loaded:
        last = trace.loaded[-1]
        unknown.add((last.loader, last.epoch))
    return {key: samples for key, samples in found.items() if key not in unknown}


def training_loaders(trace: Trace) -> set[int]:
    """The loaders whose batches lead to a loss."""
    found = set()
    for batch, after in pairwise(trace.loaded):
        if after.backwards > batch.backwards:
            found.add(batch.loader)
    if trace.loaded and len(trace.losses) > trace.loaded[-1].backwards:
        found.add(trace.loaded[-1].loader)
    return found


def shared_samples(replicas: Sequence[Trace]) -> bool:
    """Whether the replicas train on the same samples."""
    first, *others = (passes_of(trace) for trace in replicas)
    wanted = training_loaders(replicas[0])
    trained = {key: samples for key, samples in first.items() if key[0] in wanted}
    return any(_same_everywhere([s, *(other.get(key, []) for other in others)]) for key, s in trained.items())


def sample_problems(replicas: Sequence[Trace], native: Sequence[Trace]) -> Iterator[str]:
    """Training samples that are seen more than once an epoch, beyond the padding of a sampler, or that
    the native run saw and this one does not."""
    wanted = training_loaders(replicas[0])
    by_replica = [passes_of(trace) for trace in replicas]
    by_rank = [passes_of(trace) for trace in native]
    told: set[tuple[int, str]] = set()
    for key in sorted(set().union(*by_replica)):
        if key[0] not in wanted:
            continue
        seen = [passes.get(key, []) for passes in by_replica]
        natively = [passes.get(key, []) for passes in by_rank]
        for kind, problem in _of_pass(seen, natively):
            if (key[0], kind) not in told:
                told.add((key[0], kind))
                yield f"in epoch {key[1]} {problem}"


def _of_pass(seen: list[list[int]], natively: list[list[int]]) -> Iterator[tuple[str, str]]:
    together = Counter(sample for samples in seen for sample in samples)
    reference = Counter(sample for samples in natively for sample in samples)
    if len(natively) > 1 and _same_everywhere(natively):
        return
    if _same_everywhere(seen):
        yield "same", (
            f"every replica sees the same {len(seen[0])} samples: the loader has no "
            "DistributedSampler(num_replicas=xr.world_size(), rank=xr.global_ordinal())"
        )
        return
    repeated = together.total() - len(together)
    allowed = max(len(seen) - 1, reference.total() - len(reference))
    if repeated > allowed:
        yield "repeated", f"{repeated} samples are seen more than once by the replicas together"
    missing = len(reference) - len(together)
    if missing > 0:
        yield "missing", (
            f"{missing} of the {len(reference)} samples that the native run sees are seen by no replica"
        )


def _same_everywhere(seen: list[list[int]]) -> bool:
    first, *others = (sorted(samples) for samples in seen)
    return bool(first) and all(other == first for other in others)


def as_one_process(replicas: Sequence[Trace]) -> tuple[list[int], dict[str, list[list[int]]]]:
    """What one process has to load so that each of its batches is what the replicas load together: the
    loaders, by number, that each replica reads whole, and the samples of each pass by the loader's number."""
    by_replica = [_batches(trace) for trace in replicas]
    whole: set[int] = set()
    orders: dict[str, list[list[int]]] = {}
    for key in sorted(set.intersection(*map(set, by_replica))):
        columns = [batches[key] for batches in by_replica]
        if all(column == columns[0] for column in columns):
            whole.add(key[0])
            columns = columns[:1]
        steps = [_side_by_side(step) for step in zip_longest(*columns, fillvalue=[])]
        orders.setdefault(str(key[0]), []).append([sample for step in steps for sample in step])
    return sorted(whole), orders


def _side_by_side(batches: Sequence[Sequence[int]]) -> list[int]:
    rows = zip_longest(*batches)
    return [sample for row in rows for sample in row if sample is not None]


def _batches(trace: Trace) -> dict[tuple[int, int], list[list[int]]]:
    """The batches of each pass of the loaders all of whose samples are known."""
    unknown = {batch.loader for batch in trace.loaded if batch.samples is None}
    found: dict[tuple[int, int], list[list[int]]] = {}
    for batch in trace.loaded:
        if batch.loader not in unknown:
            found.setdefault((batch.loader, batch.epoch), []).append(batch.samples or [])
    return found


def order_problems(replicas: Sequence[Trace], native: Sequence[Trace]) -> Iterator[str]:
    """Epochs in the order of the one before, where the native run shuffles anew."""
    wanted = training_loaders(replicas[0])
    fresh = {loader for trace in native for loader, _ in _pairs(trace)} - {
        loader for trace in native for loader, repeated in _pairs(trace) if repeated
    }
    for loader, repeated in _pairs(replicas[0]):
        if repeated and loader in wanted and loader in fresh:
            yield (
                f"epoch {repeated} has its samples in the order of epoch {repeated - 1}, and natively "
                "another: sampler.set_epoch(epoch) is missing"
            )
            return


def _pairs(trace: Trace) -> list[tuple[int, int]]:
    """For each two epochs in a row, the loader and, where the order is the same, the later epoch."""
    passes = passes_of(trace)
    keys = [key for key in passes if (key[0], key[1] - 1) in passes and len(passes[key]) > 1]
    return [
        (loader, epoch if passes[loader, epoch] == passes[loader, epoch - 1] else 0)
        for loader, epoch in sorted(keys)
    ]
