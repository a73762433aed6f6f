"""Tensor maps: arguments that TMA does not support raise before the driver is called."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from warpwise import cuda


@pytest.mark.parametrize(
    "tensor, box, options, message",
    [
        (torch.empty(8, 8), (8,), {}, r"box to hold 2 extents of 1 to 256 elements, got \(8,\)"),
        (torch.empty(8, 8), (8, 300), {}, r"1 to 256 elements, got \(8, 300\)"),
        (torch.empty(8, 64), (8, 64), {}, "box\\[-1\\] of at most 32 elements with swizzle=128, got 64"),
        (torch.empty(8, 8), (8, 8), {"swizzle": 96}, "swizzle one of 0, 32, 64, 128"),
        (torch.empty(8, 8), (8, 8), {"promotion": 1}, "promotion one of 0, 64, 128, 256"),
        (torch.empty(8, 8).t(), (8, 8), {}, "a last stride of 1"),
        (torch.empty(8, 7), (8, 7), {}, "the others multiples of 16 bytes, got strides"),
        (torch.empty(9)[1:].view(2, 4), (2, 4), {}, "data aligned to 16 bytes"),
        (torch.empty(8, 8, dtype=torch.bool), (8, 8), {}, "a dtype that TMA supports"),
        (torch.empty(0, 8), (8, 8), {}, "none of them empty"),
    ],
)
def test_arguments_that_tma_does_not_support_raise(tensor, box, options, message):
    with pytest.raises(cuda.ArgumentError, match=message):
        cuda.tensor_map(tensor, box, **options)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_box_past_the_edge_reads_zeros():
    source = r"""
    #include <warpwise/core/shared_memory.cuh>
    #include <warpwise/sm90/mbarrier.cuh>
    #include <warpwise/sm90/tma.cuh>
    namespace sm90 = warpwise::sm90;
    extern "C" __global__ void copy(const __grid_constant__ sm90::TensorMap map, float* out, int x, int y) {
      __shared__ alignas(128) float box[8][8];
      __shared__ unsigned long long barrier;
      const unsigned at = warpwise::shared_address(&barrier);
      if (threadIdx.x == 0) {
        sm90::mbarrier_init(at, 1);
        sm90::fence_mbarrier_init();
        sm90::mbarrier_arrive_expect_tx(at, sizeof box);
        sm90::tma_load_2d(warpwise::shared_address(box), &map, at, x, y);
      }
      __syncthreads();
      sm90::mbarrier_wait(at, 0);
      out[threadIdx.x] = box[threadIdx.x / 8][threadIdx.x % 8];
    }
    """
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no TMA")
    tensor = torch.arange(1.0, 161.0, device="cuda").view(10, 16)
    out = torch.empty(8, 8, device="cuda")
    cuda.load(source)["copy"][1, 64](cuda.tensor_map(tensor, (8, 8), swizzle=0), out, 12, 5)
    expected = torch.zeros(8, 8, device="cuda")
    expected[:5, :4] = tensor[5:10, 12:16]
    assert torch.equal(out, expected)


@pytest.mark.gpu
def test_a_thread_that_has_not_used_the_gpu_makes_a_map():
    """Such as a thread of autograd, whose first call may be a backward that loads by TMA."""
    tensor = torch.zeros(96, 72, device="cuda")
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(cuda.tensor_map, tensor, (8, 8)).result()
    assert bytes(found) == bytes(cuda.tensor_map(tensor, (8, 8)))
