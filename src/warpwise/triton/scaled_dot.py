"""The operands of ``tl.dot_scaled`` in float32: elements of 4, 8 or 16 bits, times one scale for 16 or 32 of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl

from warpwise.triton import numerics
from warpwise.triton.compat import TensorHandle
from warpwise.triton.undefined import passed_on

Array = np.ndarray[Any, np.dtype[Any]]

# e2m1: a sign, two bits of exponent with bias 1, one bit of fraction; a byte holds two, the first in its low half.
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)


def decoded(operand: TensorHandle, scale: TensorHandle | None, k_axis: int, k_pack: bool) -> TensorHandle:
    """Return the operand in float32, times its scales.

    ``k_axis`` is the axis of the sum: -1 of the left operand, -2 of the right one. The scales are (rows, K // 32) of
    the left operand and (columns, K // 32) of the right one, as ue8m0, or as e4m3 for 16 elements. ``k_pack``: two e2m1
    share a byte along K; otherwise along the other axis.
    """
    packed = operand.dtype.scalar.name == "uint8"
    pack_axis = k_axis if k_pack else -3 - k_axis
    values = operand.data if operand.data.dtype.kind == "f" else _values(operand, pack_axis)
    values = values.astype(np.float32, copy=False)
    factors = None if scale is None else _scales(scale)
    if factors is not None:
        values = values * _along_k(factors, k_axis, values.shape[k_axis])

    def undefined(lanes: list[Array]) -> Array:
        result = np.repeat(lanes[0], 2, axis=pack_axis) if packed else lanes[0]
        return result if scale is None else result | _along_k(lanes[1], k_axis, values.shape[k_axis])

    handles = [operand] if scale is None else [operand, scale]
    result: TensorHandle = passed_on(handles, undefined, TensorHandle(values, tl.float32))
    return result


def _values(operand: TensorHandle, pack_axis: int) -> Array:
    name = operand.dtype.scalar.name
    if name != "uint8":
        return numerics.decode(operand.data, name)
    axis = operand.data.ndim + pack_axis
    halves = np.stack([_E2M1[operand.data & 15], _E2M1[operand.data >> 4]], axis=axis + 1)
    shape = list(operand.data.shape)
    shape[axis] *= 2
    return halves.reshape(shape)


def _scales(scale: TensorHandle) -> Array:
    """ue8m0 is 2**(bits - 127), and 255 is NaN."""
    name = scale.dtype.scalar.name
    if name in numerics.ENCODED:
        return numerics.decode(scale.data, name)
    exponents = scale.data.view(np.uint8).astype(np.int32)
    return np.where(exponents == 255, np.float32(np.nan), np.ldexp(np.float32(1), exponents - 127))


def _along_k(scales: Array, k_axis: int, length: int) -> Array:
    """Repeat each scale for its elements, in the layout of the operand."""
    repeated = np.repeat(scales, length // scales.shape[-1], axis=-1)
    return repeated if k_axis == -1 else np.swapaxes(repeated, -1, -2)
