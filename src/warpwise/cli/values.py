"""Kernel arguments on the command line: ``n=1000``, ``x=f32[1000]``, ``y=out:f32[32,32]``, ``w=@weights.npy``.

``FORMS`` in ``commands/options.py`` describes all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from warpwise.lab.explain.memory import fits

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u64": torch.uint64, "u32": torch.uint32, "u16": torch.uint16, "u8": torch.uint8, "bool": torch.bool,
    "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
}  # fmt: skip
FILLS = ("normal", "out", "zeros", "ones", "arange")
_INOUT = "inout:"
_LANGUAGE = "tl."
_WORDS = {"true": True, "false": False, "none": None}
_QUOTED = re.compile(r"""(?P<quote>["'])(?P<text>.*)(?P=quote)""")
_TENSOR = re.compile(r"(?:(?P<fill>[a-z]+):)?(?P<dtype>[a-z][a-z\d]*)\[(?P<shape>[\d,\s]*)\]")


@dataclass(frozen=True)
class Value:
    """One argument of a kernel: its name, and a number, a tensor or None; of a Triton kernel also a text or a dtype of
    ``triton.language``.

    The kernel must write every element of an ``output``; it may read and write an ``inout`` tensor. A reference returns
    both.
    """

    name: str
    value: Any
    output: bool = False
    inout: bool = False

    @property
    def returned(self) -> bool:
        """True if a reference returns this argument."""
        return self.output or self.inout


def parse(text: str, seed: int) -> Value:
    """Parse ``NAME=VALUE``; random tensors use ``seed``."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier() or not value.strip():
        raise click.BadParameter(f"{text!r}: expected NAME=VALUE, such as n=1000, x=f32[1000] or y=out:f32[1000]")
    name, value = name.strip(), value.strip()
    if value.startswith(_INOUT):
        made = parse(f"{name}={value.removeprefix(_INOUT)}", seed)
        if not isinstance(made.value, torch.Tensor) or made.output:
            raise click.BadParameter(f"{text!r}: expected a tensor after {_INOUT}, such as {name}=inout:zeros:i32[64]")
        return replace(made, inout=True)
    if value.startswith("@"):
        return Value(name, _from_file(Path(value[1:])))
    if match := _TENSOR.fullmatch(value):
        fill = match["fill"] or "normal"
        if fill not in FILLS:
            raise click.BadParameter(f"{text!r}: no fill {fill!r}; there are {', '.join(FILLS)}")
        if match["dtype"] not in DTYPES:
            raise click.BadParameter(f"{text!r}: no dtype {match['dtype']!r}; there are {', '.join(DTYPES)}")
        shape = tuple(int(size) for size in match["shape"].split(",") if size.strip())
        if not fits(prod(shape) * DTYPES[match["dtype"]].itemsize):
            raise click.BadParameter(f"{text!r}: does not fit into memory")
        try:
            return Value(name, _filled(fill, DTYPES[match["dtype"]], shape, seed), output=fill == "out")
        except RuntimeError as error:
            raise click.BadParameter(f"{text!r}: does not fit into memory") from error
    if value in _WORDS:
        return Value(name, _WORDS[value])
    if match := _QUOTED.fullmatch(value):
        return Value(name, match["text"])
    if value.startswith(_LANGUAGE):
        return Value(name, _language_dtype(text, value.removeprefix(_LANGUAGE)))
    try:
        return Value(name, int(value, 0))
    except ValueError:
        pass
    try:
        return Value(name, float(value))
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: expected a number, true, false, none, @FILE.npy, or a tensor DTYPE[SHAPE] such as f32[32,32] "
            "or zeros:f32[32] (prefixes: zeros:, ones:, arange:, out:, inout:); for Triton also a text in quotes, "
            "or tl.DTYPE"
        ) from None


def _language_dtype(text: str, name: str) -> Any:
    try:
        import triton.language as tl
    except ImportError as error:
        raise click.BadParameter(f"{text!r}: needs Triton: {error}") from error
    found = getattr(tl, name, None)
    if not isinstance(found, tl.dtype):
        raise click.BadParameter(f"{text!r}: triton.language has no dtype {name!r}")
    return found


def _from_file(path: Path) -> torch.Tensor:
    try:
        return torch.from_numpy(np.load(path, allow_pickle=False))
    except FileNotFoundError as error:
        raise click.BadParameter(f"no file {str(path)!r}") from error
    except (OSError, ValueError, TypeError) as error:
        raise click.BadParameter(f"{path}: expected a NumPy file of numbers (.npy): {error}") from error


def _filled(fill: str, dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if fill in ("out", "zeros"):
        return torch.zeros(shape, dtype=dtype)
    if fill == "ones":
        return torch.ones(shape).to(dtype)
    if fill == "arange":
        return torch.arange(int(np.prod(shape))).reshape(shape).to(dtype)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape, generator=generator).to(dtype)
