"""`extern` variables of device code: a definition in the file, none, and one in another file of a program."""

from __future__ import annotations

import torch

from warpwise import cuda
from warpwise.cuda.emulator.rewrite import rewrite

DECLARED = """
extern __device__ int steps;
extern "C" __device__ int rest;
namespace grid { extern __device__ int sizes[3]; }
__device__ int steps = 5;
__global__ void read(int* y) {
  y[0] = steps;
  y[1] = rest++;
  y[2] = grid::sizes[2];
}
"""


def test_a_variable_that_is_only_declared_is_zero() -> None:
    y, kernel = torch.full((3,), -1, dtype=torch.int32), cuda.load(DECLARED)["read"]
    kernel[1, 1](y)
    assert y.tolist() == [5, 0, 0]
    kernel[1, 1](y)
    assert y.tolist() == [5, 1, 0]


def test_another_file_of_a_program_may_define_it() -> None:
    alone, separate = rewrite(DECLARED), rewrite(DECLARED, separate=True)
    assert (alone.text.count("extern"), len(alone.variables)) == (1, 3)
    assert (separate.text.count("extern"), len(separate.variables)) == (3, 1)
