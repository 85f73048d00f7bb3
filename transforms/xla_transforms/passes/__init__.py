"""The ordered passes. A pass is a module with ``RULES`` and ``run(context)``; the order is this tuple.

Loops come first: which loaders are wrapped decides which transfers the device passes still have to write.
Availability comes last: it keeps one branch of an ``if``, with all that the others changed in it.
"""

from __future__ import annotations

from types import ModuleType

from xla_transforms.passes import (
    autocast,
    autocast_functions,
    availability,
    barrier,
    checkpoints,
    compile,
    cuda_settings,
    cuda_utilities,
    data_parallel,
    device,
    device_choice,
    device_guards,
    device_moves,
    device_options,
    device_types,
    generators,
    grad_scaler,
    gradient_modes,
    leftovers,
    loaders,
    memory,
    optimizer_order,
    packages,
    pinned_memory,
    seeds,
    steps,
    streams,
    syncfree,
    tied_weights,
    timers,
    transfers,
)

PASSES: tuple[ModuleType, ...] = (
    loaders,
    transfers,
    device,
    device_types,
    device_moves,
    device_choice,
    device_guards,
    device_options,
    data_parallel,
    timers,
    cuda_utilities,
    memory,
    generators,
    pinned_memory,
    compile,
    gradient_modes,
    autocast,
    autocast_functions,
    grad_scaler,
    syncfree,
    tied_weights,
    optimizer_order,
    steps,
    barrier,
    checkpoints,
    seeds,
    streams,
    cuda_settings,
    packages,
    availability,
    leftovers,
)
