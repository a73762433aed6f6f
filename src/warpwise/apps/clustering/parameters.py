"""Checks of the parameters of SpatialMixture."""

from __future__ import annotations

from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from warpwise.apps.clustering.checkpoint import Checkpoint, key_of
from warpwise.apps.clustering.estimator import check_at_most_points, check_count, check_flag, check_numbers
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.inputs import interaction_of

_OF_STARTS = ("n_domains", "n_types", "n_init", "smoothing")  # with whiten and random_state they determine the starts


class Settings(NamedTuple):
    """The parameters of a fit: counts as ints, V (K, K) or None for Potts, the external field (1 or N, K), the target
    fractions (K,) or None, and the scale of V, 1 for a named prior: beta times the scale does not depend on it."""

    n_domains: int
    n_types: int | None
    n_init: int
    max_iter: int
    smoothing: int
    n_neighbours: int
    block_size: int | None
    min_region: int | None
    interaction: torch.Tensor | None
    external: torch.Tensor
    sizes: torch.Tensor | None
    scale: float


def check_parameters(model: Any, n_points: int) -> Settings:
    """The parameters of the estimator ``model``; raises ``ValueError`` for one that is not supported."""
    k = check_count("n_domains", model.n_domains, 1)
    n_types = _count_or_none("n_types", model.n_types)
    check_at_most_points("n_domains", k, n_points)  # before arrays of K elements are allocated
    if n_types is not None:
        check_at_most_points("n_types", n_types, n_points)
    n_init = check_count("n_init", model.n_init, 1)
    max_iter = check_count("max_iter", model.max_iter, 1)
    smoothing = check_count("smoothing", model.smoothing, 0)
    if smoothing and n_types is not None:
        raise ValueError("smoothing: supported only with n_types=None")
    block_size = _count_or_none("block_size", model.block_size)
    if block_size is not None and smoothing:
        raise ValueError("smoothing: supported only with block_size=None")
    check_flag("whiten", model.whiten)
    check_flag("contiguous", model.contiguous)
    min_region = _count_or_none("min_region", model.min_region)
    n_neighbours = check_count("n_neighbours", model.n_neighbours, 1)
    if model.covariance not in ("tied", "diag", "full", "t"):
        raise ValueError(f'covariance: expected "tied", "diag", "full" or "t", got {model.covariance!r}')
    if model.missing not in ("error", "marginalise"):
        raise ValueError(f'missing: expected "error" or "marginalise", got {model.missing!r}')
    if model.missing == "marginalise" and smoothing:
        raise ValueError('smoothing: supported only with missing="error"')
    number = isinstance(model.beta, Real) and not isinstance(model.beta, bool)
    number = number and 0 <= float(model.beta) < float("inf")
    if not number and not (isinstance(model.beta, str) and model.beta == "estimate"):
        raise ValueError(f'beta: expected "estimate" or a finite number of at least 0, got {model.beta!r}')
    interaction = interaction_of(model.prior, k)
    external = torch.zeros(1, k, dtype=torch.float32)
    if model.field is not None:
        external = check_numbers("field", model.field, f"numbers {(n_points, k)}")
        if external.shape != (n_points, k):
            raise ValueError(f"field: expected {(n_points, k)}, got {tuple(external.shape)}")
        if not bool(torch.isfinite(external).all()):
            raise ValueError("field: expected finite values")
    sizes = None if model.sizes is None else _fractions(model.sizes, k, interaction)
    counts = (k, n_types, n_init, max_iter, smoothing, n_neighbours, block_size, min_region)
    scale = 1.0 if isinstance(model.prior, str) or interaction is None else _scale(interaction)
    return Settings(*counts, interaction, external, sizes, scale)


def _count_or_none(name: str, value: Any) -> int | None:
    return None if value is None else check_count(name, value, 1)


def _scale(matrix: torch.Tensor) -> float:
    """The largest difference, over the labels, between V of equal labels and V of the label nearest to them: 1 for the
    named priors. It is at least a third of the range, as for "layers", and 1 if all elements are equal."""
    V = matrix.double()
    differences = (V.diagonal()[:, None] - V).abs().fill_diagonal_(torch.inf)
    nearest = float(differences.amin(1).max()) if len(V) > 1 else 0.0
    return max(nearest, float(V.max() - V.min()) / 3) or 1.0


def _fractions(given: Any, k: int, interaction: torch.Tensor | None) -> torch.Tensor:
    sizes = check_numbers("sizes", given, f"{k} positive numbers")
    if sizes.shape != (k,) or not bool((sizes > 0).all()) or not bool(torch.isfinite(sizes).all()):
        raise ValueError(f"sizes: expected {k} positive numbers, got {given!r}")
    if interaction is not None:
        raise ValueError('sizes: supported only with prior="potts"')
    return sizes / sizes.sum()


def check_group(model: Any, checkpoint: Any) -> None:
    """Raise an error if the fit of ``model`` cannot be divided among processes."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        raise ValueError("group: expected torch.distributed.init_process_group to be called before fit")
    if checkpoint is not None or model.smoothing or model.missing != "error" or model.block_size is not None:
        raise ValueError('group: expected checkpoint=None, smoothing=0, missing="error" and block_size=None')
    _check_seed("group", model.random_state)


def checkpoint_of(model: Any, path: str | Path | None, X: torch.Tensor, graph: Graph) -> Checkpoint | None:
    """The checkpoint in the file ``path`` of the fit of ``model`` to X (N, D), or None without a path."""
    if path is None:
        return None
    _check_seed("checkpoint", model.random_state)
    parameters = {name: getattr(model._settings, name) for name in _OF_STARTS}
    parameters |= {"whiten": bool(model.whiten), "random_state": int(model.random_state)}
    return Checkpoint(path, key_of(parameters, X, graph.rowptr, graph.columns, graph.weights))


def _check_seed(name: str, state: Any) -> None:
    if not isinstance(state, int | np.integer):
        raise TypeError(f"{name}: expected an int as random_state, got {state!r}")
