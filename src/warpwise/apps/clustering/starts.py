"""Start values: k-means on smoothed features, short EM runs from each, and the one of the best bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from warpwise.apps.clustering.checkpoint import Checkpoint
from warpwise.apps.clustering.emission import Emission
from warpwise.apps.clustering.field import MeanField
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.kmeans import assign, inertia, lloyd, one_hot, plus_plus
from warpwise.apps.clustering.parallel import Alone
from warpwise.apps.clustering.smoothing import smooth
from warpwise.ops.potts_em_step.spec import softmax

HOPS = (0, 1, 2, 4)  # of smoothing before k-means
ITERATIONS = 10  # of EM from each start
_SAMPLE = 1 << 16  # points of which k-means computes the centres
_ELEMENTS = 1 << 21  # of an array (N, R, max(K, C)): more restarts run one batch after another

Progress = Callable[[int, int], None]  # starts done, all starts


def best_start(
    X: torch.Tensor,
    graph: Graph,
    n_domains: int,
    n_types: int | None,
    n_init: int,
    beta: float,
    generator: torch.Generator,
    temper: float = 1.0,
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
    parallel: Alone | None = None,
) -> MeanField:
    """One fit: of ``n_init`` starts, ``ITERATIONS`` of EM each at the fixed ``beta``, that of the highest ELBO."""
    parallel = Alone(len(X)) if parallel is None else parallel
    types = None if n_types is None else _types(X, n_types, generator, parallel)
    best: MeanField | None = None
    highest, done = -torch.inf, 0
    if checkpoint is not None and (kept := checkpoint.load()) is not None:
        best, highest, done = _restored(kept, X, graph, beta, temper)
        if progress is not None:
            progress(done, n_init)
    batch = max(1, _ELEMENTS // (parallel.share * max(n_domains, n_types or 0)))
    for first, part in _starts(X, types, graph, n_domains, n_init, batch, generator, parallel):
        if first + part.shape[1] <= done:
            continue
        model = _model(X, graph, part, n_domains, types, beta, temper, parallel)
        model.run(ITERATIONS)
        bounds = model.elbo()
        index = int(bounds.argmax())
        if best is None or float(bounds[index]) > highest:
            highest = float(bounds[index])
            best = select(model, index)
        del model
        done = first + part.shape[1]
        if checkpoint is not None:
            checkpoint.save(_record(best, highest, done))
        if progress is not None:
            progress(done, n_init)
    assert best is not None
    return best


def _starts(
    X: torch.Tensor,
    types: torch.Tensor | None,
    graph: Graph,
    k: int,
    n_init: int,
    batch: int,
    generator: torch.Generator,
    parallel: Alone,
) -> Iterator[tuple[int, torch.Tensor]]:
    """The number of starts before, and labels (N, R) of up to ``batch`` more: k-means on features smoothed over each of
    ``HOPS`` in turn, or on the probabilities of types, which are smoothed over one hop more."""
    smoothed, hops = X if types is None else types.sqrt(), 0
    done = 0
    for place, wanted in enumerate(HOPS):
        restarts = len(range(place, n_init, len(HOPS)))
        if not restarts:
            return
        wanted += types is not None
        smoothed, hops = smooth(graph, smoothed, wanted - hops, parallel), wanted
        centres = _centres(smoothed, k, restarts, generator, parallel)
        for part in centres.split(batch):
            yield done, torch.stack([assign(smoothed, centre) for centre in part], 1)
            done += len(part)


def _centres(X: torch.Tensor, k: int, restarts: int, generator: torch.Generator, parallel: Alone) -> torch.Tensor:
    """(restarts, k, D): centres of k-means on at most ``_SAMPLE`` points, the same in each process."""
    sample = _sampled(X, generator, parallel)
    return torch.stack([lloyd(sample, centre, 10)[1] for centre in plus_plus(sample, k, restarts, generator)])


def _sampled(X: torch.Tensor, generator: torch.Generator, parallel: Alone) -> torch.Tensor:
    n = parallel.n_points
    return parallel.gathered(X, None if n <= _SAMPLE else torch.randint(n, (_SAMPLE,), generator=generator))


def _model(
    X: torch.Tensor,
    graph: Graph,
    labels: torch.Tensor,
    n_domains: int,
    types: torch.Tensor | None,
    beta: float,
    temper: float,
    parallel: Alone,
) -> MeanField:
    """Fits that start at ``labels`` (N, R)."""
    q = one_hot(labels, n_domains)
    restarts, own = labels.shape[1], parallel.own
    mix = None
    if types is None:
        emission = Emission("tied", X[:own], q[:own], parallel)
    else:
        emission = Emission("tied", X[:own], types[:own, None].expand(-1, restarts, -1), parallel)
        mix = parallel.sum(torch.einsum("nrk,nc->rkc", q[:own], types[:own])) + 1e-2
        mix = mix / mix.sum(2, keepdim=True)
    q.mul_(0.9).add_(0.1 / n_domains)
    external = X.new_zeros(1, 1, n_domains)
    betas = X.new_full((restarts,), beta)
    return MeanField(X, graph, q, emission, mix, betas, external, temper=temper, parallel=parallel)


def select(model: MeanField, index: int) -> MeanField:
    """The fit ``index`` of ``model`` alone."""
    emission = model.emission
    emission.mean, emission.scale = emission.mean[index : index + 1], emission.scale[index : index + 1]
    mix = None if model.mix is None else model.mix[index : index + 1]
    q = model.q[:, index : index + 1].clone(memory_format=torch.contiguous_format)
    beta = model.beta[index : index + 1]
    graph, external = model.graph, model.external
    return MeanField(model.X, graph, q, emission, mix, beta, external, temper=model.temper, parallel=model.parallel)


def _record(model: MeanField, bound: float, done: int) -> dict[str, object]:
    parts = {"q": model.q, "mean": model.emission.mean, "scale": model.emission.scale, "mix": model.mix}
    return {"bound": bound, "done": done, **{name: part for name, part in parts.items() if part is not None}}


def _restored(
    kept: dict[str, torch.Tensor], X: torch.Tensor, graph: Graph, beta: float, temper: float
) -> tuple[MeanField, float, int]:
    tensors = {name: kept[name].to(X.device) for name in ("q", "mean", "scale", "mix") if name in kept}
    q = tensors["q"]
    emission = Emission("tied", X, q)
    emission.mean, emission.scale = tensors["mean"], tensors["scale"]
    external = X.new_zeros(1, 1, q.shape[2])
    model = MeanField(X, graph, q, emission, tensors.get("mix"), X.new_full((1,), beta), external, temper=temper)
    return model, float(kept["bound"]), int(kept["done"])


def _types(X: torch.Tensor, n_types: int, generator: torch.Generator, parallel: Alone) -> torch.Tensor:
    """(N, n_types): probabilities of the types of a Gaussian mixture without neighbours, from the best of 4 k-means."""
    sample, own = _sampled(X, generator, parallel), parallel.own
    centres = [lloyd(sample, centre, 10)[1] for centre in plus_plus(sample, n_types, 4, generator)]
    best = min(centres, key=lambda centre: inertia(sample, assign(sample, centre), n_types))
    q = one_hot(assign(X, best), n_types)[:, None]
    emission = Emission("tied", X[:own], q[:own], parallel)
    for _ in range(10):
        fractions = parallel.sum(q[:own].sum(0)) / parallel.n_points
        q = softmax(emission.scores(X) + fractions.clamp(min=1e-6).log())
        emission.update(X[:own], q[:own])
    return q[:, 0]
