"""Each kind of finding, with its program, tensor, offset and line; and correct kernels without findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from tests.triton.kernels import increment, line_of

from warpwise import triton as wt
from warpwise.cuda import (
    ArgumentError,
    CompileError,
    KernelAssertion,
    KernelTimeout,
    LaunchError,
    MisalignedAccess,
    OutOfBounds,
    ReadOnlyWrite,
    UninitializedRead,
    UnsupportedFeature,
    UnwrittenOutput,
)


@wt.jit
def unmasked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, x, mask=offsets < n)


def test_load_past_the_end() -> None:
    x = torch.zeros(1000)
    with pytest.raises(
        OutOfBounds, match=r"program \(3, 0, 0\): read of x_ptr\[1000\], 1 past its last element"
    ) as caught:
        unmasked[4](x, torch.zeros(1000), 1000, BLOCK=256)
    finding = caught.value.finding
    assert finding is not None
    assert finding.access is not None
    assert (finding.variable, finding.index, finding.size, finding.count) == ("x_ptr", 1000, 1000, 24)
    assert (finding.access.what, finding.access.block, finding.access.thread) == ("read", (3, 0, 0), (232, 0, 0))
    assert finding.access.file == __file__
    assert finding.access.line == line_of(unmasked, "tl.load")
    assert finding.access.text == "x = tl.load(x_ptr + offsets)"


def test_traceback_ends_in_the_kernel() -> None:
    with pytest.raises(OutOfBounds) as caught:
        unmasked[1](torch.zeros(3), torch.zeros(3), 3, BLOCK=4)
    last = caught.traceback[-1]
    assert str(last.path) == __file__
    assert last.lineno + 1 == line_of(unmasked, "tl.load")


def test_out_of_bounds_into_an_adjacent_tensor() -> None:
    storage = torch.zeros(64)
    first, second = storage[:16], storage[16:32]
    (finding,) = unmasked[2].check(first, second, 16, BLOCK=16)
    assert (finding.kind, finding.variable, finding.index, finding.count) == (OutOfBounds, "x_ptr", 16, 16)


@wt.jit
def unmasked_store(out_ptr, n, shift, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets - shift, offsets.to(tl.float32))


def test_out_of_bounds_stores_are_not_executed() -> None:
    storage = torch.full((30,), -1.0)
    before = unmasked_store[1].check(storage[10:20], 10, 3, BLOCK=8)
    assert [(f.kind, f.index, f.count) for f in before] == [(OutOfBounds, -3, 3)]
    past = unmasked_store[2].check(storage[10:20], 10, 0, BLOCK=8)
    assert [(f.kind, f.index, f.count) for f in past] == [(OutOfBounds, 10, 6)]
    assert (storage[:10] == -1).all()
    assert (storage[20:] == -1).all()


def test_far_offset_names_the_right_tensor() -> None:
    (finding,) = unmasked_store[1].check(torch.zeros(8), 8, 10**9, BLOCK=8)
    assert (finding.variable, finding.index) == ("out_ptr", -(10**9))


def test_access_to_an_empty_tensor() -> None:
    with pytest.raises(OutOfBounds, match="has 0 elements"):
        unmasked[1](torch.zeros(0), torch.zeros(4), 4, BLOCK=4)


@wt.jit
def unchecked_block_pointer(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    source = tl.make_block_ptr(x_ptr, (N,), (1,), (0,), (BLOCK,), (0,))
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(source))


@wt.jit
def atomic_past_end(out_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(out_ptr + tl.arange(0, BLOCK), 1.0)


@wt.jit
def wrong_shape_descriptor(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, [N + 4, BLOCK], [BLOCK, 1], [8, BLOCK])
    block = source.load([0, 0])
    tl.store(out_ptr + tl.arange(0, 8)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :], block)


def test_bounds_of_block_pointers_descriptors_and_atomics() -> None:
    atomics = atomic_past_end[1].check(torch.zeros(5), BLOCK=8)
    assert [(f.kind, f.index, f.count, f.access.what) for f in atomics] == [(OutOfBounds, 5, 3, "atomic")]
    descriptors = wrong_shape_descriptor[1].check(torch.zeros(4, 16), torch.zeros(8, 16), 4, BLOCK=16)
    assert [(f.kind, f.index, f.access.thread) for f in descriptors] == [(OutOfBounds, 64, (4, 0, 0))]
    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 9):  # later versions have no block pointers
        blocks = unchecked_block_pointer[1].check(torch.zeros(5), torch.zeros(8), 5, BLOCK=8)
        assert [(f.kind, f.index, f.count) for f in blocks] == [(OutOfBounds, 5, 3)]


@wt.jit
def reinterpreted(x_ptr, out_ptr):
    bytes_ptr = x_ptr.to(tl.pointer_type(tl.uint8)) + 2
    tl.store(out_ptr, tl.load(bytes_ptr.to(tl.pointer_type(tl.float32))))


def test_misaligned_pointer() -> None:
    (finding,) = reinterpreted[1].check(torch.zeros(4), torch.zeros(1))
    assert finding.kind is MisalignedAccess
    assert "byte 2 of x_ptr" in finding.message


@wt.jit
def through_an_integer(address, out_ptr):
    tl.store(out_ptr, tl.load(address.to(tl.pointer_type(tl.float32))))


def test_address_outside_all_arguments() -> None:
    with pytest.raises(OutOfBounds, match="is in no tensor"):
        through_an_integer[1](64, torch.zeros(1))


@wt.jit
def chosen_pointer(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    source = tl.where(at % 2 == 0, x_ptr + at, y_ptr + at)
    tl.store(out_ptr + at, tl.load(source))


def test_one_load_from_two_tensors() -> None:
    x, y, out = torch.arange(8.0), -torch.arange(8.0), torch.empty(8)
    chosen_pointer[1](x, y, wt.out(out), BLOCK=8)
    assert torch.equal(out, torch.where(torch.arange(8) % 2 == 0, x, y))
    (finding,) = chosen_pointer[1].check(x, y[:5], wt.out(out), BLOCK=8)
    assert (finding.variable, finding.index, finding.count) == ("y_ptr", 5, 2)


@wt.jit
def reads_output(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    old = tl.load(out_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, old + 1, mask=offsets < n - 3)


def test_uninitialized_read_and_unwritten_output() -> None:
    out = torch.zeros(4, 4)
    read, unwritten = reads_output[2].check(torch.zeros(16), wt.out(out), 16, BLOCK=8)
    assert (read.kind, read.variable, read.index, read.count) == (UninitializedRead, "out_ptr", 0, 16)
    assert read.access is not None
    assert read.access.line == line_of(reads_output, "old =")
    assert (unwritten.kind, unwritten.index, unwritten.size, unwritten.count) == (UnwrittenOutput, 13, 16, 3)
    assert "[3, 1]" in unwritten.message
    assert out[3, 1:].isnan().all()


@wt.jit
def fill(out_ptr, rows, cols, stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) * stride + at, 1, mask=at < cols)


def test_gaps_of_a_strided_output_need_not_be_written() -> None:
    storage = torch.zeros(4, 10, dtype=torch.int16)
    view = storage[:, 2:7]
    fill[4](wt.out(view), 4, 5, view.stride(0), BLOCK=8)
    assert (view == 1).all()
    assert storage.sum() == 20
    (finding,) = fill[3].check(wt.out(view), 4, 5, view.stride(0), BLOCK=8)
    assert (finding.kind, finding.count, finding.index) == (UnwrittenOutput, 5, 15)
    assert "[3, 0]" in finding.message


def test_checks_option() -> None:
    x = torch.zeros(8)
    increment[2](x, 8, checks="bounds")
    assert (x == 2).all()
    with pytest.raises(OutOfBounds):
        increment[1](x, 16, checks="none")
    with pytest.raises(ArgumentError, match="expected one of all, bounds, none"):
        increment[1](x, 8, checks="some")


def test_write_to_a_read_only_array() -> None:
    x = np.zeros(8, dtype=np.float32)
    x.flags.writeable = False
    with pytest.raises(ReadOnlyWrite, match="x_ptr"):
        increment[1](x, 8)


@wt.jit
def endless(x_ptr):
    i = 0
    while i < 10:
        i = i * 1


def test_timeout_of_an_endless_kernel() -> None:
    with pytest.raises(KernelTimeout, match=r"program \(0, 0, 0\): still running after 0.2 s") as caught:
        endless[1](torch.zeros(1), timeout=0.2)
    assert caught.value.finding is not None
    assert caught.value.finding.access.file == __file__


@wt.jit
def asserting(x_ptr, N: tl.constexpr):
    tl.device_assert(tl.arange(0, N) < 5, "too many")
    tl.static_assert(N != 2, "not two")
    assert N != 4, "not four"


@pytest.mark.parametrize("size, message", [(8, "too many"), (2, "not two"), (4, "not four")])
def test_device_and_static_assertions(size: int, message: str) -> None:
    with pytest.raises(KernelAssertion, match=message) as caught:
        asserting[1](torch.zeros(1), N=size)
    assert caught.value.finding is not None
    assert caught.value.finding.access.file == __file__


@wt.jit
def branches_on_a_block(x_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    if at < 4:
        tl.store(x_ptr + at, 1.0)


@wt.jit
def assembly(x_ptr):
    tl.store(x_ptr, tl.inline_asm_elementwise("mov.u32 $0, %laneid;", "=r", [], dtype=tl.int32, is_pure=True, pack=1))


def test_unsupported_condition_and_inline_ptx() -> None:
    with pytest.raises(CompileError, match="a condition must be a scalar") as caught:
        branches_on_a_block[1](torch.zeros(8), N=8)
    assert caught.value.finding.access.line == line_of(branches_on_a_block, "if at")
    with pytest.raises(UnsupportedFeature, match="%laneid depends on the thread") as caught_assembly:
        assembly[1](torch.zeros(1))
    assert caught_assembly.value.finding.access.line == line_of(assembly, "inline_asm")


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda x: unmasked[1](x, x), ArgumentError, "missing a required argument: 'n'"),
        (
            lambda x: unmasked[1](x, x, 4, BLOCK=4, num_wraps=4),
            ArgumentError,
            "'num_wraps' is neither a parameter nor a Triton launch option",
        ),
        (lambda x: unmasked[1](x, [1], 4, BLOCK=4), ArgumentError, "out_ptr: expected a tensor, an array or a number"),
        (lambda x: unmasked[1](x, x.to("meta"), 4, BLOCK=4), ArgumentError, "got one on meta"),
        (
            lambda x: unmasked[1](x, x.to(torch.complex64), 4, BLOCK=4),
            ArgumentError,
            "no Triton type for torch.complex64",
        ),
        (lambda x: unmasked[1, 2, 3, 4](x, x, 4, BLOCK=4), LaunchError, "one to three"),
        (lambda x: unmasked[1.5](x, x, 4, BLOCK=4), LaunchError, "is a float"),
        (lambda x: unmasked[1, 70000](x, x, 4, BLOCK=4), LaunchError, "65,535"),
        (lambda x: unmasked[-1](x, x, 4, BLOCK=4), LaunchError, "must not be negative"),
        (lambda x: wt.jit(3), ArgumentError, "expected a function or a Triton kernel, got int"),
    ],
)
def test_invalid_launches(call: Callable[[torch.Tensor], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(torch.zeros(4))


def test_reserved_parameter_name() -> None:
    def kernel(x_ptr, timeout):
        tl.store(x_ptr, timeout)

    with pytest.raises(ArgumentError, match="'timeout'"):
        wt.jit(kernel)


def test_equal_findings_are_merged() -> None:
    findings = unmasked[4].check(torch.zeros(100), torch.zeros(256), 256, BLOCK=64)
    assert [(f.kind, f.count, f.index) for f in findings] == [(OutOfBounds, 156, 100)]
