"""load_inline with headers of a project: their device functions, kernels, launches and variables become host code."""

import pytest
import torch

from warpwise import cuda
from warpwise.cuda.inline import source

ATOMICS = """
#pragma once
template <typename T> struct Maximum {
  inline __device__ void operator()(T* address, T value) const {
    unsigned* word = reinterpret_cast<unsigned*>(address);
    unsigned old = *word, assumed;
    do {
      assumed = old;
      old = atomicCAS(word, assumed, __float_as_uint(fmaxf(__uint_as_float(assumed), value)));
    } while (assumed != old);
  }
  static __host__ __device__ T start() { return -1; }
};
#define ATOMIC(NAME)                                       \\
  template <typename T> struct Atomic##NAME {              \\
    static inline __device__ void apply(T* to, T value) {  \\
      int* word = (int*)to;                                \\
      atomicCAS(word, 0, (int)value);                      \\
    }                                                      \\
  };
ATOMIC(Once)
__constant__ float scale[2];
#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), "expected a CUDA tensor")
"""
KERNELS = """
#include "../detail/atomics.cuh"
__global__ void maximum(const float* x, float* out, int* seen, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) Maximum<float>()(out, x[i] * scale[1]);
  if (i == 0) AtomicOnce<int>::apply(seen, 1);
}
#define COUNTING_KERNEL(name, type)                   \\
  __global__ void name##_kernel(type* counts, int n) { \\
    if (threadIdx.x < n) atomicAdd(counts, 1);         \\
  }
COUNTING_KERNEL(count, int)
inline void launch_maximum(const float* x, float* out, int* seen, int n) {
  maximum<<<(n + 31) / 32, 32>>>(x, out, seen, n);
  count_kernel<<<1, 32>>>(seen, 3);
}
"""
CUDA = """
#include <c10/cuda/CUDAFunctions.h>
#include "kernels/maximum.cuh"
#include <detail/atomics.cuh>
std::vector<torch::Tensor> maximum_of(torch::Tensor x) {
  CHECK_CUDA(x);
  c10::cuda::MaybeSetDevice(x.get_device());
  auto out = torch::full({1}, Maximum<float>::start(), x.options());
  auto seen = torch::zeros({1}, x.options().dtype(torch::kInt32));
  const float factors[] = {0, 2};
  cudaMemcpyToSymbol(scale, factors, sizeof factors);
  launch_maximum(x.data_ptr<float>(), out.data_ptr<float>(), seen.data_ptr<int>(), x.numel());
  return {out, seen};
}
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in {"detail/atomics.cuh": ATOMICS, "kernels/maximum.cuh": KERNELS}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    return tmp_path


def load(folder, text=CUDA):
    return cuda.load_inline(
        "warpwise_test_project_headers",
        "std::vector<torch::Tensor> maximum_of(torch::Tensor x);",
        text,
        functions="maximum_of",
        extra_include_paths=str(folder),
        device="cpu",
    )


def test_device_code_and_launches_of_headers(folder):
    x = torch.arange(100, dtype=torch.float32)
    out, seen = load(folder).maximum_of(x)
    assert (out.item(), seen.item()) == (198.0, 4)


def test_an_error_in_a_header_reports_its_line(folder):
    path = folder / "kernels/maximum.cuh"
    path.write_text(path.read_text() + "inline int wrong() { return wrong_name; }\n")
    with pytest.raises(cuda.CompileError, match=rf"{path}:17:.*wrong_name"):
        load(folder)


def test_device_functions_of_macros_lose_their_bodies():
    made = source.host_code(ATOMICS, "x.cuh")
    assert "atomicCAS" not in made
    assert made.splitlines()[20] == ATOMICS.splitlines()[20] == "ATOMIC(Once)"


def test_a_macro_that_opens_a_function_is_kept():
    text = "#define BEGIN(name) __device__ int name() { if (1) {}\nBEGIN(f) return 1; }\n"
    assert source.host_code(text, "x.cuh").startswith("#define BEGIN(name) __device__ int name() { if (1) {}\n")
