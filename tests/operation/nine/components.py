"""Connected components of a graph in CSR: launches until nothing changes, and labels that are right up to renaming."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import Case, Cost, Op, Output, Rung, Spec, check_same, check_tensor

MODULE = cuda.load("""
// indptr: (n + 1,), indices: (edges,), labels: (n,), changed: (1,). Each vertex takes the smallest label among its
// neighbours; a label only decreases, so an old one that is read here costs a further launch and no error.
__global__ void propagate(const int* indptr, const int* indices, int* labels, int* changed, int n) {
  const int vertex = blockIdx.x * blockDim.x + threadIdx.x;
  if (vertex >= n) return;
  for (int edge = indptr[vertex]; edge < indptr[vertex + 1]; ++edge)
    if (atomicMin(&labels[indices[edge]], atomicAdd(&labels[vertex], 0)) > atomicAdd(&labels[vertex], 0)) *changed = 1;
}
""")


def inputs(case, dtype, device, seed):
    """Paths of ``length`` vertices each, their vertices in random order; edges in both directions."""
    n, length = case.sizes["n"], case.sizes["length"]
    generator = torch.Generator().manual_seed(seed)
    order, pairs = torch.randperm(n, generator=generator), []
    for at in range(n - 1):
        if (at + 1) % length:
            pairs += [(int(order[at]), int(order[at + 1])), (int(order[at + 1]), int(order[at]))]
    pairs.sort()
    counts = torch.zeros(n + 1, dtype=torch.int64)
    for source, _ in pairs:
        counts[source + 1] += 1
    targets = torch.tensor([target for _, target in pairs], dtype=dtype)
    return {"indptr": counts.cumsum(0).to(dtype).to(device), "indices": targets.to(device)}


def check(indptr, indices):
    check_tensor("components", "indptr", indptr, (torch.int32,), dims=(1,))
    check_tensor("components", "indices", indices, (torch.int32,), dims=(1,))
    check_same("components", ("indptr", "indices"), indptr, indices)


def components(indptr, indices):
    n = indptr.shape[0] - 1
    sources = torch.repeat_interleave(torch.arange(n, device=indptr.device), indptr.diff().long())
    labels = torch.arange(n, dtype=torch.int32, device=indptr.device)
    while True:
        new = labels.scatter_reduce(0, indices.long(), labels[sources], "amin")
        if torch.equal(new, labels):
            return labels
        labels = new


def same_partition(results, references, arguments):
    """Two labellings are equal up to renaming if their labels correspond one to one."""
    pairs = torch.stack([results["labels"].long(), references["labels"].long()]).unique(dim=1)
    for row, what in ((0, "a label stands for several components"), (1, "a component has several labels")):
        if pairs[row].unique().numel() < pairs.shape[1]:
            return f"is another partition: {what}"
    return None


def launch(labels, indptr, indices):
    n = labels.numel()
    labels.copy_(torch.arange(n, dtype=torch.int32, device=labels.device))
    changed = torch.ones(1, dtype=torch.int32, device=labels.device)
    while changed.item():
        changed.zero_()
        MODULE["propagate"][-(-n // 64), 64](indptr, indices, labels, changed, n)


OP = Op(
    Spec(
        schema="nine::components(Tensor indptr, Tensor indices) -> (Tensor labels)",
        outputs={"labels": Output(shape=lambda indptr, indices: (indptr.shape[0] - 1,), check=same_partition)},
        check=check,
        reference=components,
        inputs=inputs,
        eager=components,
        dtypes=(torch.int32,),
        cost=lambda indptr, indices: Cost(indptr.nbytes + indices.nbytes),
        cases=(
            Case("paths", {"n": 30, "length": 5}),
            Case("ragged", {"n": 77, "length": 9}),
            Case("alone", {"n": 12, "length": 1}),
            Case("one_element", {"n": 1, "length": 1}),
            Case("empty", {"n": 0, "length": 3}),
            Case("strided", {"n": 20, "length": 4}, layout="strided"),
            Case("unaligned", {"n": 20, "length": 4}, layout="unaligned"),
        ),
    ),
    (Rung("k01_label_propagation", "one thread a vertex, until no label changes", "cuda", launch, Path(__file__)),),
)
