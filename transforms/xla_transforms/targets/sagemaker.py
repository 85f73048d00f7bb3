"""SageMaker Training Compiler: the containers with torch 1.11 to 1.13, torch_xla on XRT and GPUs.

A launcher outside of the script calls ``_mp_fn(index)`` once on each GPU. Autocast is CUDA's own there
(``torch_xla/amp/autocast_mode.py``), in float16, so that a scaler is needed; ``xm.save`` ends with a
rendezvous of all replicas. Sources: AWS, "Bring your own deep learning model: PyTorch" of SageMaker
Training Compiler; the tagged sources of pytorch/xla v1.11.0 and v1.13.0 (``xm.collective_broadcast``
and activation checkpointing came with 1.13 and 1.12).
"""

from __future__ import annotations

from dataclasses import replace

from xla_transforms.targets.base import XM, Spelling
from xla_transforms.targets.torch_xla_2_1 import TORCH_XLA_2_1

_MEAN = '{m}.all_reduce("sum", {m}._fetch_gradients({0}), scale=1.0 / {m}.xrt_world_size())'

SAGEMAKER = replace(
    TORCH_XLA_2_1,
    name="sagemaker",
    releases=((1, 11), (1, 13)),
    title="SageMaker Training Compiler containers: torch 1.11 to 1.13 on XRT and CUDA",
    wait=Spelling(XM, "{m}.mark_step()\n{m}.wait_device_ops()"),
    world_size=Spelling(XM, "{m}.xrt_world_size()"),
    local_world_size=Spelling("os", 'int({m}.environ["GPU_NUM_DEVICES"])'),
    ordinal=Spelling(XM, "{m}.get_ordinal()"),
    local_ordinal=Spelling(XM, "{m}.get_local_ordinal()"),
    reduce_gradients=Spelling(XM, _MEAN),
    broadcast_master_param=Spelling(XM, "{m}.collective_broadcast([*{0}.parameters(), *{0}.buffers()])"),
    starter="SageMaker's launcher",
    launch=Spelling("", "{0}(0)"),
    launch_with=Spelling(XM, "{0}({m}.get_ordinal(), *{1})"),
    launcher_entry="_mp_fn",
    launcher="pytorchxla",
    fully_sharded="",
    chunks_wrongly=False,  # there is no functionalization yet
    trainer_optimizer="adamw_torch_xla",  # the container with torch 1.11 has transformers 4.21
    process_group=Spelling(
        "torch.distributed",
        '{m}.init_process_group("xla", rank={n}.get_ordinal(), world_size={n}.xrt_world_size())',
        also=XM,
    ),
    process_group_module="torch_xla.distributed.xla_backend",
    autocast=Spelling("torch_xla.amp.autocast", "{m}"),
    autocast_device="",
    autocast_dtype="",
    autocast_remark="",
    amp_api="cuda",
    save_waits=True,
    since={
        "collective_broadcast": ("xm.collective_broadcast", "1.13"),
        "xla_checkpoint": ("torch_xla.utils.checkpoint", "1.12"),
    },
)
