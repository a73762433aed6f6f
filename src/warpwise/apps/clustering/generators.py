"""Synthetic data with known domains: curved layers, Gibbs samples of a Potts model, and layers of mixed types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sample:
    """Features ``X`` (N, D) float32, ``coords`` (N, 2) float64 and ``labels`` (N,) int64 of the points of a grid of
    ``shape``, in row-major order."""

    X: np.ndarray
    coords: np.ndarray
    labels: np.ndarray
    shape: tuple[int, int]


def layered(
    separation: float = 0.8,
    shape: Sequence[int] = (160, 125),
    n_domains: int = 7,
    n_features: int = 15,
    random_state: int = 0,
) -> Sample:
    """Curved layers of unequal thickness, each a Gaussian with unit variance in every feature.

    The means of two domains are on average ``separation`` * sqrt(6) apart: ``separation`` * sqrt(3 / n_features) is the
    standard deviation of each of their coordinates.
    """
    _check(shape, n_domains)
    random = np.random.default_rng(random_state)
    labels = _layers(random, shape, n_domains)
    return _sample(random, labels, shape, _means(random, separation, n_domains, n_features)[labels])


def potts(
    separation: float = 0.9,
    shape: Sequence[int] = (160, 125),
    n_domains: int = 7,
    n_features: int = 15,
    beta: float = 1.4,
    sweeps: int = 150,
    random_state: int = 0,
) -> Sample:
    """A Gibbs sample of a Potts model with ``beta`` on 4 neighbours, started from noise; features as in ``layered``.

    A sweep updates all points of one colour of the grid, then those of the other.
    """
    _check(shape, n_domains)
    random = np.random.default_rng(random_state)
    labels = random.integers(n_domains, size=shape)
    black = np.indices(shape).sum(0) % 2 == 0
    for _ in range(sweeps):
        for colour in (black, ~black):
            onehot = np.pad(np.eye(n_domains, dtype=np.float32)[labels], ((1, 1), (1, 1), (0, 0)))
            near = onehot[:-2, 1:-1] + onehot[2:, 1:-1] + onehot[1:-1, :-2] + onehot[1:-1, 2:]
            gumbel = random.gumbel(size=near.shape).astype(np.float32)
            labels = np.where(colour, (beta * near + gumbel).argmax(-1), labels)
    labels = labels.reshape(-1)
    return _sample(random, labels, shape, _means(random, separation, n_domains, n_features)[labels])


def composed(
    separation: float = 1.5,
    shape: Sequence[int] = (160, 125),
    n_domains: int = 7,
    n_types: int = 10,
    n_features: int = 15,
    concentration: float = 0.5,
    random_state: int = 0,
) -> Sample:
    """Curved layers, each a mixture of ``n_types`` types that all layers share, with weights from a symmetric Dirichlet
    distribution of ``concentration``. A type is a Gaussian as in ``layered``."""
    _check(shape, n_domains)
    random = np.random.default_rng(random_state)
    labels = _layers(random, shape, n_domains)
    mixtures = random.dirichlet(np.full(n_types, concentration), size=n_domains)
    types = (mixtures.cumsum(1)[labels] < random.random(labels.size)[:, None]).sum(1).clip(max=n_types - 1)
    return _sample(random, labels, shape, _means(random, separation, n_types, n_features)[types])


def _check(shape: Sequence[int], n_domains: int) -> None:
    """Raise ``ValueError`` unless ``shape`` has two sizes and ``n_domains`` is from 1 to the points of this grid."""
    if len(shape) != 2:
        raise ValueError(f"shape: expected two sizes, got {tuple(shape)}")
    points = int(np.prod(shape))
    if n_domains < 1:
        raise ValueError(f"expected at least 1 domain, got {n_domains}")
    if n_domains > points:
        raise ValueError(f"expected at most {points} domains, the points of a grid of {tuple(shape)}, got {n_domains}")


def _layers(random: np.random.Generator, shape: Sequence[int], n_domains: int) -> np.ndarray:
    """(N,) labels of layers that are stacked along the first axis and bend along the second."""
    rows, columns = (np.linspace(0, 1, size) for size in shape)
    phase, bend = random.uniform(0, 2 * np.pi), random.uniform(0.05, 0.12)
    depth = rows[:, None] + bend * np.sin(2 * np.pi * columns + phase)
    depth = (depth - depth.min()) / (depth.max() - depth.min())
    thickness = random.dirichlet(np.full(n_domains, 6.0))
    return np.searchsorted(thickness.cumsum()[:-1], depth.reshape(-1), side="right")


def _means(random: np.random.Generator, separation: float, count: int, n_features: int) -> np.ndarray:
    return random.normal(scale=separation * np.sqrt(3 / n_features), size=(count, n_features))


def _sample(random: np.random.Generator, labels: np.ndarray, shape: Sequence[int], mean: np.ndarray) -> Sample:
    X = (mean + random.normal(size=mean.shape)).astype(np.float32)
    coords = np.indices(tuple(shape)).reshape(2, -1).T.astype(np.float64)
    return Sample(X, coords, labels.astype(np.int64), (int(shape[0]), int(shape[1])))
