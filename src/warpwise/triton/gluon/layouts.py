"""Layouts of the results of reshape, permute, join and split, as Triton's compiler infers them; no GPU is needed."""

from __future__ import annotations

import functools
import math
from typing import Any

from triton._C.libtriton import gluon_ir, ir
from triton.experimental.gluon import language as gl

from warpwise.cuda.errors import CompileError

_ANY = (gl.AutoLayout, gl.CoalescedLayout)


@functools.cache
def _context() -> Any:
    context = ir.context()
    ir.load_dialects(context)
    return context


class _Scope:
    """An empty MLIR module for sm_90; Python must hold the module while values of it are used."""

    def __init__(self, num_warps: int = 4) -> None:
        self.builder = gluon_ir.GluonOpBuilder(_context())
        self.module = self.builder.create_module()
        for name, value in (("num-warps", num_warps), ("num-ctas", 1), ("threads-per-warp", 32)):
            self.module.set_attr(f"ttg.{name}", self.builder.get_int32_attr(value))
        self.module.set_attr("ttg.target", self.builder.get_string_attr("cuda:90"))

    def parameter(self, kind: Any) -> Any:
        """Return the parameter, of type ``kind``, of a new function; the builder then appends to its body."""
        signature = self.builder.get_function_ty([kind], [])
        function = self.builder.get_or_insert_function(self.module, "f", signature, "public", False)
        self.module.push_back(function)
        self.builder.set_insertion_point_to_start(function.add_entry_block())
        return function.args(0)


class LayoutInference:
    """Builds one operation of Triton's IR on a value of the given layout, and reads the layout of its result."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def tensor(self, operation: str, shape: list[int], layout: Any, num_warps: int, *arguments: Any) -> Any:
        """Return the layout of the result of ``create_<operation>(tensor, *arguments)``."""
        if isinstance(layout, _ANY):
            return gl.AutoLayout()
        key = (operation, tuple(shape), repr(layout), num_warps, repr(arguments))
        if key not in self._known:
            scope = _Scope(num_warps)
            builder = scope.builder
            kind = builder.get_distributed_ty(builder.get_float_ty(), shape, layout._to_ir(builder))
            value = scope.parameter(kind)
            operands = (value, value) if operation == "join" else (value,)
            result = getattr(builder, f"create_{operation}")(*operands, *arguments)
            result = result[0] if isinstance(result, (tuple, list)) else result
            self._known[key] = builder.get_gluon_layout_from_tensor(result)
        return self._known[key]

    def transposed(self, shape: list[int], alloc_shape: list[int], layout: Any, order: list[int]) -> Any:
        """Return the layout of a view of shared memory whose dimensions are permuted."""
        key = ("memdesc_trans", tuple(shape), tuple(alloc_shape), repr(layout), tuple(order))
        if key not in self._known:
            scope = _Scope()
            builder = scope.builder
            kind = builder.get_shared_mem_desc_ty(builder.get_half_ty(), shape, layout._to_ir(builder), alloc_shape)
            result = builder.create_memdesc_trans(scope.parameter(kind), order)
            self._known[key] = builder.get_gluon_layout_from_memdesc(result)
        return self._known[key]

    @staticmethod
    def linear(layout: Any, shape: list[int]) -> Any:
        """Return the linear layout equal to ``layout`` on a block of ``shape``."""
        scope = _Scope()
        return scope.builder.to_linear_layout(layout._to_ir(scope.builder), shape)

    @staticmethod
    def bank_conflicts(registers: Any, shared: Any, shape: list[int], bits: int) -> int:
        """Return the excess wavefronts of each access of shared memory, of elements of ``bits``."""
        scope = _Scope()
        layouts = registers._to_ir(scope.builder), shared._to_ir(scope.builder)
        return int(scope.builder.get_shared_bank_conflicts(*layouts, shape, bits))


def check_warps(layout: Any, num_warps: int) -> None:
    """Raise ``CompileError`` if the layout distributes a block over another number of warps than the kernel has."""
    while hasattr(layout, "parent"):
        layout = layout.parent
    warps = getattr(layout, "warps_per_cta", None)
    if warps is not None and math.prod(warps) != num_warps:
        raise CompileError(
            f"the layout has {math.prod(warps)} warps (warps_per_cta={list(warps)}), the kernel runs with "
            f"num_warps={num_warps}"
        )
