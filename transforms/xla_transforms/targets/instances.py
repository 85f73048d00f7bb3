"""SageMaker's instance types with GPUs, and what its Training Compiler runs on.

Sources: Amazon EC2 instance types, "Accelerated Computing" (GPUs of an instance); sagemaker-python-sdk
v2.257.6, ``training_compiler/config.py`` of ``sagemaker.pytorch`` and ``sagemaker.huggingface``.
"""

from __future__ import annotations

_G4 = {"xlarge": 1, "2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "16xlarge": 1, "12xlarge": 4}
_G5 = {**_G4, "24xlarge": 4, "48xlarge": 8}
_SIZES: dict[str, dict[str, int]] = {
    "p2": {"xlarge": 1, "8xlarge": 8, "16xlarge": 16},
    "p3": {"2xlarge": 1, "8xlarge": 4, "16xlarge": 8},
    "p3dn": {"24xlarge": 8},
    "p4d": {"24xlarge": 8},
    "p4de": {"24xlarge": 8},
    "p5": {"4xlarge": 1, "48xlarge": 8},
    "p5e": {"48xlarge": 8},
    "p5en": {"48xlarge": 8},
    "g4dn": _G4,
    "g5": _G5,
    "g6": _G5,
    "g6e": _G5,
}
GPUS = {f"ml.{family}.{size}": count for family, sizes in _SIZES.items() for size, count in sizes.items()}

COMPILED_FAMILIES = ("p3", "p3dn", "g4dn", "p4d", "g5")
# Releases of PyTorch for which an estimator takes compiler_config, and the first for the key pytorchxla.
COMPILED_RELEASES = {"huggingface": ((1, 9), (1, 11)), "pytorch": ((1, 12), (1, 13))}
FIRST_DISTRIBUTED = {"huggingface": (1, 11), "pytorch": (1, 12)}
