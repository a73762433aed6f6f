"""k-means with k-means++ seeding, several restarts of one data set."""

from __future__ import annotations

import torch


def kmeans(X: torch.Tensor, k: int, restarts: int, generator: torch.Generator, iterations: int = 10) -> torch.Tensor:
    """(N, restarts) int64: labels of X (N, D) after k-means++ and at most ``iterations`` of Lloyd's algorithm."""
    centres = plus_plus(X, k, restarts, generator)
    return torch.stack([lloyd(X, centre, iterations)[0] for centre in centres], 1)


def plus_plus(X: torch.Tensor, k: int, restarts: int, generator: torch.Generator) -> torch.Tensor:
    """(restarts, k, D): points of X (N, D), each drawn in proportion to its squared distance to the nearest before it.

    If every point equals a centre, further centres are drawn uniformly.
    """
    n = X.shape[0]
    squares = X.square().sum(1, keepdim=True)
    chosen = torch.randint(n, (restarts,), generator=generator)
    centres = [X[chosen]]
    nearest = torch.full((n, restarts), torch.inf)
    for _ in range(k - 1):
        new = centres[-1]
        nearest = torch.minimum(nearest, (squares - 2 * (X @ new.T) + new.square().sum(1)).clamp_(min=0))
        cumulated = nearest.T.double().cumsum(1)
        total = cumulated[:, -1:]
        draws = torch.rand(restarts, 1, generator=generator, dtype=torch.float64)
        at = torch.searchsorted(cumulated, draws * total, right=True).clamp(max=n - 1)
        at = torch.where(total > 0, at, (draws * n).long())
        centres.append(X[at[:, 0]])
    return torch.stack(centres, 1)


def lloyd(X: torch.Tensor, centres: torch.Tensor, iterations: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels (N,) and centres (k, D) after at most ``iterations``; an empty cluster keeps its centre."""
    labels = torch.full((X.shape[0],), -1)
    for _ in range(iterations):
        new = (centres.square().sum(1) - 2 * (X @ centres.T)).argmin(1)
        if torch.equal(new, labels):
            break
        labels = new
        member = one_hot(labels, centres.shape[0])
        counts = member.sum(0)[:, None]
        centres = torch.where(counts > 0, (member.T @ X) / counts.clamp(min=1), centres)
    return labels, centres


def one_hot(labels: torch.Tensor, k: int) -> torch.Tensor:
    """(..., k) float32: 1 at the index that ``labels`` (...) gives, 0 elsewhere."""
    return torch.zeros(*labels.shape, k).scatter_(-1, labels[..., None], 1.0)


def inertia(X: torch.Tensor, labels: torch.Tensor, k: int) -> float:
    """The sum of squared distances of X (N, D) to the means of their clusters."""
    member = one_hot(labels, k)
    means = (member.T @ X) / member.sum(0).clamp(min=1)[:, None]
    return float((X - means[labels]).square().sum())
