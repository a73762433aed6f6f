"""Arguments are checked against the kernel's parameters and packed; each kind of mismatch has its own message."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.cuda.binding import binder, buffer, refused

import warpwise as ww
from warpwise import cuda
from warpwise.cuda.errors import ArgumentError
from warpwise.cuda.launch.arguments import Binder, Buffer, device_of
from warpwise.cuda.launch.elements import element
from warpwise.cuda.launch.views import out, strided

# ---- Pointers


def test_a_pointer_argument_becomes_a_buffer() -> None:
    storage = torch.zeros(100)
    view = storage[10:30]
    assert buffer("float const*", view) == Buffer(
        "a", storage.data_ptr() + 40, 80, 4, "float", True, False, storage.data_ptr(), True
    )
    assert buffer("float*", out(view)).output
    assert not buffer("float*", view).const


@pytest.mark.parametrize(
    "declared, dtype",
    [
        ("float", torch.float32), ("double", torch.float64), ("__half", torch.float16),
        ("__nv_bfloat16", torch.bfloat16), ("__nv_fp8_e4m3", torch.float8_e4m3fn),
        ("__nv_fp8_e5m2", torch.float8_e5m2), ("bool", torch.bool), ("char", torch.int8), ("char", torch.uint8),
        ("unsigned char", torch.int8), ("signed char", torch.int8), ("short", torch.int16),
        ("unsigned short", torch.uint16), ("int", torch.int32), ("unsigned int", torch.int32), ("int", torch.uint32),
        ("long", torch.int64), ("long long", torch.int64), ("unsigned long long", torch.uint64),
        ("float2", torch.float32), ("float4", torch.float32), ("float2", torch.complex64),
        ("double2", torch.complex128), ("std::complex<float>", torch.complex64),
        ("cuda::std::complex<double>", torch.complex128), ("int4", torch.int32), ("uchar4", torch.uint8),
        ("__half2", torch.float16), ("__nv_bfloat162", torch.bfloat16), ("void", torch.float16),
        ("Particle", torch.uint8),
    ],
)  # fmt: skip
def test_matching_pointer_dtypes(declared: str, dtype: torch.dtype) -> None:
    tensor = torch.zeros(16, dtype=dtype)
    bound = buffer(f"{declared}*", tensor)
    assert (bound.address, bound.nbytes) == (tensor.data_ptr(), tensor.nbytes)
    known = element(declared)
    assert bound.element_bytes == (known.bytes if known else tensor.element_size())


@pytest.mark.parametrize(
    "declared, dtype, message",
    [
        (
            "float",
            torch.float64,
            r"kernel<4>: argument 0 'a' is declared float\*, got a float64 tensor of shape \(16,\) on cpu",
        ),
        ("float", torch.float64, r"expected float32: pass x.to\(torch.float32\)"),
        ("float", torch.int32, r"expected float32: .* \(x.view\(torch.float32\) to pass the bits as they are\)"),
        ("int", torch.int64, "expected int32 or uint32"),
        ("int", torch.float32, "expected int32 or uint32"),
        ("__half", torch.bfloat16, "expected float16"),
        ("__nv_fp8_e4m3", torch.float8_e5m2, "expected float8_e4m3fn"),
        ("bool", torch.uint8, "expected bool"),
        ("unsigned char", torch.bool, "expected uint8 or int8"),
        ("float4", torch.float64, "expected float32"),
        ("float2", torch.complex128, "expected float32 or complex64"),
        ("Particle", torch.float32, r"pass the bytes of Particle: x.view\(torch.uint8\)"),
    ],
)
def test_mismatched_pointer_dtypes_raise(declared: str, dtype: torch.dtype, message: str) -> None:
    refused(f"{declared}*", torch.zeros(16, dtype=dtype), message)


def test_vector_pointers_require_size_and_alignment() -> None:
    values = torch.zeros(17)
    assert buffer("float4*", values[4:12]).nbytes == 32
    refused("float4*", values[:10], "its 40 bytes are not a multiple of the 16 of one float4")
    refused("float4*", values[1:5], "starts 4 bytes past a multiple of 16.*float4 is loaded from multiples of 16")
    assert buffer("float3*", values[1:4]).nbytes == 12


def test_a_pointer_to_an_array_accepts_its_element_type() -> None:
    assert buffer("float (*) [16]", torch.zeros(4, 16)).element_bytes == 4


def test_strided_tensors_raise() -> None:
    values = torch.zeros(6, 8)
    refused("float*", values.t(), r"not contiguous \(strides \(1, 8\)\).*pass x.contiguous\(\), or cuda.strided\(x\)")
    refused("float*", values[:, 1:3], "not contiguous")
    refused("float*", torch.zeros(1).expand(4), "not contiguous")
    assert buffer("float*", values[2:4]).nbytes == 64


def test_strided_accepts_them_and_spans_all_elements() -> None:
    values = torch.zeros(6, 8)
    bound = buffer("float*", strided(values[1:3, 2:5]))
    assert (bound.address, bound.nbytes) == (values.data_ptr() + 40, 4 * (8 + 3))
    assert buffer("float*", strided(values.t())).nbytes == values.nbytes
    assert buffer("float*", strided(values)).nbytes == values.nbytes
    refused("float*", out(strided(values.t())), "an output is poisoned and checked whole, gaps included")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_a_strided_span_ends_at_the_last_element(shape: list[int], data: st.DataObject) -> None:
    whole = torch.arange(math.prod(size * 3 for size in shape)).reshape([size * 3 for size in shape])
    starts = [data.draw(st.integers(0, 2)) for _ in shape]
    steps = [data.draw(st.integers(1, 3)) for _ in shape]
    view = whole[tuple(slice(s, s + size, step) for s, size, step in zip(starts, shape, steps, strict=True))]
    bound = buffer("long*", strided(view))
    first, last = int(view.min()), int(view.max())
    assert bound.address == whole.data_ptr() + 8 * first
    assert bound.nbytes == 8 * (last - first + 1)


def test_none_is_a_null_pointer_and_an_empty_tensor_has_no_bytes() -> None:
    assert (buffer("float*", None).address, buffer("float*", None).nbytes) == (0, 0)
    assert (buffer("float*", torch.zeros(0)).address, buffer("float*", torch.zeros(0)).nbytes) == (0, 0)
    refused("float*", out(None), "an output needs an array")


def test_an_output_must_not_be_const_or_share_memory() -> None:
    refused("float const*", out(torch.zeros(4)), "a const pointer cannot be an output")
    values = torch.zeros(8)
    with pytest.raises(ArgumentError, match=r"'b' is marked out\(\) but shares memory with 'a'"):
        binder("float const*, float*").cpu([values[:5], out(values[4:])])
    halves = binder("float const*, float*").cpu([values[:4], out(values[4:])])
    assert [part.nbytes for part in halves if isinstance(part, Buffer)] == [16, 16]


def test_requires_grad_is_accepted_and_lazy_conjugation_raises() -> None:
    assert buffer("float*", torch.zeros(4, requires_grad=True)).nbytes == 16
    assert buffer("float*", torch.nn.Parameter(torch.zeros(4))).nbytes == 16
    lazy = torch.zeros(4, dtype=torch.complex64).conj()
    refused("float2*", lazy, r"only marked negated or conjugated; pass x.resolve_neg\(\).resolve_conj\(\)")
    refused("float*", torch.zeros(4).to_sparse(), r"with layout torch.sparse_coo.*pass x.to_dense\(\)")


@pytest.mark.parametrize(
    "value, message",
    [
        (5, "got int 5; a pointer needs an array: are the arguments in the order of the kernel's parameters"),
        (2.5, "got float 2.5; a pointer needs an array"),
        (np.float32(1), "got numpy.float32 1.0; a pointer needs an array"),
        ([1.0, 2.0], r"pass torch.tensor\(...\) with the element type"),
        ("x", "got str 'x'; a kernel takes arrays through tensors"),
        (b"bytes", "got bytes b'bytes'; a kernel takes arrays"),
    ],
)
def test_non_arrays_raise_for_a_pointer(value: Any, message: str) -> None:
    refused("float*", value, message)


def test_a_pointer_to_pointers_requires_a_gpu() -> None:
    refused("float**", torch.zeros(4, dtype=torch.int64), "cannot be followed on the CPU")


def test_numpy_arrays() -> None:
    base = np.zeros((4, 6), np.float32)
    bound = buffer("float const*", base[2:])
    assert (bound.address, bound.nbytes, bound.storage) == (base.ctypes.data + 48, 48, base.ctypes.data)
    refused("float*", base.T, r"not contiguous \(strides \(4, 24\) bytes\)")
    assert buffer("float*", strided(base.T)).nbytes == 96
    refused("float*", strided(base[::-1]), "none is negative")
    refused("float*", np.zeros(4), "got a float64 NumPy array of shape")
    refused("float*", np.zeros(4, ">f4"), "non-native byte order")
    refused("float*", np.array([object()]), "Python objects cannot be passed")


def test_a_read_only_array_requires_a_const_pointer() -> None:
    values = np.zeros(4, np.float32)
    values.flags.writeable = False
    assert not buffer("float const*", values).writable
    refused("float*", values, "which is read-only; declare the parameter const or pass a copy")


def test_record_arrays_match_user_defined_structs() -> None:
    records = np.zeros(3, [("x", "f4"), ("n", "i4")])
    bound = buffer("Particle const*", records)
    assert (bound.nbytes, bound.element_bytes, bound.element) == (24, 8, "Particle")
    refused("float*", records, "expected float32")


# ---- Complete argument lists


def test_the_number_of_arguments_is_checked_first() -> None:
    made = binder("float*, int", names=("x", "n"))
    with pytest.raises(ArgumentError, match=r"kernel<4>: takes 2 arguments \(float\* x, int n\), got 1"):
        made.cpu([torch.zeros(3)])
    with pytest.raises(ArgumentError, match=r"got 3"):
        made.gpu([None, 1, 2])
    with pytest.raises(ArgumentError, match=r"takes 0 arguments \(\), got 1"):
        Binder("k", (), ()).cpu([1])


def test_default_arguments_are_to_be_passed() -> None:
    module = cuda.load("""
__global__ void scale(float* x, int n = 3, float f = -1.5f);
__global__ void scale(float* x, int n, float f) { x[0] = n * f; }
""")
    message = r"takes 3 arguments \(float\* x, int n, float f\), got 2; .*\(int n = 3, float f = - 1.5f\): pass all"
    with pytest.raises(ArgumentError, match=message):
        module["scale"][1, 1](torch.zeros(1), 2)
    with pytest.raises(ArgumentError, match="got 4$"):
        module["scale"][1, 1](torch.zeros(1), 2, 3.0, 4)


def test_a_message_gives_position_and_parameter() -> None:
    with pytest.raises(ArgumentError, match="kernel<4>: argument 1 'n' is declared int, got float 2.0"):
        binder("float*, int", names=("x", "n")).cpu([torch.zeros(3), 2.0])


def test_a_reference_is_passed_as_an_address() -> None:
    source = "template <class T> __global__ void k(const T& x, T& y) { y = 2 * x; }"
    y = torch.zeros(1)
    cuda.load(source)["k<float>"][1, 1](torch.tensor([3.0]), out(y))
    assert y.item() == 6
    with pytest.raises(ArgumentError, match=r"got float 3.0; the kernel reads a reference at an address"):
        cuda.load(source)["k<float>"][1, 1](3.0, y)
    with pytest.raises(ArgumentError, match=r"'a' is a reference to a pointer \(float\*&\)"):
        binder("float*&", (8,))


def test_all_arrays_must_be_on_one_device() -> None:
    cpu, meta = torch.zeros(2), torch.zeros(2, device="meta")
    assert device_of([1, 2.0, None], "k") is None
    assert device_of([1, out(strided(cpu)), np.zeros(2)], "k") == torch.device("cpu")
    assert device_of([torch.tensor(1), np.array(2.0), meta], "k") == torch.device("meta")
    assert device_of([torch.tensor(1), 2], "k") == torch.device("cpu")
    with pytest.raises(
        ArgumentError, match="k: argument 0 is on cpu but argument 2 is on meta; move all arrays to one device"
    ):
        device_of([cpu, 1, meta], "k")
    with pytest.raises(ArgumentError, match="argument 0 is on cpu but argument 1 is on meta"):
        device_of([np.zeros(2), meta], "k")


def test_an_argument_error_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="got 0"):
        binder("int").cpu([])


def test_ctype_gives_the_element_type() -> None:
    assert ww.cuda.ctype(torch.float16) == "__half"
    assert ww.cuda.ctype(torch.int64) == "long long"
    for dtype in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.uint8, torch.bool, torch.complex64):
        known = element(ww.cuda.ctype(dtype))
        assert known is not None
        assert dtype in known.dtypes
    with pytest.raises(TypeError, match="ctype: no C.. type for torch.qint8"):
        ww.cuda.ctype(torch.qint8)
