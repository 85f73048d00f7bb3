"""The shape of a target: one spelling for each thing that migrated code may have to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

XM = "torch_xla.core.xla_model"
PL = "torch_xla.distributed.parallel_loader"
XR = "torch_xla.runtime"
XP = "torch_xla.debug.profiler"
XMP = "torch_xla.distributed.xla_multiprocessing"

# The name that PyTorch/XLA's own examples give a module.
ALIASES = {
    "torch_xla": "torch_xla",
    "torch_xla.amp.GradScaler": "GradScaler",
    "torch_xla.amp.autocast": "autocast",
    "torch_xla.amp.custom_bwd": "custom_bwd",
    "torch_xla.amp.custom_fwd": "custom_fwd",
    "torch_xla.amp.syncfree": "syncfree",
    "torch_xla.core.xla_model": "xm",
    "torch_xla.debug.profiler": "xp",
    "torch_xla.distributed.fsdp.XlaFullyShardedDataParallel": "FSDP",
    "torch_xla.distributed.fsdp.consolidate_sharded_state_dicts": "consolidate_sharded_state_dicts",
    "torch_xla.distributed.fsdp.wrap.always_wrap_policy": "always_wrap_policy",
    "torch_xla.distributed.fsdp.wrap.lambda_auto_wrap_policy": "lambda_auto_wrap_policy",
    "torch_xla.distributed.fsdp.wrap.size_based_auto_wrap_policy": "size_based_auto_wrap_policy",
    "torch_xla.distributed.fsdp.wrap.transformer_auto_wrap_policy": "transformer_auto_wrap_policy",
    "torch_xla.distributed.parallel_loader": "pl",
    "torch_xla.distributed.xla_backend": "xla_backend",
    "torch_xla.distributed.xla_multiprocessing": "xmp",
    "torch_xla.experimental.pjrt_backend": "pjrt_backend",
    "torch_xla.runtime": "xr",
    "torch_xla.utils.checkpoint": "xla_checkpoint",
}


@dataclass(frozen=True)
class Spelling:
    """An expression of a target: ``{m}`` stands for the local name of ``module``, ``{n}`` for ``also``'s."""

    module: str
    text: str
    also: str = ""

    def shown(self, *parts: str) -> str:
        """The text as one tells it to a reader, under the usual names."""
        text = self.text.replace("{m}", ALIASES.get(self.module, self.module))
        text = text.replace("{n}", ALIASES.get(self.also, self.also)).replace("\n", "; ")
        for position, part in enumerate(parts):
            text = text.replace(f"{{{position}}}", part)
        return text


@dataclass(frozen=True)
class Target:
    """One torch_xla release. Each field holds what to write there; see API.md's tables in ``docs``."""

    name: str
    device: Spelling
    device_type: str
    sync: Spelling
    wait: Spelling  # one statement a line
    manual_seed: Spelling  # "{0}" is the seed
    get_rng_state: Spelling
    set_rng_state: Spelling  # "{0}" is the state
    fork_rng: Spelling | None
    optimizer_step: Spelling  # "{0}" is the optimizer
    step_closure: Spelling  # "{0}" is the closure, "{1}" its arguments as a tuple
    device_loader: Spelling  # "{0}" is the loader, "{1}" the device
    save: Spelling
    checkpoint: Spelling  # activation checkpointing
    memory_info: Spelling
    device_kind: Spelling
    world_size: Spelling
    local_world_size: Spelling  # replicas of this host
    ordinal: Spelling  # this replica's number among all
    local_ordinal: Spelling  # its number among those of this host
    is_master: Spelling  # ordinal 0 among all replicas
    master_print: Spelling  # called as print is, but for sep, end and file
    is_local_master: Spelling  # ordinal 0 of this host
    starter: str  # what starts the processes, in words
    launch: Spelling  # "{0}" is the function that each process runs, its ordinal first
    launch_with: Spelling  # the same; "{1}" is the tuple of its further arguments
    rendezvous: Spelling  # waits for all replicas; "{0}" is a tag
    reduce_gradients: Spelling  # "{0}" is the optimizer
    broadcast_master_param: Spelling  # "{0}" is the model
    send: Spelling  # brings the tensors in "{0}", whatever holds them, to the device "{1}"
    all_reduce: Spelling  # called with the kind of reduction and a list of tensors, which change in place
    all_gather: Spelling  # "{0}" is a tensor; gives those of all replicas, joined in the first dimension
    broadcast: Spelling  # called with a list of tensors, which change in place, and the sender's ordinal
    mesh_reduce: Spelling  # "{0}" is a tag, "{1}" the value, "{2}" the function of the list of all values
    trace: Spelling  # "{0}" is the name
    syncfree: frozenset[str]  # the optimizers of ``syncfree_module``
    has_grad_scaler: bool
    autocast: Spelling  # called with the device type, dtype= and the user's other arguments
    autocast_dtype: str  # what it computes in; empty where the user's own choice is right
    grad_scaler: Spelling  # the class of a gradient scaler, the XLA one or one to be kept disabled
    on_host: frozenset[str]  # classes and functions whose operators it has the CPU compute, by path
    releases: tuple[tuple[int, int], tuple[int, int]]  # the first and the last that are written for
    title: str  # what it is, in words
    process_group: Spelling  # joins the group of torch.distributed, where something still needs one
    process_group_module: str  # registers its backend when it is imported
    syncfree_module: str = "torch_xla.amp.syncfree"
    launcher_entry: str = ""  # the function of the script that its starter calls with the ordinal
    autocast_device: str = "xla"  # autocast's first argument; empty where it takes CUDA's arguments
    autocast_remark: str = ""  # where autocast does nothing
    amp_api: Literal["device", "xla", "cuda"] = "device"  # see ``passes/autocast_functions.py``
    memory_in_kb: bool = False  # its memory information may be kb_free and kb_total
    save_waits: bool = False  # its save waits for all replicas: all must call it
    chunks_wrongly: bool = False  # unsafe_chunk, and so LSTM and GRU, compute wrong numbers
    swaps_parameters: bool = True  # torch can keep the parameters that a move to the device replaces
    trainer_optimizer: str = ""  # for optim= of transformers' Trainer; "" where old transformers may run
    since: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # of names: in full, first release
    fully_sharded: str = "torch_xla.distributed.fsdp.XlaFullyShardedDataParallel"  # "" where it was not tried
    launcher: str = ""  # what SageMaker's estimators call the launcher of its training jobs

    @property
    def to_start(self) -> str:
        """What to write by hand so that processes are started."""
        if self.launcher_entry:
            return f"write {self.launcher_entry}(index) of what each process does: {self.starter} calls it"
        return f"write a function of what each process does, and {self.launch.shown('function')}"
