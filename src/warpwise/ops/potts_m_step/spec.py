"""The specification of potts_m_step: means, a tied covariance and beta from the moments of an iteration of EM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_shapes, check_tensor, draw

DTYPES = (torch.float32,)
OP = "potts_m_step"
LEAST_COUNT = 1e-3  # a domain with a smaller count keeps its mean
Tensor = torch.Tensor
Optional = torch.Tensor | None


def check(
    counts: Tensor, sums: Tensor, total: Tensor, previous: Tensor, n_points: int, ridge: float, derivatives: Optional,
    beta: Optional, highest_beta: float,
) -> None:  # fmt: skip
    check_tensor(OP, "counts", counts, FLOATS, dims=(2,))
    check_tensor(OP, "sums", sums, dims=(3,))
    restarts, domains, width = *counts.shape, sums.shape[2]
    if (derivatives is None) != (beta is None):
        raise ValueError(f"{OP}: expected both derivatives and beta, or neither")
    wanted: dict[str, tuple[Optional, tuple[int, ...]]] = {
        "sums": (sums, (restarts, domains, width)),
        "total": (total, (width, width)),
        "previous": (previous, (restarts, domains, width)),
        "derivatives": (derivatives, (2, restarts)),
        "beta": (beta, (restarts,)),
    }
    check_shapes(OP, "counts", counts, wanted)
    if not domains or not width:
        raise ValueError(f"{OP}: expected sums (R, K, D) with K and D of at least 1, got {tuple(sums.shape)}")
    if n_points < 1:
        raise ValueError(f"{OP}: expected n_points of at least 1, got {n_points}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """Moments of about 50 points a domain around means of variance 4; ``total`` exceeds that of each restart by a
    covariance with eigenvalues from 1 to about 5. The first of several domains is empty."""
    restarts, domains, width = (case.sizes[name] for name in ("restarts", "domains", "width"))
    huge = 2.0**40 if case.values == "huge" else 1.0
    means = draw((restarts, domains, width), torch.float64, device, 5 * seed) * 2 * huge
    counts = draw((restarts, domains), torch.float64, device, 5 * seed + 1).tanh() * 20 + 50
    counts[:, : domains > 2] = 0
    within = torch.einsum("rk,rkd,rke->de", counts, means, means)
    n_points = 50 * domains
    factor = draw((width, width), torch.float64, device, 5 * seed + 4)
    noise = torch.eye(width, dtype=torch.float64, device=device) + factor @ factor.T / width
    made: dict[str, Any] = {
        "counts": counts.to(dtype),
        "sums": (counts[..., None] * means).to(dtype),
        "total": (within + n_points * huge**2 * noise).to(dtype),
        "previous": draw((restarts, domains, width), dtype, device, 5 * seed + 2) * huge,
        "n_points": n_points,
    }
    if case.attributes.get("highest_beta"):
        slopes = draw((2, restarts), dtype, device, 5 * seed + 3)
        made["derivatives"] = torch.stack([slopes[0].tanh() / 8, 1 + slopes[1].abs()])
        made["beta"] = torch.linspace(0.3, 0.4, restarts, dtype=dtype, device=device)
    return made


def _means(counts: Tensor, sums: Tensor, previous: Tensor) -> Tensor:
    return torch.where(counts[..., None] > LEAST_COUNT, sums / counts.clamp(min=LEAST_COUNT)[..., None], previous)


def _gaussian(
    mean: Tensor, counts: Tensor, sums: Tensor, total: Tensor, n_points: int, ridge: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(scale, linear, constant, likelihood, inverse) in the dtype of the arguments."""
    width = sums.shape[2]
    within = (counts[..., None] * mean).mT @ mean
    scale = (total + total.T) / (2 * n_points) - within / n_points
    scale = scale + ridge * torch.eye(width, dtype=scale.dtype, device=scale.device)
    factor = torch.linalg.cholesky_ex(scale)[0]
    inverse = torch.cholesky_inverse(factor) if len(scale) else scale
    linear = mean @ inverse
    constant = -(linear * mean).sum(2) / 2
    determinant = 2 * factor.diagonal(dim1=1, dim2=2).log().sum(1)
    likelihood = (linear * sums).sum((1, 2)) + (constant * counts).sum(1) - (inverse * total).sum((1, 2)) / 2
    likelihood = likelihood - n_points / 2 * (determinant + width * math.log(2 * math.pi))
    return scale, linear, constant, likelihood, inverse


def _newton(derivatives: Optional, beta: Optional, highest: float) -> Optional:
    if derivatives is None or beta is None:
        return None
    gradient, curvature = derivatives
    step = torch.where(curvature > 0, gradient / curvature, 0)
    return (beta + step.clamp(-0.25 * highest, 0.25 * highest)).clamp(0, highest)


def reference(
    counts: Tensor, sums: Tensor, total: Tensor, previous: Tensor, n_points: int, ridge: float, derivatives: Optional,
    beta: Optional, highest_beta: float,
) -> Any:  # fmt: skip
    counts, sums, total, previous = (part.double() for part in (counts, sums, total, previous))
    mean = _means(counts, sums, previous)
    slopes, start = (None if part is None else part.double() for part in (derivatives, beta))
    return mean, *_gaussian(mean, counts, sums, total, n_points, ridge)[:4], _newton(slopes, start, highest_beta)


def eager(
    counts: Tensor, sums: Tensor, total: Tensor, previous: Tensor, n_points: int, ridge: float, derivatives: Optional,
    beta: Optional, highest_beta: float,
) -> Any:  # fmt: skip
    """The covariance and its inverse in float64; cholesky_ex does not synchronise."""
    dtype, counts, sums = counts.dtype, counts.double(), sums.double()
    mean = _means(counts, sums, previous.double())
    *found, likelihood, _ = _gaussian(mean, counts, sums, total.double(), n_points, ridge)
    scale, linear, constant = (part.to(dtype) for part in found)
    return mean.to(dtype), scale, linear, constant, likelihood, _newton(derivatives, beta, highest_beta)


def _magnitudes(counts: Tensor, sums: Tensor, total: Tensor, previous: Tensor, n_points: int, ridge: float,
                *rest: Any) -> dict[str, Tensor]:  # fmt: skip
    """Relative errors u of the terms change the covariance by at most u ``scale``, its inverse P by |P| scale |P| u."""
    counts, sums, total, previous = (part.double() for part in (counts, sums, total, previous))
    mean = _means(counts, sums, previous)
    _, linear, constant, _, inverse = _gaussian(mean, counts, sums, total, n_points, ridge)
    size, inverse, total = mean.abs(), inverse.abs(), total.abs()
    scale = (total + (counts[..., None] * size).mT @ size) / n_points + ridge
    spread = inverse + inverse @ scale @ inverse
    linear = size @ spread
    constant = (linear * size).sum(2)
    likelihood = (linear * sums.abs()).sum((1, 2)) + (constant * counts).sum(1) + (spread * total).sum((1, 2))
    likelihood = likelihood + n_points * ((inverse * scale).sum((1, 2)) + 10 * sums.shape[2])
    return {"mean": size, "scale": scale, "linear": linear, "constant": constant, "likelihood": likelihood}


def agrees(results: Mapping[str, Tensor], references: Mapping[str, Tensor], given: Mapping[str, Any]) -> str | None:
    """The checker of the likelihood, all of which is computed in float64; an elimination takes D steps."""
    terms = 64 + 8 * (given["sums"].shape[1] + given["sums"].shape[2])
    allowed = terms * torch.finfo(torch.float64).eps * _magnitudes(*given.values())["likelihood"]
    error = (results["likelihood"] - references["likelihood"]).abs()
    if bool((error <= allowed).all()):
        return None
    return f"differs by {error.tolist()}, expected at most {allowed.tolist()}"


def _output(name: str, shape: Any) -> Output:
    return Output(shape=shape, terms=4, magnitude=lambda *args: _magnitudes(*args)[name])


def _size_of_beta(*args: Any) -> Tensor:
    """The Newton step is at most a quarter of the bound."""
    beta, highest = args[7:9]
    return args[0].new_zeros(0, dtype=torch.float64) if beta is None else beta.double().abs() + highest


def cost(counts: Tensor, sums: Tensor, total: Tensor, *rest: Any) -> Cost:
    """Moments read, means, covariances and coefficients written; the products and the inverse."""
    restarts, domains, width = sums.shape
    written = 4 * restarts * (2 * domains * width + width * width + domains) + 8 * restarts
    flops = restarts * (4 * domains * width * width + 2 * width**3)
    return Cost(bytes=counts.nbytes + 2 * sums.nbytes + total.nbytes + written, flops=flops)


SPEC = Spec(
    schema="potts_m_step(Tensor counts, Tensor sums, Tensor total, Tensor previous, int n_points, float ridge=0.0,"
    " Tensor? derivatives=None, Tensor? beta=None, float highest_beta=0.0)"
    " -> (Tensor mean, Tensor scale, Tensor linear, Tensor constant, Tensor likelihood, Tensor new_beta)",
    summary="means, a tied covariance and the strength of a Potts prior from the moments of an iteration of EM",
    outputs={
        "mean": _output("mean", lambda counts, sums, *rest: sums.shape),
        "scale": _output("scale", lambda counts, sums, *rest: (sums.shape[0], sums.shape[2], sums.shape[2])),
        "linear": _output("linear", lambda counts, sums, *rest: sums.shape),
        "constant": _output("constant", lambda counts, *rest: counts.shape),
        "likelihood": Output(shape=lambda counts, *rest: counts.shape[:1], dtype=torch.float64, check=agrees),
        "new_beta": Output(
            shape=lambda counts, *rest: counts.shape[:1],
            present=lambda *args: args[6] is not None,
            terms=2,
            magnitude=_size_of_beta,
        ),
    },
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("plain", {"restarts": 3, "domains": 8, "width": 16}, {"ridge": 1e-5, "highest_beta": 1.5}),
        Case("ragged", {"restarts": 2, "domains": 7, "width": 11}, {"ridge": 0.01}),
        Case("two_tiles", {"restarts": 1, "domains": 20, "width": 31}, {"highest_beta": 0.5}),
        Case("four_tiles", {"restarts": 1, "domains": 3, "width": 50}),
        Case("five_tiles", {"restarts": 1, "domains": 2, "width": 70}),
        Case("eight_tiles", {"restarts": 1, "domains": 2, "width": 113}),
        Case("cluster", {"restarts": 2, "domains": 41, "width": 60}, {"ridge": 0.01, "highest_beta": 1.5}),
        Case("restarts_of_clusters", {"restarts": 3, "domains": 29, "width": 48}),
        Case("many_domains", {"restarts": 1, "domains": 300, "width": 5}),
        Case("one_domain", {"restarts": 1, "domains": 1, "width": 90}),
        Case("wide_cluster", {"restarts": 1, "domains": 25, "width": 121}),
        Case("one_element", {"restarts": 1, "domains": 1, "width": 1}, {"highest_beta": 1.5}),
        Case("empty", {"restarts": 0, "domains": 2, "width": 3}, {"highest_beta": 1.5}),
        Case("huge", {"restarts": 2, "domains": 4, "width": 8}, values="huge"),
        Case("strided", {"restarts": 2, "domains": 4, "width": 8}, {"highest_beta": 1.0}, layout="strided"),
        Case("unaligned", {"restarts": 2, "domains": 4, "width": 8}, layout="unaligned"),
    ),
    sizes=(
        Case("spatial", {"restarts": 1, "domains": 8, "width": 16}, {"highest_beta": 1.5}),
        Case("restarts", {"restarts": 16, "domains": 8, "width": 16}),
        Case("wide", {"restarts": 1, "domains": 100, "width": 128}),
    ),
    dtypes=DTYPES,
)  # fmt: skip
