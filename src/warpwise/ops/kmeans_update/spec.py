"""The specification of kmeans_update: sums and counts of points by label."""

from __future__ import annotations

import math
from typing import Any

import torch

from warpwise.arguments.checks import check_integer
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_tensor, draw

DTYPES = (torch.float32,)
OP = "kmeans_update"


def check(X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> None:
    check_tensor(OP, "X", X, FLOATS, dims=(2,))
    check_tensor(OP, "labels", labels, (torch.int32, torch.int64), dims=(1, 2))
    if labels.device != X.device or labels.shape[-1] != len(X):
        raise ValueError(
            f"{OP}: expected labels ({len(X)},) or (R, {len(X)}) on {X.device}, got {tuple(labels.shape)} on"
            f" {labels.device}"
        )
    check_integer(OP, "n_clusters", n_clusters)
    if n_clusters < 1:
        raise ValueError(f"{OP}: expected n_clusters of at least 1, got {n_clusters}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """Random labels; sums of huge values stay finite."""
    n, clusters, width = (case.sizes[name] for name in ("n", "clusters", "width"))
    X = draw((n, width), dtype, device, seed, case.values)
    generator = torch.Generator(device if device.type != "meta" else "cpu").manual_seed(seed)
    restarts = case.sizes.get("restarts", 0)
    labels = torch.empty((restarts, n) if restarts else (n,), dtype=torch.int32, device=device)
    if device.type != "meta":
        labels.random_(0, clusters, generator=generator)
    return {"X": X / 16 if case.values == "huge" else X, "labels": labels, "n_clusters": clusters}


def _one_hot(labels: torch.Tensor, n_clusters: int, dtype: torch.dtype) -> torch.Tensor:
    """(N, K) or (R, N, K): 1 at the label of each point, 0 elsewhere."""
    zeros = torch.zeros(*labels.shape, n_clusters, dtype=dtype, device=labels.device)
    return zeros.scatter_(-1, labels.long()[..., None], 1.0)


def reference(X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> Any:
    member = _one_hot(labels, n_clusters, torch.float64)
    return member.mT @ X.double(), member.sum(-2).int()


def eager(X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> Any:
    """A product with the (N, K) matrices of memberships, which is deterministic; index_add_ on a GPU is not."""
    member = _one_hot(labels, n_clusters, X.dtype)
    return member.mT @ X, member.sum(-2).int()


def magnitude(X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> torch.Tensor:
    return _one_hot(labels, n_clusters, torch.float64).mT @ X.double().abs()


def cost(X: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> Cost:
    """Points and labels read, sums and counts written; one addition per feature."""
    restarts = math.prod(labels.shape[:-1])
    written = 4 * restarts * n_clusters * (X.shape[1] + 1)
    return Cost(bytes=X.nbytes + labels.nbytes + written, flops=restarts * X.numel())


SPEC = Spec(
    schema="kmeans_update(Tensor X, Tensor labels, int n_clusters) -> (Tensor sums, Tensor counts)",
    summary="sums and counts of points by label",
    outputs={
        "sums": Output(
            shape=lambda X, labels, n_clusters: (*labels.shape[:-1], n_clusters, X.shape[1]),
            terms=lambda X, *rest: len(X),
            magnitude=magnitude,
        ),
        "counts": Output(shape=lambda X, labels, n_clusters: (*labels.shape[:-1], n_clusters), dtype=torch.int32),
    },
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("plain", {"n": 300, "clusters": 8, "width": 16}),
        Case("ragged", {"n": 1213, "clusters": 19, "width": 11}),
        Case("restarts", {"n": 2100, "clusters": 5, "width": 6, "restarts": 3}),
        Case("several_blocks", {"n": 9001, "clusters": 3, "width": 4}),
        Case("large_sums", {"n": 100, "clusters": 90, "width": 140}),
        Case("one_element", {"n": 1, "clusters": 1, "width": 1}),
        Case("empty", {"n": 0, "clusters": 3, "width": 4}),
        Case("huge", {"n": 40, "clusters": 5, "width": 8}, values="huge"),
        Case("strided", {"n": 40, "clusters": 5, "width": 8}, layout="strided"),
        Case("unaligned", {"n": 40, "clusters": 5, "width": 8}, layout="unaligned"),
    ),
    sizes=(
        Case("spatial", {"n": 1_000_000, "clusters": 8, "width": 16}),
        Case("restarts", {"n": 65_536, "clusters": 8, "width": 16, "restarts": 4}),
        Case("components", {"n": 1_000_000, "clusters": 32, "width": 50}),
        Case("large", {"n": 10_000_000, "clusters": 8, "width": 16}),
        Case("ragged", {"n": 123_457, "clusters": 100, "width": 127}),
    ),
    dtypes=DTYPES,
)
