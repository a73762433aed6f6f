"""Findings in memory that kernels reach through pointers in memory name the block: `float** rows`; pointers to host
memory."""

from __future__ import annotations

import pytest
from tests.commands import command

ROWS = """
__global__ void sum(int** rows) { rows[0][threadIdx.x / 2] += threadIdx.x; }
__global__ void put(int** rows, int row, int i) { rows[row][i] = 1; }
int main(int argc, char** argv) {
  int** rows;
  cudaMallocManaged(&rows, 3 * sizeof(int*));
  for (int i = 0; i < 3; i++) cudaMallocManaged(&rows[i], 16 * sizeof(int));
  cudaMemset(rows[0], 0, 16 * sizeof(int));
  cudaFree(rows[2]);
  if (argc == 1)
    sum<<<1, 32>>>(rows);
  else
    put<<<1, 1>>>(rows, atoi(argv[1]), 16);
  cudaDeviceSynchronize();
}
"""
MADE = "64 bytes, allocated at program.cu:7"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), f"DataRace: sum: byte 0 of managed memory ({MADE}): updates by several threads"),
        (("1",), f"OutOfBounds: put: 4-byte write to byte 64 of managed memory ({MADE})\n"),
        (("2",), f"write to byte 64 of freed managed memory ({MADE}, freed at program.cu:9)\n"),
    ],
)
def test_a_block_behind_a_pointer_in_memory(tmp_path, monkeypatch, arguments, message):
    (tmp_path / "program.cu").write_text(ROWS)
    monkeypatch.chdir(tmp_path)
    done = command("run", "program.cu", "--device", "cpu", "--", *arguments)
    assert done.returncode == 1 and message in done.stderr, done.stderr


def test_more_blocks_than_the_emulator_holds(tmp_path):
    (tmp_path / "program.cu").write_text(
        "int main() {\n  int failed = 0;\n  void* row;\n"
        "  for (int i = 0; i < 1540; i++) failed += cudaMalloc(&row, 16) == cudaErrorMemoryAllocation;\n"
        '  printf("%d", failed);\n}\n'
    )
    done = command("run", str(tmp_path / "program.cu"), "--device", "cpu")
    assert done.stdout == "4" and done.stderr.count("1536 blocks of memory are live") == 1


HOST_POINTERS = """
#include <vector>
__device__ int* last;
__global__ void add(int* a, int i) { a[i]++; }
__global__ void through() { *last = 1; }
int main(int argc, char** argv) {
  int local[4] = {}, *wild = (int*)0x1234560;
  std::vector<int> heap(1000000);
  int* pointers[] = {local, heap.data(), wild};
  int* pointer = pointers[argv[1][0] - '0'];
  if (argc == 2) add<<<1, 1>>>(pointer, 3);
  if (argc == 3) cudaMemcpyToSymbol(last, &pointer, sizeof pointer), through<<<1, 1>>>();
  cudaDeviceSynchronize();
}
"""


@pytest.mark.parametrize("arguments, host", [(("0",), True), (("1",), True), (("0", "x"), True), (("2",), False)])
def test_a_pointer_to_host_memory(tmp_path, arguments, host):
    (tmp_path / "program.cu").write_text(HOST_POINTERS)
    done = command("run", str(tmp_path / "program.cu"), "--device", "cpu", "--", *arguments)
    assert done.returncode == 1 and done.stderr.startswith("OutOfBounds: "), done.stderr
    assert ("the address is in host memory, which kernels cannot access" in done.stderr) == host
