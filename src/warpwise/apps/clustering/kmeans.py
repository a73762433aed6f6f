"""k-means with k-means++ seeding, for several restarts on one data set."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.apps.clustering.graph import generator_on
from warpwise.operation import cdiv, sm_count
from warpwise.ops import kmeans_assign, kmeans_update
from warpwise.ops.potts_em_step.spec import rows_of

KERNELS = cuda.load(Path(__file__).with_suffix(".cu"))
_THREADS = 256  # kThreads
_CHECKED_EVERY = 10  # iterations on a GPU, where the check for convergence synchronises
_SAMPLE = 1 << 16  # points on which the starts of k-means run
_BLOCK = 1 << 18  # points whose distances to their means are in memory at a time
_FEW = 16  # domains among which a GPU finds the most probable one as the nearest unit vector
_LEAST_RATE = 1e-30  # so that draws are uniform if all weights are 0


def kmeans(
    X: torch.Tensor, k: int, restarts: int, generator: torch.Generator, iterations: int = 10
) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels (N,) int32 and inertia () of X (N, D): the best of ``restarts`` k-means++ starts by inertia, each with at
    most ``iterations`` of Lloyd's algorithm.

    With more than 65,536 points the starts run on so many of them, drawn with replacement, and the best continues on
    all points, again for at most ``iterations``.
    """
    sample = X
    if len(X) > _SAMPLE:
        here = generator_on(X.device, generator)
        sample = X[torch.randint(len(X), (_SAMPLE,), generator=here, device=here.device).to(X.device)]
    candidates = 2 + int(math.log(k))  # as many as scikit-learn draws
    labels, centres = lloyd(sample, plus_plus(sample, k, restarts, generator, candidates), iterations)
    scores = torch.stack([inertia(sample, start, k) for start in labels])
    best = scores.argmin()[None]
    if sample is X:
        return labels[best][0], scores[best][0]
    found = lloyd(X, centres[best], iterations)[0][0]
    return found, inertia(X, found, k)


def plus_plus(X: torch.Tensor, k: int, restarts: int, generator: torch.Generator, candidates: int = 1) -> torch.Tensor:
    """(restarts, k, D): points of X (N, D), drawn in proportion to the squared distance to the nearest earlier one.

    Of several ``candidates`` for each, the one is kept that leaves the smallest sum of these distances. If every point
    equals a centre, further centres are drawn uniformly.
    """
    n, here = X.shape[0], generator_on(X.device, generator)
    if X.is_cuda and candidates == 1 and X.dtype == torch.float32:
        return _raced_centres(X, k, restarts, here)
    squares = X.square().sum(1) if not X.is_cuda else X[:0]
    rows = torch.arange(restarts, device=X.device)
    near = X.new_full((restarts, n), torch.inf)
    centres = [X[torch.randint(n, (restarts,), generator=here, device=X.device)]]
    for _ in range(k - 1):
        near = torch.minimum(near, _squared(X, squares, centres[-1]), out=near)
        weights = near.repeat_interleave(candidates, 0) if candidates > 1 else near
        if X.is_cuda:
            at = raced(weights, here)
        else:
            draws = torch.rand(len(weights), 1, generator=generator, dtype=torch.float64)
            at, total = drawn(weights, draws)
            at = torch.where(total > 0, at, (draws * n).long())[:, 0]
        if candidates > 1:
            left = torch.minimum(weights, _squared(X, squares, X[at])).sum(1)
            at = at.view(restarts, candidates)[rows, left.view(restarts, candidates).argmin(1)]
        centres.append(X[at])
    return torch.stack(centres, 1)


def _raced_centres(X: torch.Tensor, k: int, restarts: int, generator: torch.Generator) -> torch.Tensor:
    """``plus_plus`` with four launches for each centre."""
    n, width = X.shape
    latest = X[torch.randint(n, (restarts,), generator=generator, device=X.device)]
    centres = X.new_empty(restarts, k, width)
    centres[:, 0] = latest
    near = X.new_full((restarts, n), torch.inf)
    draws = torch.empty_like(near)
    for place in range(1, k):
        distances = kmeans_assign(X, latest[:, None], True)[1]
        assert distances is not None
        draws.exponential_(generator=generator)
        launch_race(X, near, distances, draws, centres, latest, place)
    return centres


def launch_race(
    X: torch.Tensor,
    near: torch.Tensor,
    distances: torch.Tensor,
    draws: torch.Tensor,
    centres: torch.Tensor,
    latest: torch.Tensor,
    place: int,
) -> None:
    """Two kernels: ``near`` (R, n) becomes the smaller of ``near`` and ``distances``, and centre ``place`` of
    ``centres`` (R, k, D) and ``latest`` (R, D) the row of X (n, D) with the smallest of ``draws`` / ``near``."""
    (restarts, n), (_, k, width) = near.shape, centres.shape
    blocks = max(1, min(cdiv(n, 4 * _THREADS), cdiv(4 * sm_count(X), restarts)))
    times = X.new_empty(blocks, restarts)
    indices = torch.empty(times.shape, dtype=torch.int32, device=X.device)
    race = KERNELS["race"][(blocks, restarts), _THREADS]
    race(near, distances, draws, cuda.out(times), cuda.out(indices), n, _LEAST_RATE)
    KERNELS["take_winner"][restarts, _THREADS](X, times, indices, centres, latest, blocks, k, width, place)


def _squared(X: torch.Tensor, squares: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """(R, N): squared distances of X (N, D) to ``centres`` (R, D). On a CPU ``squares`` (N,) are those of X."""
    if X.is_cuda:
        distance = kmeans_assign(X, centres[:, None], True)[1]
        assert distance is not None
        return distance
    return (squares - 2 * (centres @ X.T) + centres.square().sum(1, keepdim=True)).clamp_(min=0)


def drawn(weights: torch.Tensor, draws: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices (R, 1) in proportion to ``weights`` (R, N), from ``draws`` (R, 1) in [0, 1); and the weights' sums."""
    cumulated = weights.double().cumsum(1)
    total = cumulated[:, -1:]
    return torch.searchsorted(cumulated, draws * total, right=True).clamp(max=weights.shape[1] - 1), total


def raced(weights: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Indices (R,) drawn in proportion to ``weights`` (R, N): the smallest of exponential variables with these rates.

    It avoids the cumulative sum of ``drawn``, which is slow on a GPU and may be added in another order in each run.
    """
    times = torch.empty_like(weights).exponential_(generator=generator)
    return times.div_(weights.clamp(min=_LEAST_RATE)).argmin(1)


def lloyd(X: torch.Tensor, centres: torch.Tensor, iterations: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels (R, N) int32 and centres (R, k, D) after at most ``iterations``; an empty cluster keeps its centre.

    On a GPU all restarts run together, otherwise one after another.
    """
    if len(centres) > 1 and not X.is_cuda:
        found = [lloyd(X, centre[None], iterations) for centre in centres]
        return torch.cat([labels for labels, _ in found]), torch.cat([centre for _, centre in found])
    labels = torch.full((len(centres), len(X)), -1, dtype=torch.int32, device=X.device)
    for iteration in range(iterations):
        new, _ = kmeans_assign(X, centres)
        checked = not X.is_cuda or (iteration % _CHECKED_EVERY == _CHECKED_EVERY - 1 and iteration + 1 < iterations)
        if checked and torch.equal(new, labels):
            break
        labels = new
        sums, numbers = kmeans_update(X, labels, centres.shape[1])
        centres = means(sums, numbers, centres)
    return labels, centres


def means(sums: torch.Tensor, counts: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
    """(R, k, D): ``sums`` (R, k, D) over ``counts`` (R, k), or ``previous`` where a cluster has no points."""
    if sums.is_cuda and sums.dtype == torch.float32:
        return launch_means(sums, counts, previous)
    numbers = counts[..., None].to(sums.dtype)
    return torch.where(numbers > 0, sums / numbers.clamp(min=1), previous)


def launch_means(sums: torch.Tensor, counts: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
    """The kernel of ``means``; ``counts`` are int32."""
    found = torch.empty_like(sums)
    launch = KERNELS["means_of_sums"][cdiv(sums.numel(), _THREADS), _THREADS]
    launch(sums, counts, previous.contiguous(), cuda.out(found), counts.numel(), sums.shape[-1])
    return found


def assign(X: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """(R, N) int32: the nearest of ``centres`` (R, k, D) to each point of X (N, D)."""
    if X.is_cuda:
        return kmeans_assign(X, centres)[0]
    return torch.stack([kmeans_assign(X, centre)[0] for centre in centres])  # PyTorch stores (N, k) distances


def most_probable(q: torch.Tensor) -> torch.Tensor:
    """(...): the index of the largest of the probabilities ``q`` (..., K), int32 or int64."""
    k = q.shape[-1]
    if q.is_cuda and q.dtype == torch.bfloat16 and q.dim() == 3:
        return launch_most_probable(q)
    if not q.is_cuda or k > _FEW:
        return q.argmax(-1)
    # |q - e_k|^2 = |q|^2 + 1 - 2 q_k. On a GPU an argmax over few elements takes several times as long.
    return kmeans_assign(q.reshape(-1, k), torch.eye(k, dtype=q.dtype, device=q.device))[0].view(q.shape[:-1])


def launch_most_probable(q: torch.Tensor) -> torch.Tensor:
    """The kernel: (N, R) int32, the first index of the largest element of each row of ``q`` (N, R, K), which has
    ``rows_of``."""
    rows = rows_of(q)
    assert rows is not None
    labels = torch.empty(q.shape[:2], dtype=torch.int32, device=q.device)
    if count := labels.numel():
        launch = KERNELS[f"most_probable<{cuda.ctype(q.dtype)}>"][cdiv(count, _THREADS), _THREADS]
        launch(rows, cuda.out(labels), count, q.shape[2], rows.shape[2])
    return labels


def one_hot(labels: torch.Tensor, k: int) -> torch.Tensor:
    """(..., k) float32: 1 at the index that ``labels`` (...) gives, 0 elsewhere."""
    zeros = torch.zeros(*labels.shape, k, dtype=torch.float32, device=labels.device)
    return zeros.scatter_(-1, labels.long()[..., None], 1.0)


def inertia(X: torch.Tensor, labels: torch.Tensor, k: int) -> torch.Tensor:
    """The sum of squared distances of X (N, D) to the means of their clusters; ``labels`` are (N,)."""
    sums, counts = kmeans_update(X, labels.int(), k)
    means, total = sums / counts.to(X.dtype).clamp(min=1)[:, None], X.new_zeros(())
    for points, own in zip(X.split(_BLOCK), labels.split(_BLOCK), strict=True):
        total = total + means[own.long()].sub_(points).square_().sum()
    return total
