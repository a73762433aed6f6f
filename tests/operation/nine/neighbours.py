"""Pairs of points within a radius: the data decide how many, so the rung counts, allocates, then writes."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import Case, Cost, Op, Output, Rung, Spec, check_tensor, draw

MODULE = cuda.load("""
// points: (n, 2). Squared distance in the order that the reference rounds in.
__device__ bool near(const float* points, int i, int j, float radius) {
  const float dx = points[2 * i] - points[2 * j], dy = points[2 * i + 1] - points[2 * j + 1];
  return i != j && dx * dx + dy * dy <= radius * radius;
}

// counts: (n,). One thread a point.
__global__ void count(const float* points, long long* counts, int n, float radius) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long found = 0;
  for (int j = 0; j < n; ++j) found += near(points, i, j, radius);
  counts[i] = found;
}

// ends: (n,), the inclusive sum of counts; pairs: (2, total): sources, then targets.
__global__ void write(const float* points, const long long* ends, long long* pairs, int n, float radius,
                      long long total) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long at = i ? ends[i - 1] : 0;
  for (int j = 0; j < n; ++j)
    if (near(points, i, j, radius)) {
      pairs[at] = i;
      pairs[total + at++] = j;
    }
}
""")


def inputs(case, dtype, device, seed):
    """Points on a grid of quarters, so that no distance is rounded."""
    drawn = draw((case.sizes["n"], 2), torch.int8, torch.device("cpu"), seed).to(dtype) / 4
    return {"points": (drawn * (2.0**40 if case.values == "huge" else 1)).to(device)}


def check(points, radius):
    check_tensor("neighbours", "points", points, dims=(2,))
    if points.shape[1] != 2:
        raise ValueError(f"neighbours: expected points (n, 2), got {tuple(points.shape)}")


def pairs(points, radius):
    apart = ((points[:, None] - points[None]) ** 2).sum(2)
    near = apart <= radius * radius
    near.fill_diagonal_(False)
    return near.nonzero().T.contiguous()


def launch(out, points, radius):
    n = points.shape[0]
    counts = torch.empty(n, dtype=torch.int64, device=points.device)
    if n:
        MODULE["count"][-(-n // 64), 64](points, cuda.out(counts), n, radius)
    ends = counts.cumsum(0)
    total = int(ends[-1]) if n else 0
    made = out.allocate(2, total)
    if total:
        MODULE["write"][-(-n // 64), 64](points, ends, cuda.out(made), n, radius, total)


OP = Op(
    Spec(
        schema="nine::neighbours(Tensor points, float radius) -> (Tensor pairs)",
        outputs={"pairs": Output(shape=lambda points, radius: (2, None), dtype=torch.int64)},
        check=check,
        reference=lambda points, radius: pairs(points.double(), radius),
        inputs=inputs,
        eager=pairs,
        cost=lambda points, radius: Cost(points.nbytes),
        cases=(
            Case("plain", {"n": 40}, {"radius": 12.0}),
            Case("ragged", {"n": 77}, {"radius": 8.0}),
            Case("none", {"n": 9}, {"radius": 0.1}),
            Case("one_element", {"n": 1}, {"radius": 1.0}),
            Case("empty", {"n": 0}, {"radius": 1.0}),
            Case("huge", {"n": 30}, {"radius": 10.0 * 2**40}, values="huge"),
            Case("strided", {"n": 30}, {"radius": 10.0}, layout="strided"),
            Case("unaligned", {"n": 30}, {"radius": 10.0}, layout="unaligned"),
        ),
    ),
    (Rung("k01_count_and_write", "count, allocate, write", "cuda", launch, Path(__file__)),),
)
