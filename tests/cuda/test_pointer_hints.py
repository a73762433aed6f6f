"""An access outside all arguments: the finding names the argument that the pointer probably comes from."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import OutOfBounds


@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_a_null_pointer_names_the_arguments_without_elements(order: str) -> None:
    source = """__global__ void f(const float* a, const float* b, float* c, float* d) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (b) d[i] = a[i]; else if (c) d[i] = 1; else c[i] = 1;
    }"""

    def hint(*arguments: np.ndarray | None) -> str:
        (found,) = cuda.load(source)["f"][8, 256].check(*arguments, order=order)
        assert found.kind is OutOfBounds
        return found.hint

    full, empty = np.zeros(2048, "f4"), np.zeros(0, "f4")
    assert hint(full, None, full, empty) == "argument 'd' has 0 elements: the pointer is null"
    assert hint(empty, None, empty, empty) == "arguments 'c' and 'd' have 0 elements: the pointer is null"
    assert hint(empty, full, full, full) == "argument 'a' has 0 elements: the pointer is null"
    assert hint(None, full, full, full) == "argument 'a' is a null pointer"
    assert hint(full, full, full, None) == "argument 'd' is a null pointer"


def test_a_pointer_in_a_structure_is_explained() -> None:
    text = "struct View { long n; int* data; }; __global__ void k(View view, int* y) { y[0] = view.data[3]; }"
    data, y = np.zeros(1 << 20, "i4"), np.zeros(1, "i4")  # far apart: next to y, the access would be outside y
    found = cuda.load(text)["k"][1, 1].check(struct.pack("=qQ", 8, data.ctypes.data), y)
    assert found[0].kind is OutOfBounds
    assert "argument 'view' holds this pointer" in found[0].hint
    assert "view" not in cuda.load(text)["k"][1, 1].check(struct.pack("=qQ", 8, 0), y)[0].hint
