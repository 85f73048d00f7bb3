"""The same randomness on the CPU and on XLA: every random operator draws on the host.

A CPU and an XLA device have different generators, and a CPU draws in memory order, so the noise of
a tensor that is not contiguous differs once more. Here the *kernels* of the random operators are
replaced, for the CPU and (in a process that holds torch_xla) for XLA: each draws a contiguous
float32 tensor from the default CPU generator and moves it to where it is wanted. Two runs that ask
for the same shapes in the same order get the same noise.

Kernels are replaced, not intercepted with a ``TorchDispatchMode``, for three reasons: under such a
mode torch_xla 2.9 leaves tensors that are newly made on the device without their functional wrapper
(views of them come out wrong); a mode holds for one thread only; and a mode slows down every
operator.

The noise depends on shapes, never on values that live on the device, so a migrated script runs as
many executions as it would without this module. Calls with an explicit generator keep their kernel.
Operators that torch_xla does not lower (``poisson``, ``cauchy_``, ...) fall back to the CPU and
draw there anyway.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.library

Kernel = Callable[..., Any]

CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

FILLS = (
    "bernoulli_.float",
    "exponential_",
    "normal_",
    "random_",
    "random_.from",
    "random_.to",
    "uniform_",
)
CPU_ONLY_FILLS = ("cauchy_", "geometric_", "log_normal_")
HALVES = (torch.float16, torch.bfloat16)


class HostRandomness:
    """Kernels that draw on the host, in force from ``install`` to ``remove``.

    ``device_keys`` are dispatch keys: ``("CPU",)`` for a native run, ``("CPU", "XLA")`` where
    torch_xla is imported.
    """

    def __init__(self, device_keys: Sequence[str] = ("CPU",)) -> None:
        self.device_keys = tuple(device_keys)
        self._originals: dict[tuple[str, str], Any] = {}
        self._library: Any = None
        self.draws = 0
        """How many random tensors were drawn so far."""

    def install(self) -> None:
        """Replace the kernels; a second call does nothing."""
        if self._library is not None:
            return
        library: Any = torch.library.Library
        self._library = library("aten", "IMPL")
        tables = {key: self.kernels(key) for key in self.device_keys}
        for key, table in tables.items():
            for name in table:
                self._originals[name, key] = torch.library.get_kernel(f"aten::{name}", key)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch warns of every replaced kernel
            for key, table in tables.items():
                for name, kernel in table.items():
                    self._replace(key, name, kernel)

    def remove(self) -> None:
        """Bring the original kernels back."""
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def _replace(self, key: str, name: str, kernel: Kernel) -> None:
        original = self._originals[name, key]

        def drawn(keyset: Any, *args: Any, generator: Any = None, **kwargs: Any) -> Any:
            if generator is not None:
                return original.call_boxed(keyset, *args, generator=generator, **kwargs)
            return kernel(*args, **kwargs)

        self._library.impl(name, drawn, key, with_keyset=True, allow_override=True)

    def kernels(self, key: str) -> dict[str, Kernel]:
        """The kernels that are replaced for a dispatch key, by the name of the operator without
        ``aten::``."""
        fills = FILLS + (CPU_ONLY_FILLS if key == "CPU" else ())
        table: dict[str, Kernel] = {name: self._fill(name) for name in fills}
        table |= {
            "bernoulli_.Tensor": self._bernoulli_by_tensor_,
            "multinomial": self._multinomial,
            "native_dropout": self._native_dropout,
            "normal.Tensor_Tensor": self._normal,
            "normal.Tensor_float": self._normal,
            "normal.float_Tensor": self._normal,
            "rrelu_with_noise": self._rrelu_with_noise,
        }
        if key == "XLA":
            table |= {
                "bernoulli": self._bernoulli,
                "bernoulli.p": self._bernoulli_p,
                "randperm": self._randperm,
            }
        else:
            table["rrelu_with_noise_"] = self._rrelu_with_noise_
        return table

    def _draw(self, name: str, shape: Sequence[int], *args: Any, dtype: Any = None) -> Any:
        self.draws += 1
        noise = torch.empty(tuple(shape), dtype=dtype or torch.float32, device="cpu")
        self._originals[name, "CPU"].call_boxed(CPU_KEYS, noise, *args)
        return noise

    def _fill(self, name: str) -> Kernel:
        def fill(tensor: Any, *args: Any) -> Any:
            whole_numbers = name.startswith("random_")  # their range depends on the dtype
            half = tensor.dtype in HALVES and not whole_numbers
            noise = self._draw(
                name, tensor.shape, *args, dtype=torch.float32 if half else tensor.dtype
            )
            return tensor.copy_(noise.to(device=tensor.device, dtype=tensor.dtype))

        return fill

    def _uniform_like(self, tensor: Any) -> Any:
        return self._draw("uniform_", tensor.shape).to(tensor.device)

    def _bernoulli(self, chances: Any) -> Any:
        return (self._uniform_like(chances) < chances).to(chances.dtype)

    def _bernoulli_p(self, tensor: Any, p: float = 0.5) -> Any:
        noise = self._draw("bernoulli_.float", tensor.shape, p)
        return noise.to(device=tensor.device, dtype=tensor.dtype)

    def _bernoulli_by_tensor_(self, tensor: Any, chances: Any) -> Any:
        drawn = self._uniform_like(tensor) < chances.to(tensor.device)
        return tensor.copy_(drawn.to(tensor.dtype))

    def _native_dropout(self, tensor: Any, p: float, train: bool | None) -> Any:
        if train is False or p == 0:
            return tensor.clone(), torch.ones_like(tensor, dtype=torch.bool)
        mask = self._draw("bernoulli_.float", tensor.shape, 1.0 - p).to(tensor.device)
        scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
        return tensor * mask.to(tensor.dtype) * scale, mask.to(torch.bool)

    def _multinomial(self, weights: Any, count: int, replacement: bool = False) -> Any:
        """The exponential race: category i wins with a chance in proportion to its weight."""
        shape = list(weights.shape)
        rows = [*shape[:-1], count, shape[-1]] if replacement else shape
        race = self._draw("exponential_", rows).to(weights.device)
        scores = (weights.unsqueeze(-2) if replacement else weights) / race
        if replacement:
            return scores.argmax(-1)
        return scores.topk(count, -1).indices

    def _normal(self, mean: Any, std: Any = 1.0) -> Any:
        tensors = [value for value in (mean, std) if isinstance(value, torch.Tensor)]
        noise = self._draw("normal_", (mean + std).shape)
        return noise.to(device=tensors[0].device, dtype=tensors[0].dtype) * std + mean

    def _rrelu_slopes(self, tensor: Any, lower: float, upper: float) -> Any:
        slopes = self._draw("uniform_", tensor.shape, lower, upper)
        slopes = slopes.to(device=tensor.device, dtype=tensor.dtype)
        return torch.where(tensor <= 0, slopes, torch.ones_like(slopes))

    def _rrelu_with_noise(
        self,
        tensor: Any,
        noise: Any,
        lower: float = 0.125,
        upper: float = 1 / 3,
        training: bool = False,
    ) -> Any:
        if not training:
            return torch.where(tensor <= 0, tensor * ((float(lower) + float(upper)) / 2), tensor)
        noise.copy_(self._rrelu_slopes(tensor, float(lower), float(upper)))
        return tensor * noise

    def _rrelu_with_noise_(self, tensor: Any, *args: Any) -> Any:
        return tensor.copy_(self._rrelu_with_noise(tensor, *args))

    def _randperm(
        self,
        n: int,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = None,
    ) -> Any:
        return torch.randperm(n, dtype=dtype or torch.int64, device="cpu").to(device)
