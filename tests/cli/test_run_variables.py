"""`warpwise run`: global variables that the program declares const."""

from __future__ import annotations

from tests.commands import command

CONSTANTS = """
#include <cstdio>
__constant__ static const unsigned char box[4] = {1, 2, 3, 4};
__constant__ int table[4] = {10, 20, 30, 40};
__device__ const int offsets[4] = {100, 200, 300, 400};
__constant__ const float scale = 1.5f;
__global__ void k(int* out) {
  int i = threadIdx.x;
  out[i] = scale * (box[i] + table[i] + offsets[i]);
}
void show(int* out) {
  int host[4];
  k<<<1, 4>>>(out);
  cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  printf("%d %d\\n", host[0], host[3]);
}
int main() {
  int *out, *address, four[4] = {1000, 0, 0, 4000};
  unsigned char none[4] = {};
  cudaMalloc(&out, 4 * sizeof(int));
  show(out);
  if (cudaMemcpyToSymbol(box, none, sizeof none) || cudaGetSymbolAddress((void**)&address, offsets)) return 1;
  cudaMemcpy(address, four, sizeof four, cudaMemcpyHostToDevice);
  show(out);
  cudaFree(out);
}
"""


def test_constant_and_device_variables_that_are_const(tmp_path):
    path = tmp_path / "program.cu"
    path.write_text(CONSTANTS)
    done = command("run", str(path), "--check", "--device", "cpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "166 666\n1515 6060\n"
