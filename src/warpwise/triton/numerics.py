"""bfloat16 and float8 in NumPy, which has neither: decode bit patterns to float32, and round back as a GPU does.

Triton's interpreter stores these types as unsigned integers; arithmetic on them must go through float32.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, np.dtype[Any]]

# Triton's dtype name -> PyTorch's dtype of the same format.
_FLOAT8 = {
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
}
ENCODED = frozenset({"bf16", "fp8e4b15", *_FLOAT8})
LIMITS = {np.dtype(f"{kind}{bits}"): np.iinfo(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)}


@cache
def _float8_values(name: str) -> Array:
    """Return the float32 value of each of the 256 bit patterns."""
    bits = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    if name == "fp8e4b15":
        # 1 sign bit, 4 exponent bits with bias 15, 3 mantissa bits; no infinity and no NaN.
        pattern = bits.to(torch.int64)
        exponent, mantissa = (pattern >> 3) & 15, pattern & 7
        magnitude = torch.where(
            exponent == 0, mantissa * 2.0**-17, (1 + mantissa / 8) * torch.exp2((exponent - 15).to(torch.float32))
        )
        return torch.where(pattern >= 128, -magnitude, magnitude).to(torch.float32).numpy()
    return bits.view(_FLOAT8[name]).to(torch.float32).numpy()


def decode(bits: Array, name: str) -> Array:
    """Convert bit patterns of the Triton dtype ``name`` to float32; exact."""
    if name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return _float8_values(name)[bits]


def _encode_bfloat16(values: Array, toward_zero: bool) -> Array:
    bits = np.ascontiguousarray(values, dtype=np.float32).reshape(values.shape).view(np.uint32)
    if toward_zero:
        rounded = bits >> np.uint32(16)
    else:
        tie_to_even = (bits >> np.uint32(16)) & np.uint32(1)
        rounded = (bits + (np.uint32(0x7FFF) + tie_to_even)) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)


def encode(values: Array, name: str, toward_zero: bool = False) -> Array:
    """Round float values to nearest even, as bit patterns of ``name``; float8 saturates as PTX ``cvt.satfinite``."""
    if name == "bf16":
        return _encode_bfloat16(values, toward_zero)
    table = _float8_values(name)
    finite = table[np.isfinite(table)]
    limited = np.clip(np.asarray(values, dtype=np.float32), finite.min(), finite.max())
    if name != "fp8e4b15":
        limited_tensor = torch.from_numpy(np.array(limited, dtype=np.float32))
        return limited_tensor.to(_FLOAT8[name]).view(torch.uint8).numpy().reshape(np.shape(values))
    order = np.argsort(table[:128])
    magnitudes = table[:128][order]
    above = np.clip(np.searchsorted(magnitudes, np.abs(limited)), 1, 127)
    nearer_above = magnitudes[above] - np.abs(limited) < np.abs(limited) - magnitudes[above - 1]
    pattern = order[np.where(nearer_above, above, above - 1)].astype(np.uint8)
    return np.where(limited < 0, pattern | np.uint8(128), pattern).astype(np.uint8)


def to_integer(values: Array, dtype: np.dtype[Any]) -> Array:
    """Convert float to integer as PTX ``cvt.rzi`` does: truncate, saturate, NaN to 0, or to 2^63 for 64 bits.

    For a ``dtype`` of 8 bits, Triton converts to 16 bits, which saturates, and keeps the low byte.
    """
    if dtype.itemsize == 1:
        return to_integer(values, np.dtype(f"{dtype.kind}2")).astype(dtype)
    limits = LIMITS[dtype]
    wide = np.trunc(values.astype(np.float64))
    inside = (wide >= float(limits.min)) & (wide < float(limits.max) + (0 if dtype.itemsize == 8 else 1))
    result = np.where(inside, wide, 0).astype(dtype)
    if not inside.all():
        result = np.where(wide >= float(limits.max), dtype.type(limits.max), result)
        result = np.where(wide < float(limits.min), dtype.type(limits.min), result)
        if dtype.itemsize == 8:
            result = np.where(np.isnan(wide), np.uint64(1 << 63).astype(dtype), result)
    return result
