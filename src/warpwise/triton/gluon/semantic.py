"""Gluon's semantic layer over the interpreter's builder: types carry layouts, and mismatched layouts are errors."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import triton.language as tl
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language import _core, _layouts
from triton.experimental.gluon.language._semantic import GluonSemantic
from triton.experimental.gluon.language.nvidia.hopper import tma

from warpwise.cuda.errors import CompileError
from warpwise.triton import reductions
from warpwise.triton.compat import Patch, TritonSemantic, bound_builtins
from warpwise.triton.gluon.builder import GluonBuilder
from warpwise.triton.gluon.layouts import check_warps

_PACKAGE = "triton.experimental.gluon.language"
_ANY = (gl.AutoLayout, gl.CoalescedLayout)


class Semantic(GluonSemantic):
    """Gluon's semantic layer; layouts of results that Triton's IR infers come from ``LayoutInference``."""

    builder: GluonBuilder

    def _distributed(self, value: tl.tensor, layout: Any) -> tl.tensor:
        return tl.tensor(value.handle, gl.distributed_type(value.type.scalar, list(value.shape), layout))

    def _inferred(self, value: tl.tensor, operation: str, source: tl.tensor, *arguments: Any) -> tl.tensor:
        """Return ``value``, the result of ``operation`` on ``source``, with its layout."""
        if not value.type.is_block() or not isinstance(source.type, gl.distributed_type):
            return value
        shape = [int(size) for size in source.shape]
        layout = self.builder.layouts.tensor(
            operation, shape, source.type.layout, self.builder.context_warps, *arguments
        )
        return self._distributed(value, layout)

    def expand_dims(self, input: tl.tensor, axis: int) -> tl.tensor:
        if not isinstance(input.type, gl.distributed_type):
            return TritonSemantic.expand_dims(self, input, axis)
        layout = input.type.layout
        axis = axis + len(input.shape) + 1 if axis < 0 else axis
        if not isinstance(layout, _ANY):
            if not isinstance(layout, gl.SliceLayout) or layout.dim != axis:
                raise CompileError(f"expand_dims of axis {axis}: expected gl.SliceLayout({axis}, ...), got {layout}")
            layout = layout.parent
        return self._distributed(TritonSemantic.expand_dims(self, input, axis), layout)

    def broadcast_impl_shape(self, input: tl.tensor, shape: Any) -> tl.tensor:
        if not isinstance(input.type, gl.distributed_type):
            return TritonSemantic.broadcast_impl_shape(self, input, shape)
        return super().broadcast_impl_shape(input, shape)

    def broadcast_impl_value(self, lhs: tl.tensor, rhs: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
        # The slices that a reduction combines have no layout.
        if any(value.type.is_block() and not isinstance(value.type, gl.distributed_type) for value in (lhs, rhs)):
            return TritonSemantic.broadcast_impl_value(self, lhs, rhs)
        return super().broadcast_impl_value(lhs, rhs)

    def join(self, a: tl.tensor, b: tl.tensor) -> tl.tensor:
        a, b = self.broadcast_impl_value(a, b)
        return self._inferred(TritonSemantic.join(self, a, b), "join", a)

    def split(self, a: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
        left, right = TritonSemantic.split(self, a)
        return self._inferred(left, "split", a), self._inferred(right, "split", a)

    def permute(self, input: tl.tensor, dims: Sequence[int]) -> tl.tensor:
        order = [int(getattr(axis, "value", axis)) for axis in dims]
        return self._inferred(TritonSemantic.permute(self, input, order), "trans", input, order)

    def reshape(self, input: tl.tensor, dst_shape: Sequence[int], can_reorder: bool) -> tl.tensor:
        shape = [int(getattr(size, "value", size)) for size in dst_shape]
        return self._inferred(TritonSemantic.reshape(self, input, shape, False), "reshape", input, shape, False)

    def splat(self, value: tl.tensor, shape: Sequence[int], layout: Any = None) -> tl.tensor:
        if layout is None:
            return TritonSemantic.splat(self, value, shape)
        check_warps(layout, self.builder.context_warps)
        return super().splat(value, shape, layout)

    def arange(self, start: int, end: int, layout: Any) -> tl.tensor:
        check_warps(layout, self.builder.context_warps)
        return super().arange(start, end, layout)

    def convert_layout(self, value: tl.tensor, layout: Any, assert_trivial: bool = False) -> tl.tensor:
        check_warps(layout, self.builder.context_warps)
        return super().convert_layout(value, layout, assert_trivial)

    def shared_load(self, mem_desc: Any, layout: Any) -> tl.tensor:
        check_warps(layout, self.builder.context_warps)
        return super().shared_load(mem_desc, layout)

    def memdesc_index(self, mem_desc: Any, index: Any) -> Any:
        return super().memdesc_index(mem_desc, int(index))

    def memdesc_trans(self, mem_desc: Any, order: list[int]) -> Any:
        rank = getattr(mem_desc.layout, "rank", None) or len(getattr(mem_desc.layout, "order", order))
        if rank != len(order):
            raise CompileError(
                f"permute of shared memory of {len(order)} dimensions with a layout of {rank}: index a stage first"
            )
        shapes = list(mem_desc.shape), list(mem_desc.type.alloc_shape)[-rank:]
        layout = self.builder.layouts.transposed(*shapes, mem_desc.layout, order)
        return self._view(mem_desc, "memdesc_trans", [mem_desc.shape[axis] for axis in order], order, layout)

    def memdesc_reshape(self, mem_desc: Any, shape: list[int]) -> Any:
        if math.prod(shape) != mem_desc.numel:
            raise CompileError(f"reshape of shared memory of shape {list(mem_desc.shape)} to {shape}")
        return self._view(mem_desc, "memdesc_reshape", shape, shape, mem_desc.layout)

    def _view(self, source: Any, operation: str, shape: list[int], argument: list[int], layout: Any) -> Any:
        kind = gl.shared_memory_descriptor_type(source.dtype, list(shape), layout, list(shape))
        handle = getattr(self.builder, f"create_{operation}")(source.handle, argument)
        handle.type = kind
        return gl.shared_memory_descriptor(handle, **vars(kind))

    def to_linear_layout(self, layout: Any, shape: Sequence[int]) -> Any:
        if isinstance(layout, (gl.AutoLayout, gl.DistributedLinearLayout)):
            return layout
        return self.builder.layouts.linear(layout, list(shape))

    def num_warps(self, generator: Any) -> int:
        return self.builder.context_warps

    def warp_specialize(
        self, functions_and_args: Any, worker_num_warps: Sequence[int], worker_num_regs: Sequence[int], generator: Any
    ) -> Any:
        workers = len(functions_and_args) - 1
        if len(worker_num_warps) != workers or len(worker_num_regs) != workers:
            raise CompileError(
                f"gl.warp_specialize: {workers} worker partitions, {len(worker_num_warps)} numbers of warps and "
                f"{len(worker_num_regs)} numbers of registers"
            )
        bodies = [functools.partial(function, *arguments) for function, arguments in functions_and_args]
        return self.builder.warp_specialize(bodies, list(worker_num_warps))

    def num_ctas(self) -> int:
        return 1

    def make_tensor_descriptor(
        self, base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: str, layout: Any = None
    ) -> Any:
        """Return the descriptor of a launch argument."""
        made = TritonSemantic.make_tensor_descriptor(self, base, shape, strides, block_shape, padding_option)
        if layout is None:
            return made
        return tma.tensor_descriptor(made.handle, list(shape), list(made.strides), made.block_type, layout)


def _reduce(semantic: Semantic) -> Callable[..., Any]:
    def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **ignored: Any) -> Any:
        axis = getattr(axis, "value", axis)
        blocks = input if isinstance(input, (tuple, tl.tuple)) else (input,)
        source = blocks[0].type
        result = reductions.reduce(input, axis, combine_fn, keep_dims)
        if not isinstance(source, gl.distributed_type) or axis is None:
            return result
        layout = source.layout
        axis = axis + len(source.shape) if axis < 0 else axis
        if not isinstance(layout, _ANY) and not getattr(keep_dims, "value", keep_dims):
            layout = gl.SliceLayout(axis, layout)
        return _with_layout(semantic, result, layout)

    return reduce


def _scan(semantic: Semantic) -> Callable[..., Any]:
    def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **ignored: Any) -> Any:
        blocks = input if isinstance(input, (tuple, tl.tuple)) else (input,)
        source = blocks[0].type
        result = reductions.associative_scan(input, axis, combine_fn, reverse)
        return _with_layout(semantic, result, source.layout) if isinstance(source, gl.distributed_type) else result

    return associative_scan


def _with_layout(semantic: Semantic, result: Any, layout: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_with_layout(semantic, each, layout) for each in result)
    return semantic._distributed(result, layout) if result.type.is_block() else result


def overrides(semantic: Semantic) -> dict[str, Callable[..., Any]]:
    """Return replacements of functions, by name, that differ from those of ``triton.language``."""
    return {"reduce": _reduce(semantic), "associative_scan": _scan(semantic)}


def gluon_patches(semantic: Semantic, replaced: dict[str, Callable[..., Any]]) -> list[Patch]:
    """Return patches (object, attribute, value) that bind Gluon's functions to ``semantic``."""
    modules = [
        module for name, module in list(sys.modules.items()) if name == _PACKAGE or name.startswith(_PACKAGE + ".")
    ]
    found: list[Patch] = []
    for owner in (*modules, _core.shared_memory_descriptor):
        found += bound_builtins(owner, semantic)
    found += [(module, name, function) for module in (gl, _core) for name, function in replaced.items()
              if hasattr(module, name)]  # fmt: skip
    for kind in (_core.distributed_type, _core.shared_memory_descriptor_type):
        found.append((kind, "to_ir", lambda type, builder: type))
    found.append((tma.tensor_descriptor_type, "_to_ir", lambda type, builder: type))
    layouts = [value for value in vars(_layouts).values() if isinstance(value, type) and "_to_ir" in vars(value)]
    return found + [(each, "_to_ir", _layout_to_ir(each)) for each in layouts]


def _layout_to_ir(kind: type) -> Callable[[Any, Any], Any]:
    original = vars(kind)["_to_ir"]
    return lambda layout, builder: layout if isinstance(builder, GluonBuilder) else original(layout, builder)
