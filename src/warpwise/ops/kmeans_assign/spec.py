"""The specification of kmeans_assign: the nearest centroid of each point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same, check_tensor, draw

DTYPES = (torch.float32,)
OP = "kmeans_assign"


def check(X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> None:
    check_tensor(OP, "X", X, FLOATS, dims=(2,))
    check_tensor(OP, "centroids", centroids, FLOATS, dims=(2, 3))
    check_same(OP, ("X", "centroids"), X, centroids)
    if centroids.shape[-1] != X.shape[1] or not centroids.shape[-2]:
        raise ValueError(
            f"{OP}: expected centroids (K, {X.shape[1]}) or (R, K, {X.shape[1]}) with K of at least 1, got"
            f" {tuple(centroids.shape)}"
        )


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """Standard normal points around their centroids, which are twice as far apart. The order of the clusters is random:
    labels would otherwise be the same for all seeds where clusters do not overlap."""
    n, clusters, width = (case.sizes[name] for name in ("n", "clusters", "width"))
    scale = 2**-4 if case.values == "huge" else 1  # room for sums of squares
    centroids = draw((clusters, width), dtype, device, 2 * seed + 1, case.values, 2) * (2 * scale)
    X = draw((n, width), dtype, device, 2 * seed, case.values, 2) * scale
    order = torch.arange(n, device=device)
    if device.type != "meta":
        torch.randperm(n, generator=torch.Generator(device).manual_seed(seed), out=order)
    X += centroids[order % clusters]
    restarts = case.sizes.get("restarts", 0)
    if restarts:
        nearby = draw((restarts, clusters, width), dtype, device, 2 * seed + 3, case.values, 2) * scale
        return {"X": X, "centroids": centroids + nearby / 4}
    return {"X": X, "centroids": centroids}


def labels_shape(X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> tuple[int, ...]:
    return (*centroids.shape[:-2], len(X))


def reference(X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> Any:
    scale = max(float(X.abs().max()) if X.numel() else 0.0, 1e-300)  # squares of huge values stay finite
    exact = "donot_use_mm_for_euclid_dist"
    found = torch.cdist(X.double() / scale, centroids.double() / scale, compute_mode=exact).min(-1)
    return found.indices.int(), (found.values * scale).square() if return_distances else None


def eager(X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> Any:
    """The (N, K) or (R, N, K) array of distances minus |x|², by a matrix product."""
    scores = centroids.square().sum(-1)[..., None, :] - 2 * (X @ centroids.mT)
    labels = scores.argmin(-1)
    if not return_distances:
        return labels.int(), None
    nearest = scores.gather(-1, labels[..., None])[..., 0]
    return labels.int(), nearest.add_(X.square().sum(1)).clamp_(min=0)


def magnitude(X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> torch.Tensor:
    """2 (|x|² + |c|²), which is at least |x|² + 2 |x c| + |c|²."""
    largest = centroids.double().square().sum(-1).amax(-1)
    return 2 * (X.double().square().sum(1) + largest[..., None])


def nearest(
    results: Mapping[str, torch.Tensor], references: Mapping[str, torch.Tensor], given: Mapping[str, Any]
) -> str | None:
    """The checker of the labels: no other centroid may be nearer by more than the rounding error of the distances."""
    X, centroids, labels = given["X"].double(), given["centroids"].double(), results["labels"].long()
    clusters, width = centroids.shape[-2:]
    if labels.numel() and not bool(((labels >= 0) & (labels < clusters)).all()):
        return "has labels outside [0, K)"
    best = references["labels"].long()

    def squared(chosen: torch.Tensor) -> torch.Tensor:
        """The shape of the labels: squared distances to the ``chosen`` centroids."""
        own = centroids.gather(-2, chosen[..., None].expand(*chosen.shape, width))
        return (X - own).square().sum(-1)

    excess = squared(labels) - squared(best)
    allowed = (16 + width) * torch.finfo(torch.float32).eps * magnitude(given["X"], given["centroids"], True)
    wrong = ~(excess <= allowed)
    if bool(wrong.any()):
        at = tuple(wrong.nonzero()[0].tolist())
        return f"{list(at)} is {int(labels[at])}, but centroid {int(best[at])} is nearer"
    return None


def cost(X: torch.Tensor, centroids: torch.Tensor, return_distances: bool) -> Cost:
    """Points and centroids read, labels and distances written; a multiplication and an addition per feature."""
    restarts = math.prod(centroids.shape[:-2])
    written = restarts * len(X) * (8 if return_distances else 4)
    return Cost(bytes=X.nbytes + centroids.nbytes + written, flops=2 * len(X) * centroids.numel())


SPEC = Spec(
    schema="kmeans_assign(Tensor X, Tensor centroids, bool return_distances=False)"
    " -> (Tensor labels, Tensor distances)",
    summary="the nearest centroid of each point and its squared distance",
    outputs={
        "labels": Output(shape=labels_shape, dtype=torch.int32, check=nearest),
        "distances": Output(
            shape=labels_shape,
            present=lambda X, centroids, return_distances: return_distances,
            terms=lambda X, *rest: 2 * X.shape[1],
            magnitude=magnitude,
        ),
    },
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    autocast="float32",  # as of torch.cdist
    cases=(
        Case("plain", {"n": 300, "clusters": 8, "width": 16}, {"return_distances": True}),
        Case("ragged", {"n": 213, "clusters": 19, "width": 11}, {"return_distances": True}),
        Case("restarts", {"n": 150, "clusters": 5, "width": 6, "restarts": 3}, {"return_distances": True}),
        Case("labels_alone", {"n": 70, "clusters": 7, "width": 15}),
        Case("several_chunks", {"n": 65, "clusters": 300, "width": 70}, {"return_distances": True}),
        Case("one_element", {"n": 1, "clusters": 1, "width": 1}, {"return_distances": True}),
        Case("empty", {"n": 0, "clusters": 3, "width": 4}, {"return_distances": True}),
        Case("huge", {"n": 40, "clusters": 5, "width": 8}, {"return_distances": True}, values="huge"),
        Case("strided", {"n": 40, "clusters": 5, "width": 8}, {"return_distances": True}, layout="strided"),
        Case("unaligned", {"n": 40, "clusters": 5, "width": 8}, {"return_distances": True}, layout="unaligned"),
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
