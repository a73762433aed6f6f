"""Operations of the interpreter: Triton's ``InterpreterBuilder`` with checked memory accesses and GPU rounding.

Differences from Triton's builder: loads, stores and atomics go through ``Memory``; bfloat16 and float8 are computed in
float32 and rounded to nearest even (Triton's operates on their bit patterns); ``maximum`` ignores NaN by default.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from warpwise.cuda.errors import KernelAssertion, OutOfBounds, UnsupportedFeature
from warpwise.triton import addresses, inline_assembly, libdevice, numerics
from warpwise.triton.atomics import read_modify_write
from warpwise.triton.compat import InterpreterBuilder, TensorHandle, ir, numpy_dtype
from warpwise.triton.directed_rounding import fused
from warpwise.triton.findings import Recorder
from warpwise.triton.memory import Memory
from warpwise.triton.races import AccessTracker
from warpwise.triton.releases import synchronising
from warpwise.triton.scaled_dot import decoded
from warpwise.triton.special_values import SpecialValues
from warpwise.triton.undefined import lanes_of, mark, pass_on_elementwise, pass_on_undefined_lanes, report

Array = np.ndarray[Any, np.dtype[Any]]
_RELEASES = (ir.MEM_SEMANTIC.RELEASE, ir.MEM_SEMANTIC.ACQUIRE_RELEASE)


def values_of(handle: TensorHandle) -> Array:
    """Return the handle's values as a NumPy array; bfloat16 and float8 are decoded to float32."""
    name = handle.dtype.scalar.name
    if name in numerics.ENCODED and handle.data.dtype.kind == "u":
        return numerics.decode(handle.data, name)
    return handle.data


def handle_of(values: Array, dtype: tl.dtype, toward_zero: bool = False) -> TensorHandle:
    """Return a handle of ``values`` rounded to the scalar type ``dtype``."""
    dtype = dtype.scalar
    if dtype.name in numerics.ENCODED:
        return TensorHandle(numerics.encode(np.asarray(values), dtype.name, toward_zero), dtype)
    wanted = numpy_dtype(dtype)
    values = np.asarray(values)
    if values.dtype.kind == "f" and wanted in numerics.LIMITS:
        return TensorHandle(numerics.to_integer(values, wanted), dtype)
    return TensorHandle(values if values.dtype == wanted else values.astype(wanted), dtype)


@synchronising
@pass_on_undefined_lanes
class Builder(InterpreterBuilder):
    """The builder that ``triton.language`` calls while a kernel is interpreted."""

    def __init__(self) -> None:
        super().__init__()
        self.options: Any = _options(self.options)
        self.memory: Memory = None  # type: ignore[assignment]  # set at each launch
        self.tracker: AccessTracker = None  # type: ignore[assignment]
        self.recorder: Recorder = None  # type: ignore[assignment]
        self.special: SpecialValues | None = None  # set if the launch looks for NaN
        self.grid_dim = self.grid_idx = (0, 0, 0)
        self.num_warps = 4
        self.latest_scalar_atomic: tuple[TensorHandle | None, bool] = (None, False)  # result; has release semantics
        self.finds_undefined = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("create_", "get_")):
            raise UnsupportedFeature(
                f"the CPU interpreter does not support {name.removeprefix('create_')}; run on a GPU"
            )
        raise AttributeError(name)

    # Constants: some Triton versions do not define all of them.

    def get_all_ones_value(self, dtype: tl.dtype) -> TensorHandle:
        wanted = numpy_dtype(dtype)
        ones = np.ones(1, wanted) if wanted == np.bool_ else np.full(1, -1, np.int64).astype(wanted)
        return TensorHandle(ones, dtype.scalar)

    def get_bf16(self, value: float) -> TensorHandle:
        return handle_of(np.array([value], dtype=np.float32), tl.bfloat16)

    def get_fp8e4nv(self, value: float) -> TensorHandle:
        return handle_of(np.array([value], dtype=np.float32), tl.float8e4nv)

    def get_fp8e5(self, value: float) -> TensorHandle:
        return handle_of(np.array([value], dtype=np.float32), tl.float8e5)

    def get_null_value(self, dtype: tl.dtype) -> TensorHandle:
        return TensorHandle(np.zeros(1, dtype=numpy_dtype(dtype)), dtype.scalar)

    def create_splat(self, result: tl.dtype, arg: TensorHandle) -> TensorHandle:
        return TensorHandle(np.full(result.shape, arg.data.reshape(-1)[0], dtype=arg.data.dtype), arg.dtype.scalar)

    def create_unsplat(self, arg: TensorHandle) -> TensorHandle:
        return TensorHandle(arg.data.reshape(-1)[:1], arg.dtype.scalar)

    def create_bitcast(self, src: TensorHandle, dtype: tl.dtype) -> TensorHandle:
        return TensorHandle(src.data.view(numpy_dtype(dtype)), dtype.scalar)

    create_int_to_ptr = addresses.int_to_ptr
    create_ptr_to_int = create_bitcast

    # Arithmetic.

    def binary_op(self, lhs: TensorHandle, rhs: TensorHandle, op: Callable[..., Array]) -> TensorHandle:
        left, right = values_of(lhs), values_of(rhs)
        if left.dtype == np.bool_ and right.dtype == np.bool_ and op in (np.add, np.subtract, np.multiply):
            # int1 is a 1-bit integer: its arithmetic is modulo 2.
            result = (op(left.astype(np.int8), right.astype(np.int8)) & 1).astype(np.bool_)
        else:
            result = op(left, right)
        if result.dtype == np.bool_:
            return TensorHandle(result, tl.int1)
        return self._noted(op.__name__, (left, right), handle_of(result, lhs.dtype))

    def unary_op(self, arg: TensorHandle, op: Callable[..., Array]) -> TensorHandle:
        values = values_of(arg)
        return self._noted(op.__name__, (values,), handle_of(op(values), arg.dtype))

    def _noted(self, name: str, operands: tuple[Array, ...], result: TensorHandle) -> TensorHandle:
        """Return ``result``, noted if the launch looks for NaN."""
        if self.special is not None:
            self.special.note(name, operands, values_of(result), result.dtype.scalar.name)
        return result

    def ternary_op(
        self, lhs: TensorHandle, rhs: TensorHandle, other: TensorHandle, op: Callable[..., Array]
    ) -> TensorHandle:
        return handle_of(op(values_of(lhs), values_of(rhs), values_of(other)), other.dtype)

    def create_select(self, cond: TensorHandle, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        chosen = np.where(cond.data, lhs.data, rhs.data)
        return TensorHandle(chosen.astype(numpy_dtype(rhs.dtype), copy=False), rhs.dtype.scalar)

    def create_fma(self, x: TensorHandle, y: TensorHandle, z: TensorHandle) -> TensorHandle:
        operands = values_of(x), values_of(y), values_of(z)
        wide = libdevice.fma(*operands) if operands[2].dtype == np.float64 else fused(*operands)
        return self._noted("fma", operands, handle_of(wide, z.dtype))

    def create_minnumf(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        return self.binary_op(lhs, rhs, np.fmax)

    def create_clampf(
        self, arg: TensorHandle, low: TensorHandle, high: TensorHandle, propagate_nans: Any
    ) -> TensorHandle:
        if propagate_nans == ir.PROPAGATE_NAN.NONE:
            return self.create_minnumf(self.create_maxnumf(arg, low), high)
        return self.ternary_op(arg, low, high, np.clip)

    def create_rsqrt(self, arg: TensorHandle) -> TensorHandle:
        return self.unary_op(arg, libdevice.rsqrt)

    def create_fneg(self, arg: TensorHandle) -> TensorHandle:
        return self.unary_op(arg, np.negative)

    def create_erf(self, arg: TensorHandle) -> TensorHandle:
        return self.unary_op(arg, libdevice.erf)

    def create_umulhi(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        bits = lhs.data.dtype.itemsize * 8
        mask = (1 << bits) - 1
        if bits < 64:
            wide = (lhs.data.astype(np.uint64) & np.uint64(mask)) * (rhs.data.astype(np.uint64) & np.uint64(mask))
            return TensorHandle((wide >> np.uint64(bits)).astype(lhs.data.dtype), lhs.dtype.scalar)
        left, right = np.broadcast_arrays(lhs.data, rhs.data)
        high = [((int(a) & mask) * (int(b) & mask)) >> 64 for a, b in zip(left.ravel(), right.ravel(), strict=True)]
        result = np.array(high, dtype=np.uint64).astype(lhs.data.dtype).reshape(left.shape)
        return TensorHandle(result, lhs.dtype.scalar)

    def create_ashr(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        signed = np.dtype(f"int{lhs.data.dtype.itemsize * 8}")
        shifted = np.right_shift(lhs.data.astype(signed), rhs.data.astype(signed))
        return TensorHandle(shifted.astype(lhs.data.dtype), lhs.dtype.scalar)

    def create_lshr(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        unsigned = np.dtype(f"uint{lhs.data.dtype.itemsize * 8}")
        shifted = np.right_shift(lhs.data.astype(unsigned), rhs.data.astype(unsigned))
        return TensorHandle(shifted.astype(lhs.data.dtype), lhs.dtype.scalar)

    def cast_impl(self, src: TensorHandle, dst_type: tl.dtype) -> TensorHandle:
        values = values_of(src)
        return self._noted(dst_type.scalar.name, (values,), handle_of(values, dst_type))

    def create_fp_to_fp(self, src: TensorHandle, dst_type: tl.dtype, rounding_mode: Any) -> TensorHandle:
        toward_zero = rounding_mode == ir.ROUNDING_MODE.RTZ
        values = values_of(src)
        if toward_zero and dst_type.scalar.name == "fp16":
            nearest = values.astype(np.float16)
            beyond = np.abs(nearest.astype(np.float64)) > np.abs(values.astype(np.float64))
            return TensorHandle(np.where(beyond, np.nextafter(nearest, np.float16(0)), nearest), dst_type.scalar)
        return self._noted(dst_type.scalar.name, (values,), handle_of(values, dst_type, toward_zero))

    def create_dot(
        self, a: TensorHandle, b: TensorHandle, d: TensorHandle, input_precision: Any, max_num_imprecise_acc: Any
    ) -> TensorHandle:
        left, right, addend = values_of(a), values_of(b), values_of(d)
        # Integers below 2**53 are exact in float64. A BLAS sums in an order that depends on the position in the block:
        # rounded from float64 to float32, equal rows and columns have equal results, as on a GPU.
        product = np.matmul(left.astype(np.float64), right.astype(np.float64))
        if addend.dtype.kind in "iu":
            return TensorHandle(product.astype(np.int64).astype(addend.dtype) + addend, d.dtype.scalar)
        result = handle_of((product if addend.dtype == np.float64 else product.astype(np.float32)) + addend, d.dtype)
        if self.special is not None:
            self.special.note_reduction("dot", (left, right, addend), values_of(result), d.dtype.scalar.name)
        return result

    def create_dot_scaled(
        self,
        a: TensorHandle,
        a_scale: TensorHandle | None,
        a_format: Any,
        b: TensorHandle,
        b_scale: TensorHandle | None,
        b_format: Any,
        fast_math: bool,
        a_k_pack: bool,
        b_k_pack: bool,
        d: TensorHandle,
    ) -> TensorHandle:
        left, right = decoded(a, a_scale, -1, a_k_pack), decoded(b, b_scale, -2, b_k_pack)
        return self.create_dot(left, right, d, None, 0)

    def create_histogram(self, data: TensorHandle, bins: int, mask: TensorHandle | None) -> TensorHandle:
        values = data.data.ravel()
        counted = (values >= 0) & (values < bins)
        if mask is not None:
            counted &= mask.data.ravel()
        return TensorHandle(np.bincount(values[counted].astype(np.int64), minlength=bins).astype(np.int32), tl.int32)

    def create_extern_elementwise(
        self, lib_name: str, lib_path: str, symbol: str, arguments: list[TensorHandle], result: tl.dtype, pure: bool
    ) -> TensorHandle:
        operands = tuple(values_of(argument) for argument in arguments)
        name = symbol.removeprefix("__nv_")
        return self._noted(name, operands, handle_of(libdevice.call(symbol, list(operands)), result))

    def create_inline_asm(
        self, assembly: str, constraints: str, operands: list[Any], types: list[tl.dtype], pure: bool, pack: int
    ) -> inline_assembly.Results:
        results = inline_assembly.run(assembly, constraints, operands, types, pack)
        values = tuple(values_of(operand) for operand in operands)
        for result in results.handles:
            self._noted("inline_asm", values, pass_on_elementwise(operands, result))
        return results

    # Assertions.

    def create_assert(self, condition: TensorHandle, message: str, what: str = "device_assert") -> None:
        failed = ~np.asarray(condition.data, dtype=bool)
        if failed.any():
            self.recorder.add(
                KernelAssertion,
                f"{what} failed: {message}",
                what,
                np.argwhere(failed)[0],
                count=int(failed.sum()),
            )

    def create_assume(self, condition: TensorHandle) -> None:
        self.create_assert(condition, "the condition is false", "tl.assume")

    # Memory.

    def create_load(self, ptr: TensorHandle, *policy: Any) -> TensorHandle:
        return self._load(ptr, None, None, bool(policy and policy[-1]))

    def create_masked_load(
        self, ptrs: TensorHandle, mask: Any, other: TensorHandle | None, *policy: Any, **named: Any
    ) -> TensorHandle:
        volatile = named.get("is_volatile", policy[-1] if policy else False)
        return self._load(ptrs, mask, other, bool(volatile))

    def _load(self, ptrs: TensorHandle, mask: Any, other: TensorHandle | None, volatile: bool) -> TensorHandle:
        dtype = ptrs.get_element_ty()
        active = None if mask is None else _mask_of(mask, ptrs)
        self._check_defined(ptrs, mask, active, "read")
        data = self.memory.load(ptrs.data, active, None if other is None else other.data, numpy_dtype(dtype), volatile)
        result = TensorHandle(data, dtype)
        if active is None or not self.finds_undefined or active.all():
            return result
        if other is None:
            # A single lane is defined: Triton drops other=0 there, so that it equals no other.
            return result if active.size == 1 else mark(result, ~active, self.recorder.sources.site())
        found = lanes_of(other)
        return result if found is None else mark(result, found.lanes & ~active, found.site)

    def _check_defined(self, ptrs: TensorHandle, mask: Any, active: Array | None, what: str) -> None:
        """Report an address or a mask that depends on an undefined lane."""
        report(self.recorder, mask, None, what, f"the mask of a {what} depends on an undefined value")
        report(self.recorder, ptrs, active, what, f"the address of a {what} depends on an undefined value")

    def _check_stored(self, ptrs: TensorHandle, value: TensorHandle, active: Array | None, what: str) -> None:
        """Report a stored value that depends on an undefined lane."""
        if lanes_of(value) is not None:
            target = self.memory.name_of(ptrs.data)
            report(self.recorder, value, active, what, f"{what} of an undefined value to {target}")

    def create_store(self, ptr: TensorHandle, val: TensorHandle, *policy: Any) -> None:
        self._check_defined(ptr, None, None, "write")
        self._store(ptr, val, None)

    def create_masked_store(
        self, ptrs: TensorHandle, value: TensorHandle, mask: Any, *policy: Any, **named: Any
    ) -> None:
        active = _mask_of(mask, ptrs)
        self._check_defined(ptrs, mask, active, "write")
        self._store(ptrs, value, active)

    def _store(self, ptrs: TensorHandle, value: TensorHandle, active: Array | None) -> None:
        if self.special is not None:
            self.special.stored(values_of(value), active, value.dtype.scalar.name)
        self.memory.store(ptrs.data, value.data, active, numpy_dtype(ptrs.get_element_ty()))
        self._check_stored(ptrs, value, active, "write")

    def create_descriptor_store(self, desc: Any, value: TensorHandle, indices: list[TensorHandle]) -> None:
        if self._valid_start(indices, "store"):
            super().create_descriptor_store(desc, value, indices)

    def create_descriptor_reduce(self, kind: Any, desc: Any, value: TensorHandle, indices: list[TensorHandle]) -> None:
        """Apply ``descriptor.atomic_add`` (min, max, and, or, xor) to the elements of the box inside the tensor."""
        if self._valid_start(indices, "reduction"):
            ptrs, mask = desc.materialize_pointers(indices)
            read_modify_write(self.memory, kind.name, ptrs.data, value.data, None, mask, ptrs.get_element_ty().scalar)

    def _valid_start(self, indices: list[TensorHandle], what: str) -> bool:
        """Report a box that starts at a negative coordinate, where TMA traps. Past the tensor's end TMA clips a box."""
        first = [int(index.data.item()) for index in indices]
        if min(first) < 0:
            self.recorder.add(
                OutOfBounds,
                f"{what} of a box that starts at {first}: only a load may start at a negative coordinate",
                "write",
                hint=f"On a GPU the TMA {what} raises an illegal instruction error.",
            )
        return min(first) >= 0

    def create_atomic_rmw(
        self, operation: Any, ptr: TensorHandle, val: TensorHandle, mask: TensorHandle, sem: Any, scope: Any
    ) -> TensorHandle:
        report(self.recorder, mask, None, "atomic", "the mask of an atomic depends on an undefined value")
        return self._atomic(operation.name, ptr, val, None, _mask_of(mask, ptr), sem, scope)

    def create_atomic_cas(
        self, ptr: TensorHandle, cmp: TensorHandle, val: TensorHandle, sem: Any, scope: Any
    ) -> TensorHandle:
        return self._atomic("CAS", ptr, val, cmp, None, sem, scope)

    def create_atomic_load(self, ptr: TensorHandle, mask: TensorHandle, sem: Any, scope: Any) -> TensorHandle:
        result = self._load(ptr, mask, None, True)
        self._record_ordering(sem, scope)
        return result

    def create_atomic_store(
        self, ptr: TensorHandle, val: TensorHandle, mask: TensorHandle, sem: Any, scope: Any
    ) -> None:
        self._atomic("XCHG", ptr, val, None, _mask_of(mask, ptr), sem, scope)

    def _atomic(
        self,
        name: str,
        ptr: TensorHandle,
        val: TensorHandle,
        cmp: TensorHandle | None,
        mask: Array | None,
        sem: Any,
        scope: Any,
    ) -> TensorHandle:
        self._check_defined(ptr, None, mask, "atomic")
        self._check_stored(ptr, val, mask, "atomic")
        dtype = ptr.get_element_ty().scalar
        bits = np.broadcast_to(val.data, ptr.data.shape)
        expected = None if cmp is None else np.broadcast_to(cmp.data, ptr.data.shape)
        old = read_modify_write(self.memory, name, ptr.data, bits, expected, mask, dtype)
        self._record_ordering(sem, scope)
        result = TensorHandle(old, dtype)
        self.latest_scalar_atomic = (result if name != "CAS" and old.size == 1 else None, sem in _RELEASES)
        return result

    def _record_ordering(self, sem: Any, scope: Any) -> None:
        if sem != ir.MEM_SEMANTIC.RELAXED and scope != ir.MEM_SYNC_SCOPE.CTA:
            self.tracker.record_ordering_atomic(sem != ir.MEM_SEMANTIC.ACQUIRE, sem != ir.MEM_SEMANTIC.RELEASE)


def _mask_of(mask: Any, ptrs: TensorHandle) -> Array:
    """Broadcast a mask to the pointers' shape. Triton passes a handle or, for a descriptor, an array."""
    data = mask.data if isinstance(mask, TensorHandle) else mask
    return np.broadcast_to(np.asarray(data, dtype=bool), ptrs.data.shape)


def _options(defaults: Any) -> Any:
    """Enable ``device_assert``. Overflow is not checked here: a wrong address is reported when it is accessed."""
    return types.SimpleNamespace(**{**vars(defaults), "debug": True, "sanitize_overflow": False})
