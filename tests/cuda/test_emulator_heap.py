"""malloc, free, new and delete in device code; dynamic parallelism, which is refused."""

from __future__ import annotations

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import OutOfBounds, UndefinedBehaviour, UnsupportedFeature

MODULE = cuda.load("""
struct Node { float value; Node* next; };
__global__ void list(float* y, int n) {
  Node* head = nullptr;
  for (int i = 0; i < n; i++) head = new Node{float(i), head};
  float sum = 0;
  while (head) {
    sum += head->value;
    Node* done = head;
    head = head->next;
    delete done;
  }
  y[threadIdx.x] = sum;
}
__global__ void scratch(float* y) {
  float* p = static_cast<float*>(malloc(16));
  for (int i = 0; i < 4; i++) p[i] = i;
  y[threadIdx.x] = p[threadIdx.x % 4];
  free(p);
}
__global__ void past_the_end(float* y) {
  float* p = new float[4];
  p[4] = 2;
  y[0] = p[4];
  delete[] p;
}
__global__ void after_free(float* y) {
  float* p = static_cast<float*>(malloc(64));
  p[0] = y[0];
  free(p);
  y[0] = p[0];
}
__global__ void freed_twice(float* y) {
  float* p = static_cast<float*>(malloc(64));
  p[0] = y[0];
  y[0] = p[0] + 1;
  free(p);
  free(p);
}
__global__ void too_much(float* y) {
  void* p = malloc(size_t{1} << 30);
  y[0] = p == nullptr;
}
""")


@pytest.mark.parametrize("checks", ["all", "none"])
def test_memory_of_the_device_heap_is_valid(checks: str) -> None:
    y = np.zeros(32, np.float32)
    MODULE["list"][1, 32](y, 5, checks=checks)
    assert y.tolist() == [10.0] * 32
    MODULE["scratch"][1, 32](y, checks=checks)
    assert y.tolist() == [0.0, 1.0, 2.0, 3.0] * 8
    MODULE["too_much"][1, 1](y, checks=checks)
    assert y[0] == 1.0, "the heap has 8 MiB"


@pytest.mark.parametrize(
    "name, kind, text, message",
    [
        ("past_the_end", OutOfBounds, "p[4] = 2;", "16 bytes past the start of an allocation of 16 bytes"),
        ("after_free", OutOfBounds, "y[0] = p[0];", "in freed memory: byte 0 of 64 that malloc or new"),
        ("freed_twice", UndefinedBehaviour, "free(p);", "free or delete of memory that is freed already"),
    ],
)
def test_misuse_of_the_device_heap_is_found(name: str, kind: type[cuda.KernelError], text: str, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        MODULE[name][1, 1](np.zeros(1, np.float32))
    assert caught.value.finding is not None and caught.value.finding.access.text == text


def test_a_launch_in_device_code_is_unsupported() -> None:
    source = """
__global__ void child(float* y) { y[threadIdx.x] = 1; }
__global__ void parent(float* y) { if (threadIdx.x == 0) child<<<1, 32>>>(y); }
"""
    with pytest.raises(UnsupportedFeature, match=r"kernel\.cu:3: kernel parent launches a kernel"):
        cuda.load(source)["parent"][1, 32](np.zeros(32, np.float32))
