"""Checks of the parameters of SpatialMixture."""

from __future__ import annotations

from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from warpwise.apps.clustering.checkpoint import Checkpoint, key_of
from warpwise.apps.clustering.estimator import check_count, check_flag
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.inputs import interaction_of

_OF_STARTS = (
    "n_domains",
    "n_types",
    "n_init",
    "random_state",
    "smoothing",
    "whiten",
)  # parameters that determine the starts


class Prior(NamedTuple):
    """V (K, K) or None for Potts, the external field (1 or N, K), and the target fractions (K,) or None."""

    interaction: torch.Tensor | None
    external: torch.Tensor
    sizes: torch.Tensor | None


def check_parameters(model: Any, n_points: int) -> Prior:
    """Raise ``ValueError`` for an unsupported parameter of the estimator ``model``; return the prior of its fit."""
    k = check_count("n_domains", model.n_domains, 1)
    if model.n_types is not None:
        check_count("n_types", model.n_types, 1)
    check_count("n_init", model.n_init, 1)
    check_count("max_iter", model.max_iter, 1)
    if check_count("smoothing", model.smoothing, 0) and model.n_types is not None:
        raise ValueError("smoothing: supported only with n_types=None")
    if model.block_size is not None and check_count("block_size", model.block_size, 1) and model.smoothing:
        raise ValueError("smoothing: supported only with block_size=None")
    check_flag("whiten", model.whiten)
    if model.min_region is not None:
        check_count("min_region", model.min_region, 1)
    if model.covariance not in ("tied", "diag", "full", "t"):
        raise ValueError(f'covariance: expected "tied", "diag", "full" or "t", got {model.covariance!r}')
    if model.missing not in ("error", "marginalise"):
        raise ValueError(f'missing: expected "error" or "marginalise", got {model.missing!r}')
    if model.missing == "marginalise" and model.smoothing:
        raise ValueError('smoothing: supported only with missing="error"')
    number = isinstance(model.beta, Real) and 0 <= float(model.beta) < float("inf")
    if not number and not (isinstance(model.beta, str) and model.beta == "estimate"):
        raise ValueError(f'beta: expected "estimate" or a finite number of at least 0, got {model.beta!r}')
    interaction = interaction_of(model.prior, k)
    external = torch.zeros(1, k)
    if model.field is not None:
        external = torch.as_tensor(model.field, dtype=torch.float32)
        if external.shape != (n_points, k):
            raise ValueError(f"field: expected {(n_points, k)}, got {tuple(external.shape)}")
        if not bool(torch.isfinite(external).all()):
            raise ValueError("field: expected finite values")
    return Prior(interaction, external, None if model.sizes is None else _fractions(model.sizes, k, interaction))


def _fractions(given: Any, k: int, interaction: torch.Tensor | None) -> torch.Tensor:
    sizes = torch.as_tensor(given, dtype=torch.float32)
    if sizes.shape != (k,) or not bool((sizes > 0).all()) or not bool(torch.isfinite(sizes).all()):
        raise ValueError(f"sizes: expected {k} positive numbers, got {given!r}")
    if interaction is not None:
        raise ValueError('sizes: supported only with prior="potts"')
    return sizes / sizes.sum()


def check_group(model: Any, checkpoint: Any) -> None:
    """Raise an error if the fit of ``model`` cannot be divided among processes."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        raise ValueError("group: expected torch.distributed.init_process_group to be called before")
    if checkpoint is not None or model.smoothing or model.missing != "error" or model.block_size is not None:
        raise ValueError('group: expected checkpoint=None, smoothing=0, missing="error" and block_size=None')
    _check_seed("group", model.random_state)


def checkpoint_of(model: Any, path: str | Path | None, X: torch.Tensor, graph: Graph) -> Checkpoint | None:
    """The checkpoint in the file ``path`` of the fit of ``model`` to X (N, D), or None without a path."""
    if path is None:
        return None
    _check_seed("checkpoint", model.random_state)
    parameters = {name: getattr(model, name) for name in _OF_STARTS}
    return Checkpoint(path, key_of(parameters, X, graph.rowptr, graph.columns, graph.weights))


def _check_seed(name: str, state: Any) -> None:
    if not isinstance(state, int | np.integer):
        raise TypeError(f"{name}: expected an int as random_state, got {state!r}")
