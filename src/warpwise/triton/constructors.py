"""Constructors of ``tl.tensor`` and ``tl.block_type`` that compute what depends on the shape once for each shape.

The interpreter constructs a tensor and often a block type for each operation, and Triton computes their shapes anew: a
tuple of constexpr values, each with a type. This would take a quarter of the time of an interpreted kernel. To compare
two shapes, Triton constructs such a tuple too, which would take another fifth; most shapes are the same object here.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.language.semantic import TritonSemantic

_construct_tensor = tl.tensor.__init__
_construct_block_type = tl.block_type.__init__
_broadcast = TritonSemantic.broadcast_impl_value
_tensors: dict[tuple[int, ...], dict[str, Any]] = {}
_block_types: dict[tuple[int, ...], tuple[dict[str, Any], str]] = {}


def construct_tensor(self: tl.tensor, handle: Any, type: tl.dtype) -> None:
    """``tl.tensor.__init__``."""
    key = tuple(type.shape.values) if type.is_block() else ()
    known = _tensors.get(key)
    if known is None:
        _construct_tensor(self, handle, type)
        _tensors[key] = {name: value for name, value in vars(self).items() if name not in ("handle", "type", "dtype")}
        return
    vars(self).update(known)
    self.handle, self.type, self.dtype = handle, type, type.scalar


def construct_block_type(self: tl.block_type, element_ty: tl.dtype, shape: Any) -> None:
    """``tl.block_type.__init__``."""
    values = shape.values if isinstance(shape, tl.tuple) else shape
    key = tuple([value.value if isinstance(value, tl.constexpr) else value for value in values])
    known = _block_types.get(key)
    if known is None:
        # True == 1 finds the same key, but NumPy takes no bool in a shape.
        _construct_block_type(self, element_ty, [int(size) if isinstance(size, bool) else size for size in key])
        kept = {name: value for name, value in vars(self).items() if name not in ("element_ty", "name")}
        _block_types[key] = kept, self.name.removesuffix(f"{element_ty}>")
        return
    vars(self).update(known[0])
    self.element_ty, self.name = element_ty, f"{known[1]}{element_ty}>"


def _same_shape(left: tl.block_type, right: tl.block_type) -> bool:
    return left.shape is right.shape or left.shape.values == right.shape.values


def equal_block_types(self: tl.block_type, other: Any) -> bool:
    """``tl.block_type.__eq__``."""
    return isinstance(other, tl.block_type) and self.element_ty == other.element_ty and _same_shape(self, other)


def broadcast_impl_value(self: Any, lhs: tl.tensor, rhs: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """``TritonSemantic.broadcast_impl_value``, with its own path for two blocks of the same rank that fit."""
    left, right = lhs.type, rhs.type
    if left.is_block() and right.is_block():
        if _same_shape(left, right):
            return lhs, rhs
        pairs = list(zip(left.shape.values, right.shape.values, strict=False))
        if len(left.shape.values) == len(right.shape.values) and all(a == b or 1 in (a, b) for a, b in pairs):
            wanted = [b if a == 1 else a for a, b in pairs]
            return _broadcast_to(self, lhs, wanted), _broadcast_to(self, rhs, wanted)
    broadcast: tuple[tl.tensor, tl.tensor] = _broadcast(self, lhs, rhs)
    return broadcast


def _broadcast_to(semantic: Any, block: tl.tensor, shape: list[int]) -> tl.tensor:
    if block.type.shape.values == shape:
        return block
    handle = semantic.builder.create_broadcast(block.handle, shape)
    return semantic.tensor(handle, tl.block_type(block.type.scalar, shape))


PATCHES = [
    (tl.tensor, "__init__", construct_tensor),
    (tl.block_type, "__init__", construct_block_type),
    (tl.block_type, "__eq__", equal_block_types),
    (TritonSemantic, "broadcast_impl_value", broadcast_impl_value),
]
