"""torch_xla 2.1 to 2.4: PJRT with the older words for device, barrier, seed and launch.

Source: the tagged sources of pytorch/xla v2.1.0 and v2.4.0. What came in between is not written:
``torch_xla.device`` (2.3), ``torch_xla.sync`` (2.4), ``xm.fork_rng`` (2.3), ``xla://`` (2.2). Memory is told
in kilobytes before 2.4. Autocast is as in 2.5; ``torch.amp.custom_fwd`` came with torch 2.4.
"""

from __future__ import annotations

from dataclasses import replace

from xla_transforms.targets.base import XM, XMP, Spelling
from xla_transforms.targets.torch_xla_2_5 import TORCH_XLA_2_5

TORCH_XLA_2_1 = replace(
    TORCH_XLA_2_5,
    name="2.1",
    releases=((2, 1), (2, 4)),
    title="torch_xla 2.1 to 2.4 on PJRT: TPU, CUDA, CPU",
    device=Spelling(XM, "{m}.xla_device()"),
    sync=Spelling(XM, "{m}.mark_step()"),
    wait=Spelling(XM, "{m}.mark_step(wait=True)"),
    manual_seed=Spelling(XM, "{m}.set_rng_state({0})"),
    fork_rng=None,
    memory_info=Spelling(XM, "{m}.get_memory_info({m}.xla_device())"),
    memory_in_kb=True,
    device_kind=Spelling(XM, "{m}.xla_device_hw({m}.xla_device())"),
    starter="xmp.spawn",
    launch=Spelling(XMP, "{m}.spawn({0})"),
    launch_with=Spelling(XMP, "{m}.spawn({0}, args={1})"),
    process_group=Spelling("torch.distributed", '{m}.init_process_group("xla", init_method="pjrt://")'),
    process_group_module="torch_xla.experimental.pjrt_backend",
    autocast_remark="torch_xla.amp.autocast(xm.xla_device(), dtype=torch.bfloat16)",
    amp_api="xla",
    swaps_parameters=False,
    chunks_wrongly=True,
)
