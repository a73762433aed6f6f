"""Rewriting of device code to C++: shared memory and inline PTX, with line numbers unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from warpwise import cuda
from warpwise.cuda.emulator.rewrite import rewrite


@pytest.mark.parametrize(
    "declaration, names",
    [
        ("__shared__ float tile[32][33];", ["tile"]),
        ("static __shared__ int a, b[4], *c;", ["a", "b", "c"]),
        ("__shared__ __align__(16) half As[2][16], Bs[8];", ["As", "Bs"]),
        ("alignas(128) __shared__ unsigned char raw[64];", ["raw"]),
        ("volatile __shared__ float v[N * sizeof(T)];", ["v"]),
        ("__shared__ struct { float x[4]; int n; } s;", ["s"]),
        ("__shared__ typename Storage<T, 4>::type store;", ["store"]),
        ("__shared__ T window[(K + 2) << 1];", ["window"]),
        ("extern __shared__ float dynamic[];", ["dynamic"]),
        ("extern __shared__ __align__(16) char bytes[][32];", ["bytes"]),
    ],
)
def test_shared_declarations(declaration: str, names: list[str]) -> None:
    text = f"template <class T, int N> __global__ void k() {{\n  {declaration}\n}}\n"
    result = rewrite(text)
    assert result.text.count("\n") == text.count("\n")
    assert "__shared__" not in result.text and "< <" not in result.text
    macro = "WW_DYNAMIC_SHARED" if declaration.startswith("extern") else "WW_SHARED"
    assert all(f"{macro}({name}," in result.text for name in names)


def test_a_multi_line_declaration_keeps_line_numbers() -> None:
    text = "__global__ void k() {\n  __shared__ float\n    a[4],\n    b[4];\n  int here;\n}\n"
    lines = rewrite(text).text.split("\n")
    assert lines[4].strip() == "int here;"


def test_an_unparsable_shared_declaration_raises_with_its_line() -> None:
    with pytest.raises(cuda.CompileError, match=r"kernel\.cu:3: cannot read this __shared__ declaration"):
        rewrite("__global__ void k() {\n  int a;\n  __shared__ = 3;\n}")


def test_file_scope_shared_memory() -> None:
    text = (
        "extern __shared__ float buffer[];\n"
        "__device__ float first() { return buffer[0]; }\n"
        "__device__ float none(float buffer) { return buffer; }\n"
        "__global__ void k(float* x) { buffer[threadIdx.x] = x[0]; x[1] = first() + none(2.0f); }\n"
    )
    lines = rewrite(text).text.split("\n")
    assert "WW_DYNAMIC_SITE(buffer" in lines[0]
    assert "WW_DYNAMIC_POINTER(buffer)" in lines[1]
    assert "WW_DYNAMIC_POINTER" not in lines[2]
    assert "WW_DYNAMIC_POINTER(buffer)" in lines[3]


def test_asm_becomes_a_block_on_its_first_line() -> None:
    text = (
        '__global__ void k(float x) {\n  float y;\n  asm volatile(\n    "ex2.approx.f32 %0, %[in];"\n    : "=f"(y)\n'
        '    : [in] "f"(x ? x : 1.0f)\n    : "memory");\n  int here;\n}\n'
    )
    result = rewrite(text).text
    lines = result.split("\n")
    assert lines[7].strip() == "int here;"
    assert 'ww::PtxOutput ww_output_0(nullptr, "=f", (y));' in lines[2]
    assert 'ww::ptx_input("in", "f", (x ? x : 1.0f))' in lines[2]
    assert "memory" not in result


def test_operands_of_asm_without_a_comma_between_them() -> None:
    result = rewrite('__global__ void k(int* x) { asm("st.v2.b32 [%0], {%1, %2};" :: "l"(x) "r"(1), "r"(2)); }').text
    assert 'ww::ptx_input(nullptr, "l", (x)), ww::ptx_input(nullptr, "r", (1)), ww::ptx_input(nullptr, "r"' in result


def test_global_variables_are_listed() -> None:
    text = (
        "namespace n { __constant__ float w[4]; }\n__device__ int counter = 3;\nextern __shared__ int s[];\nint host;\n"
    )
    variables = rewrite(text).variables
    assert len(variables) == 2
    assert variables[0].startswith('{"n::w"')
    assert variables[0].endswith("kUninitialisedConstant : kConstant}")
    assert variables[1].startswith('{"counter"')
    assert variables[1].endswith("0}")


SHARED = """
#define SQUARE(x) ((x) * (x))
template <typename T> struct Pair { T a, b; };
extern __shared__ int file_scope[];
__shared__ int fixed[4];

__device__ int through(int i) { return file_scope[i] + fixed[i]; }

template <typename T, int N>
__global__ void many(T* out) {
  __shared__ T tile[N][N + 1], other[SQUARE(N)];
  __shared__ Pair<T> pair;
  alignas(16) __shared__ struct { T x[N]; } record;
  volatile __shared__ T seen[32];
  const int i = threadIdx.x;
  tile[i][i] = T(i);
  other[i] = T(10 * i);
  record.x[i] = T(100 * i);
  file_scope[i] = 1000 * i;
  fixed[i] = 10000 * i;
  seen[i] = T(1);
  if (i == 0) pair = {T(1), T(2)};
  __syncthreads();
  const int j = (i + 1) % N;
  out[i] = tile[j][j] + other[j] + record.x[j] + T(through(j)) + pair.a + pair.b + seen[j];
}
"""


@pytest.mark.parametrize("type_, dtype", [("float", np.float32), ("int", np.int32)])
def test_every_kind_of_shared_variable(type_: str, dtype: type) -> None:
    out = np.empty(4, dtype)
    cuda.load(SHARED)[f"many<{type_}, 4>"][1, 4, 16](cuda.out(out))
    following = (np.arange(4) + 1) % 4
    np.testing.assert_array_equal(out, (11111 * following + 4).astype(dtype))


MACROS = """
#define TILE(T, name, n) __shared__ T name[n]
#define ADD(result, a, b) asm volatile("add.s32 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b))
#define KERNEL(T) __global__ void sum_##T(const T* x, T* y) { TILE(T, tile, 32); tile[threadIdx.x] = x[threadIdx.x]; \\
    __syncthreads(); y[threadIdx.x] = tile[31 - threadIdx.x]; }
KERNEL(float)
__global__ void add(int* x) { int r; ADD(r, x[0], 5); x[0] = r; }
__global__ void late(float* x) {
  TILE(float, tile, 4);
  x[0] = tile[0];
}
"""


def test_macros_that_expand_to_shared_memory_and_asm() -> None:
    module = cuda.load(MACROS)
    x, y = np.arange(32, dtype=np.float32), np.empty(32, np.float32)
    module["sum_float"][1, 32](x, cuda.out(y))
    np.testing.assert_array_equal(y, x[::-1])
    number = np.array([37], np.int32)
    module["add"][1, 1](number)
    assert number[0] == 42


def test_line_numbers_after_preprocessing() -> None:
    [finding] = cuda.load(MACROS)["late"][1, 1].check(np.zeros(1, np.float32))
    assert finding.kind is cuda.UninitializedRead
    assert finding.access is not None
    assert finding.access.line == 10


def test_dynamic_shared_memory_that_is_one_object():
    source = """
    struct Storage { float a[32]; int b; };
    extern "C" __global__ void k(float* out) {
      extern __shared__ __align__(128) Storage s;
      s.a[threadIdx.x] = threadIdx.x;
      __syncwarp();
      out[threadIdx.x] = s.a[31 - threadIdx.x];
    }
    """
    out = torch.zeros(32)
    cuda.load(source)["k"][1, 32, 132](out)
    assert torch.equal(out, torch.arange(31.0, -1.0, -1.0))


ADDRESSES = """
__shared__ float outer[8];
template <int N> __global__ void addresses(float* y, int n) {
  __shared__ float tile[8][N], row[8];
  const int i = threadIdx.x;
  float *a = &tile[i][0], (*b)[N] = &tile[i], *c = (float*)&row[i], *d = &outer[i];
  if (i < 8) *a = i, (*b)[1] = 1, *c = 2, *d = 3;
  if (i < n) *a += 1;
  if (i < 8) y[i] = tile[i][0] + tile[i][1] + row[i] + outer[i] + (n & tile[i][0] > 9);
}
"""


def test_an_address_past_the_end_of_shared_memory_is_a_finding_only_if_it_is_accessed() -> None:
    kernel = cuda.load(ADDRESSES)["addresses<2>"]
    y = np.zeros(8, "f4")
    assert kernel[1, 32].check(cuda.out(y), 8) == []
    assert (y == np.arange(8) + 7).all()
    (finding,) = kernel[1, 32].check(cuda.out(y), 9)
    assert (finding.kind, finding.variable, finding.index) == (cuda.OutOfBounds, "tile", 16)
    assert (finding.access.thread, finding.access.line) == ((8, 0, 0), 8)
