"""What the specifications and launchers of several operations share: argument checks, drawn inputs, grid sizes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch.compiler import is_dynamo_compiling

from warpwise.registry import Case, Rung, arranged

Result = TypeVar("Result")
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def cdiv(count: int, size: int) -> int:
    """How many pieces of ``size`` cover ``count``."""
    return -(-count // size)


_ASKED: ContextVar[int] = ContextVar("multiprocessors of the GPU that is asked about", default=0)


@contextlib.contextmanager
def asked_about(processors: int) -> Iterator[None]:
    """Choices and configurations inside are those of a GPU of so many SMs, wherever the tensors lie; 0: of the tensors' own."""
    token = _ASKED.set(processors)
    try:
        yield
    finally:
        _ASKED.reset(token)


def multiprocessors(tensor: torch.Tensor) -> int:
    """SMs of the tensor's GPU; 1 for a CPU tensor, so that an emulated grid-stride loop goes round more than once."""
    if asked := _ASKED.get():
        return asked
    return torch.cuda.get_device_properties(tensor.device).multi_processor_count if tensor.is_cuda else 1


def is_hopper(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` is on a GPU of compute capability 9.0."""
    return tensor.is_cuda and torch.cuda.get_device_capability(tensor.device) == (9, 0)


def not_hopper(tensor: torch.Tensor, because: str = "its matrix products exist there alone") -> str | None:
    """Why the tensor's GPU cannot run a kernel made for Hopper, or None; a CPU tensor is left to the rung's devices."""
    if tensor.is_cuda and not is_hopper(tensor):
        return f"takes a GPU of compute capability 9.0: {because}"
    return None


# What torch.backends.cuda.matmul.fp32_precision asks after comparing a dozen names, which costs the host 2 µs.
_precision: Callable[[str, str], str] = getattr(torch._C, "_get_fp32_precision_getter", None) or (
    lambda *names: torch.backends.cuda.matmul.fp32_precision
)


def without_tf32(product: Callable[..., Result], a: torch.Tensor, *rest: Any) -> Result:
    """``product(a, *rest)`` by PyTorch, on a GPU without TF32 whatever ``torch.backends.cuda.matmul`` says.

    TF32 rounds the factors of float32 products to 10 bits of mantissa and is seven times faster on an H200: another
    operation, and no opponent of this one. Under torch.compile the setting stays as the user has it.
    """
    if a.dtype is torch.float32 and a.is_cuda and (is_dynamo_compiling() or _precision("cuda", "matmul") == "tf32"):
        return _in_precision("ieee", product, a, *rest)
    return product(a, *rest)


def with_tf32(product: Callable[..., Result], a: torch.Tensor, *rest: Any) -> Result:
    """The same with TF32, which on a GPU that has none means nothing."""
    return _in_precision("tf32", product, a, *rest)


def _in_precision(
    precision: Literal["ieee", "tf32"], product: Callable[..., Result], a: torch.Tensor, *rest: Any
) -> Result:
    settings: Any = torch.backends.cuda.matmul
    if torch.compiler.is_compiling() or not a.is_cuda or a.dtype != torch.float32:
        return product(a, *rest)
    before = settings.fp32_precision
    if (before == "tf32") == (precision == "tf32"):
        return product(a, *rest)
    settings.fp32_precision = precision
    try:
        return product(a, *rest)
    finally:
        settings.fp32_precision = "none"  # what torch.backends.fp32_precision says, if that is where it came from
        if settings.fp32_precision != before:
            settings.fp32_precision = before


def make_rung(folder: Path, name: str, idea: str, launch: Callable[..., None], **options: Any) -> Rung:
    """A rung whose kernel is ``folder/<name>.cu``, or ``folder/<name>.py`` if it is written in Triton."""
    source = folder / f"{name}.cu"
    language: Literal["cuda", "triton"] = "cuda"
    if not source.exists():
        source, language = folder / f"{name}.py", "triton"
    return Rung(name, idea, language, launch, source, **options)


def check_tensor(op: str, name: str, value: Any, dtypes: Sequence[torch.dtype], dims: Sequence[int] = ()) -> None:
    """Raise ``TypeError`` or ``ValueError`` unless ``value`` is a dense tensor of such a dtype and number of dimensions."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{op}: expected {name} to be a torch.Tensor, got {type(value).__name__}")
    if value.layout is not torch.strided:
        raise TypeError(f"{op}: expected {name} to be dense, got {value.layout}; call .to_dense() first")
    if value.is_nested:
        raise TypeError(f"{op}: expected {name} to be dense, got a nested tensor; call .to_padded_tensor(0.0) first")
    if value.dtype not in dtypes:
        expected = ", ".join(str(dtype) for dtype in dtypes)
        raise TypeError(f"{op}: expected {name} of dtype {expected}, got {value.dtype}")
    if dims and value.dim() not in dims:
        expected = " or ".join(str(count) for count in dims)
        raise ValueError(f"{op}: expected {name} with {expected} dimensions, got shape {tuple(value.shape)}")


def check_companion(op: str, names: Sequence[str], first: torch.Tensor, tensor: torch.Tensor) -> None:
    """Raise unless ``tensor``, the second of ``names``, has the dtype and the device of ``first``."""
    if tensor.dtype != first.dtype:
        raise TypeError(
            f"{op}: expected {names[1]} of {names[0]}'s dtype {first.dtype}, got {tensor.dtype}; "
            f"convert one of them: {names[1]}.to({first.dtype})"
        )
    if tensor.device != first.device:
        raise ValueError(
            f"{op}: expected {names[1]} on {names[0]}'s device {first.device}, got {tensor.device}; "
            f"move one of them: {names[1]}.to({str(first.device)!r})"
        )


def check_factors(op: str, a: torch.Tensor, b: torch.Tensor, dtypes: Sequence[torch.dtype]) -> None:
    """Raise unless a (M, K) and b (K, N) are matrices that can be multiplied, of one of ``dtypes`` and on one device."""
    check_tensor(op, "a", a, dtypes, dims=(2,))
    check_tensor(op, "b", b, dtypes, dims=(2,))
    check_companion(op, "ab", a, b)
    if b.shape[0] != a.shape[1]:
        raise ValueError(
            f"{op}: expected b with as many rows as a has columns, a (M, K) and b (K, N), "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )


def check_alike(op: str, names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
    """Raise unless all tensors have the first one's dtype, device and shape."""
    first = tensors[0]
    for name, tensor in zip(names[1:], tensors[1:], strict=True):
        check_companion(op, (names[0], name), first, tensor)
        if tensor.shape != first.shape:
            expected, got = tuple(first.shape), tuple(tensor.shape)
            raise ValueError(f"{op}: expected {name} of {names[0]}'s shape {expected}, got {got}")


def draw(
    case: Case, shape: Sequence[int], dtype: torch.dtype, device: torch.device, seed: int, power: int = 1
) -> torch.Tensor:
    """Random values of ``shape``, lying in memory as the case says.

    Floating point: standard normal; a "huge" case scales them so that their ``power``-th power stays finite.
    Integers: uniform over the dtype's range; a "huge" case stays within one of the top.
    """
    generator = torch.Generator(device).manual_seed(seed)
    if dtype.is_floating_point:
        values = torch.randn(tuple(shape), generator=generator, dtype=dtype, device=device)
        if case.values == "huge":
            values.mul_(math.pow(torch.finfo(dtype).max / 64, 1 / power))
    else:
        top = torch.iinfo(dtype).max
        low = top - 1 if case.values == "huge" else torch.iinfo(dtype).min
        values = torch.randint(low, top + 1, tuple(shape), generator=generator, dtype=dtype, device=device)
    return arranged(values, case.layout)
