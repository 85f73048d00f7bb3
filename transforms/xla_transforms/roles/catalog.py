"""What the functions and classes of torch and its usual companions give back, by dotted path.

Patterns end in ``*`` for "anything below". The first match counts, so the particular comes first.
"""

from __future__ import annotations

from functools import lru_cache

from xla_transforms.roles.facts import Kind

_MODEL, _TENSOR = Kind.MODEL, Kind.TENSOR

# dotted path -> (kind, detail); detail "=" means "the path itself".
_RESULTS: tuple[tuple[str, Kind, str], ...] = (
    ("torch.optim.lr_scheduler.*", Kind.SCHEDULER, "="),
    ("torch.optim.swa_utils.AveragedModel", _MODEL, "="),
    ("torch.optim.swa_utils.*", Kind.SCHEDULER, "="),
    ("torch.optim.*", Kind.OPTIMIZER, "="),
    ("torch_xla.amp.syncfree.*", Kind.OPTIMIZER, "="),
    ("transformers.AdamW", Kind.OPTIMIZER, "="),
    ("transformers.optimization.AdamW", Kind.OPTIMIZER, "="),
    ("transformers.get_*_schedule*", Kind.SCHEDULER, "="),
    ("apex.optimizers.*", Kind.OPTIMIZER, "="),
    ("bitsandbytes.optim.*", Kind.OPTIMIZER, "="),
    ("deepspeed.ops.adam.*", Kind.OPTIMIZER, "="),
    ("deepspeed.ops.lamb.*", Kind.OPTIMIZER, "="),
    ("deepspeed.ops.lion.*", Kind.OPTIMIZER, "="),
    ("deepspeed.ops.adagrad.*", Kind.OPTIMIZER, "="),
    ("timm.optim.*", Kind.OPTIMIZER, "="),
    ("torch.cuda.amp.GradScaler", Kind.SCALER, "="),
    ("torch.cuda.amp.grad_scaler.GradScaler", Kind.SCALER, "="),
    ("torch.amp.GradScaler", Kind.SCALER, "="),
    ("torch.amp.grad_scaler.GradScaler", Kind.SCALER, "="),
    ("torch.GradScaler", Kind.SCALER, "="),
    ("torch.distributed.fsdp.*ShardedGradScaler", Kind.SCALER, "="),
    ("torch_xla.amp.GradScaler", Kind.SCALER, "="),
    ("torch.utils.data.DataLoader", Kind.LOADER, "="),
    ("torch.utils.data.dataloader.DataLoader", Kind.LOADER, "="),
    ("torch_geometric.loader.*", Kind.UNKNOWN, "="),
    ("torch_xla.distributed.parallel_loader.MpDeviceLoader", Kind.UNKNOWN, "="),
    ("torch.utils.data.*Sampler", Kind.SAMPLER, "="),
    ("torch.utils.data.distributed.DistributedSampler", Kind.SAMPLER, "="),
    ("torch.utils.data.random_split", Kind.DATASET, "="),
    ("torch.utils.data.*", Kind.DATASET, "="),
    ("torchvision.datasets.*", Kind.DATASET, "="),
    ("torchvision.models.*", _MODEL, "="),
    ("torchvision.transforms.*", Kind.UNKNOWN, "="),
    ("timm.create_model", _MODEL, "="),
    ("timm.models.create_model", _MODEL, "="),
    ("torch.hub.load", _MODEL, "="),
    ("transformers.*.from_pretrained", Kind.UNKNOWN, "="),
    ("torch.device", Kind.DEVICE, ""),
    ("torch.get_default_dtype", Kind.DTYPE, ""),
    ("torch.get_autocast_*dtype", Kind.DTYPE, ""),
    ("torch.promote_types", Kind.DTYPE, ""),
    ("torch.result_type", Kind.DTYPE, ""),
    ("torch_xla.device", Kind.DEVICE, "xla"),
    ("torch.cuda.Event", Kind.EVENT, "="),
    ("torch.cuda.Stream", Kind.STREAM, "="),
    ("torch.cuda.current_stream", Kind.STREAM, "="),
    ("torch.cuda.default_stream", Kind.STREAM, "="),
    ("torch.cuda.FloatTensor", _TENSOR, "device"),
    ("torch.cuda.*Tensor", _TENSOR, "device"),
    ("torch.cuda.is_available", Kind.BOOLEAN, ""),
    ("torch.cuda.*", Kind.UNKNOWN, "="),
    ("torch.load", Kind.STATE, "="),
    ("torch.jit.*", _MODEL, "="),
    ("torch.compile", Kind.UNKNOWN, "="),
    ("torch.nn.functional.*", _TENSOR, ""),
    ("torch.nn.utils.clip_grad_norm_", _TENSOR, "device"),
    ("torch.nn.utils.clip_grad_norm", _TENSOR, "device"),
    ("torch.nn.utils.rnn.pad_sequence", _TENSOR, ""),
    ("torch.nn.utils.rnn.*", Kind.UNKNOWN, "="),
    ("torch.nn.utils.*", Kind.UNKNOWN, "="),
    ("torch.nn.init.*", _TENSOR, ""),
    ("torch.nn.Parameter", _TENSOR, ""),
    ("torch.nn.parameter.Parameter", _TENSOR, ""),
    ("torch.nn.*", _MODEL, "="),
    ("torch.utils.tensorboard.SummaryWriter", Kind.WRITER, "="),
    ("tensorboardX.SummaryWriter", Kind.WRITER, "="),
    ("wandb.init", Kind.WRITER, "="),
    ("logging.getLogger", Kind.WRITER, "="),
    ("argparse.ArgumentParser", Kind.PARSER, "="),
    ("os.environ.get", Kind.STRING, ""),
    ("os.getenv", Kind.STRING, ""),
    ("collections.OrderedDict", Kind.MAPPING, ""),
    ("collections.defaultdict", Kind.MAPPING, ""),
    ("torch.autograd.grad", Kind.UNKNOWN, "="),
)

# Functions of torch that make a tensor from Python values: on the CPU unless ``device=`` says otherwise.
FACTORIES = frozenset(
    f"torch.{name}"
    for name in (
        "tensor", "as_tensor", "from_numpy", "zeros", "ones", "empty", "full", "rand", "randn", "randint",
        "randperm", "arange", "linspace", "logspace", "eye", "normal", "scalar_tensor", "FloatTensor",
        "LongTensor", "IntTensor", "ByteTensor", "BoolTensor", "DoubleTensor", "Tensor", "HalfTensor",
        "tril_indices", "triu_indices", "complex", "hann_window", "bartlett_window",
    )
)  # fmt: skip

# Names directly below ``torch`` that do not give a tensor.
_NOT_TENSORS = frozenset(
    f"torch.{name}"
    for name in (
        "no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "save", "manual_seed", "seed",
        "is_tensor", "is_grad_enabled", "numel", "Size", "Generator", "set_default_dtype",
        "set_default_tensor_type", "set_default_device", "autocast", "set_num_threads", "get_num_threads",
        "set_float32_matmul_precision", "use_deterministic_algorithms", "get_rng_state", "set_rng_state",
        "unique", "finfo", "iinfo", "equal", "allclose", "is_floating_point", "get_default_dtype",
    )
)  # fmt: skip

# Wrappers of a model that stand for it: their ``.module`` is the model.
DATA_PARALLEL = frozenset(
    {
        "torch.nn.DataParallel", "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
    }
)  # fmt: skip
DISTRIBUTED_DATA_PARALLEL = frozenset(
    f"{package}.{module}DistributedDataParallel"
    for package in ("torch.nn.parallel", "apex.parallel")
    for module in ("", "distributed.")
)
FULLY_SHARDED = frozenset(
    f"torch.distributed.fsdp.{module}FullyShardedDataParallel"
    for module in ("", "fully_sharded_data_parallel.")
)

BUILTIN_NUMBERS = frozenset({"len", "float", "int", "round", "id", "ord"})
BUILTIN_WRAPPERS = {
    "enumerate": 0, "zip": 0, "reversed": 0, "iter": 0, "list": 0, "tuple": 0, "sorted": 0, "set": 0,
}  # fmt: skip

# Wrappers from outside that yield what their first argument yields.
ITERATION_WRAPPERS = frozenset(
    {
        "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.std.tqdm", "tqdm.rich.tqdm", "tqdm.trange",
        "rich.progress.track", "itertools.islice", "itertools.cycle", "itertools.chain",
        "progressbar.progressbar",
        "alive_progress.alive_it", "fastprogress.progress_bar", "fastprogress.fastprogress.progress_bar",
    }
)  # fmt: skip

ANNOTATIONS: dict[str, tuple[Kind, str]] = {
    "torch.nn.Module": (Kind.MODEL, ""),
    "torch.Tensor": (Kind.TENSOR, ""),
    "torch.device": (Kind.DEVICE, ""),
    "torch.dtype": (Kind.DTYPE, ""),
    "torch.utils.data.DataLoader": (Kind.LOADER, "declared"),
    "torch.utils.data.Dataset": (Kind.DATASET, ""),
    "torch.optim.Optimizer": (Kind.OPTIMIZER, "declared"),
    "torch.cuda.amp.GradScaler": (Kind.SCALER, "declared"),
    "torch.amp.GradScaler": (Kind.SCALER, "declared"),
    "torch.optim.lr_scheduler.LRScheduler": (Kind.SCHEDULER, ""),
    "torch.optim.lr_scheduler._LRScheduler": (Kind.SCHEDULER, ""),
    "int": (Kind.NUMBER, ""),
    "float": (Kind.NUMBER, ""),
    "bool": (Kind.BOOLEAN, ""),
    "str": (Kind.STRING, ""),
    "argparse.Namespace": (Kind.ARGUMENTS, ""),
}

BASES: tuple[tuple[str, Kind], ...] = (
    ("torch.nn.", Kind.MODEL),
    ("torchvision.models.", Kind.MODEL),
    ("lightning.", Kind.UNKNOWN),
    ("pytorch_lightning.", Kind.UNKNOWN),
    ("torch.utils.data.DataLoader", Kind.LOADER),
    ("torch.utils.data.dataloader.DataLoader", Kind.LOADER),
    ("torch.utils.data.Sampler", Kind.SAMPLER),
    ("torch.utils.data.sampler.", Kind.SAMPLER),
    ("torch.utils.data.distributed.", Kind.SAMPLER),
    ("torch.utils.data.", Kind.DATASET),
    ("torchvision.datasets.", Kind.DATASET),
    ("torch.optim.lr_scheduler.", Kind.SCHEDULER),
    ("torch.optim.", Kind.OPTIMIZER),
    ("torch.cuda.amp.GradScaler", Kind.SCALER),
    ("torch.amp.GradScaler", Kind.SCALER),
)


# Submodules of torch.cuda whose functions torch.cuda itself gives too.
_INNER = ("torch.cuda.memory.", "torch.cuda.random.", "torch.cuda.streams.", "torch.cuda.graphs.")


def short(path: str) -> str:
    """A dotted path under ``torch.cuda`` in its short form, others as they are."""
    inner = next((i for i in _INNER if path.startswith(i)), None) if path.startswith("torch.cuda.") else None
    return f"torch.cuda.{path.removeprefix(inner)}" if inner else path


def result_of(path: str) -> tuple[Kind, str]:
    """Kind and detail of what calling ``path`` gives; ``UNKNOWN`` where the catalog does not say."""
    return _result_of(path)


@lru_cache(maxsize=4096)
def _result_of(path: str) -> tuple[Kind, str]:
    if path in FACTORIES:
        return Kind.TENSOR, "host"
    for pattern, kind, detail in _RESULTS:
        if _matches(pattern, path):
            return kind, path if detail == "=" else detail
    if path.startswith("torch.") and path.count(".") == 1 and path not in _NOT_TENSORS:
        return Kind.TENSOR, ""
    if path.startswith(("torch.fft.", "torch.linalg.", "torch.special.")):
        return Kind.TENSOR, ""
    return Kind.UNKNOWN, path


def _matches(pattern: str, path: str) -> bool:
    if "*" not in pattern:
        return pattern == path
    head, _, tail = pattern.partition("*")
    if "*" in tail:
        tail = tail.rstrip("*")
        return path.startswith(head) and tail in path[len(head) :]
    return path.startswith(head) and path.endswith(tail) and len(path) >= len(head) + len(tail)


# Methods of tensors: what they give. "=" keeps the place of the tensor.
TENSOR_METHODS: dict[str, tuple[Kind, str]] = {
    "item": (Kind.NUMBER, ""),
    "tolist": (Kind.NUMBER, ""),
    "numpy": (Kind.NUMBER, "host"),
    "__array__": (Kind.NUMBER, "host"),
    "cpu": (Kind.TENSOR, "host"),
    "cuda": (Kind.TENSOR, "device"),
    "size": (Kind.NUMBER, "shape"),
    "dim": (Kind.NUMBER, "shape"),
    "ndimension": (Kind.NUMBER, "shape"),
    "numel": (Kind.NUMBER, "shape"),
    "nelement": (Kind.NUMBER, "shape"),
    "element_size": (Kind.NUMBER, "shape"),
    "get_device": (Kind.NUMBER, ""),
    "is_contiguous": (Kind.BOOLEAN, ""),
    "is_floating_point": (Kind.BOOLEAN, ""),
    "backward": (Kind.NONE, ""),
    "register_hook": (Kind.UNKNOWN, ""),
    "data_ptr": (Kind.NUMBER, ""),
}
TENSOR_ATTRIBUTES: dict[str, tuple[Kind, str]] = {
    "shape": (Kind.NUMBER, "shape"),
    "ndim": (Kind.NUMBER, "shape"),
    "dtype": (Kind.DTYPE, ""),
    **dict.fromkeys(("is_cuda", "is_cpu", "is_xpu", "is_xla", "is_mps", "is_meta"), (Kind.BOOLEAN, "")),
    **dict.fromkeys(("is_sparse", "is_quantized", "is_nested"), (Kind.BOOLEAN, "")),
    "requires_grad": (Kind.BOOLEAN, ""),
    "is_leaf": (Kind.BOOLEAN, ""),
    "grad_fn": (Kind.UNKNOWN, ""),
}
MODEL_METHODS_SAME = frozenset(
    {
        "to", "cuda", "cpu", "train", "eval", "half", "float", "double", "bfloat16", "requires_grad_",
        "apply",
        "share_memory", "type", "to_empty", "compile",
    }
)  # fmt: skip
