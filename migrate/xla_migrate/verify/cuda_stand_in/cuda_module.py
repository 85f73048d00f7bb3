"""``torch.cuda`` and ``torch.accelerator`` of a machine with one CUDA device, as far as a training
script sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

from xla_migrate.verify.cuda_stand_in.streams import Event, Scope, Stream

NAME = "CUDA stand-in (CPU)"
MEMORY = 16 * 2**30
"""Bytes that the stand-in device claims to have."""

Function = Callable[..., Any]


def constant(value: Any) -> Function:
    """A function that returns ``value`` whatever it is given."""
    return lambda *args, **kwargs: value


def _properties(device: object = None) -> SimpleNamespace:
    return SimpleNamespace(
        name=NAME, total_memory=MEMORY, major=8, minor=0, multi_processor_count=1, warp_size=32
    )


def _memory_stats(*args: object, **kwargs: object) -> dict[str, int]:
    return dict.fromkeys(("allocated_bytes.all.current", "allocated_bytes.all.peak"), 0)


def _graphed(callables: Any, *args: Any, **kwargs: Any) -> Any:
    return callables


@contextlib.contextmanager
def _range(message: str, *args: object, **kwargs: object) -> Iterator[None]:
    yield


NOTHING = (
    "_lazy_init",
    "empty_cache",
    "init",
    "ipc_collect",
    "manual_seed",
    "manual_seed_all",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "synchronize",
)
"""Functions that have no effect here. The seeds of the device are among them: device noise comes
from the CPU's default generator in both runs, see ``host_rng``."""

ZERO = (
    "current_device",
    "get_sync_debug_mode",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_usage",
    "utilization",
)

CUDA_FUNCTIONS: dict[str, Any] = {
    **dict.fromkeys(NOTHING, constant(None)),
    **dict.fromkeys(ZERO, constant(0)),
    "Event": Event,
    "Stream": Stream,
    "StreamContext": Scope,
    "can_device_access_peer": constant(False),
    "current_stream": Stream,
    "default_generators": (torch.default_generator,),
    "default_stream": Stream,
    "device": Scope,
    "device_count": constant(1),
    "device_of": Scope,
    "get_device_capability": constant((8, 0)),
    "get_device_name": constant(NAME),
    "get_device_properties": _properties,
    "get_rng_state": lambda *args, **kwargs: torch.get_rng_state(),
    "get_rng_state_all": lambda: [torch.get_rng_state()],
    "initial_seed": lambda: torch.initial_seed(),
    "is_available": constant(True),
    "is_bf16_supported": constant(True),
    "is_current_stream_capturing": constant(False),
    "is_initialized": constant(True),
    "make_graphed_callables": _graphed,
    "mem_get_info": constant((MEMORY, MEMORY)),
    "memory_snapshot": constant([]),
    "memory_stats": _memory_stats,
    "memory_summary": constant(""),
    "stream": Scope,
}

ACCELERATOR_FUNCTIONS: dict[str, Any] = {
    "current_accelerator": lambda check_available=False: torch.device("cuda"),
    "current_device_idx": constant(0),
    "current_device_index": constant(0),
    "current_stream": Stream,
    "device_count": constant(1),
    "empty_cache": constant(None),
    "is_available": constant(True),
    "max_memory_allocated": constant(0),
    "max_memory_reserved": constant(0),
    "memory_allocated": constant(0),
    "memory_reserved": constant(0),
    "memory_stats": _memory_stats,
    "reset_peak_memory_stats": constant(None),
    "set_device_idx": constant(None),
    "set_device_index": constant(None),
    "set_stream": constant(None),
    "synchronize": constant(None),
}

NVTX_FUNCTIONS: dict[str, Any] = {
    **dict.fromkeys(("mark", "range_end", "range_pop", "range_push", "range_start"), constant(0)),
    "range": _range,
}


def install() -> None:
    """Replace the functions in every module that holds them."""
    places = (
        (CUDA_FUNCTIONS, (torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.streams)),
        (ACCELERATOR_FUNCTIONS, (torch.accelerator, torch.accelerator.memory)),
        (NVTX_FUNCTIONS, (torch.cuda.nvtx,)),
    )
    for functions, modules in places:
        for name, function in functions.items():
            setattr(modules[0], name, function)
            for module in modules[1:]:
                if hasattr(module, name):
                    setattr(module, name, function)
