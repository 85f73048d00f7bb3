"""torch_xla 2.5 to 2.8: what 2.9 has, and the CUDA backend and GradScaler that 2.9 removed.

Source: the tagged sources of pytorch/xla v2.5.1 and v2.8.0. ``xm.xla_device_kind`` came with 2.6, and
``torch_xla.amp.autocast`` fails on a CPU (``amp/autocast_mode.py``): ``torch.autocast("xla")`` is written,
which XLA tensors on CUDA do not heed (``csrc/tensor_impl.cpp``: their autocast key is CUDA's).
"""

from __future__ import annotations

from dataclasses import replace

from xla_transforms.targets.base import XM, Spelling
from xla_transforms.targets.torch_xla_2_9 import TORCH_XLA_2_9

TORCH_XLA_2_5 = replace(
    TORCH_XLA_2_9,
    name="2.5",
    releases=((2, 5), (2, 8)),
    trainer_optimizer="",
    title="torch_xla 2.5 to 2.8 on PJRT: TPU, CUDA, Trainium, CPU",
    device_kind=Spelling(XM, "{m}.xla_device_hw({n}.device())", also="torch_xla"),
    has_grad_scaler=True,
    grad_scaler=Spelling("torch_xla.amp.GradScaler", "{m}"),
    autocast_remark="torch_xla.amp.autocast(torch_xla.device(), dtype=torch.bfloat16)",
)
