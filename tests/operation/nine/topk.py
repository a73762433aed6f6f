"""The k largest elements of each row: where elements are equal any of their indices is right."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import Case, Cost, Gradient, Op, Output, Rung, Spec, check_tensor, draw

MODULE = cuda.load("""
// x: (rows, columns); values, indices: (rows, k). One thread a row takes the largest of those not taken, k times.
__global__ void topk(const float* x, float* values, long long* indices, int rows, int columns, int k) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  for (int place = 0; place < k; ++place) {
    int best = -1;
    for (int i = columns - 1; i >= 0; --i) {
      bool taken = false;
      for (int before = 0; before < place; ++before) taken |= indices[row * k + before] == i;
      if (!taken && (best < 0 || x[row * columns + i] > x[row * columns + best])) best = i;
    }
    values[row * k + place] = x[row * columns + best];
    indices[row * k + place] = best;
  }
}
""")


def inputs(case, dtype, device, seed):
    shape = case.sizes["rows"], case.sizes["columns"]
    values = draw(shape, dtype, device, seed, case.values)
    return {"input": values.round() if case.attributes.get("ties") else values, "k": min(3, shape[1])}


def check(input, k):
    check_tensor("topk", "input", input, dims=(2,))
    if not 1 <= k <= input.shape[1]:
        raise ValueError(f"topk: expected k between 1 and {input.shape[1]}, got {k}")


def right_indices(results, references, arguments):
    """Different indices in each row, of elements equal to the values."""
    indices, x = results["indices"], arguments["input"]
    if ((indices < 0) | (indices >= x.shape[1])).any():
        return f"holds an index outside 0 to {x.shape[1] - 1}"
    repeated = indices.sort(1).values.diff(dim=1) == 0
    if repeated.any():
        return f"names an element twice in row {int(repeated.any(1).nonzero()[0])}"
    wrong = (x.double().gather(1, indices) != references["values"]).any(1)
    return f"names other elements than the largest in row {int(wrong.nonzero()[0])}" if wrong.any() else None


def backward(saved, grad_values, grad_indices):
    return {
        "input": torch.zeros(saved.input.shape, dtype=grad_values.dtype)
        .to(grad_values.device)
        .scatter(1, saved.indices, grad_values)
    }


def launch(outputs, x, k):
    values, indices = outputs
    rows, columns = x.shape
    MODULE["topk"][-(-rows // 32), 32](x, cuda.out(values), indices, rows, columns, k)


OP = Op(
    Spec(
        schema="nine::topk(Tensor input, int k) -> (Tensor values, Tensor indices)",
        outputs={
            "values": Output(shape=lambda x, k: (x.shape[0], k)),
            "indices": Output(shape=lambda x, k: (x.shape[0], k), dtype=torch.int64, check=right_indices),
        },
        check=check,
        inputs=inputs,
        eager=lambda x, k: tuple(torch.topk(x, k)),
        cost=lambda x, k: Cost(x.nbytes),
        reference=lambda x, k: tuple(torch.topk(x.double(), k)),
        gradient=Gradient(backward, saves=("input", "indices")),
        cases=(
            Case("small", {"rows": 5, "columns": 9}),
            Case("ragged", {"rows": 33, "columns": 17}),
            Case("ties", {"rows": 8, "columns": 30}, {"ties": True}),
            Case("one_element", {"rows": 1, "columns": 1}),
            Case("empty", {"rows": 0, "columns": 4}),
            Case("huge", {"rows": 4, "columns": 20}, values="huge"),
            Case("strided", {"rows": 6, "columns": 12}, layout="strided"),
            Case("unaligned", {"rows": 6, "columns": 12}, layout="unaligned"),
        ),
    ),
    (Rung("k01_thread_per_row", "one thread a row", "cuda", launch, Path(__file__)),),
)
