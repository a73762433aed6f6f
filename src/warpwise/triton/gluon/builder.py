"""Operations of Gluon's IR in NumPy: shared memory, async copies, TMA, mbarriers, warpgroup_mma."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from warpwise.cuda.errors import CompileError, UnsupportedFeature
from warpwise.triton.builder import Builder
from warpwise.triton.compat import TensorHandle, numpy_dtype
from warpwise.triton.gluon.layouts import LayoutInference
from warpwise.triton.gluon.partitions import Partitions
from warpwise.triton.gluon.shared import AsyncOperation, SharedMemory, SharedView

Array = np.ndarray[Any, np.dtype[Any]]
_INSTEAD = {
    "tmem": "use hopper.warpgroup_mma, whose accumulator is in registers",
    "tcgen05": "use hopper.warpgroup_mma",
    "async_copy_mbarrier": "use async_copy.commit_group and async_copy.wait_group",
    "amd": "use the operations of gluon.language.nvidia",
    "buffer": "use gl.load and gl.store",
    "async_tma_gather": "use tma.async_copy_global_to_shared for each row",
    "async_tma_scatter": "use tma.async_copy_shared_to_global for each row",
}


class GluonBuilder(Builder):
    """The builder that ``triton.experimental.gluon.language`` calls while a kernel is interpreted."""

    def __init__(self) -> None:
        super().__init__()
        self.shared: SharedMemory = None  # type: ignore[assignment]  # set for each program
        self.layouts = LayoutInference()
        self.partitions = Partitions()
        self.partition_warps: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        plain = name.removeprefix("create_").removeprefix("get_")
        instead = next((text for word, text in _INSTEAD.items() if word in plain), "run on a GPU")
        raise UnsupportedFeature(f"Gluon's {plain} is not supported on the CPU: {instead}")

    def set_grid_idx(self, x: int, y: int, z: int) -> None:
        super().set_grid_idx(x, y, z)
        self.shared = SharedMemory(self.recorder, self.partitions)

    # Tensors in registers. A layout changes which thread holds an element, not its value.

    def create_broadcast(self, arg: TensorHandle, shape: Any) -> TensorHandle:
        return super().create_broadcast(arg, getattr(shape, "shape", shape))

    def create_convert_layout(self, type: Any, value: TensorHandle) -> TensorHandle:
        return value

    def create_set_auto_layout(self, layout: Any, value: TensorHandle) -> TensorHandle:
        return value

    def is_convert_layout_trivial(self, type: Any, value: TensorHandle) -> bool:
        return True

    def get_shared_bank_conflicts(self, registers: Any, shared: Any, shape: list[int], bits: int) -> int:
        return self.layouts.bank_conflicts(registers, shared, shape, bits)

    def create_barrier(self) -> None:
        """``gl.thread_barrier``: the threads of a program execute each operation together."""

    # Views of shared memory.

    def create_local_alloc(self, type: Any, value: TensorHandle | None = None) -> SharedView:
        view = self.shared.allocate(type, numpy_dtype(type.element_ty))
        if value is not None:
            self.shared.write(view, "store", value.data)
        return view

    def create_local_dealloc(self, view: SharedView) -> None:
        """``_keep_alive``: allocations live as long as the program."""

    def create_local_load(self, type: Any, view: SharedView) -> TensorHandle:
        return TensorHandle(self.shared.read(view, "load"), type.element_ty)

    def create_local_store(self, view: SharedView, value: TensorHandle) -> None:
        self.shared.write(view, "store", value.data)

    def create_memdesc_index(self, type: Any, view: SharedView, index: TensorHandle) -> SharedView:
        number = int(index.data.item())
        blocks = view.data.shape[0]
        if not 0 <= number < blocks:
            # The index is an error only if the view is accessed: a predicate can exclude the access.
            outside = view.view(type, lambda array: array[0])
            return dataclasses.replace(outside, outside=f"index {number} of {view.name}, which has {blocks} blocks")
        return view.view(type, lambda array: array[number])

    def create_memdesc_subslice(self, type: Any, view: SharedView, offsets: list[int]) -> SharedView:
        where = tuple(slice(first, first + size) for first, size in zip(offsets, type.shape, strict=True))
        return view.view(type, lambda array: array[where])

    def create_memdesc_trans(self, view: SharedView, order: list[int]) -> SharedView:
        return view.view(view.type, lambda array: array.transpose(order))

    def create_memdesc_reshape(self, view: SharedView, shape: list[int]) -> SharedView:
        return view.view(view.type, lambda array: _reshaped(array, shape))

    def create_memdesc_reinterpret(self, type: Any, view: SharedView) -> SharedView:
        dtype = numpy_dtype(type.element_ty)
        if dtype.itemsize != view.data.dtype.itemsize:
            raise UnsupportedFeature(
                "shared memory reinterpreted with elements of another size is not supported on the CPU: "
                "allocate shared memory of the second type"
            )
        result = view.view(type, lambda array: _reshaped(array, type.shape))
        result.data = result.data.view(dtype)
        return result

    # Asynchronous copies (cp.async).

    def create_async_copy_global_to_local(
        self, view: SharedView, pointer: TensorHandle, mask: Any, other: Any, *policy: Any
    ) -> None:
        # Masked elements are filled with zeros.
        values = self._load(pointer, mask if isinstance(mask, TensorHandle) else None, None, False)
        operation = self.shared.start("async_copy")
        self.shared.write(view, "async_copy", values.data, operation)
        self.shared.open_copies().append(operation)

    def create_async_commit_group(self) -> None:
        self.shared.commit("async_copy", self.shared.take_copies())

    def create_async_wait_group(self, outstanding: int) -> None:
        self.shared.wait_group("async_copy", outstanding)

    # TMA.

    def create_make_tensor_descriptor(self, *arguments: Any) -> Any:
        if isinstance(arguments[0], TensorHandle):
            return super().create_make_tensor_descriptor(*arguments)
        kind, base, shape, strides, padding = arguments
        return super().create_make_tensor_descriptor(base, shape, strides, kind.block_type.shape, False, padding)

    def create_async_tma_copy_global_to_local(
        self, desc: Any, start: list[TensorHandle], bar: SharedView, view: SharedView, pred: TensorHandle
    ) -> None:
        if not pred.data.item():
            return
        mbarrier = self.shared.mbarrier(bar)
        operation = self.shared.start("TMA load", mbarrier)
        values = self.create_descriptor_load(desc, start, None, None).data
        self.shared.write(view, "TMA load", values.reshape(view.data.shape), operation)
        mbarrier.transaction_bytes -= values.nbytes
        mbarrier.advance()

    def create_async_tma_copy_local_to_global(self, desc: Any, start: list[TensorHandle], view: SharedView) -> None:
        operation = self.shared.start("TMA store")
        self.shared.check_fenced(view, "TMA store")
        values = self.shared.read(view, "TMA store", operation)
        self.shared.commit("TMA store", [operation])
        handle = TensorHandle(values.reshape(desc.block_shape), view.type.element_ty)
        self.create_descriptor_store(desc, handle, start)

    def create_async_tma_store_wait(self, outstanding: int) -> None:
        self.shared.wait_group("TMA store", outstanding)

    def create_fence_async_shared(self, cluster: bool) -> None:
        self.shared.fence()

    # Mbarriers.

    def create_mbarrier_init(self, bar: SharedView, count: int) -> None:
        self.shared.init_mbarrier(bar, count)

    def create_mbarrier_inval(self, bar: SharedView) -> None:
        self.shared.invalidate_mbarrier(bar)

    def create_mbarrier_expect(self, bar: SharedView, size: int, pred: TensorHandle) -> None:
        if pred.data.item():
            self.shared.arrive(bar, 1, size)

    def create_mbarrier_arrive(self, bar: SharedView, count: int, pred: TensorHandle) -> None:
        if pred.data.item():
            self.shared.arrive(bar, count)
            self.partitions.yield_to_others()

    def create_mbarrier_wait(self, bar: SharedView, phase: TensorHandle, pred: TensorHandle, deps: Any) -> None:
        if not pred.data.item():
            return
        parity = int(phase.data.item())
        while not self.shared.passed(bar, parity):
            if not self.partitions.switch():
                raise self.shared.deadlock(bar, parity)
        self.partitions.progress()

    def warp_specialize(self, bodies: Sequence[Callable[[], Any]], worker_num_warps: list[int]) -> Any:
        """Run the partitions; return the result of the first, which has the kernel's ``num_warps``."""
        if self.partitions.nested:
            raise CompileError("gl.warp_specialize inside a partition is not supported by Gluon")
        self.partition_warps = [self.num_warps, *worker_num_warps]
        return self.partitions.run(bodies)

    @property
    def context_warps(self) -> int:
        """The number of warps of the partition that runs."""
        return self.partition_warps[self.partitions.current] if self.partitions.nested else self.num_warps

    # warpgroup_mma.

    def create_warpgroup_mma(
        self,
        a: Any,
        b: SharedView,
        acc: TensorHandle,
        use_acc: TensorHandle,
        precision: Any,
        max_num_imprecise_acc: int,
        is_async: bool,
    ) -> TensorHandle:
        operation = self.shared.start("warpgroup_mma")
        left, right = self._operand(a, operation), self._operand(b, operation)
        if not use_acc.data.item():
            acc = TensorHandle(np.zeros_like(acc.data), acc.dtype)
        result = self.create_dot(left, right, acc, precision, max_num_imprecise_acc)
        self.shared.commit("warpgroup_mma", [operation])
        if not is_async:
            self.shared.wait_group("warpgroup_mma", 0)
        return result

    def _operand(self, value: Any, operation: AsyncOperation) -> TensorHandle:
        if not isinstance(value, SharedView):
            return value
        self.shared.check_fenced(value, "warpgroup_mma")
        return TensorHandle(self.shared.read(value, "warpgroup_mma", operation), value.type.element_ty)

    def create_warpgroup_mma_wait(self, deps: list[Any], outstanding: int) -> list[Any]:
        self.shared.wait_group("warpgroup_mma", outstanding)
        return deps

    def create_histogram(self, data: TensorHandle, bins: int, mask: Any, *layout: Any) -> TensorHandle:
        return super().create_histogram(data, bins, mask)


def _reshaped(array: Array, shape: list[int]) -> Array:
    """Return a view of another shape; NumPy would copy a transposed array."""
    result = array.view()
    try:
        result.shape = tuple(shape)
    except AttributeError:
        raise UnsupportedFeature(
            "reshape of transposed or sliced shared memory is not supported on the CPU: reshape first, then permute"
        ) from None
    return result
