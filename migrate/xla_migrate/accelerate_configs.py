"""Configs of Accelerate, which its launcher reads: what of them is for CUDA.

Source: accelerate v1.16, ``commands/config/config_args.py`` and ``commands/launch.py``; ``accelerator.py``,
which refuses fp16 on TPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

from xla_migrate.yaml_commands import Entry, entries

_PROCESSES = ("MULTI_GPU", "FSDP", "DEEPSPEED", "MEGATRON_LM", "TP")
_GUIDE = "https://huggingface.co/docs/accelerate/concept_guides/training_tpu"
_HALF = ("fp16", "fp8")
MARK = "distributed_type"


def told(text: str) -> Iterator[tuple[int, str, str]]:
    """What a config says that is not for XLA: its place, a message, what to write."""
    found = list(entries(text))
    if not any(entry.key == MARK for entry in found):
        return
    for entry in found:
        yield from _of_entry(entry)


def _of_entry(entry: Entry) -> Iterator[tuple[int, str, str]]:
    value = entry.text.partition(" #")[0].strip("\"' ")
    if entry.key == MARK and value in _PROCESSES:
        message = f"Accelerate's config asks for processes of GPUs: {MARK}: {value}"
        yield entry.offset, message, f"write {MARK}: XLA, or have accelerate config write it anew: {_GUIDE}"
    elif entry.key == "mixed_precision" and value in _HALF:
        message = f"Accelerate refuses {value} on TPUs"
        yield entry.offset, message, "write mixed_precision: bf16, which needs no loss scaling"
    elif entry.key == "dynamo_backend" and value.lower() not in ("no", ""):
        message = f"{entry.key}: {value} has Dynamo compile the model, and its backends for GPUs fail on XLA"
        yield entry.offset, message, "leave it out: XLA compiles the steps by itself"
