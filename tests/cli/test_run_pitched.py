"""``warpwise run``: copies of rows of pitched memory, during which the host may access a block, and not after them."""

from __future__ import annotations

import pytest
from tests.commands import command

PROGRAM = """
#include <cstdio>
#include <cuda_runtime.h>
__global__ void twice(float* x, size_t pitch) {
  float* const row = (float*)((char*)x + blockIdx.x * pitch);
  row[threadIdx.x] *= 2;
}
int main(int argc, char** argv) {
  float in[3][4], out[3][4] = {}, *d;
  size_t pitch;
  for (int i = 0; i < 12; i++) in[i / 4][i % 4] = i;
  cudaMallocPitch((void**)&d, &pitch, sizeof in[0], 3);
  cudaMemset2D(d, pitch, 0, sizeof in[0], 3);
  cudaMemcpy2D(d, pitch, in, sizeof in[0], sizeof in[0], 3, cudaMemcpyHostToDevice);
  if (argc > 1) return d[1] > 0;
  twice<<<3, 4>>>(d, pitch);
  cudaMemcpy2D((char*)d, pitch, (char*)d + pitch, pitch, sizeof in[0], 2, cudaMemcpyDeviceToDevice);
  cudaMemcpy2D(out, sizeof out[0], d, pitch, sizeof out[0], 3, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 12; i++) printf("%g ", out[i / 4][i % 4]);
  cudaFree(d);
}
"""


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "program.cu"
    path.write_text(PROGRAM)
    return lambda *arguments: command("run", str(path), "--device", "cpu", "--check", "--", *arguments)


def test_copies_of_rows(run) -> None:
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "8 10 12 14 16 18 20 22 16 18 20 22 "


def test_host_access_after_a_copy_of_rows_is_found(run) -> None:
    done = run("read")
    assert done.returncode == 139 and "HostAccess: the host accesses device memory at byte 4" in done.stderr
