"""What else a CUDA script uses and a machine without CUDA lacks."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
import torch.nn.attention
import torch.utils._device as default_device
import torch.utils.checkpoint
from torch import nn
from torch.utils.data import DataLoader

from xla_migrate.verify.cuda_stand_in.storages import MARK, is_placed, mark, mark_storage
from xla_migrate.verify.cuda_stand_in.streams import Scope

GPU_ONLY_OPTIONS = ("fused", "capturable")


class Generator(torch.Generator):
    """A generator for any device, which draws on the CPU."""

    def __new__(cls, device: object = "cpu") -> Generator:
        new: Any = super().__new__
        made: Generator = new(cls, device="cpu")
        return made


class LegacyType(type):
    """The type of ``torch.cuda.FloatTensor`` and its like."""

    dtype: torch.dtype
    cpu_type: Any
    legacy_name: str

    def __instancecheck__(cls, instance: object) -> bool:
        return is_placed(instance) and getattr(instance, "dtype", None) == cls.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return mark(cls.cpu_type(*args, **kwargs).clone())


def install() -> None:
    """Put the substitutes in place."""
    setattr(torch, "Generator", Generator)  # noqa: B010  (mypy refuses to assign to a type)
    torch.compile = _same
    setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)  # noqa: B010
    nn.Module.compile = lambda self, *args, **kwargs: None  # type: ignore[method-assign]
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    _allow_every_attention_kernel()
    for name in (
        "Float",
        "Double",
        "Half",
        "BFloat16",
        "Byte",
        "Char",
        "Short",
        "Int",
        "Long",
        "Bool",
    ):
        _install_legacy_type(f"{name}Tensor")
    _install_default_device()
    _install_storages()
    _install_data_parallel()
    _without_pinning()
    _compare_recomputed()
    for optimizer in _optimizers():
        _without_gpu_options(optimizer)


def _same(model: Any = None, **options: Any) -> Any:
    """``torch.compile``, as a function or as a decorator with options, that leaves its argument
    alone."""
    return (lambda function: function) if model is None else model


def _allow_every_attention_kernel() -> None:
    original = torch.nn.attention.sdpa_kernel

    @functools.wraps(original)
    def unrestricted(*args: Any, **kwargs: Any) -> Scope:
        return Scope()

    setattr(torch.nn.attention, "sdpa_kernel", unrestricted)  # noqa: B010


def _install_legacy_type(name: str) -> None:
    cpu_type = getattr(torch, name)
    members = {
        "cpu_type": cpu_type,
        "dtype": cpu_type.dtype,
        "legacy_name": f"torch.cuda.{name}",
        "__module__": "torch.cuda",
    }
    setattr(torch.cuda, name, LegacyType(name, (), members))


def _install_default_device() -> None:
    """A default device adds ``device="cuda"`` to calls, also to those that the mode has already
    mapped.

    ``torch.set_default_device`` puts its own mode below all others, so the mode of the stand-in has
    looked at a call before; ``with torch.device("cuda")`` puts it above, so the stand-in is still
    to come.
    """
    original: Any = default_device.DeviceContext.__torch_function__

    def map_device(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        still_to_come = torch._C._len_torch_function_stack() > 0
        if self.device.type == "cuda" and not still_to_come:
            return func(*args, **(kwargs or {}))
        return original(self, func, types, args, kwargs)

    setattr(default_device.DeviceContext, "__torch_function__", map_device)  # noqa: B010
    by_type = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        name = kind if isinstance(kind, str) else getattr(kind, "legacy_name", "")
        torch.set_default_device("cuda" if name.startswith("torch.cuda.") else None)
        by_type(name.replace("torch.cuda.", "torch.") or kind)

    torch.set_default_tensor_type = set_default_tensor_type


def _install_storages() -> None:
    """A checkpoint remembers that a tensor was on the CUDA device, and restores it there."""

    def tag(storage: Any) -> str | None:
        untyped = getattr(storage, "_untyped_storage", storage)
        return "cuda:0" if hasattr(untyped, MARK) else None

    def restore(storage: Any, location: str) -> Any:
        if not location.startswith("cuda"):
            return None
        mark_storage(getattr(storage, "_untyped_storage", storage))
        return storage

    torch.serialization.register_package(0, tag, restore)

    def cuda(storage: Any, *args: Any, **kwargs: Any) -> Any:
        return restore(storage, "cuda")

    kinds: tuple[Any, ...] = (torch.UntypedStorage, torch.TypedStorage)
    for kind in kinds:
        kind.cuda = cuda


def _install_data_parallel() -> None:
    def begin(self: Any, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        nn.Module.__init__(self)
        self.module, self.device_ids, self.output_device, self.dim = module, [0], 0, 0

    setattr(nn.DataParallel, "__init__", begin)  # noqa: B010
    nn.DataParallel.forward = lambda self, *inputs, **kwargs: self.module(*inputs, **kwargs)  # type: ignore[method-assign]


def _without_pinning() -> None:
    original: Any = DataLoader.__init__

    @functools.wraps(original)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.pin_memory = False

    setattr(DataLoader, "__init__", begin)  # noqa: B010


def _compare_recomputed() -> None:
    """Activation checkpointing compares what it computes again with what it saved, their devices too.

    Tensors are saved in the midst of a call, where the mode is off, and computed again outside of one:
    both are asked without it.
    """
    checks: Any = getattr(torch.utils.checkpoint, "_allowed_determinism_checks_to_fns", {})
    for name, original in list(checks.items()):
        checks[name] = functools.partial(_undisguised, original)


def _undisguised(function: Any, tensor: torch.Tensor) -> Any:
    disabled: Any = torch._C.DisableTorchFunction
    with disabled():
        return function(tensor)


def _optimizers() -> list[Any]:
    return [kind for kind in vars(torch.optim).values() if isinstance(kind, type)]


def _without_gpu_options(optimizer: Any) -> None:
    original = optimizer.__init__

    @functools.wraps(original)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        for option in GPU_ONLY_OPTIONS:
            if kwargs.get(option):
                kwargs[option] = False
        original(self, *args, **kwargs)

    with contextlib.suppress(TypeError):
        optimizer.__init__ = begin
