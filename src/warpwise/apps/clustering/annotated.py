"""Spatial domains of an AnnData object, with results where scanpy and squidpy expect them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from warpwise.apps.clustering.mixture import SpatialMixture

FIGURES = ("beta", "elbo", "bic", "n_iter")  # attributes of the fit in uns


def fit_anndata(
    adata: Any,
    n_domains: int,
    *,
    basis: str | None = "X_pca",
    spatial_key: str = "spatial",
    graph_key: str | None = None,
    key_added: str = "domain",
    **options: Any,
) -> SpatialMixture:
    """Fit ``SpatialMixture(n_domains, **options)`` to ``adata`` and write the results into it; returns the estimator.

    The features are ``adata.obsm[basis]`` (N, D), or ``adata.X`` (N, D), dense or sparse, if ``basis`` is None. The
    neighbours come from the positions ``adata.obsm[spatial_key]`` (N, 2 or 3), or from the matrix
    ``adata.obsp[graph_key]`` (N, N) if ``graph_key`` is given.

    Writes ``obs[key_added]``, categorical with the names "0" to "K-1"; ``obs[key_added + "_uncertainty"]``;
    ``obsm[key_added + "_probabilities"]`` (N, K); and ``uns[key_added]``, a dictionary of ``beta``, ``elbo``, ``bic``,
    ``n_iter`` and the parameters ``params`` that files of AnnData can hold: numbers, names, True and False, and arrays,
    such as a matrix as ``prior``. Nothing is written if the fit fails.

    Raises ``KeyError`` if an entry is absent, and the errors of ``SpatialMixture.fit``.
    """
    X = adata.X if basis is None else _entry(adata, "obsm", basis)
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    structure: dict[str, Any]
    if graph_key is None:
        structure = {"coords": np.asarray(_entry(adata, "obsm", spatial_key))}
    else:
        structure = {"graph": _entry(adata, "obsp", graph_key)}
    model = SpatialMixture(n_domains, **options).fit(X, **structure)
    params = {"n_domains": n_domains, "basis": basis or "X", **options}
    params["graph_key" if graph_key else "spatial_key"] = graph_key or spatial_key
    adata.obs[key_added] = _categorical(model.labels_, n_domains)
    adata.obs[f"{key_added}_uncertainty"] = model.uncertainty_
    adata.obsm[f"{key_added}_probabilities"] = model.probabilities_
    adata.uns[key_added] = {
        "params": {name: stored for name, value in params.items() if (stored := _stored(value)) is not None},
        **{name: getattr(model, f"{name}_") for name in FIGURES},
    }
    return model


def _stored(value: Any) -> Any:
    """A parameter as AnnData writes it, or None if it writes no such value, as None and a random generator."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return np.asarray(value)
    return value if isinstance(value, str | int | float | np.ndarray) else None


def _entry(adata: Any, field: str, key: str) -> Any:
    entries = getattr(adata, field)
    if key not in entries:
        raise KeyError(f"adata.{field} has no {key!r}; it has {', '.join(map(repr, entries)) or 'no entries'}")
    return entries[key]


def _categorical(labels: np.ndarray, n_domains: int) -> Any:
    """Names of the domains, as a pandas Categorical if pandas is installed; anndata requires it."""
    names = labels.astype(str)
    try:
        import pandas
    except ImportError:
        return names
    return pandas.Categorical(names, categories=[str(k) for k in range(n_domains)])
