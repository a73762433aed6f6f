"""Tensor maps: descriptions of tensors for TMA, encoded by the driver and passed to kernels by value."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from warpwise.cuda.errors import ArgumentError, LaunchError
from warpwise.cuda.gpu import driver
from warpwise.cuda.launch.arguments import TensorMap

# Members of CUtensorMapDataType, cuda.h.
_TYPES = {
    torch.uint8: 0, torch.int8: 0, torch.uint16: 1, torch.uint32: 2, torch.int32: 3, torch.uint64: 4, torch.int64: 5,
    torch.float16: 6, torch.float32: 7, torch.float64: 8, torch.bfloat16: 9, torch.float8_e4m3fn: 0,
    torch.float8_e5m2: 0,
}  # fmt: skip
_ROUNDED = 11  # float32, rounded to TF32 when loaded
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
_MAX_BOX, _MAX_DIMENSIONS, _MAX_STEP, _ALIGNMENT = 256, 5, 8, 16
# The emulated map, native/include/tensor_map.h: address, flags, strides and their high bits, extents, element strides
# and boxes; then the marker and the fields of im2col.
_MAGIC, _LAYOUT = 0x77575450, "=QI4II5IHx5B4xI2H4B6b"
# elemtype of PTX by CUtensorMapDataType, and the bit that rounds float32 to TF32.
_ELEMTYPES, _ROUNDS = {8: 9, 9: 10, _ROUNDED: 7}, 1 << 16


class Im2col(NamedTuple):
    """What a tensor map in im2col mode adds: the bounding box of base pixels, innermost dimension first, and steps."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


def tensor_map(
    tensor: torch.Tensor,
    box: Sequence[int],
    swizzle: int = 128,
    promotion: int = 256,
    tf32: bool = False,
    layout: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
    steps: Sequence[int] | None = None,
    nan: bool = False,
) -> TensorMap:
    """Make the tensor map of ``tensor`` (1 to 5 dimensions) for copies of boxes by TMA, on a GPU or emulated.

    The dtype is an integer of 8 to 64 bits (not int16), float8, float16, bfloat16, float32 or float64.

    - ``box``: the box's extent in each dimension, in the tensor's order (rows, columns), 1 to 256 elements.
    - ``swizzle``: the span of the swizzle in shared memory, 0, 32, 64 or 128 bytes, at least that of a row of the box.
    - ``promotion``: the granularity of reads into L2, 0, 64, 128 or 256 bytes.
    - ``tf32``: float32 elements are rounded to the nearest TF32 when they are loaded.
    - ``layout``: (shape, strides) in elements, which replace the tensor's own. They may exceed the tensor's memory
      where no box is loaded or stored.
    - ``steps``: a stride of 1 to 8 elements in each dimension, 1 in the last one. A box of n elements
      copies ceil(n / step) elements, which are ``step`` apart in the tensor and adjacent in shared memory.
    - ``nan``: elements of a box outside a float16, bfloat16, float32 or float64 tensor read as NaN (16-bit words of
      0x7ff7) instead of 0. They are never written.

    Raises ``ArgumentError`` for what TMA does not support: a last stride other than 1, strides or an address that are
    not multiples of 16 bytes, other dtypes; ``LaunchError`` if the driver reports an error.
    """
    shape, strides = layout or (tuple(tensor.shape), tensor.stride())
    _check(tensor, shape, strides, tuple(box), swizzle, promotion)
    if tf32 and tensor.dtype != torch.float32:
        raise ArgumentError(f"tensor_map: expected float32 to be rounded to TF32, got {tensor.dtype}")
    recipe: tuple[Any, ...] = (shape, strides, tensor.dtype), tuple(box), swizzle, promotion, tf32
    if steps is not None or nan:
        recipe += None, _checked_steps(tensor.dtype, steps or (1,) * len(shape), len(shape), nan), nan
    return _made(tensor, recipe)


def im2col_map(
    tensor: torch.Tensor,
    pixels: int,
    channels: int,
    lower: Sequence[int],
    upper: Sequence[int],
    steps: Sequence[int] | None = None,
    swizzle: int = 128,
    promotion: int = 256,
) -> TensorMap:
    """Make a tensor map in im2col mode: a TMA load copies ``channels`` channels of ``pixels`` successive pixels.

    A load names the first base pixel (n, h, w, c) and an offset (h, w), the position in the filter, which is added to
    each base pixel. Pixels outside the tensor read as zero.

    - ``tensor``: images with the channels last, (N, W, C), (N, H, W, C) or (N, D, H, W, C), in a dtype of
      ``tensor_map``.
    - ``pixels``, ``channels``: 1 to 1024 and 1 to 256.
    - ``lower``, ``upper``: the bounds of the base pixels in each spatial dimension, from ``lower`` to the size plus
      ``upper``, exclusive. Each is -128 to 127, or -16 to 15 in 5 dimensions. A convolution with padding p and a filter
      of k has ``lower = -p`` and ``upper = p - (k - 1)``.
    - ``steps``: the distance between base pixels in each spatial dimension, 1 (the default) to 8.
    - ``swizzle``, ``promotion``: those of ``tensor_map``.

    On a GPU the driver encodes the map; this was not yet run on one.

    Raises ``ArgumentError`` for what TMA does not support, ``LaunchError`` if the driver reports an error.
    """
    shape, strides = tuple(tensor.shape), tensor.stride()
    spatial = len(shape) - 2
    steps = tuple(steps or (1,) * spatial)
    if not 1 <= spatial <= 3:
        raise ArgumentError(f"im2col_map: expected a tensor of 3 to 5 dimensions, got shape {shape}")
    reach = {1: 2**15, 2: 2**7, 3: 2**4}[spatial]
    for name, corner in (("lower", lower), ("upper", upper)):
        if len(corner) != spatial or not all(-min(reach, 128) <= each < min(reach, 128) for each in corner):
            raise ArgumentError(
                f"im2col_map: expected {name} to hold {spatial} numbers from {-min(reach, 128)} to "
                f"{min(reach, 128) - 1}, got {tuple(corner)}"
            )
    if len(steps) != spatial or not all(1 <= step <= 8 for step in steps):
        raise ArgumentError(f"im2col_map: expected steps to hold {spatial} numbers from 1 to 8, got {steps}")
    if not 1 <= pixels <= 1024 or not 1 <= channels <= _MAX_BOX:
        raise ArgumentError(
            f"im2col_map: expected 1 to 1024 pixels and 1 to {_MAX_BOX} channels, got {pixels} and {channels}"
        )
    _check(tensor, shape, strides, (*(1,) * (len(shape) - 1), channels), swizzle, promotion)
    inner = Im2col(tuple(reversed(lower)), tuple(reversed(upper)), tuple(reversed(steps)))
    recipe = (shape, strides, tensor.dtype), (pixels, channels), swizzle, promotion, False, inner
    return _made(tensor, recipe)


def _made(tensor: torch.Tensor, recipe: tuple[Any, ...]) -> TensorMap:
    if tensor.is_meta:  # it has no address: its map is blank, and serves a launch that is intercepted
        content = bytes(ctypes.sizeof(TensorMap))
    else:
        content = (encoded if tensor.is_cuda else emulated)(tensor.data_ptr(), *recipe)
    result = TensorMap.from_buffer_copy(content)
    result.tensor, result.recipe = tensor, recipe
    return result


@functools.lru_cache(maxsize=4096)  # a map holds an address and sizes only, so it is valid for any tensor with them
def encoded(
    address: int,
    layout: tuple[Any, ...],
    box: tuple[int, ...],
    swizzle: int,
    promotion: int,
    tf32: bool = False,
    im2col: Im2col | None = None,
    steps: tuple[int, ...] = (),
    nan: bool = False,
) -> bytes:
    """The bytes of a tensor map. Raises ``LaunchError`` if the driver reports an error."""
    shape, strides, dtype = layout
    count, size = len(shape), dtype.itemsize
    memory = _Aligned()
    if im2col is None:
        boxes: list[Any] = [(ctypes.c_uint32 * count)(*reversed(box))]
    else:
        corners = (im2col.lower, im2col.upper)
        boxes = [(ctypes.c_int * len(corner))(*corner) for corner in corners]
        boxes += [ctypes.c_uint32(box[1]), ctypes.c_uint32(box[0])]
    element_strides = (1, *im2col.steps, 1) if im2col else (*reversed(steps),) or (1,) * count
    encode = functools.partial(
        _encode("cuTensorMapEncodeIm2col" if im2col else "cuTensorMapEncodeTiled"),
        ctypes.byref(memory, memory.offset),
        ctypes.c_int(_ROUNDED if tf32 else _TYPES[dtype]),
        ctypes.c_uint32(count),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * count)(*reversed(shape)),
        (ctypes.c_uint64 * count)(*(stride * size for stride in reversed(strides[:-1]))),
        *boxes,
        (ctypes.c_uint32 * count)(*element_strides),
        ctypes.c_int(0),
        ctypes.c_int(_SWIZZLES[swizzle]),
        ctypes.c_int(_PROMOTIONS[promotion]),
        ctypes.c_int(nan),
    )
    if (code := encode()) == driver.INVALID_CONTEXT:
        driver.make_context_current(torch.cuda.current_device())
        code = encode()
    if code:
        raise LaunchError(f"tensor_map: the driver refused shape {shape}, strides {strides}, box {box} (error {code})")
    return bytes(memory)[memory.offset : memory.offset + ctypes.sizeof(TensorMap)]


def emulated(
    address: int,
    layout: tuple[Any, ...],
    box: tuple[int, ...],
    swizzle: int,
    promotion: int,
    tf32: bool = False,
    im2col: Im2col | None = None,
    steps: tuple[int, ...] = (),
    nan: bool = False,
) -> bytes:
    """The bytes of a tensor map for the emulator and for machine code, as in native/include/tensor_map.h."""
    shape, strides, dtype = layout

    def less_one(numbers: Sequence[int]) -> list[int]:
        return [number - 1 for number in (*reversed(numbers), *(1,) * _MAX_DIMENSIONS)[:_MAX_DIMENSIONS]]

    kind = _ROUNDED if tf32 else _TYPES[dtype]
    flags = (len(shape) - 1) << 4 | _ELEMTYPES.get(kind, kind) << 7 | _SWIZZLES[swizzle] << 13
    flags |= nan << 15 | (_ROUNDS if tf32 else 0) | _PROMOTIONS[promotion] << 17
    units = [stride * dtype.itemsize // _ALIGNMENT for stride in reversed(strides[:-1])]
    units += [0] * (_MAX_DIMENSIONS - 1 - len(units))
    high = sum((unit >> 32) << 4 * at for at, unit in enumerate(units))
    stride_bits = sum(step << 3 * at for at, step in enumerate(less_one(steps)))
    parts = (im2col.steps, im2col.lower, im2col.upper) if im2col else ((), (), ())
    spatial = [number for part in parts for number in (*part, 0, 0, 0)[:3]]
    pixels, channels = box if im2col else (0, 0)
    content = struct.pack(
        _LAYOUT,
        address, flags, *(unit & 0xFFFFFFFF for unit in units), high, *less_one(shape), stride_bits,
        *less_one(() if im2col else box), _MAGIC, channels, pixels, im2col is not None, *spatial,
    )  # fmt: skip
    return content.ljust(ctypes.sizeof(TensorMap), b"\0")


class _Aligned(ctypes.Structure):
    """Memory for a tensor map with the 64-byte alignment that the driver requires."""

    _fields_ = [("bytes", ctypes.c_uint8 * 192)]

    @property
    def offset(self) -> int:
        return -ctypes.addressof(self) % 64


@functools.lru_cache(maxsize=2)
def _encode(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL("libcuda.so.1"), name)
    except (OSError, AttributeError) as error:
        raise LaunchError(f"tensor_map: needs a GPU and its driver, CUDA 12 or later ({error})") from error


def _checked_steps(dtype: torch.dtype, steps: Sequence[int], count: int, nan: bool) -> tuple[int, ...]:
    if len(steps) != count or not all(1 <= step <= _MAX_STEP for step in steps) or steps[-1] != 1:
        raise ArgumentError(
            f"tensor_map: expected steps to hold {count} element strides of 1 to {_MAX_STEP}, the last of them "
            f"1, got {tuple(steps)}"
        )
    if nan and (not dtype.is_floating_point or dtype.itemsize == 1):
        raise ArgumentError(f"tensor_map: expected float16, bfloat16, float32 or float64 with nan=True, got {dtype}")
    return tuple(steps)


def _check(
    tensor: torch.Tensor,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    swizzle: int,
    promotion: int,
) -> None:
    def refuse(what: str) -> ArgumentError:
        return ArgumentError(f"tensor_map: expected {what}")

    if tensor.dtype not in _TYPES:
        raise refuse(f"a dtype that TMA supports ({', '.join(str(dtype) for dtype in _TYPES)}), got {tensor.dtype}")
    if not 1 <= len(shape) <= _MAX_DIMENSIONS or 0 in shape:
        raise refuse(f"1 to {_MAX_DIMENSIONS} dimensions, none of them empty, got shape {shape}")
    if len(box) != len(shape) or not all(1 <= extent <= _MAX_BOX for extent in box):
        raise refuse(f"box to hold {len(shape)} extents of 1 to {_MAX_BOX} elements, got {box}")
    if swizzle not in _SWIZZLES or promotion not in _PROMOTIONS:
        raise refuse(
            f"swizzle one of {', '.join(map(str, _SWIZZLES))} and promotion one of "
            f"{', '.join(map(str, _PROMOTIONS))} bytes, got {swizzle} and {promotion}"
        )
    size = tensor.element_size()
    if swizzle and box[-1] * size > swizzle:
        raise refuse(f"box[-1] of at most {swizzle // size} elements with swizzle={swizzle}, got {box[-1]}")
    if strides[-1] != 1 or any(stride * size % _ALIGNMENT for stride in strides[:-1]):
        raise refuse(
            f"a last stride of 1 and the others multiples of {_ALIGNMENT} bytes, got strides {strides} of {size}-byte "
            "elements"
        )
    if tensor.data_ptr() % _ALIGNMENT:
        raise refuse(f"data aligned to {_ALIGNMENT} bytes, got address {tensor.data_ptr():#x}")
