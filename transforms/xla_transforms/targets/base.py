"""The shape of a target: one spelling for each thing that migrated code may have to say."""

from __future__ import annotations

from dataclasses import dataclass

XM = "torch_xla.core.xla_model"
PL = "torch_xla.distributed.parallel_loader"
XR = "torch_xla.runtime"
XP = "torch_xla.debug.profiler"


@dataclass(frozen=True)
class Spelling:
    """An expression of a target: ``{m}`` stands for the local name of ``module``."""

    module: str
    text: str


@dataclass(frozen=True)
class Target:
    """One torch_xla release. Each field holds what to write there; see API.md's tables in ``docs``."""

    name: str
    device: Spelling
    device_type: str
    sync: Spelling
    wait: Spelling
    manual_seed: Spelling  # "{0}" is the seed
    get_rng_state: Spelling
    set_rng_state: Spelling  # "{0}" is the state
    fork_rng: Spelling
    optimizer_step: Spelling  # "{0}" is the optimizer
    step_closure: Spelling  # "{0}" is the closure, "{1}" its arguments as a tuple
    device_loader: Spelling  # "{0}" is the loader, "{1}" the device
    save: Spelling
    checkpoint: Spelling  # activation checkpointing
    memory_info: Spelling
    device_kind: Spelling
    world_size: Spelling
    local_ordinal: Spelling
    trace: Spelling  # "{0}" is the name
    syncfree: frozenset[str]
    has_grad_scaler: bool
    autocast: Spelling  # called with the device type, dtype= and the user's other arguments
    autocast_dtype: str
    grad_scaler: Spelling  # the class of a gradient scaler, the XLA one or one to be kept disabled
    on_host: frozenset[str]  # classes and functions whose operators it has the CPU compute, by path
