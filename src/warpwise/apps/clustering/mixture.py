"""The estimator of spatial domains: a Gaussian mixture with a Markov random field on its labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import torch

from warpwise.apps.clustering.alignment import domain_order
from warpwise.apps.clustering.checkpoint import Checkpoint
from warpwise.apps.clustering.components import merge_regions
from warpwise.apps.clustering.emission import Emission
from warpwise.apps.clustering.estimator import Estimator, all_or_nothing, check_count, check_distinct, warn
from warpwise.apps.clustering.field import SIZE_TOLERANCE, MeanField
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.inputs import affine, clipped, graph_of, rows_of, whitening
from warpwise.apps.clustering.marginal import MarginalEmission, Missing, filled
from warpwise.apps.clustering.parallel import Alone, Streams, morton_blocks
from warpwise.apps.clustering.parameters import check_group, check_parameters, checkpoint_of
from warpwise.apps.clustering.points import results
from warpwise.apps.clustering.prediction import inferred, sampled, unsorted
from warpwise.apps.clustering.ranks import Ranks
from warpwise.apps.clustering.smoothing import noise_left, smooth
from warpwise.apps.clustering.starts import Progress, best_start
from warpwise.apps.clustering.threads import with_threads

_START_STRENGTH = 4.8  # beta of the starts, times the mean degree
MAX_STRENGTH = 12.0  # the highest beta that is estimated, times the mean degree
_TOLERANCE = 2e-4  # fraction of the labels that may change in the last iteration
_LEAST_WITH_MISSING = 20  # iterations: expected values of missing features converge after the labels


class SpatialMixture(Estimator):
    """Domains of points in space: a mixture whose labels form a Markov random field on the neighbour graph.

    p(z) ∝ exp[sum_i field_i(z_i) + beta sum_(i,j) w_ij V(z_i, z_j)] over the edges (i, j), fitted by mean-field EM.

    Parameters
    ----------
    n_domains : K, the number of domains.
    n_types : C, or None. With C each domain is a mixture of C Gaussian types that all domains share, as tissue is a
        mixture of cell types; with None each domain is one Gaussian.
    prior : "potts" (V is the identity), "layers" (V = -min(|k - l|, 3); labels are numbered in the order of the layers)
        or a symmetric (K, K) matrix V.
    covariance : "tied", "diag", "full" (one a class) or "t" (Student's t with 4 degrees of freedom and a tied scale,
        for features with outliers or heavy tails).
    beta : "estimate" (by pseudo-likelihood, at most 12 / mean degree) or a float of at least 0. With a matrix c V
        the estimate is beta / c, and the fit is that of V.
    field : (N, K), added to the log-probabilities: an atlas or a depth prior; or None.
    sizes : (K,) positive, the wanted sizes of the domains, as fractions of the points or in any other unit: they are
        divided by their sum. In no given order unless ``field`` gives one; or None. Only with the prior "potts". After
        the fit at most ``max_iter`` further iterations choose the external field so that the fractions are reached, and
        a warning says if they are not. Sizes that are far from those of the domains in X divide some of them and merge
        others.
    min_region : merge regions with fewer points into neighbouring domains; or None.
    contiguous : merge all regions of a domain but its largest into neighbouring domains.
    n_init : k-means++ starts.
    missing : "error": NaN in X raises ``ValueError``. "marginalise": NaN is a missing value, and the fit uses the
        density of the observed features of each point; a point without any is labelled by its neighbours. A feature
        needs at least one value. Only without ``smoothing``.
    smoothing : hops over which features are averaged before the fit; only without ``n_types``. Averages of neighbours
        are not independent evidence: the log-likelihood is multiplied by the fraction of the variance that independent
        noise keeps, and beta is estimated with the features before smoothing.
    whiten : False keeps the metric of X, up to one scale: the starts weight features by their variance in X, which
        suits principal components. True (default) whitens by the covariance of the differences of neighbours.
    n_neighbours : neighbours of each point in the graph that ``coords`` gives.
    block_size : points of the blocks in which X is copied to the device, for X that is larger than its memory; None
        copies all. X, q and the graph then stay in the memory of the host, where starts and bounds are computed.
    random_state : an int, a ``numpy.random.RandomState`` or ``Generator``, or None. Fits with one int are equal bit for
        bit, on CPUs of one kind with one number of threads. A fit uses at most one thread for each 2^20 elements of X.
    device : where the fit runs: "cpu", "cuda", or None for the device of a tensor X and the CPU for an array. The graph
        of ``shape`` or ``coords`` is built there. On a GPU the labels are compared in every fifth iteration, so a fit
        may run more iterations than on a CPU; fits with one ``random_state`` are equal bit for bit on one device. With
        a tied covariance, one class a domain and prior "potts", all iterations but the last store probabilities in
        bfloat16 on a GPU, and read features in bfloat16 where that saves time and adds at most 1 % to the covariance;
        results are float32.

    Attributes
    ----------
    labels_ (N,) int64 · probabilities_ (N, K) and uncertainty_ (N,) = 1 - their maximum, before regions are merged ·
    beta_ · elbo_, the evidence lower bound without log Z(beta) · bic_, from the pseudo-likelihood; lower is better ·
    n_iter_ · means_ (K or C, D), in the units of X · n_features_in_

    A domain may be empty after the fit. A point without neighbours is labelled by its features and ``field``. A
    constant feature has no effect.
    """

    def __init__(
        self,
        n_domains: int = 2,
        n_types: int | None = None,
        prior: Any = "potts",
        covariance: str = "tied",
        beta: float | str = "estimate",
        field: Any = None,
        sizes: Any = None,
        min_region: int | None = None,
        contiguous: bool = False,
        n_init: int = 16,
        missing: str = "error",
        smoothing: int = 0,
        whiten: bool = True,
        n_neighbours: int = 8,
        max_iter: int = 200,
        block_size: int | None = None,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.n_domains = n_domains
        self.n_types = n_types
        self.prior = prior
        self.covariance = covariance
        self.beta = beta
        self.field = field
        self.sizes = sizes
        self.min_region = min_region
        self.contiguous = contiguous
        self.n_init = n_init
        self.missing = missing
        self.smoothing = smoothing
        self.whiten = whiten
        self.n_neighbours = n_neighbours
        self.max_iter = max_iter
        self.block_size = block_size
        self.random_state = random_state
        self.device = device

    @with_threads
    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        coords: Any = None,
        graph: Any = None,
        shape: Sequence[int] | None = None,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
        group: Any = None,
    ) -> SpatialMixture:
        """Fit X (N, D), a NumPy array or a tensor; ``y`` is ignored.

        Neighbours come from one of ``coords`` (N, 2 or 3), which joins each point to its ``n_neighbours`` nearest;
        ``graph``, a ``Graph``, a scipy sparse matrix or (rowptr, columns[, weights]), made symmetric; ``shape`` of a
        2-D or 3-D grid whose points are in row-major order, with 8 neighbours in 2-D and 6 in 3-D. With none of them
        the model is a Gaussian mixture without a spatial prior.

        ``checkpoint`` is a file that keeps the best of the finished starts. An interrupted fit of the same data and
        parameters continues from it; it is deleted at the end. It needs an int as ``random_state``.
        ``progress(done, n_init)`` is called after each batch of starts.

        ``group`` is a process group of torch.distributed, such as ``torch.distributed.group.WORLD``, whose processes
        all call ``fit`` with the same arguments, ``random_state`` an int. Each copies the rows of X of one block of the
        points, on its current GPU with ``device="cuda"``, and updates them; all have the whole result. X may be a
        memory-mapped array. Not with ``checkpoint``, ``smoothing`` or missing values.

        Raises ``ValueError`` for NaN or infinite values, arguments of different lengths, K above the number of distinct
        rows of X, parameters outside the values listed above, and a checkpoint of another fit. If a
        fit raises an exception or is interrupted, the model keeps the attributes of its previous fit.
        """
        if group is not None:
            check_group(self, checkpoint)
            return self._fit_block(X, (coords, graph, shape), progress, group)
        on_host = self.block_size is not None
        features = self._features(X, reset=True, device=torch.device("cpu") if on_host else None)
        settings = self._settings = check_parameters(self, len(features))
        neighbours = graph_of(len(features), coords, graph, shape, settings.n_neighbours, features.device)
        order, sorted_graph = neighbours.by_colour
        missing = features.isnan() if self.missing == "marginalise" else None
        if missing is not None and bool(missing.any()):
            features = filled(features, missing, neighbours)
        else:
            missing = None
        check_distinct(features, settings.n_domains, "n_domains")
        if settings.n_types is not None:
            check_distinct(features, settings.n_types, "n_types")
        places = neighbours.places if on_host else None
        del neighbours
        usual = clipped(features) if self.covariance == "t" else features
        self._mean, self._matrix, self._inverse = whitening(usual, sorted_graph, order=order, whiten=self.whiten)
        known = None if missing is None else Missing(missing[order], self._matrix)
        whitened = affine(features, self._mean, self._matrix, order)
        usual = whitened if usual is features else affine(usual, self._mean, self._matrix, order)
        del features
        file = checkpoint_of(self, checkpoint, usual, sorted_graph)
        streams = None
        if settings.block_size is not None:
            block = morton_blocks(places, len(order), -(-len(order) // settings.block_size))
            streams = Streams(sorted_graph, self._device(X), block[order])
        model = self._optimise(whitened, usual, sorted_graph, order, known, file, progress, streams)
        del whitened, usual  # freed before the results are made
        self._keep(X, model, sorted_graph, order)
        if file is not None:
            file.remove()
        return self

    def _fit_block(
        self, X: Any, structure: tuple[Any, Any, Any], progress: Progress | None, group: Any
    ) -> SpatialMixture:
        """``fit`` of one of the processes of ``group``; ``structure`` is (coords, graph, shape)."""
        device, X = self._device(X), self._uncopied(X)
        settings = self._settings = check_parameters(self, len(X))
        graph = graph_of(len(X), *structure, settings.n_neighbours, device)
        ranks = Ranks(group, device, graph)
        part = rows_of(X, ranks.ids, device)
        if not ranks.finite(part[: ranks.own]):
            raise ValueError("X: expected finite values, got NaN or infinity")
        check_distinct(X, settings.n_domains, "n_domains")
        if settings.n_types is not None:
            check_distinct(X, settings.n_types, "n_types")
        usual = clipped(part, X) if self.covariance == "t" else part
        self._mean, self._matrix, self._inverse = whitening(usual, ranks.graph, ranks, whiten=self.whiten)
        whitened = affine(part, self._mean, self._matrix)
        usual = whitened if usual is part else affine(usual, self._mean, self._matrix)
        del part
        model = self._optimise(whitened, usual, ranks.graph, ranks.ids, None, None, progress, ranks)
        del whitened, usual  # freed before the results are made
        merged = self.min_region is not None or self.contiguous
        self._keep(X, model, graph.by_colour[1] if merged else graph, graph.order)
        return self

    @with_threads
    def predict_proba(
        self, X: Any, *, coords: Any = None, graph: Any = None, shape: Sequence[int] | None = None
    ) -> Any:
        """(N, K): probabilities of the domains of new points, at the fitted parameters.

        The neighbours of the new points are described as in ``fit``; the points of the fit are not among them. The
        ``field`` of the fit is used only if it has as many rows as X. The inference starts from the scores of the
        points, smoothed over their neighbours, so the points of the fit can get other probabilities than
        ``probabilities_``, above all with ``n_types``.
        """
        order, model = inferred(self, X, (coords, graph, shape))
        return self._like(X, unsorted(order, model.q[:, 0]))

    @with_threads
    def sample_proba(
        self,
        X: Any,
        *,
        coords: Any = None,
        graph: Any = None,
        shape: Sequence[int] | None = None,
        sweeps: int = 200,
        burn_in: int = 50,
    ) -> Any:
        """(N, K): the fractions of ``sweeps`` of Gibbs sampling in which a point has each label, after ``burn_in``.

        They estimate the probabilities that ``predict_proba`` approximates by mean-field inference, which is too
        certain where neighbours depend on each other. One sweep draws the label of every point, one colour of the
        graph after another, at the fitted parameters. The other arguments are those of ``predict_proba``.
        """
        counts = check_count("sweeps", sweeps, 1), check_count("burn_in", burn_in, 0)
        order, model = inferred(self, X, (coords, graph, shape))
        return self._like(X, unsorted(order, sampled(model, *counts, self._generator())))

    def predict(self, X: Any, *, coords: Any = None, graph: Any = None, shape: Sequence[int] | None = None) -> Any:
        """(N,) int64: the most probable domains of new points; see ``predict_proba``. Regions are not merged."""
        return self.predict_proba(X, coords=coords, graph=graph, shape=shape).argmax(1)

    def select(self, X: Any, ks: Iterable[int], **structure: Any) -> SpatialMixture:
        """Fit each number of domains of ``ks`` and keep the fit of the lowest ``bic_``, with its ``n_domains``.

        ``structure`` is ``coords``, ``graph`` or ``shape``. ``bics_`` maps each K to its BIC. Raises ``ValueError`` for
        empty ``ks``, and if ``field``, ``sizes`` or a matrix as ``prior`` fixes K.
        """
        if not isinstance(ks, Iterable) or not (counts := [check_count("ks", k, 1) for k in ks]):
            raise ValueError(f"ks: expected numbers of domains, such as range(3, 10), got {ks!r}")
        if self.field is not None or self.sizes is not None or not isinstance(self.prior, str):
            raise ValueError("select: field, sizes and a prior matrix fit a single K; expected None and a named prior")
        best, lowest, bics = self, float("inf"), dict[int, float]()
        for k in counts:
            model = copy(self)
            model.n_domains = k
            model.fit(X, **structure)
            bics[k] = model.bic_
            bic = float("inf") if math.isnan(model.bic_) else model.bic_
            if bic <= lowest:
                best, lowest = model, bic
        self.__dict__.update(best.__dict__)
        self.bics_ = bics
        return self

    def _smoothed(self, X: torch.Tensor, graph: Graph) -> tuple[torch.Tensor, float]:
        """X averaged over ``smoothing`` hops, and the factor by which its log-likelihood is multiplied."""
        hops = self._settings.smoothing
        return (X, 1.0) if hops == 0 else (smooth(graph, X, hops), noise_left(graph, hops))

    def _optimise(
        self,
        whitened: torch.Tensor,
        usual: torch.Tensor,
        graph: Graph,
        order: torch.Tensor,
        missing: Missing | None,
        checkpoint: Checkpoint | None,
        progress: Progress | None,
        parallel: Alone | None = None,
    ) -> MeanField:
        """The best start, then EM with the chosen prior, covariance and beta until the labels no longer change.

        Row i of ``graph`` and of ``whitened`` is point ``order[i]``. ``usual`` is ``whitened``, or it without outliers:
        the starts use it. The external field, V and the sizes move to the device of ``whitened``.
        """
        parallel = Alone(len(whitened)) if parallel is None else parallel
        own = parallel.own
        device = whitened.device
        here, order = graph.to(device), order.to(device)
        settings = self._settings
        self._external = settings.external.to(device)
        wanted, sizes = settings.interaction, settings.sizes
        interaction = None if wanted is None else wanted.to(device)
        X, temper = self._smoothed(whitened, here)
        usual = X if usual is whitened else self._smoothed(usual, here)[0]
        independent = whitened if settings.smoothing else None
        degree = float(parallel.sum(here.degree[:own].sum(dtype=torch.float64))) / parallel.n_points
        strength = _START_STRENGTH / degree if degree else 0.0
        highest = MAX_STRENGTH / degree / settings.scale if degree else 0.0
        external = self._external[order if self._external.shape[0] > 1 else [0], None]
        counts, generator = (settings.n_domains, settings.n_types, settings.n_init), self._generator()
        model = best_start(usual, here, *counts, strength, generator, temper, checkpoint, progress, parallel)
        field = external[:, 0] if self.field is not None else None
        if field is not None or wanted is not None or sizes is not None:
            _reorder(model, domain_order(graph, model.q[:, 0], field, wanted, sizes, parallel).to(device))
        emission = model.emission
        if self.covariance != "tied":
            classes = model.q
            if model.mix is not None:
                classes = torch.softmax(model.emission.scores(usual), 2)
            emission = Emission(self.covariance, usual[:own], classes[:own], parallel)
        if missing is not None:
            emission = MarginalEmission(emission, missing)
        beta = model.beta / settings.scale if isinstance(self.beta, str) else X.new_full((1,), float(self.beta))
        state = (model.q, emission, model.mix, beta, external, interaction, None)
        final = MeanField(X, here, *state, temper, independent, parallel, model.rounded if X is usual else None)
        del model, state  # references to arrays that the fit replaces or frees
        estimate = highest if isinstance(self.beta, str) else None
        least = 3 if missing is None else _LEAST_WITH_MISSING
        self.n_iter_ = final.run(settings.max_iter, estimate, _TOLERANCE, least, again=sizes is not None)
        if sizes is not None:
            # With beta fixed: adjusting the field while beta is estimated can drive beta to its bound.
            final.sizes = sizes.to(device)
            self.n_iter_ += final.run(settings.max_iter, None, _TOLERANCE)
            reached = final.fractions()[0]
            if float((reached - final.sizes).abs().max()) >= SIZE_TOLERANCE:
                expected, found = ([round(part, 3) for part in parts.tolist()] for parts in (sizes, reached))
                warn(f"sizes: expected {expected}, reached {found}")
        return final

    def _keep(self, X: Any, model: MeanField, graph: Graph, order: torch.Tensor) -> None:
        """Set the attributes. The features of ``model`` are freed before its q is sorted by points."""
        parallel = model.parallel
        # The host launches the kernels of the results before it reads beta and the bounds.
        mixed = 0 if model.mix is None else model.mix[0].numel() - model.mix.shape[1]
        elbo = model.elbo()
        bic = model.pseudo_bic(model.emission.parameters() + mixed + isinstance(self.beta, str))
        region = self._settings.min_region
        merged, likelihood = region is not None or self.contiguous, None
        if merged:
            likelihood = parallel.gathered((model.temper * model.scores() + model.external)[:, 0])
        self._model = _Fitted(model)
        if self._external.shape[0] == 1:
            self._external = model.external[:, 0]
        q, order = model.q[:, 0], order.to(model.q.device)
        model.drop_features()
        probabilities, labels, uncertainty = results(parallel.rows_of_all(q, order), len(order))
        means = model.emission.mean[0].double().cpu() @ self._inverse.cpu() + self._mean.cpu()
        self.beta_, self.elbo_, self.bic_ = float(model.beta), float(elbo), float(bic)
        if likelihood is not None:
            beta = self.beta_ * self._settings.scale
            labels[order] = merge_regions(
                graph.to(order.device), labels[order], likelihood, beta, region or 1, self.contiguous
            )
        self.means_ = self._like(X, means)
        self.labels_ = self._like(X, labels)
        self.probabilities_ = self._like(X, probabilities)
        self.uncertainty_ = self._like(X, uncertainty)


class _Fitted:
    """The parameters of a fit, without its data."""

    def __init__(self, model: MeanField) -> None:
        self.emission, self.mix = Emission.of(model.emission), model.mix
        self.beta, self.interaction = model.beta, model.interaction


def _reorder(model: MeanField, order: torch.Tensor) -> None:
    """Renumber the domains: domain k becomes the present domain ``order[k]``."""
    model.q = model.q[..., order].contiguous()
    if model.mix is None:
        model.emission.replace(model.emission.mean[:, order].contiguous(), model.emission.scale)
    else:
        model.mix = model.mix[:, order].contiguous()
