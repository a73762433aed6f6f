"""Start values: k-means on smoothed features, short EM runs from each, and the run with the best bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import torch

from warpwise.apps.clustering.checkpoint import Checkpoint
from warpwise.apps.clustering.emission import Emission, raised
from warpwise.apps.clustering.field import MeanField
from warpwise.apps.clustering.graph import Graph, generator_on
from warpwise.apps.clustering.inputs import sum_of_products
from warpwise.apps.clustering.kmeans import assign, inertia, lloyd, most_probable, one_hot, plus_plus
from warpwise.apps.clustering.parallel import Alone
from warpwise.apps.clustering.points import q_of_labels
from warpwise.apps.clustering.replay import Replay
from warpwise.apps.clustering.rounding import RoundingCheck, empty_q, in_bfloat16, saves_time
from warpwise.apps.clustering.smoothing import smooth, width_of_parts
from warpwise.ops import kmeans_update
from warpwise.ops.potts_em_step.spec import softmax

HOPS = (0, 1, 2, 4)  # of smoothing before k-means
ITERATIONS, FIRST_ITERATIONS = 10, 7  # of EM from a start; after the first ones a quarter of the starts continues
FEWEST = 2  # starts that continue
_SAMPLE = 1 << 16  # points of which k-means computes the centres
_FEW_POINTS = 1 << 22  # up to which the host takes longer to launch an iteration than a GPU to run it
_BLOCK = 1 << 18  # points that are assigned at a time on a GPU, at least
_MOST_BLOCKS = 64  # blocks of these points, at most
_ELEMENTS = 1 << 21  # most elements of an array (N, R, max(K, C)): more restarts run in several batches

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
    """The best of ``n_init`` starts at the fixed ``beta``. After ``FIRST_ITERATIONS`` of EM the quarter with the
    highest ELBO continues from its labels; after ``ITERATIONS`` in all the fit with the highest ELBO is returned. Its
    ``rounded`` is None unless ``RoundingCheck`` passes for all starts that continue."""
    parallel = Alone(len(X)) if parallel is None else parallel
    types = None if n_types is None else _types(X, graph, n_types, generator, parallel)
    own = X[: parallel.own]
    total = parallel.sum(sum_of_products(own, own).float() if X.is_cuda else own.T @ own)
    total = raised(total, parallel.n_points)
    batch = max(1, _ELEMENTS // (parallel.share * max(n_domains, n_types or 0)))

    checks: list[RoundingCheck] = []  # of the starts that continue

    def fits(labels: torch.Tensor, iterations: int, checked: bool = False) -> Iterator[MeanField]:
        for part in labels.split(batch) if len(labels) else ():
            model = _model(X, graph, part, n_domains, types, beta, temper, total, parallel, rounded)
            if checked and rounded is not None:
                checks.append(RoundingCheck(model.emission))
            model.run(iterations, exact=False)
            yield model
            del model  # before the next one is made

    # Unless the groups are joined below, the host prepares a group while a GPU runs the fits of the previous one.
    started = _start_labels(X, types, graph, n_domains, n_init, generator, parallel)
    first_group = next(started)
    check = None
    if types is None and saves_time(X, graph, n_domains, parallel.share):
        check = RoundingCheck(_emission(X, first_group[:1], n_domains, total, parallel))
    replayed = X.is_cuda and len(X) <= _FEW_POINTS and types is None and type(parallel) is Alone
    replayed = replayed and n_init >= 3 * batch

    labels = first_group.new_empty(n_init, first_group.shape[1])
    bounds, done = X.new_empty(0, dtype=torch.float64), 0
    if checkpoint is not None and (kept := checkpoint.load()) is not None:
        bounds, done = kept["bounds"].to(X.device), len(kept["bounds"])
        labels[:done] = kept["labels"].to(X.device)
        if progress is not None:
            progress(done, n_init)
    ends: Iterable[int] = _filled(labels, done, first_group, started)
    del first_group, started
    # The smoothed features are freed before X is rounded.
    if batch >= n_init or replayed or check is not None:
        ends = [list(ends)[-1]]
    rounded = in_bfloat16(X) if check is not None and check.passes() else None

    replay = None
    if replayed:
        q = empty_q(X, graph, batch, n_domains, rounded is not None)  # at one place for all starts

        def first_iterations(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            model = _model(X, graph, part, n_domains, None, beta, temper, total, parallel, rounded, q)
            model.run(FIRST_ITERATIONS, exact=False)
            return model.elbo(), most_probable(model.q).T

        replay = Replay(first_iterations)

    def short_fits(labels: torch.Tensor) -> Iterator[Sequence[torch.Tensor]]:
        """The bounds and labels after the first iterations."""
        for part in labels.split(batch):
            if replay is not None and len(part) == batch:
                yield replay(part)
            else:
                for model in fits(part, FIRST_ITERATIONS):
                    yield model.elbo(), most_probable(model.q).T
                    del model

    for end in ends:
        for found_bounds, found_labels in short_fits(labels[done:end]):
            bounds = torch.cat([bounds, found_bounds])
            labels[done : len(bounds)] = found_labels
            done = len(bounds)
            del found_bounds, found_labels
            if checkpoint is not None:
                checkpoint.save({"bounds": bounds, "labels": labels[:done]})
            if progress is not None:
                progress(done, n_init)
    del ends
    if replay is not None:
        replay.close()
        del replay, first_iterations, q, short_fits
    kept_starts = bounds.topk(max(1, min(n_init, FEWEST), n_init // 4)).indices
    labels = labels[kept_starts]
    if n_domains > X.shape[1] and len(labels) > batch:
        # q of a fit takes more memory than X: only bounds are kept, and the best fit runs again.
        bounds = bounds[:0]
        for model in fits(labels, ITERATIONS - FIRST_ITERATIONS):
            bounds = torch.cat([bounds, model.elbo()])
            del model
        labels = labels[bounds.argmax()[None]]
    best = _Best()
    for model in fits(labels, ITERATIONS - FIRST_ITERATIONS, checked=True):
        best.offer(model)
        del model
    model = best.model(X, graph, beta, temper, total, parallel, rounded)
    # The host waits here while a GPU runs the iterations of the last start.
    if not all(check.passes() for check in checks):
        model.rounded = None
    return model


def _filled(labels: torch.Tensor, done: int, first: torch.Tensor, others: Iterator[torch.Tensor]) -> Iterator[int]:
    """Copy the groups of labels, ``first`` and ``others``, to the rows of ``labels`` from ``done`` on, one at a time;
    yield the number of rows that are filled."""
    end = 0
    groups = chain([first], others)
    del first, others
    for group in groups:
        begin, end = end, end + len(group)
        labels[max(begin, done) : end] = group[max(done - begin, 0) :]
        del group
        yield end


class _Best:
    """The fit with the highest bound, R = 1. A GPU chooses it without a synchronisation with the host."""

    def __init__(self) -> None:
        self.parts: dict[str, torch.Tensor] = {}

    def offer(self, model: MeanField) -> None:
        """Keep the best fit of ``model`` if its bound is higher than that of the kept one."""
        bounds = model.elbo()
        index = bounds.argmax()[None]
        given = {"q": model.q, "mean": model.emission.mean, "scale": model.emission.scale, "mix": model.mix}
        dims = {"q": 1}
        parts = {name: part for name, part in given.items() if part is not None}
        if len(bounds) > 1:
            parts = {name: part.index_select(dims.get(name, 0), index) for name, part in parts.items()}
        parts["bound"] = bounds[index]
        if not self.parts:
            self.parts = parts
            return
        better = parts["bound"] > self.parts["bound"]
        for name, part in parts.items():
            torch.where(better, part, self.parts[name], out=self.parts[name])

    def model(
        self,
        X: torch.Tensor,
        graph: Graph,
        beta: float,
        temper: float,
        total: torch.Tensor,
        parallel: Alone,
        rounded: torch.Tensor | None,
    ) -> MeanField:
        """The kept fit."""
        parts, q = self.parts, self.parts["q"].float()
        emission = Emission.fitted(parts["mean"], parts["scale"], total, parallel)
        return _mean_field(X, graph, q, emission, parts.get("mix"), beta, temper, parallel, rounded)


def _start_labels(
    X: torch.Tensor,
    types: torch.Tensor | None,
    graph: Graph,
    k: int,
    n_init: int,
    generator: torch.Generator,
    parallel: Alone,
) -> Iterator[torch.Tensor]:
    """(starts, N), uint8 if ``k`` permits, for each of ``HOPS`` in turn, n_init starts in all: k-means on features
    smoothed over that number of hops, or on the probabilities of types, smoothed over one more hop."""
    features, hops = X if types is None else types.sqrt(), 0
    parts = [part.contiguous() for part in features.split(width_of_parts(features.shape[1], features.device), 1)]
    del features
    dtype = torch.uint8 if k <= 256 else torch.int32
    for place, wanted in enumerate(HOPS[:n_init]):
        wanted += types is not None
        for _ in range(wanted - hops):  # one hop and one part at a time: little more than a copy is in memory
            for at in range(len(parts)):
                parts[at] = smooth(graph, parts[at], 1, parallel)
        hops = wanted
        sample = _sampled(parts, graph, generator, parallel)
        centres = lloyd(sample, plus_plus(sample, k, len(range(place, n_init, len(HOPS))), generator), 10)[1]
        centres = parallel.agreed(centres)
        if len(parts) == 1:
            yield assign(parts[0], centres).to(dtype)
            continue
        del sample
        yield torch.cat([assign(torch.cat(block, 1), centres).to(dtype) for block in _blocks(parts)], 1)


def _blocks(parts: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, ...]]:
    """The columns ``parts`` of some points at a time."""
    size = max(_BLOCK, len(parts[0]) // _MOST_BLOCKS)
    yield from zip(*(part.split(size) for part in parts), strict=True)


def _sampled(parts: Sequence[torch.Tensor], graph: Graph, generator: torch.Generator, parallel: Alone) -> torch.Tensor:
    """At most ``_SAMPLE`` points, the same in each process; ``parts`` are their columns."""
    n, device, places = parallel.n_points, parts[0].device, None
    if n > _SAMPLE:
        here = generator_on(device, generator)
        places = graph.drawn(parallel.agreed(torch.randint(n, (_SAMPLE,), generator=here, device=here.device)))
    return torch.cat([parallel.gathered(part, places) for part in parts], 1)


def _model(
    X: torch.Tensor,
    graph: Graph,
    labels: torch.Tensor,
    n_domains: int,
    types: torch.Tensor | None,
    beta: float,
    temper: float,
    total: torch.Tensor,
    parallel: Alone,
    rounded: torch.Tensor | None,
    out: torch.Tensor | None = None,
) -> MeanField:
    """Fits that start at ``labels`` (R, N), with q (N, R, K) in ``out`` if that is given."""
    restarts, own = len(labels), parallel.own
    mix = None
    if types is None:
        emission = _emission(X, labels, n_domains, total, parallel)
    else:
        counts = parallel.sum(types[:own].sum(0)).expand(restarts, -1)
        sums = parallel.sum(types[:own].T @ X[:own]).expand(restarts, -1, -1)
        q = one_hot(labels.T[:own], n_domains)
        mix = parallel.sum(torch.einsum("nrk,nc->rkc", q, types[:own])) + 1e-2
        mix = mix / mix.sum(2, keepdim=True)
        del q
        emission = Emission.tied(counts, sums, total, parallel)
    if out is None:
        if types is None:
            out = empty_q(X, graph, restarts, n_domains, rounded is not None)
        else:
            out = X.new_empty(len(X), restarts, n_domains)
    return _mean_field(X, graph, q_of_labels(labels, n_domains, out), emission, mix, beta, temper, parallel, rounded)


def _mean_field(
    X: torch.Tensor,
    graph: Graph,
    q: torch.Tensor,
    emission: Emission,
    mix: torch.Tensor | None,
    beta: float,
    temper: float,
    parallel: Alone,
    rounded: torch.Tensor | None,
) -> MeanField:
    """Fits at one ``beta``, without an external field."""
    external, betas = X.new_zeros(1, 1, q.shape[2]), X.new_full((q.shape[1],), beta)
    return MeanField(X, graph, q, emission, mix, betas, external, temper=temper, parallel=parallel, rounded=rounded)


def _emission(X: torch.Tensor, labels: torch.Tensor, n_domains: int, total: torch.Tensor, parallel: Alone) -> Emission:
    """The emission of domains that are ``labels`` (R, N)."""
    sums, counts = kmeans_update(X[: parallel.own], labels[:, : parallel.own].int(), n_domains)
    return Emission.tied(parallel.sum(counts.to(X.dtype)), parallel.sum(sums), total, parallel)


def _types(X: torch.Tensor, graph: Graph, n_types: int, generator: torch.Generator, parallel: Alone) -> torch.Tensor:
    """(N, n_types): probabilities of the types of a Gaussian mixture without neighbours, from the best of 4 k-means."""
    sample, own = _sampled([X], graph, generator, parallel), parallel.own
    centres = parallel.agreed(lloyd(sample, plus_plus(sample, n_types, 4, generator), 10)[1])
    scores = torch.stack([inertia(sample, labels, n_types) for labels in assign(sample, centres)])
    q = one_hot(assign(X, centres[scores.argmin()][None]).T, n_types)
    emission = Emission("tied", X[:own], q[:own], parallel)
    for _ in range(10):
        fractions = parallel.sum(q[:own].sum(0)) / parallel.n_points
        q = softmax(emission.scores(X) + fractions.clamp(min=1e-6).log())
        emission.update(X[:own], q[:own])
    return q[:, 0]
