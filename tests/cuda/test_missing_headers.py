"""A name of CUDA's C++ libraries without its header, or of a header without a version for the emulator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpwise import cuda
from warpwise.cuda import CompileError, UnsupportedFeature
from warpwise.cuda.program import build

MAXIMUM = """
__global__ void maximum(const int* x, int* y) {
  using Reduce = cub::BlockReduce<int, 32>;
  __shared__ typename Reduce::TempStorage storage;
  const int sum = Reduce(storage).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) *y = sum;
}
"""
COUNT = """
__global__ void count(int* y) {
  cuda::atomic_ref<int, cuda::thread_scope_device> total(*y);
  total.fetch_add(1, cuda::memory_order_relaxed);
}
"""


def test_cub_without_its_header() -> None:
    x, y = torch.arange(32, dtype=torch.int32), torch.empty(1, dtype=torch.int32)
    with pytest.raises(CompileError, match=r"cub is declared in <cub/cub.cuh>, which is not included") as caught:
        cuda.load(MAXIMUM)["maximum"][1, 32](x, cuda.out(y))
    assert not isinstance(caught.value, UnsupportedFeature)
    cuda.load("#include <cub/cub.cuh>\n" + MAXIMUM)["maximum"][1, 32](x, cuda.out(y))
    assert y.item() == x.sum()


def test_an_atomic_without_its_header() -> None:
    y = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(CompileError) as caught:
        cuda.load(COUNT)["count"][1, 32](y)
    assert not isinstance(caught.value, UnsupportedFeature), caught.value
    cuda.load("#include <cuda/atomic>\n" + COUNT)["count"][1, 32](y)
    assert y.item() == 32


MATRIX = """
__global__ void fill(int* y) {
  cuda::std::mdspan<int, cuda::std::extents<int, 4, 8>> matrix(y);
  matrix(threadIdx.x / 8, threadIdx.x % 8) = threadIdx.x;
}
"""
CLAIM = """
__global__ void claim(int* y) {
  cuda::atomic_ref<int, cuda::thread_scope_device> total(*y);
  cuda::for_each_canceled_block<1>([&](dim3) { total.fetch_add(1); });
}
"""


@pytest.mark.parametrize(
    "text, kernel, missing",
    [
        ("#include <cuda/mdspan>\n" + MATRIX, "fill", "<cuda/mdspan>"),
        ("#include <cuda/std/mdspan>\n#include <cuda/std/array>\n" + MATRIX, "fill", "<cuda/std/mdspan>"),
        ("#include <cuda/atomic>\n#include <cuda/work_stealing>\n" + CLAIM, "claim", "<cuda/work_stealing>"),
    ],
)
def test_the_error_names_a_header_without_a_version_for_the_emulator(text: str, kernel: str, missing: str) -> None:
    y = torch.zeros(32, dtype=torch.int32)
    with pytest.raises(UnsupportedFeature, match=f"the emulator has no version of {missing}; run it on a GPU"):
        cuda.load(text)[kernel][1, 32](y)


def test_a_header_that_the_kernel_does_not_need_is_left_out() -> None:
    y = torch.zeros(1, dtype=torch.int32)
    cuda.load("#include <cuda/stream_ref>\n#include <cuda/atomic>\n" + COUNT)["count"][1, 32](y)
    assert y.item() == 32
    with pytest.raises(CompileError, match="undeclared_name") as caught:
        cuda.load("#include <cuda/stream_ref>\n__global__ void f(int* y) { *y = undeclared_name; }")["f"][1, 1](y)
    assert not isinstance(caught.value, UnsupportedFeature), caught.value


def test_a_header_that_the_build_makes_from_a_template(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    template = tmp_path / "include" / "sizes.h.in"
    template.write_text("#define ROWS @ROWS@\n")
    path = tmp_path / "fill.cu"
    path.write_text('#include "sizes.h"\n__global__ void fill(int* y) { *y = ROWS; }\n')
    with pytest.raises(CompileError) as caught:
        cuda.load(path)["fill"][1, 1](torch.zeros(1, dtype=torch.int32))
    assert f"sizes.h is made from {template} by the project's build" in str(caught.value)
    with pytest.raises(CompileError) as caught:
        build.program([_with_main(path)], build.Options())
    assert f"sizes.h is made from {template} by the project's build" in str(caught.value)


def _with_main(path: Path) -> Path:
    path.write_text(path.read_text() + "int main() { return 0; }\n")
    return path
