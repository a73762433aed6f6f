"""On a CPU the second of two runs emulates blocks and programs in reverse order, so sums in any order are found."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl
from tests.lab import toys

from warpwise import cuda
from warpwise import triton as wt
from warpwise.cuda.launch.order import launches_in
from warpwise.lab import verify

MODULE = cuda.load("""
// out: (rows,), zero. Grid: (chunks, rows) blocks of 64 threads, a chunk of a row each.
__global__ void by_atomics(const float* x, float* out, int columns) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i < columns) atomicAdd(&out[blockIdx.y], x[(long long)blockIdx.y * columns + i]);
}

// The same sums, each by one thread.
__global__ void in_order(const float* x, float* out, int columns) {
  float sum = 0;
  for (int i = 0; i < columns; ++i) sum += x[(long long)blockIdx.x * columns + i];
  out[blockIdx.x] = sum;
}

// Integers: any order gives the same counts.
__global__ void count(const unsigned char* x, int* counts, int n) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n && x[i] < 16) atomicAdd(&counts[x[i]], 1);
}

__global__ void arrivals(int* order, int* arrived) { order[atomicAdd(arrived, 1)] = blockIdx.x; }
""")


@wt.jit
def chunk(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(1) * columns + at, mask=at < columns, other=0.0)
    tl.atomic_add(out_ptr + tl.program_id(1), tl.sum(x, axis=0))


@wt.jit
def arrivals_of_programs(order_ptr, arrived_ptr):
    tl.store(order_ptr + tl.atomic_add(arrived_ptr, 1), tl.program_id(0))


def by_atomics(out, x):
    out.zero_()
    MODULE["by_atomics"][(-(-x.shape[1] // 64), x.shape[0]), 64](x, out, x.shape[1])


def by_programs(out, x):
    out.zero_()
    chunk[(-(-x.shape[1] // 32), x.shape[0])](x, out, x.shape[1], BLOCK=32)


def in_order(out, x):
    MODULE["in_order"][x.shape[0], 1](x, cuda.out(out), x.shape[1])


def count(out, x):
    out.zero_()
    MODULE["count"][len(x) // 64 + 1, 64](x, out, len(x))


def judged(spec, launch, language="cuda", deterministic=True):
    op = toys.op(spec, launch, language=language, deterministic=deterministic)
    return verify(op, launch.__name__, device="cpu", dtypes=spec.dtypes[:1], seeds=(0,))


@pytest.mark.parametrize("launch,language", [(by_atomics, "cuda"), (by_programs, "triton")])
def test_a_sum_in_any_order_is_not_deterministic(launch, language):
    failure = judged(toys.ROW_SUM, launch, language).failures[0]
    assert failure.kind == "nondeterministic"
    assert failure.message.startswith("two runs on the same inputs differ: output[")
    assert "; in the second, emulated blocks and threads ran in reverse order. If the order of" in failure.message
    assert judged(toys.ROW_SUM, launch, language, deterministic=False).right


@pytest.mark.parametrize("spec,launch", [(toys.ROW_SUM, in_order), (toys.COUNTS, count)])
def test_a_sum_in_one_order_and_a_sum_of_integers_are_deterministic(spec, launch):
    verdict = judged(spec, launch)
    assert verdict.right, str(verdict)


def test_a_launch_that_names_an_order_keeps_it():
    def blocks(**options):
        order, arrived = torch.zeros(5, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        MODULE["arrivals"][5, 1](order, arrived, **options)
        return order.tolist()

    def programs():
        order, arrived = torch.zeros(5, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        arrivals_of_programs[(5,)](order, arrived)
        return order.tolist()

    assert blocks() == programs() == [0, 1, 2, 3, 4]
    with launches_in("reverse"):
        assert blocks() == programs() == [4, 3, 2, 1, 0]
        assert blocks(order="forward") == [0, 1, 2, 3, 4]
    assert blocks(order="reverse") == [4, 3, 2, 1, 0]
