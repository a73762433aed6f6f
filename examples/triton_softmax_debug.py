"""Finds a missing mask in a Triton softmax without a GPU, then runs and compiles the corrected kernel.

``breakpoint()`` works at any line of the kernels: the debugger stops there, and blocks are NumPy arrays.
"""

from __future__ import annotations

import torch
import triton.language as tl

from warpwise import triton as wt


@wt.jit
def softmax_unmasked(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0) * cols
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + offsets)  # BLOCK is a power of two, cols is not
    exponentials = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row + offsets, exponentials / tl.sum(exponentials, axis=0), mask=offsets < cols)


@wt.jit
def softmax_row(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0) * cols
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + offsets, mask=offsets < cols, other=-float("inf"))
    exponentials = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row + offsets, exponentials / tl.sum(exponentials, axis=0), mask=offsets < cols)


def main() -> None:
    rows, cols = 4, 100
    x = torch.randn(rows, cols)
    out = torch.empty_like(x)
    block = wt.next_power_of_2(cols)
    for finding in softmax_unmasked[rows].check(x, wt.out(out), cols, BLOCK=block):
        print(finding, end="\n\n")
    softmax_row[rows](x, wt.out(out), cols, BLOCK=block)
    print(f"softmax_row: largest difference from PyTorch {(out - x.softmax(-1)).abs().max().item():.1e}")
    compiled = softmax_row.compile_for(x, out, cols, BLOCK=block, target="sm_90")
    resources = f"{compiled.registers} registers, {compiled.shared} bytes shared, {compiled.spills} spilled"
    print(f"for {compiled.target}: {resources}")


if __name__ == "__main__":
    main()
