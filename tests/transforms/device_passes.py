"""The passes about devices, which tests run together."""

from __future__ import annotations

DEVICE = (
    "several_devices",
    "device",
    "outside_devices",
    "device_types",
    "type_names",
    "device_moves",
    "device_choice",
    "device_guards",
    "device_options",
    "data_parallel",
    "wrapper_questions",
    "availability",
)
