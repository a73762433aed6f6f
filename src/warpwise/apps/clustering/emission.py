"""Class-conditional densities: Gaussian with a tied, diagonal or full covariance, and Student's t.

Arrays carry R restarts: means are (R, C, D), scores and responsibilities (N, R, C).
"""

from __future__ import annotations

import math

import torch

from warpwise.apps.clustering.inputs import sum_of_products
from warpwise.apps.clustering.parallel import Alone
from warpwise.ops import potts_m_step

DEGREES_OF_FREEDOM = 4.0  # of Student's t
RIDGE = 1e-5  # added to every variance; features are whitened, so that their noise has variance 1
_RIDGES = (RIDGE, 1e-3, 0.1, 10.0)  # one after another, while the variance without noise is below the error of its sums
_ROUNDING = 16 * torch.finfo(torch.float32).eps  # the error of a sum of squares in float32


class Emission:
    """Means and covariances of C classes for each of R restarts, from responsibilities (N, R, C).

    ``covariance`` is "tied" (one matrix), "diag" (one vector of variances a class), "full" (one matrix a class), or "t"
    (Student's t with 4 degrees of freedom and one scale matrix). Covariances of single classes are shrunk towards the
    tied one by D + 1 pseudo-observations. A class without points keeps its mean. X (N, D) and the responsibilities
    belong to the process's own points; ``parallel`` adds over the processes.
    """

    likelihood: torch.Tensor  # (R,) float64: the expected log-likelihood of all points, of a tied covariance
    _coefficients: tuple[torch.Tensor, torch.Tensor] | None = None
    _moments: tuple[torch.Tensor, torch.Tensor] | None = None  # counts and sums of the last M step, if it gave both

    def __init__(
        self, covariance: str, X: torch.Tensor, responsibilities: torch.Tensor, parallel: Alone | None = None
    ) -> None:
        self.covariance = covariance
        self.parallel = Alone(len(X)) if parallel is None else parallel
        self.total = raised(self.parallel.sum(X.T @ X), self.parallel.n_points)
        _, restarts, classes = responsibilities.shape
        self.mean = (self.parallel.sum(X.sum(0)) / self.parallel.n_points).expand(restarts, classes, X.shape[1])
        self.scale = torch.empty(0, dtype=torch.float32)
        self.distance: torch.Tensor | None = None
        self.update(X, responsibilities)

    @classmethod
    def tied(cls, counts: torch.Tensor, sums: torch.Tensor, total: torch.Tensor, parallel: Alone) -> Emission:
        """A tied covariance from sums over all points: of responsibilities (R, C), of their products with X (R, C, D),
        and ``total`` (D, D) of x x^T."""
        mean = (sums.sum(1, keepdim=True) / parallel.n_points).expand(sums.shape)
        made = cls.fitted(mean, torch.empty(0, dtype=torch.float32), total, parallel)
        made.update_tied(counts, sums)
        return made

    @classmethod
    def fitted(cls, mean: torch.Tensor, scale: torch.Tensor, total: torch.Tensor, parallel: Alone) -> Emission:
        """An emission with a tied covariance and these parameters; ``total`` (D, D) is the sum of all x x^T."""
        made = cls.__new__(cls)
        made.covariance, made.parallel, made.total, made.distance = "tied", parallel, total, None
        made.mean, made.scale = mean, scale
        return made

    @classmethod
    def of(cls, emission: Emission) -> Emission:
        """A copy of ``emission``'s parameters for other points, without the state of an M step."""
        copy = cls.__new__(cls)
        copy.covariance, copy.mean, copy.scale = emission.covariance, emission.mean, emission.scale
        copy.distance = None
        return copy

    @property
    def linear(self) -> bool:
        """True if scores are affine in the features (``coefficients``), so that a step needs no scores as input."""
        return self.covariance == "tied"

    def parameters(self) -> int:
        """The number of free parameters of a restart."""
        classes, d = self.mean.shape[1:]
        matrix = d * (d + 1) // 2
        return (
            classes * d + {"tied": matrix, "t": matrix, "diag": classes * d, "full": classes * matrix}[self.covariance]
        )

    def update(self, X: torch.Tensor, responsibilities: torch.Tensor) -> None:
        """The M step. ``responsibilities`` may sum to less than 1 over the classes of a point."""
        n, _, classes = responsibilities.shape
        d = X.shape[1]
        weights = responsibilities
        if self.covariance == "t" and self.distance is not None:
            weights = weights * ((DEGREES_OF_FREEDOM + d) / (DEGREES_OF_FREEDOM + self.distance[:n]))
        if self.covariance == "tied":
            sums = (weights.reshape(n, -1).T @ X).view(-1, classes, d)
        else:
            sums = sum_of_products(weights.reshape(n, -1), X).view(-1, classes, d)
        counts, sums = self._sums(weights.sum(0, dtype=sums.dtype), sums)
        self._update(X, weights, counts, sums, weights is not responsibilities)

    def update_tied(
        self,
        counts: torch.Tensor,
        sums: torch.Tensor,
        derivatives: torch.Tensor | None = None,
        beta: torch.Tensor | None = None,
        highest_beta: float = 0.0,
    ) -> torch.Tensor | None:
        """The M step of a tied covariance from the sums of responsibilities (R, C) and of their products with X.

        With ``derivatives`` (2, R) of the pseudo-likelihood it returns the new ``beta`` (R,). ``likelihood`` is then
        the expected log-likelihood of all points.
        """
        slopes = (derivatives, None if derivatives is None else beta, highest_beta)
        for ridge in _RIDGES:
            self.mean, self.scale, linear, constant, self.likelihood, new = potts_m_step(
                counts, sums, self.total, self.mean, self.parallel.n_points, ridge, *slopes
            )
            # On a GPU the sums are more exact than on a CPU, and a check would make the host wait.
            if counts.is_cuda or bool(torch.isfinite(self.likelihood).all()):
                break
        self._coefficients, self._moments = (linear, constant), (counts, sums)
        return new

    def replace(self, mean: torch.Tensor, scale: torch.Tensor) -> None:
        """Set the parameters."""
        self.mean, self.scale, self._coefficients, self._moments = mean, scale, None, None

    def _sums(self, *parts: torch.Tensor) -> list[torch.Tensor]:
        return [part for part in self.parallel.sums(*parts) if part is not None]

    def _update(
        self,
        X: torch.Tensor,
        weights: torch.Tensor,
        counts: torch.Tensor,
        sums: torch.Tensor,
        reweighted: bool = False,
    ) -> None:
        if self.covariance == "tied":
            self.update_tied(counts, sums)
            return
        restarts, classes, d = sums.shape
        # The covariance is a difference of large sums if the domains are far apart in units of their noise.
        mean = torch.where(counts[..., None] > 1e-3, sums / counts.clamp(min=1e-3)[..., None], self.mean.double())
        within = (counts[..., None] * mean).mT @ mean
        if reweighted:
            parts = [sum_of_products(X, X, weights[:, r].sum(1, dtype=torch.float64)) for r in range(restarts)]
            total = self.parallel.sum(torch.stack(parts))
        else:
            total = self.parallel.sum(sum_of_products(X, X))
        self.mean = mean.float()
        tied = (total - within) / self.parallel.n_points
        self.scale = _ridged((tied + tied.mT) / 2)
        if self.covariance == "diag":
            squares = self.parallel.sum(sum_of_products(weights.reshape(len(X), -1), X.square()))
            spread = (squares.view(restarts, classes, d) - counts[..., None] * mean.square()).clamp(min=0)
            prior = self.scale.diagonal(dim1=1, dim2=2)[:, None]
            self.scale = ((spread + (d + 1) * prior) / (counts[..., None] + d + 1) + RIDGE).float()
        elif self.covariance == "full":
            matrices = []
            for r in range(restarts):
                for c in range(classes):
                    centred = X - self.mean[r, c]
                    scatter = self.parallel.sum(centred.T @ (centred * weights[:, r, c, None]))
                    matrices.append((scatter + (d + 1) * self.scale[r]) / (counts[r, c] + d + 1))
            self.scale = _ridged(torch.stack(matrices)).view(restarts, classes, d, d)

    def coefficients(self) -> tuple[torch.Tensor, torch.Tensor]:
        """For a tied covariance: linear (R, C, D) and constant (R, C); the scores are x · linear + constant."""
        if self._coefficients is None:
            linear = self.mean @ torch.linalg.inv_ex(self.scale).inverse
            self._coefficients = linear, -(linear * self.mean).sum(2) / 2
        return self._coefficients

    def scores(self, X: torch.Tensor) -> torch.Tensor:
        """(N, R, C): log p(x | c) minus a term that does not depend on the class (``common``)."""
        restarts, classes, d = self.mean.shape
        if self.covariance == "tied":
            linear, constant = self.coefficients()
            return torch.addmm(constant.flatten(), X, linear.view(-1, d).T).view(-1, restarts, classes)
        normal = -d / 2 * math.log(2 * math.pi)
        if self.covariance == "diag":
            linear = self.mean / self.scale
            constant = normal - (self.scale.log() + linear * self.mean).sum(2) / 2
            scores = torch.addmm(constant.flatten(), X, linear.view(-1, d).T)
            return scores.addmm_(X.square(), (-0.5 / self.scale).view(-1, d).T).view(-1, restarts, classes)
        factors = torch.linalg.cholesky(self.scale)
        halves = factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        inverse = torch.linalg.inv(factors)
        found = []
        for r in range(restarts):
            for c in range(classes):
                whiten = inverse[r, c] if self.covariance == "full" else inverse[r]
                found.append(((X - self.mean[r, c]) @ whiten.T).square().sum(1))
        distance = torch.stack(found, 1).view(-1, restarts, classes)
        if self.covariance == "full":
            return normal - halves - distance / 2
        self.distance = distance
        nu = DEGREES_OF_FREEDOM
        constant = math.lgamma((nu + d) / 2) - math.lgamma(nu / 2) - d / 2 * math.log(nu * math.pi) - halves[:, None]
        return constant - (nu + d) / 2 * torch.log1p(distance / nu)

    def common(self, X: torch.Tensor) -> torch.Tensor:
        """(R,): the sum over all points of the term that ``scores`` leaves out."""
        restarts, _, d = self.mean.shape
        if self.covariance != "tied":
            return torch.zeros(restarts, dtype=torch.float32, device=X.device)
        if self._moments is not None:  # the likelihood less the expected scores
            (linear, constant), (counts, sums) = self.coefficients(), self._moments
            scores = (linear.double() * sums).sum((1, 2)) + (constant.double() * counts).sum(1)
            return self.likelihood - scores
        scale, total = self.scale.cpu(), self.total.cpu()  # small
        quadratic = (torch.linalg.inv(scale) * total).sum((1, 2))
        constant = self.parallel.n_points / 2 * (torch.linalg.slogdet(scale)[1] + d * math.log(2 * math.pi))
        return (-quadratic / 2 - constant).to(X.device)


def raised(total: torch.Tensor, n_points: int) -> torch.Tensor:
    """``total`` (..., D, D), sums of x x^T in float32, with a diagonal so large that a covariance, its difference to
    those of the means, is positive definite. It changes only if ``RIDGE`` is less than the error of the difference,
    which needs domains far apart in units of their noise."""
    largest = total.diagonal(dim1=-2, dim2=-1).amax(-1)
    missing = (_ROUNDING * largest - n_points * RIDGE).clamp(min=0)
    return total + missing[..., None, None] * torch.eye(total.shape[-1], dtype=total.dtype, device=total.device)


def _ridged(matrices: torch.Tensor) -> torch.Tensor:
    """``matrices`` (..., D, D) in float32, with so much more variance that they are positive definite."""
    ridge = (_ROUNDING * matrices.diagonal(dim1=-2, dim2=-1).amax(-1)).clamp(min=RIDGE)
    same = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    return (matrices + ridge[..., None, None] * same).float()
