"""torch_xla 2.9: the last release of PyTorch/XLA; no CUDA backend, no GradScaler of its own.

Source: the tagged sources of pytorch/xla v2.9.0 (``torch_xla.py``, ``core/xla_model.py``, ``runtime.py``).
"""

from __future__ import annotations

from itertools import chain

from xla_transforms.targets.base import PL, XM, XP, XR, Spelling, Target

_LAYERS = (
    "EmbeddingBag", "CTCLoss", "Unfold", "Fold", "FractionalMaxPool2d", "GLU",
    "HuberLoss", "MultiMarginLoss", "MultiLabelMarginLoss",
)  # fmt: skip
_FUNCTIONS = (
    "embedding_bag", "ctc_loss", "unfold", "fold", "fractional_max_pool2d", "glu",
    "huber_loss", "multi_margin_loss", "multilabel_margin_loss", "grid_sample",
)  # fmt: skip
_TENSOR_FUNCTIONS = (
    "bucketize", "cdist", "histc", "isin", "logaddexp", "logcumsumexp", "median", "mode", "poisson", "renorm",
    "searchsorted",
)  # fmt: skip
_LINEAR_ALGEBRA = ("cholesky", "det", "qr", "solve", "solve_triangular")
_NORMS = ("torch.nn.utils.weight_norm", "torch.nn.utils.parametrizations.weight_norm")
# Counted with scripts of one operator each: the counters aten::* of torch_xla.debug.metrics.
_ON_HOST = chain(
    (f"torch.nn.{name}" for name in _LAYERS),
    (f"torch.nn.functional.{name}" for name in _FUNCTIONS),
    (f"torch.{name}" for name in _TENSOR_FUNCTIONS),
    (f"torch.linalg.{name}" for name in _LINEAR_ALGEBRA),
    _NORMS,
)

TORCH_XLA_2_9 = Target(
    name="2.9",
    device=Spelling("torch_xla", "{m}.device()"),
    device_type="xla",
    sync=Spelling("torch_xla", "{m}.sync()"),
    wait=Spelling("torch_xla", "{m}.sync(wait=True)"),
    manual_seed=Spelling("torch_xla", "{m}.manual_seed({0})"),
    get_rng_state=Spelling(XM, "{m}.get_rng_state()"),
    set_rng_state=Spelling(XM, "{m}.set_rng_state({0})"),
    fork_rng=Spelling(XM, "{m}.fork_rng"),
    optimizer_step=Spelling(XM, "{m}.optimizer_step({0})"),
    step_closure=Spelling(XM, "{m}.add_step_closure({0}, args={1})"),
    device_loader=Spelling(PL, "{m}.MpDeviceLoader({0}, {1})"),
    save=Spelling(XM, "{m}.save"),
    checkpoint=Spelling("torch_xla.utils.checkpoint", "{m}.checkpoint"),
    memory_info=Spelling(XM, "{m}.get_memory_info()"),
    device_kind=Spelling(XM, "{m}.xla_device_kind()"),
    world_size=Spelling(XR, "{m}.world_size()"),
    local_world_size=Spelling(XR, "{m}.local_device_count()"),
    ordinal=Spelling(XR, "{m}.global_ordinal()"),
    local_ordinal=Spelling(XR, "{m}.local_ordinal()"),
    is_master=Spelling(XM, "{m}.is_master_ordinal(local=False)"),
    master_print=Spelling(XM, "{m}.master_print"),
    is_local_master=Spelling(XM, "{m}.is_master_ordinal()"),
    starter="torch_xla.launch",
    launch=Spelling("torch_xla", "{m}.launch({0})"),
    launch_with=Spelling("torch_xla", "{m}.launch({0}, args={1})"),
    rendezvous=Spelling(XM, "{m}.rendezvous({0})"),
    reduce_gradients=Spelling(XM, "{m}.reduce_gradients({0})"),
    broadcast_master_param=Spelling(XM, "{m}.broadcast_master_param({0})"),
    send=Spelling(XM, "{m}.send_cpu_data_to_device([{0}], {1})[0]"),
    all_reduce=Spelling(XM, "{m}.all_reduce"),
    all_gather=Spelling(XM, "{m}.all_gather({0})"),
    broadcast=Spelling(XM, "{m}.collective_broadcast"),
    mesh_reduce=Spelling(XM, "{m}.mesh_reduce({0}, {1}, {2})"),
    trace=Spelling(XP, "{m}.Trace({0})"),
    syncfree=frozenset({"SGD", "Adam", "AdamW"}),
    has_grad_scaler=False,
    autocast=Spelling("torch", "{m}.autocast"),
    autocast_dtype="bfloat16",
    grad_scaler=Spelling("torch", "{m}.amp.GradScaler"),
    on_host=frozenset(_ON_HOST),
    releases=((2, 9), (2, 9)),
    title="torch_xla 2.9 on PJRT: TPU, Trainium, CPU",
    process_group=Spelling("torch.distributed", '{m}.init_process_group("xla", init_method="xla://")'),
    process_group_module="torch_xla.distributed.xla_backend",
    trainer_optimizer="adamw_torch_xla",  # transformers that run here are 4.52 or newer, and have it
)
