"""The less common forms of mma.sync and wmma: m8n8k4 of f16, m8n8 of integers, 4-bit integers and single bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from warpwise import cuda

QUAD_PAIRS = """
#define PRODUCT(LAYOUTS) asm volatile("mma.sync.aligned.m8n8k4." LAYOUTS ".f32.f16.f16.f32 \\
  {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, {%0,%1,%2,%3,%4,%5,%6,%7};" \\
  : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) \\
  : "r"(A[2 * lane]), "r"(A[2 * lane + 1]), "r"(B[2 * lane]), "r"(B[2 * lane + 1]))
__global__ void wide(const unsigned* A, const unsigned* B, float* D, int layouts) {
  const int lane = threadIdx.x;
  float d[8];
  for (int i = 0; i < 8; i++) d[i] = D[8 * lane + i];
  if (layouts == 0) PRODUCT("row.row");
  if (layouts == 1) PRODUCT("row.col");
  if (layouts == 2) PRODUCT("col.row");
  if (layouts == 3) PRODUCT("col.col");
  for (int i = 0; i < 8; i++) D[8 * lane + i] = d[i];
}
__global__ void narrow(const unsigned* A, const unsigned* B, const unsigned* C, unsigned* D, float* wide) {
  const int lane = threadIdx.x;
  unsigned d[4];
  float w[8];
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%0,%1,%2,%3}, {%4,%5}, {%6,%7}, {%8,%9,%10,%11};"
    : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
    : "r"(A[2 * lane]), "r"(A[2 * lane + 1]), "r"(B[2 * lane]), "r"(B[2 * lane + 1]),
      "r"(C[4 * lane]), "r"(C[4 * lane + 1]), "r"(C[4 * lane + 2]), "r"(C[4 * lane + 3]));
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, "
    "{%12,%13,%14,%15};"
    : "=f"(w[0]), "=f"(w[1]), "=f"(w[2]), "=f"(w[3]), "=f"(w[4]), "=f"(w[5]), "=f"(w[6]), "=f"(w[7])
    : "r"(A[2 * lane]), "r"(A[2 * lane + 1]), "r"(B[2 * lane]), "r"(B[2 * lane + 1]),
      "r"(C[4 * lane]), "r"(C[4 * lane + 1]), "r"(C[4 * lane + 2]), "r"(C[4 * lane + 3]));
  for (int i = 0; i < 4; i++) D[4 * lane + i] = d[i];
  for (int i = 0; i < 8; i++) wide[8 * lane + i] = w[i];
}
"""
# The PTX ISA's figures of m8n8k4. Lanes 4 p ... 4 p + 3 and 4 p + 16 ... 4 p + 19 compute product p.
LANE = np.arange(32)
PAIR, INDEX, UPPER = LANE % 16 // 4, LANE % 4, LANE // 16 * 4
I4, I8 = np.arange(4), np.arange(8)
BY_ROW = (INDEX + UPPER)[:, None] + 0 * I4, 0 * LANE[:, None] + I4  # row and column of A.row; column and row of B.col
BY_COLUMN = UPPER[:, None] + I4, INDEX[:, None] + 0 * I4
F16 = (INDEX + UPPER)[:, None] + 0 * I8, 0 * LANE[:, None] + I8
F32 = (LANE % 2 + UPPER)[:, None] + (I8 & 2), (I8 & 4) + (LANE & 2)[:, None] + (I8 & 1)


def words(halves: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(halves).view(np.int32))


@pytest.mark.parametrize("layouts", range(4), ids=["row.row", "row.col", "col.row", "col.col"])
def test_m8n8k4_is_four_products(layouts: int) -> None:
    draw = np.random.default_rng(0)
    a, b = draw.standard_normal((4, 8, 4)).astype(np.float16), draw.standard_normal((4, 4, 8)).astype(np.float16)
    c = draw.standard_normal((4, 8, 8)).astype(np.float32)
    rows, columns = BY_COLUMN if layouts & 2 else BY_ROW
    fragment_a = a[PAIR[:, None], rows, columns]
    rows, columns = BY_ROW if layouts & 1 else BY_COLUMN
    fragment_b = b[PAIR[:, None], columns, rows]
    d = torch.from_numpy(c[(PAIR[:, None], *F32)].copy())
    cuda.load(QUAD_PAIRS)["wide"][1, 32](words(fragment_a), words(fragment_b), d, layouts)
    expected = (a.astype(np.float64) @ b.astype(np.float64) + c)[(PAIR[:, None], *F32)]
    np.testing.assert_allclose(d.numpy(), expected, rtol=1e-6, atol=1e-6)


def test_m8n8k4_with_an_accumulator_of_f16() -> None:
    draw = np.random.default_rng(1)
    a, b = draw.integers(-8, 8, (4, 8, 4)).astype(np.float16), draw.integers(-8, 8, (4, 4, 8)).astype(np.float16)
    c = draw.integers(-99, 99, (4, 8, 8)).astype(np.float16)
    at = PAIR[:, None]
    d, wide = torch.empty(32, 4, dtype=torch.int32), torch.empty(32, 8)
    given = [words(a[(at, *BY_ROW)]), words(b[at, BY_ROW[1], BY_ROW[0]]), words(c[(at, *F16)])]
    cuda.load(QUAD_PAIRS)["narrow"][1, 32](*given, cuda.out(d), cuda.out(wide))
    expected = a.astype(np.float64) @ b.astype(np.float64) + c
    np.testing.assert_array_equal(d.numpy().view(np.float16), expected[(at, *F16)])
    np.testing.assert_array_equal(wide.numpy(), expected[(at, *F32)])


SMALL = """
#define M8(NAME, INSTRUCTION)                                                                             \\
  __global__ void NAME(const unsigned* A, const unsigned* B, const int* C, int* D) {                      \\
    const int lane = threadIdx.x;                                                                         \\
    int d[2];                                                                                             \\
    asm volatile("mma.sync.aligned." INSTRUCTION " {%0,%1}, {%2}, {%3}, {%4,%5};" : "=r"(d[0]), "=r"(d[1]) \\
                 : "r"(A[lane]), "r"(B[lane]), "r"(C[2 * lane]), "r"(C[2 * lane + 1]));                   \\
    D[2 * lane] = d[0], D[2 * lane + 1] = d[1];                                                           \\
  }
M8(s8, "m8n8k16.row.col.s32.s8.s8.s32")
M8(s4, "m8n8k32.row.col.s32.s4.s4.s32")
M8(u4, "m8n8k32.row.col.satfinite.s32.u4.u4.s32")
M8(b1_xor, "m8n8k128.row.col.s32.b1.b1.s32.xor.popc")
M8(b1_and, "m8n8k128.row.col.s32.b1.b1.s32.and.popc")
__global__ void m16(const unsigned* A, const unsigned* B, const int* C, int* D) {
  const int l = threadIdx.x;
  int d[4];
  asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
    "{%10,%11,%12,%13};" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
    : "r"(A[4 * l]), "r"(A[4 * l + 1]), "r"(A[4 * l + 2]), "r"(A[4 * l + 3]), "r"(B[2 * l]), "r"(B[2 * l + 1]),
      "r"(C[4 * l]), "r"(C[4 * l + 1]), "r"(C[4 * l + 2]), "r"(C[4 * l + 3]));
  for (int i = 0; i < 4; i++) D[4 * l + i] = d[i];
}
"""
WMMA = """
#include <mma.h>
using namespace nvcuda;
using namespace nvcuda::wmma::experimental;
template <typename T>
__global__ void four(const unsigned* a, const unsigned* b, const int* c, int* d) {
  wmma::fragment<wmma::matrix_a, 8, 8, 32, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 32, T, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 32, int> acc;
  wmma::load_matrix_sync(fa, a, 32);
  wmma::load_matrix_sync(fb, b, 32);
  wmma::load_matrix_sync(acc, c, 8, wmma::mem_row_major);
  wmma::mma_sync(acc, fa, fb, acc);
  wmma::store_matrix_sync(d, acc, 8, wmma::mem_row_major);
}
template <bmmaBitOp operation>
__global__ void one(const unsigned* a, const unsigned* b, const int* c, int* d) {
  wmma::fragment<wmma::matrix_a, 8, 8, 128, precision::b1, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 128, precision::b1, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 128, int> acc;
  wmma::load_matrix_sync(fa, a, 128);
  wmma::load_matrix_sync(fb, b, 128);
  wmma::load_matrix_sync(acc, c, 8, wmma::mem_row_major);
  wmma::bmma_sync(acc, fa, fb, acc, operation);
  wmma::store_matrix_sync(d, acc, 8, wmma::mem_row_major);
}
"""
RANGES = {"s8": (-128, 128), "s4": (-8, 8), "u4": (0, 16), "b1": (0, 2)}


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    """The values of each row in words, the first in the lowest bits."""
    parts = (values.astype(np.int64) & ((1 << bits) - 1)).reshape(*values.shape[:-1], -1, 32 // bits)
    return (parts << bits * np.arange(32 // bits)).sum(-1).astype(np.uint32).view(np.int32)


def tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


def product(a: np.ndarray, b: np.ndarray, c: np.ndarray, kind: str) -> np.ndarray:
    """a @ b.T + c, or the number of set bits of a xor b."""
    return (a[:, None] ^ b[None]).sum(-1) + c if kind.endswith("xor") else a @ b.T + c


@pytest.mark.parametrize("kind", ["s8", "s4", "u4", "b1_xor", "b1_and"])
def test_m8n8_of_integers_and_bits(kind: str) -> None:
    draw, bits = np.random.default_rng(2), int(kind[1])
    a, b = draw.integers(*RANGES[kind[:2]], (2, 8, 128 // bits))
    c = draw.integers(-99, 99, (8, 8), dtype=np.int32)
    place = LANE[:, None] // 4, LANE[:, None] % 4 * 2 + np.arange(2)  # of C and D
    d = torch.empty(32, 2, dtype=torch.int32)
    given = [tensor(packed(x, bits).reshape(32)) for x in (a, b)]
    cuda.load(SMALL)[kind][1, 32](*given, tensor(c[place]), cuda.out(d))
    np.testing.assert_array_equal(d.numpy(), product(a, b, c, kind)[place])


def test_m16n8k256_of_bits() -> None:
    draw = np.random.default_rng(3)
    a, b = draw.integers(0, 2, (16, 256)), draw.integers(0, 2, (8, 256))
    c = draw.integers(-99, 99, (16, 8), dtype=np.int32)
    i, lane = np.arange(4), LANE[:, None]
    rows, columns = lane // 4 + 8 * (i % 2), lane % 4 + 4 * (i // 2)  # words of A
    place = lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2
    d = torch.empty(32, 4, dtype=torch.int32)
    given = [packed(a, 1)[rows, columns], packed(b, 1)[lane // 4, lane % 4 + 4 * np.arange(2)], c[place]]
    cuda.load(SMALL)["m16"][1, 32](*map(tensor, given), cuda.out(d))
    np.testing.assert_array_equal(d.numpy(), product(a, b, c, "xor")[place])


@pytest.mark.parametrize(
    "kernel, kind",
    [
        ("four<precision::s4>", "s4"), ("four<precision::u4>", "u4"), ("one<bmmaBitOpXOR>", "b1_xor"),
        ("one<bmmaBitOpAND>", "b1_and"),
    ],
)  # fmt: skip
def test_wmma_below_a_byte(kernel: str, kind: str) -> None:
    draw, bits = np.random.default_rng(4), int(kind[1])
    a, b = draw.integers(*RANGES[kind[:2]], (2, 8, 128 // bits))
    c, d = draw.integers(-99, 99, (8, 8), dtype=np.int32), torch.empty(8, 8, dtype=torch.int32)
    cuda.load(WMMA)[kernel][1, 32](*(tensor(packed(x, bits)) for x in (a, b)), tensor(c), cuda.out(d))
    np.testing.assert_array_equal(d.numpy(), product(a, b, c, kind))
