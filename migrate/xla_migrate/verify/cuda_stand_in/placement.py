"""The function mode that maps the CUDA device to the CPU in every call of the torch API.

``torch.device("cuda")`` stays a genuine device object (making one needs no driver). Only the
placement of tensors is mapped: they live on the CPU, and report ``cuda:0`` as their device once a
script has moved or made them there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device as default_device
from torch.overrides import TorchFunctionMode

from xla_migrate.verify.cuda_stand_in.storages import (
    CUDA,
    is_idle,
    is_placed,
    mark,
    names_cuda,
    settle,
    share_memory,
    sort_out,
    tensors_in,
)

Arguments = dict[str, Any]
Handler = Callable[..., Any]


class CudaOnCpu(TorchFunctionMode):
    """Places on the CPU what a script places on the CUDA device."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Arguments | None = None
    ) -> Any:
        handler = HANDLERS.get(func)
        if handler is not None:
            return handler(*args, **(kwargs or {}))
        if not kwargs:  # nearly every call of a script comes by here
            result = func(*args)
        elif kwargs.get("device") is not None or kwargs.get("pin_memory"):
            return _placed_by_option(func, args, dict(kwargs))
        else:
            result = func(*args, **kwargs)
        return result if is_idle() else _marked(func, result, args, kwargs or {})


def _backward(
    tensor: Any,
    gradient: Any = None,
    retain_graph: Any = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """A mode is off while it handles a call; hooks and custom functions of a backward pass need it on."""
    with CudaOnCpu():
        torch.autograd.backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)


def _marked(func: Any, result: Any, args: Any, kwargs: Arguments) -> Any:
    """What a call made of tensors on the CUDA device is there, too. The result tells most cheaply
    whether there is anything to do: most are numbers, views of what is marked, or arguments."""
    if isinstance(result, torch.Tensor):
        if is_placed(result):
            return result
        if args and is_placed(args[0]) and "out" not in kwargs:  # a view would be of the first argument
            return mark(result)
    elif not isinstance(result, (list, tuple, dict)) or isinstance(result, torch.Size):
        return result
    strangers: list[torch.Tensor] = []
    placed = sort_out((args, kwargs), strangers)
    if placed or _made_on_default_cuda(func):
        for tensor in tensors_in(result):
            if not any(tensor is one or share_memory(tensor, one) for one in strangers):
                mark(tensor)
    return result


def _placed_by_option(func: Any, args: Any, kwargs: Arguments) -> Any:
    device = kwargs.get("device")
    if kwargs.get("pin_memory"):
        kwargs["pin_memory"] = False
    if device is None:
        return _marked(func, func(*args, **kwargs), args, kwargs)
    if not names_cuda(device):
        return func(*args, **kwargs)
    kwargs["device"] = "cpu"
    return _placed(func(*args, **kwargs), args, kwargs)


def _made_on_default_cuda(func: Any) -> bool:
    default = default_device.CURRENT_DEVICE
    return (
        default is not None
        and names_cuda(default)
        and func in default_device._device_constructors()
    )


def _placed(result: Any, args: Any, kwargs: Arguments) -> Any:
    """What was made by ``device="cuda"``; of what lives on the CPU a copy, as of
    ``torch.as_tensor(on_cpu, device="cuda")``."""
    strangers: list[torch.Tensor] = []
    sort_out((args, kwargs), strangers)
    if isinstance(result, torch.Tensor):
        shared = any(share_memory(result, tensor) for tensor in strangers)
        shared = shared or any(hasattr(value, "__array_interface__") for value in args)
        return mark(result.clone() if shared else result)
    for tensor in tensors_in(result):
        if not any(tensor is one or share_memory(tensor, one) for one in strangers):
            mark(tensor)
    return result


def _to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    on_cuda = is_placed(tensor)
    mapped = list(args)
    target = args[0] if args else kwargs.get("other", kwargs.get("device"))
    if isinstance(target, torch.Tensor):
        on_cuda = is_placed(target)
    elif isinstance(target, (str, int, torch.device)):
        on_cuda = names_cuda(target)
        if on_cuda and args:
            mapped[0] = "cpu"
    if names_cuda(kwargs.get("device")):
        on_cuda, kwargs["device"] = True, "cpu"
    return settle(tensor.to(*mapped, **kwargs), tensor, on_cuda)


def _type(tensor: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    name = dtype if isinstance(dtype, str) else getattr(dtype, "legacy_name", None)
    if dtype is None:
        kind = tensor.type()
        return kind.replace("torch.", "torch.cuda.", 1) if is_placed(tensor) else kind
    on_cuda = is_placed(tensor)
    if name is not None and name.startswith("torch.cuda."):
        on_cuda, dtype = True, name.replace("torch.cuda.", "torch.")
    elif not isinstance(dtype, torch.dtype):  # "torch.FloatTensor" means the CPU
        on_cuda = False
    return settle(tensor.type(dtype), tensor, on_cuda)


def _device_of(tensor: torch.Tensor) -> torch.device:
    return CUDA if is_placed(tensor) else tensor.device


def _to_cuda(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return settle(tensor, tensor, True)


def _to_cpu(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return settle(tensor.cpu(), tensor, False)


TENSOR: Any = torch.Tensor

HANDLERS: dict[Any, Handler] = {
    TENSOR.to: _to,
    TENSOR.cuda: _to_cuda,
    TENSOR.cpu: _to_cpu,
    TENSOR.type: _type,
    TENSOR.type_as: lambda tensor, other: settle(tensor.type_as(other), tensor, is_placed(other)),
    TENSOR.device.__get__: _device_of,
    TENSOR.is_cuda.__get__: is_placed,
    TENSOR.is_cpu.__get__: lambda tensor: tensor.is_cpu and not is_placed(tensor),
    TENSOR.get_device: lambda tensor: 0 if is_placed(tensor) else tensor.get_device(),
    torch.get_device: lambda tensor: 0 if is_placed(tensor) else tensor.get_device(),
    TENSOR.backward: _backward,
    TENSOR.pin_memory: lambda tensor, *args, **kwargs: tensor,
    TENSOR.is_pinned: lambda tensor, *args, **kwargs: False,
}
"""What the mode does for the calls that name, read or change a device; every other call goes
through ``_marked``."""
