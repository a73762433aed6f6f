"""Warp matrix functions (mma.h) and random numbers (curand_kernel.h) on the emulator."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from warpwise import cuda

WMMA = """
#include <mma.h>
using namespace nvcuda;
template <typename T, typename U, int M, int N, int K, typename Layout, typename P>
__global__ void product(const P* a, const P* b, const U* c, U* d, int columns) {
  wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, Layout> fb;
  wmma::fragment<wmma::accumulator, M, N, K, U> acc;
  wmma::load_matrix_sync(fa, a, K);
  wmma::load_matrix_sync(fb, b, columns ? K : N);
  wmma::load_matrix_sync(acc, c, N, wmma::mem_row_major);
  wmma::mma_sync(acc, fa, fb, acc);
  for (int i = 0; i < acc.num_elements; i++) acc.x[i] = acc.x[i] + acc.x[i];
  wmma::store_matrix_sync(d, acc, N, wmma::mem_row_major);
}
__global__ void unaligned(const half* a, float* d) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::load_matrix_sync(fa, a, 17);
  d[threadIdx.x] = __half2float(fa.x[0]);
}
"""
CASES = [
    ("half, float, 16, 16, 16", "half", torch.float16, torch.float32),
    ("half, half, 16, 16, 16", "half", torch.float16, torch.float16),
    ("half, float, 32, 8, 16", "half", torch.float16, torch.float32),
    ("half, float, 8, 32, 16", "half", torch.float16, torch.float32),
    ("__nv_bfloat16, float, 16, 16, 16", "__nv_bfloat16", torch.bfloat16, torch.float32),
    ("signed char, int, 16, 16, 16", "signed char", torch.int8, torch.int32),
    ("unsigned char, int, 8, 32, 16", "unsigned char", torch.uint8, torch.int32),
    ("wmma::precision::tf32, float, 16, 16, 8", "float", torch.float32, torch.float32),
]


# Both layouts for shape 16x16x16 only: the layout does not depend on the shape.
LAYOUTS = [
    (*case, layout)
    for case in CASES
    for layout in ("row_major", "col_major")
    if layout[0] == "r" or "16, 16, 16" in case[0]
]


@pytest.mark.parametrize(
    "arguments, pointer, dtype, wide, layout",
    LAYOUTS,
    ids=[f"{case[0]}-{case[-1]}".replace(", ", "-") for case in LAYOUTS],
)
def test_mma_sync(arguments: str, pointer: str, dtype: torch.dtype, wide: torch.dtype, layout: str) -> None:
    torch.manual_seed(0)
    m, n, k = (int(word) for word in arguments.split(", ")[2:])
    draw = (
        (lambda *s: torch.randn(*s).to(dtype))
        if dtype.is_floating_point
        else (lambda *s: torch.randint(0, 100, s).to(dtype))
    )
    a, b, c = draw(m, k), draw(k, n), torch.randint(-5, 5, (m, n)).to(wide)
    if dtype is torch.float32:
        a, b = ((x.view(torch.int32) & ~0x1FFF).view(torch.float32) for x in (a, b))
    d = torch.empty(m, n, dtype=wide)
    stored = b.T.contiguous() if layout == "col_major" else b
    kernel = cuda.load(WMMA)[f"product<{arguments}, wmma::{layout}, {pointer}>"]
    kernel[1, 32](a, stored, c, cuda.out(d), int(layout == "col_major"))
    expected = 2 * (a.double() @ b.double() + c.double())
    tolerance = {torch.int32: 0.0, torch.float32: 1e-5, torch.float16: 5e-2}[wide]
    torch.testing.assert_close(d.double(), expected, rtol=tolerance, atol=tolerance)


def test_an_unsupported_leading_dimension() -> None:
    with pytest.raises(cuda.UndefinedBehaviour, match="multiples of 16 bytes"):
        cuda.load(WMMA)["unaligned"][1, 32](torch.zeros(16 * 17).half(), torch.empty(32))


RANDOM = """
#include <curand_kernel.h>
__global__ void xorwow(unsigned long long seed, unsigned long long offset, unsigned* x, float* u, float* g) {
  curandState state;
  curand_init(seed, threadIdx.x, offset, &state);
  x[threadIdx.x] = curand(&state);
  u[threadIdx.x] = curand_uniform(&state);
  g[threadIdx.x] = curand_normal(&state);
}
__global__ void stepped(unsigned long long seed, unsigned* x, int n) {
  curandState state;
  curand_init(seed, 0, 0, &state);
  for (int i = 0; i < n; i++) x[i] = curand(&state);
}
__global__ void philox(unsigned long long seed, unsigned long long sequence, unsigned long long offset, unsigned* x) {
  curandStatePhilox4_32_10_t state;
  curand_init(seed, sequence, offset, &state);
  for (int i = 0; i < 8; i++) x[i] = curand(&state);
}
__global__ void moments(float* u, float* g) {
  curandStatePhilox4_32_10_t state;
  curand_init(7, threadIdx.x, 0, &state);
  for (int i = 0; i < 64; i++) {
    u[threadIdx.x * 64 + i] = curand_uniform(&state); g[threadIdx.x * 64 + i] = curand_normal(&state);
  }
}
"""


def test_xorwow_skip_ahead() -> None:
    """Numbers after an offset equal the later numbers without it; subsequences, 2^67 numbers apart, differ."""
    x, u, g = np.empty(4, np.uint32), np.empty(4, np.float32), np.empty(4, np.float32)
    xorwow = cuda.load(RANDOM)["xorwow"]
    xorwow[1, 4](1234, 0, cuda.out(x), cuda.out(u), cuda.out(g))
    np.testing.assert_allclose(x / 2.0**32, [0.1455, 0.8202, 0.5504, 0.2948], atol=6e-5)
    skipped = np.empty(4, np.uint32)
    xorwow[1, 4](1234, 1, cuda.out(skipped), cuda.out(np.empty_like(u)), cuda.out(g))
    np.testing.assert_allclose(skipped * np.float32(2.0**-32), u, rtol=1e-6)
    many, few = np.empty(301, np.uint32), np.empty(1, np.uint32)
    cuda.load(RANDOM)["stepped"][1, 1](99, cuda.out(many), 301)
    xorwow[1, 1](99, 300, cuda.out(few), cuda.out(u[:1]), cuda.out(g[:1]))
    assert few[0] == many[300]


def test_philox_known_answers() -> None:
    """Random123's known answer for zero counter and key; the sequence and the offset advance the counter."""
    philox = cuda.load(RANDOM)["philox"]
    x, y = np.empty(8, np.uint32), np.empty(8, np.uint32)
    philox[1, 1](0, 0, 0, cuda.out(x))
    assert [hex(value) for value in x[:4].tolist()] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    philox[1, 1](0, 0, 3, cuda.out(y))
    assert y[:5].tolist() == x[3:].tolist()
    philox[1, 1](0, 1, 0, cuda.out(y))
    assert y.tolist() != x.tolist()


def test_moments_of_the_distributions() -> None:
    u, g = torch.empty(1 << 15), torch.empty(1 << 15)
    cuda.load(RANDOM)["moments"][1, 512](cuda.out(u), cuda.out(g), checks="none")
    assert 0.0 < u.min() < u.max() <= 1.0
    assert abs(u.mean() - 0.5) < 0.01
    assert abs(g.mean()) < 0.03
    assert abs(g.std() - 1.0) < 0.03
