"""Mean-field inference: domain probabilities q (N, R, K) given emissions, mixtures of types and the spatial prior.

The prior of the labels z is p(z) ∝ exp[sum_i a_i(z_i) + beta sum_(i,j) w_ij V(z_i, z_j)] over the edges (i, j). A point
of domain k has type c with probability mix_kc, and its features have the density of type c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate, pairwise

import torch

from warpwise.apps.clustering.emission import Emission
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.kmeans import most_probable
from warpwise.apps.clustering.parallel import Alone, Chunk, Part
from warpwise.apps.clustering.points import pseudo_likelihood, pseudo_likelihood_fits
from warpwise.apps.clustering.rounding import rounded_rows
from warpwise.apps.clustering.smoothing import neighbour_sum as sum_over_neighbours
from warpwise.ops import potts_bound, potts_em_step
from warpwise.ops.potts_em_step.spec import derivatives, neighbour_sum, rows_of, softmax

_TINY = 1e-30
SIZE_TOLERANCE = 0.01  # with ``sizes``: the error of the fraction of the points in a domain
_SIZED, _SIZE_STEPS = 1 << 16, 40  # points and steps that determine the external field of ``sizes``
_MOST_STEP, _DAMPING = 3.0, 1e-3  # of a step for ``sizes``: largest change; term added to the curvature
_BLOCK, _BLOCK_ON_GPU = 1 << 16, 1 << 17  # points whose scores are in memory at a time, if affine in the features
_CHECKED_EVERY = 5  # iterations on a GPU, where the check for convergence synchronises
_LEAST_ROUNDED = 5  # iterations from which on bfloat16 saves more time than the conversions of q take


class MeanField:
    """R fits of one data set, advanced together. Points are sorted by the colour of ``graph``.

    ``interaction`` V is (K, K), or None for Potts (the identity). ``external`` is (1 or N, R, K), added to log q.
    ``mix`` is (R, K, C), or None where each domain is one class. ``temper`` multiplies the log-likelihood of each
    point. ``sizes`` (K,) are target fractions of the points; the M step adjusts ``external`` towards them.
    ``independent`` (N, D) are features whose noise is independent between points, used for beta if the noise of X is
    not independent. With ``parallel`` the arrays are those of one process, its halo last.

    ``q`` is float32, or bfloat16 if ``rounding.empty_q`` made it so. On a GPU ``run`` iterates with ``q`` in bfloat16
    if a kernel takes that; its last iteration uses float32 unless ``exact`` is false. ``rounded`` is X in bfloat16
    (``rounding.in_bfloat16``), which is read in place of X while q is bfloat16, or None.
    """

    def __init__(
        self,
        X: torch.Tensor,
        graph: Graph,
        q: torch.Tensor,
        emission: Emission,
        mix: torch.Tensor | None,
        beta: torch.Tensor,
        external: torch.Tensor,
        interaction: torch.Tensor | None = None,
        sizes: torch.Tensor | None = None,
        temper: float = 1.0,
        independent: torch.Tensor | None = None,
        parallel: Alone | None = None,
        rounded: torch.Tensor | None = None,
    ) -> None:
        self.parallel = Alone(len(q)) if parallel is None else parallel
        self.X, self.graph, self.q, self.emission, self.mix = X, graph, q, emission, mix
        self.beta, self.external, self.interaction = beta, external, interaction
        self.sizes, self.temper, self.independent, self.rounded = sizes, temper, independent, rounded
        self.bounds = (0, *accumulate(self.parallel.counts(graph)))
        self.colours = list(pairwise(self.bounds))
        self.likelihood: torch.Tensor | None = None
        self.density = self.shift = self._near = self._derivatives = X.new_empty(0)
        self._moments: tuple[torch.Tensor, torch.Tensor] | None = None

    def drop_features(self) -> None:
        """Free the arrays of features and scores, which only updates and bounds need."""
        self.X, self.likelihood, self.independent = self.X.new_empty(0, self.X.shape[1]), None, None
        self.rounded = None
        self.density = self.shift = self._near = self.X

    def scores(self) -> torch.Tensor:
        """(N, R, K): log p(x_i | z_i = k) minus a term that does not depend on k, at the current parameters."""
        if self.likelihood is None:
            scores = self.emission.scores(self.X)
            if self.mix is None:
                self.likelihood = scores
            else:
                self.shift = scores.amax(2, keepdim=True)
                self.density = (scores - self.shift).exp_()
                self.likelihood = self._mixed().log_().contiguous()
        return self.likelihood

    def _mixed(self) -> torch.Tensor:
        """(N, R, K): the density of each domain, a mixture of its types."""
        assert self.mix is not None
        return torch.bmm(self.density.transpose(0, 1), self.mix.transpose(1, 2)).transpose(0, 1) + _TINY

    def update_colour(self, begin: int, end: int) -> None:
        """Set q of the points of one colour to its optimum given all others; the ELBO does not fall."""
        self._step((begin, end), False)
        self._moments = None

    def update_domains(self, estimate: bool = False) -> None:
        """Update all colours. With ``estimate`` also compute what ``update_beta`` needs."""
        found = [self._step(part, estimate) for part in self.parallel.steps(self._words(), self.bounds)]
        counts, sums, slopes = self.parallel.total(found)
        self._moments = None if counts is None or sums is None else (counts, sums)
        if slopes is not None:
            self._derivatives = slopes

    def _words(self) -> torch.Tensor:
        """q viewed as float32 words (N, ...). A word of a bfloat16 q holds two elements; the padding of rows is
        included.
        """
        if self.q.dtype == torch.float32:
            return self.q
        rows = rows_of(self.q)
        assert rows is not None  # empty_rows
        return rows.view(torch.float32)

    def _rounded(self) -> torch.Tensor | None:
        """q in bfloat16, or None if updates need float32 or would not be computed by a kernel."""
        if self.q.dtype == torch.bfloat16:
            return self.q
        if self.mix is not None or not self.emission.linear or self.independent is not None:
            return None
        restarts, domains = self.q.shape[1:]
        rows = rounded_rows(self.X, self.graph, restarts, domains, self.rounded is not None, self.interaction)
        return None if rows is None else rows.copy_(self.q)

    def _step(self, part: Part, estimate: bool) -> tuple[torch.Tensor | None, ...]:
        """Update the points of ``part``; return their sums of q, q X and the derivatives for beta."""
        linear = constant = None
        if self.mix is None and self.emission.linear:
            features = self.X if self.rounded is None or self.q.dtype == torch.float32 else self.rounded
            linear, constant = self.emission.coefficients()
        else:
            features = self.scores()
        q, graph, external = self.q, self.graph, self.external
        if isinstance(part, Chunk):
            features = features[part.ids[: part.own]]
            features = torch.cat([features, features.new_zeros(part.halo, *features.shape[1:])])
            q, graph, external = q[part.ids], part.graph, external if len(external) == 1 else external[part.ids]
        given = (q, features, linear, constant, graph, self.beta, external, self.interaction)
        given = self.parallel.moved(*given)
        q, features, linear, constant, graph, beta, external, interaction = given
        bounds = (0, part.own) if isinstance(part, Chunk) else part
        smoothed = self.independent is not None
        whole = None
        if q.dtype == torch.bfloat16 and not isinstance(part, Chunk):
            whole = rows_of(q)  # with the zeros that pad the rows of empty_rows
        counts, sums, slopes, near = potts_em_step(
            q if whole is None else whole,
            features,
            linear,
            constant,
            graph.rowptr,
            graph.columns,
            graph.weights_or_none,
            beta,
            external,
            interaction,
            bounds,
            self.temper,
            return_derivatives=estimate and not smoothed,
            return_near=estimate and smoothed,
        )
        if near is not None:
            self._near = near
        if isinstance(part, Chunk):
            self.q[part.ids[: part.own]] = q[: part.own].to(self.q.device)
        return tuple(None if found is None else found.to(self.q.device) for found in (counts, sums, slopes))

    def update_parameters(self, highest_beta: float | None = None) -> None:
        """The M step of the emissions, the mixtures of types and, with ``sizes``, the external field; with
        ``highest_beta`` also of beta."""
        own = self.parallel.own
        together = self._moments is not None and self.independent is None and highest_beta is not None
        if highest_beta is not None and not together:
            self.update_beta(highest_beta)
        if self._moments is not None:
            slopes = self._derivatives if together else None
            beta = self.emission.update_tied(*self._moments, slopes, self.beta, highest_beta or 0.0)
            self.beta = self.beta if beta is None else beta
        elif self.mix is None:
            self.emission.update(self.X[:own], self.q[:own])
        else:
            self.scores()
            ratio = (self.q / self._mixed())[:own].transpose(0, 1)
            density = self.density[:own].transpose(0, 1)
            self.emission.update(self.X[:own], (density * torch.bmm(ratio, self.mix)).transpose(0, 1))
            mix = self.mix * self.parallel.sum(torch.bmm(ratio.transpose(1, 2), density))
            self.mix = mix / mix.sum(2, keepdim=True).clamp(min=_TINY)
        self.likelihood = self._moments = None
        if self.sizes is not None:
            self.external = self.external + self._shift(self.sizes)

    def _shift(self, sizes: torch.Tensor) -> torch.Tensor:
        """(R, K): what to add to the external field so that q, given the present q of the neighbours, has the fractions
        ``sizes``; from at most ``_SIZED`` of the points.

        It maximises sizes · shift - mean_i log sum_k exp(logits_ik + shift_k), which is concave, by Newton steps.
        """
        every = -(-self.parallel.n_points // _SIZED)
        given = [
            (self.temper * scores + external + self.beta[:, None] * near)[::every]
            for _, scores, near, external in self._blocks()
        ]
        logits = torch.cat([part.double() for part in given])
        n = self.parallel.sum(logits.new_full((1,), len(logits)))
        wanted, shift = sizes.double(), logits.new_zeros(logits.shape[1:])
        step, best = torch.zeros_like(shift), shift.new_full((len(shift), 1), -torch.inf)
        for _ in range(_SIZE_STEPS):
            moved = logits + (shift + step)
            q = torch.softmax(moved, 2)
            parts = (q.sum(0), torch.einsum("nrk,nrl->rkl", q, q), torch.logsumexp(moved, 2).sum(0))
            found, products, evidence = (self.parallel.sum(part) / n for part in parts)
            value = ((shift + step) @ wanted - evidence)[:, None]
            better = value > best
            shift, best = torch.where(better, shift + step, shift), torch.maximum(value, best)
            lack = wanted - found
            if bool((better & (lack.abs().amax(1, keepdim=True) < SIZE_TOLERANCE / 4)).all()):
                break
            curvature = torch.diag_embed(found * (1 + _DAMPING) + _TINY) - products
            newton = torch.linalg.solve(curvature, lack).clamp(-_MOST_STEP, _MOST_STEP)
            step = torch.where(better, newton, step / 2)
        return shift.to(self.external.dtype)

    def fractions(self) -> torch.Tensor:
        """(R, K): the mean of q over all points."""
        return self.parallel.sum(self.q[: self.parallel.own].sum(0, dtype=self.X.dtype)) / self.parallel.n_points

    def update_beta(self, highest: float) -> None:
        """One Newton step of beta on the pseudo-likelihood sum_i log p(z_i | neighbours), clipped to [0, highest].

        With smoothed features the labels of neighbours agree without any prior, which would raise beta to ``highest``.
        With ``independent``, z_i therefore has the posterior given these features of point i and the neighbours.
        """
        if self.independent is not None:
            logits = self.beta[:, None] * self._near + self.external
            scores = Emission("tied", self.independent, self.q).scores(self.independent)
            self._derivatives = derivatives(softmax(scores + logits), self._near, self.beta, self.external)
        gradient, curvature = self._derivatives
        step = torch.where(curvature > 0, gradient / curvature.clamp(min=_TINY), 0)
        limit = 0.25 * highest
        self.beta = (self.beta + step.clamp(-limit, limit)).clamp(0, highest)

    def elbo(self) -> torch.Tensor:
        """(R,) float64: the evidence lower bound without log Z(beta), which has no closed form.

        Bounds at the same ``beta`` and graph can be compared. The parameters are those of the last M step for ``q``.
        """
        if (self.q.is_cuda or self.q.dtype == torch.bfloat16) and self.mix is None and self.emission.linear:
            graph = self.graph
            edges = (graph.rowptr, graph.columns, graph.weights_or_none)
            bound = potts_bound(self.q, *edges, self.beta, self.external, self.interaction, self.parallel.own)
            return self.parallel.sum(bound) + self.temper * self.emission.likelihood
        bound = self.q.new_zeros(self.q.shape[1], dtype=torch.float64)
        for part, scores, near, external in self._blocks():
            q = self.q[part]
            terms = (self.temper * scores).add_(external).add_(near.mul_(self.beta[:, None] / 2))
            bound = bound + terms.mul_(q).add_(torch.special.entr(q)).sum((0, 2), dtype=torch.float64)
        return self.parallel.sum(bound) + self.temper * self._common()

    def _blocks(self) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Yield own points, their scores, their neighbours' support and their external field, (n, R, K) each. The
        scores of all points are computed at once unless they are affine in the features."""
        n, graph = self.parallel.own, self.graph
        affine = self.mix is None and self.emission.linear
        scores = None if affine else self.scores()
        flat = self.q.float().flatten(1)
        whole = sum_over_neighbours(graph, flat) if self.q.is_cuda else None
        block = _BLOCK_ON_GPU if self.q.is_cuda else _BLOCK
        for begin in range(0, n, block):
            part = slice(begin, min(begin + block, n))
            here = self.emission.scores(self.X[part]) if scores is None else scores[part]
            if whole is None:
                near = neighbour_sum(graph.rowptr, graph.columns, graph.weights, flat, begin, part.stop)
            else:
                near = whole[part]
            near = near.view(here.shape)
            near = near if self.interaction is None else near @ self.interaction
            yield part, here, near, self.external if len(self.external) == 1 else self.external[part]

    def pseudo_bic(self, parameters: int) -> torch.Tensor:
        """() float64: -2 log of the pseudo-likelihood of the first fit, plus log N for each parameter (Stanford and
        Raftery 2002).

        sum_i log sum_k p(x_i | k) p(z_i = k | neighbours) needs no log Z, so that fits of different K can be compared.
        """
        evidence = self.parallel.sum(self._evidence()) + self.temper * self._common()
        return -2 * evidence[0] + parameters * math.log(self.parallel.n_points)

    def _evidence(self) -> torch.Tensor:
        """(R,) float64: the sum over own points of the log-density of their features given their neighbours."""
        restarts, k = self.q.shape[1:]
        affine = self.mix is None and self.emission.linear and self.interaction is None
        if self.q.is_cuda and restarts == 1 and affine and pseudo_likelihood_fits(k, self.X.shape[1]):
            linear, constant = self.emission.coefficients()
            given = (self.q[:, 0], self.X, (linear[0], constant[0]), self.graph, self.beta, self.external[:, 0])
            return pseudo_likelihood(*given, self.temper, self.parallel.own)[None]
        evidence = self.q.new_zeros(restarts, dtype=torch.float64)
        for _, scores, near, external in self._blocks():
            prior = torch.log_softmax(self.beta[:, None] * near + external, 2)
            evidence = evidence + torch.logsumexp(self.temper * scores + prior, 2).sum(0, dtype=torch.float64)
        return evidence

    def _common(self) -> torch.Tensor:
        common = self.emission.common(self.X).double()
        return (
            common
            if self.mix is None
            else common + self.parallel.sum(self.shift[: self.parallel.own].sum((0, 2), dtype=torch.float64))
        )

    def run(
        self,
        iterations: int,
        highest_beta: float | None = None,
        tolerance: float = 0.0,
        least: int = 3,
        exact: bool = True,
        again: bool = False,
    ) -> int:
        """EM until at most a fraction ``tolerance`` of the first fit's labels changes, after at least ``least``
        iterations; return the number of iterations.

        ``highest_beta`` None keeps ``beta``. On a GPU the labels are compared in every fifth iteration. All iterations
        but the last one, or all if not ``exact``, store q in bfloat16, if a kernel takes that, and read ``rounded`` if
        it is given. Then ``rounded`` is freed, unless the fit will run ``again``.
        """
        rows = self._rounded() if not exact or iterations >= _LEAST_ROUNDED else None
        if rows is None:
            self.rounded = self.rounded if again else None
            return self._iterate(iterations, highest_beta, tolerance, least)
        self.q = rows
        done = self._iterate(iterations - exact, highest_beta, tolerance, least)
        if not exact:
            return done
        self.rounded = self.rounded if again else None
        self.q = rows.float()
        del rows
        return done + self._iterate(1, highest_beta, 0.0, least)

    def _iterate(self, iterations: int, highest_beta: float | None, tolerance: float, least: int) -> int:
        every = _CHECKED_EVERY if self.q.is_cuda else 1
        labels = most_probable(self.q[:, :1])[:, 0] if tolerance > 0 else self.q.new_empty(0)
        for iteration in range(1, iterations + 1):
            checked = tolerance > 0 and iteration % every == 0
            if checked and every > 1:
                labels = most_probable(self.q[:, :1])[:, 0]
            self.update_domains(highest_beta is not None)
            self.update_parameters(highest_beta)
            if checked:
                new = most_probable(self.q[:, :1])[:, 0]
                differing = (new != labels)[: self.parallel.own].sum().double()
                moved = float(self.parallel.sum(differing)) / self.parallel.n_points
                sized = self.sizes is None or float((self.fractions() - self.sizes).abs().max()) < SIZE_TOLERANCE
                if moved <= tolerance and sized and iteration >= least:
                    return iteration
                labels = new
        return iterations
