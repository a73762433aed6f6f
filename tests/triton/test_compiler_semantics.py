"""Constructs that Triton's compiler accepts and that plain Python refuses or computes otherwise."""

from __future__ import annotations

import dataclasses
import enum

import pytest
import torch
import triton
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda import ArgumentError, CompileError

WIDTH = tl.constexpr(24)
NAMES = {"one": 1}


class Mode(enum.Enum):
    COPY = 7


@wt.jit
def number_and_constant(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr, BLOCK % WIDTH)
    tl.store(out_ptr + 1, BLOCK & WIDTH)
    tl.store(out_ptr + 2, BLOCK >> WIDTH)
    tl.store(out_ptr + 3, 1 << WIDTH)


def test_a_number_before_a_constant_of_the_module() -> None:
    out = torch.zeros(4, dtype=torch.int32)
    assert number_and_constant[1].check(out, BLOCK=40) == []
    assert out.tolist() == [40 % 24, 40 & 24, 0, 1 << 24]


@wt.jit
def values_of_constants(out_ptr, N: tl.constexpr, mode: tl.constexpr):
    local: tl.constexpr = 3
    tl.store(out_ptr, N.value + local.value + WIDTH.value)
    tl.store(out_ptr + 1, mode.value == mode)


def test_value_of_a_constexpr() -> None:
    out = torch.zeros(2, dtype=torch.int32)
    values_of_constants[1](out, 5, Mode.COPY)
    assert out.tolist() == [5 + 3 + 24, 1]


@wt.jit
def more_values_than_names(out_ptr):
    a, b = tl.program_id(0) + 1, tl.program_id(1) + 2, tl.program_id(2) + 3
    tl.store(out_ptr + tl.arange(0, 2), tl.join(a, b))


def test_an_assignment_ignores_values_in_excess() -> None:
    out = torch.zeros(2, dtype=torch.int32)
    more_values_than_names[1](out)
    assert out.tolist() == [1, 2]


@wt.jit
def threads(out_ptr):
    count: tl.constexpr = tl.extra.cuda.num_threads()
    tl.store(out_ptr + tl.arange(0, count), tl.extra.cuda.num_warps())


@pytest.mark.parametrize("num_warps", [1, 8])
def test_number_of_threads(num_warps: int) -> None:
    out = torch.zeros(256, dtype=torch.int32)
    assert threads[1].check(out, num_warps=num_warps) == []
    assert out.sum() == 32 * num_warps**2


@wt.jit
def unknown_name(out_ptr):
    tl.store(out_ptr, NAMES["two"])


def test_a_missing_key_is_named_as_such() -> None:
    with pytest.raises(CompileError, match="KeyError: 'two'"):
        unknown_name[1](torch.zeros(1))


@wt.jit
def integer_as_float8(x_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, at.to(tl.float8e5).to(tl.float32))


def test_an_error_omits_the_elements_of_a_block() -> None:
    with pytest.raises(CompileError, match=r"cannot cast \[\.\.\.\] to"):
        integer_as_float8[1](torch.zeros(64), BLOCK=64)


@dataclasses.dataclass
class Storage:
    data: torch.Tensor


@dataclasses.dataclass
class Wrapped:
    storage: Storage
    dtype: torch.dtype

    def data_ptr(self) -> int:
        return self.storage.data.data_ptr()


@wt.jit
def double(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) * 2)


def test_an_object_that_wraps_a_tensor() -> None:
    x, out = torch.randn(16), torch.zeros(16)
    assert double[1].check(Wrapped(Storage(x), x.dtype), out, BLOCK=16) == []
    assert torch.equal(out, 2 * x)
    (finding,) = double[1].check(Wrapped(Storage(x[:12]), x.dtype), out, BLOCK=16)
    assert "x_ptr has 12 elements" in finding.message


def test_an_address_without_a_tensor() -> None:
    class Nothing(Wrapped):
        def data_ptr(self) -> int:
            return 64

    with pytest.raises(ArgumentError, match="x_ptr: expected a tensor, an array or a number, got Nothing"):
        double[1](Nothing(Storage(torch.zeros(1)), torch.float32), torch.zeros(16), BLOCK=16)


def template() -> None:
    """The Python function of a kernel whose text is written later."""


SOURCE = """def written(x_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, at + 5)
"""


def test_a_kernel_whose_text_a_program_has_written() -> None:
    namespace: dict[str, object] = {"tl": tl}
    exec(SOURCE, namespace)  # noqa: S102
    template.__signature__ = triton.runtime.jit.inspect.signature(namespace["written"])  # type: ignore[attr-defined]
    kernel = triton.JITFunction(template)
    kernel._unsafe_update_src(SOURCE)
    x = torch.zeros(8, dtype=torch.int32)
    assert wt.jit(kernel)[1].check(x, BLOCK=8) == []
    assert x.tolist() == list(range(5, 13))
    (finding,) = wt.jit(kernel)[1].check(x, BLOCK=16)
    assert "tl.store(x_ptr + at, at + 5)" in str(finding)


@wt.jit
def rank_of_five(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr):
    block = tl.zeros((A, 1, 1, 1, B), tl.float32)
    block += tl.load(x_ptr)
    tl.store(out_ptr + tl.zeros((A, 1, 1, 1, B), tl.int32), block)


def test_true_in_a_shape_is_1() -> None:
    x, out = torch.ones(1), torch.zeros(1)
    rank_of_five.compile_for(x, out, True, 1, target="sm_90")
    assert rank_of_five[1].check(x, out, True, 1) == []
    assert rank_of_five[1].check(x, out, 1, 1) == []
    assert out[0] == 1
