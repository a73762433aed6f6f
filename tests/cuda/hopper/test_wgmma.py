"""wgmma: element types, layouts and swizzles of operands, operands in registers, accumulators."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda

HEAD = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/wgmma.cuh>
namespace sm90 = warpwise::sm90;
"""

# One instruction: d (64, n) = a (64, 32 bytes) b. The bytes of a and b lie in shared memory as they come.
ONE = (
    HEAD
    + r"""
template <class T, int N, bool A_MN, bool B_MN>
__global__ void multiply(const unsigned* a, const unsigned* b, typename sm90::ElementOf<T>::Sum* d, int a_words,
                         int b_words, unsigned long long a_strides, unsigned long long b_strides, int times) {
  extern __shared__ __align__(1024) unsigned shared[];
  unsigned* const b_at = shared + (a_words + 255) / 256 * 256;
  for (int i = threadIdx.x; i < a_words; i += 128) shared[i] = a[i];
  for (int i = threadIdx.x; i < b_words; i += 128) b_at[i] = b[i];
  sm90::fence_proxy_async();
  __syncthreads();
  typename sm90::ElementOf<T>::Sum sums[N / 2];
  sm90::wgmma_fence();
  for (int i = 0; i < times; ++i)
    sm90::wgmma<T, N, A_MN, B_MN>(sums, a_strides | (warpwise::shared_address(shared) & 0x3ffff) >> 4,
                                  b_strides | (warpwise::shared_address(b_at) & 0x3ffff) >> 4, i > 0);
  sm90::wgmma_commit_group();
  sm90::wgmma_wait_group<0>();
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  for (int j = 0; j < N / 8; ++j)
    for (int e = 0; e < 4; ++e) d[(row + e / 2 * 8) * N + j * 8 + column + e % 2] = sums[4 * j + e];
}
"""
)
TYPES = {
    "__nv_bfloat16": torch.bfloat16, "__half": torch.float16, "float": torch.float32, "signed char": torch.int8,
    "__nv_fp8_e4m3": torch.float8_e4m3fn, "__nv_fp8_e5m2": torch.float8_e5m2,
}  # fmt: skip


def drawn(shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, dtype=torch.int32).to(torch.int8)
    values = torch.randn(shape)
    if dtype == torch.float32:  # of 10 mantissa bits, which tf32 keeps
        return (values.view(torch.int32) & ~0x1FFF).view(torch.float32)
    return values.to(dtype)


def strides(leading: int, stride: int, swizzle: int) -> int:
    """The bits of a matrix descriptor besides the address; offsets and swizzle in bytes."""
    return leading >> 4 << 16 | stride >> 4 << 32 | {0: 0, 128: 1, 64: 2, 32: 3}[swizzle] << 62


def k_major(matrix: torch.Tensor, swizzle: int) -> tuple[torch.Tensor, int]:
    """The bytes and the descriptor of a matrix (lines, K of 32 bytes) with K along its lines."""
    lines = matrix.contiguous().view(torch.uint8)
    if not swizzle:  # core matrices of 8 x 16 bytes: those of a K step side by side, 8 lines further the next
        cores = lines.view(-1, 8, 2, 16).transpose(1, 2).contiguous()
        return cores.flatten(), strides(128, 256, 0)
    wide = torch.zeros(lines.shape[0], swizzle, dtype=torch.uint8)
    wide[:, :32] = lines
    return xored(wide.flatten(), swizzle), strides(16, 8 * swizzle, swizzle)


def mn_major(matrix: torch.Tensor, swizzle: int) -> tuple[torch.Tensor, int]:
    """The same of a matrix (K, lines) of 2-byte elements with its lines along the rows."""
    rows = matrix.contiguous().view(torch.uint8)
    units = rows.view(16, -1, swizzle).transpose(0, 1).contiguous()  # `swizzle` bytes of each row of K
    return xored(units.flatten(), swizzle), strides(16 * swizzle, 8 * swizzle, swizzle)


def xored(content: torch.Tensor, swizzle: int) -> torch.Tensor:
    at, result = torch.arange(content.numel()), torch.empty_like(content)
    result[at ^ ((at >> 7 & (swizzle // 16 - 1)) << 4)] = content
    return result


def product(name: str, n: int, a, b, flags: str = "false, false", times: int = 1) -> torch.Tensor:
    (a_bytes, a_bits), (b_bytes, b_bits) = a, b
    d = torch.empty(64, n, dtype=torch.int32 if name == "signed char" else torch.float32)
    shared = -(-a_bytes.numel() // 1024) * 1024 + b_bytes.numel()
    cuda.load(ONE)[f"multiply<{name}, {n}, {flags}>"][1, 128, shared](
        *(a_bytes.view(torch.int32), b_bytes.view(torch.int32), cuda.out(d)),
        *(a_bytes.numel() // 4, b_bytes.numel() // 4, a_bits, b_bits, times),
    )
    return d


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("name", TYPES)
def test_types_and_swizzles_of_k_major_operands(name, swizzle):
    torch.manual_seed(0)
    depth = 32 // TYPES[name].itemsize
    a, b = drawn((64, depth), TYPES[name]), drawn((32, depth), TYPES[name])
    d = product(name, 32, k_major(a, swizzle), k_major(b, swizzle))
    torch.testing.assert_close(d.double(), a.double() @ b.double().t(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("a_mn,b_mn", [(True, False), (False, True), (True, True)])
def test_mn_major_operands(a_mn, b_mn, swizzle):
    torch.manual_seed(0)
    a, b = drawn((64, 16), torch.bfloat16), drawn((16, 64), torch.bfloat16)
    left = mn_major(a.t(), swizzle) if a_mn else k_major(a, swizzle)
    right = mn_major(b, swizzle) if b_mn else k_major(b.t(), swizzle)
    d = product("__nv_bfloat16", 64, left, right, f"{a_mn}, {b_mn}".lower())
    torch.testing.assert_close(d.double(), a.double() @ b.double(), atol=1e-5, rtol=1e-5)


def test_products_are_added_to_the_accumulators():
    torch.manual_seed(0)
    a, b = drawn((64, 16), torch.float16), drawn((8, 16), torch.float16)
    d = product("__half", 8, k_major(a, 128), k_major(b, 128), times=3)
    torch.testing.assert_close(d.double(), 3 * (a.double() @ b.double().t()), atol=1e-5, rtol=1e-5)


REGISTERS = (
    HEAD
    + r"""
extern "C" __global__ void from_registers(const __half* a, const unsigned* b, float* d, unsigned long long b_strides) {
  __shared__ __align__(1024) unsigned shared[256];
  for (int i = threadIdx.x; i < 256; i += 128) shared[i] = b[i];
  sm90::fence_proxy_async();
  __syncthreads();
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  unsigned r[4];
  for (int i = 0; i < 4; ++i)
    r[i] = *reinterpret_cast<const unsigned*>(a + (row + i % 2 * 8) * 16 + i / 2 * 8 + column);
  const unsigned long long descriptor = b_strides | (warpwise::shared_address(shared) & 0x3ffff) >> 4;
  float sums[4];
  sm90::wgmma_fence();
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %9, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, -1, 1, 0;\n}"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(descriptor), "r"(0));
  sm90::wgmma_commit_group();
  sm90::wgmma_wait_group<0>();
  for (int e = 0; e < 4; ++e) d[(row + e / 2 * 8) * 8 + column + e % 2] = sums[e];
}
"""
)


def test_an_operand_in_registers_and_a_negated_one():
    torch.manual_seed(0)
    a, b, d = drawn((64, 16), torch.float16), drawn((8, 16), torch.float16), torch.empty(64, 8)
    content, bits = k_major(b, 128)
    cuda.load(REGISTERS)["from_registers"][1, 128](a, content.view(torch.int32), cuda.out(d), bits)
    torch.testing.assert_close(d.double(), -(a.double() @ b.double().t()), atol=1e-5, rtol=1e-5)


def test_a_block_without_a_whole_warpgroup_is_refused():
    with pytest.raises(cuda.UndefinedBehaviour, match="a warpgroup has 128 threads"):
        cuda.load(REGISTERS)["from_registers"][1, 96](
            torch.zeros(64, 16).half(), torch.zeros(256, dtype=torch.int32), torch.zeros(64, 8), 0
        )
