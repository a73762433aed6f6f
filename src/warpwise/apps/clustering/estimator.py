"""What the estimators share: X as a tensor, results of the same kind as X, and checks of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

try:
    from sklearn.base import BaseEstimator, ClusterMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "warpwise.apps.clustering needs scikit-learn 1.6 or newer: pip install warpwise[clustering]"
    ) from error

__all__ = ["Estimator", "check_is_fitted"]


class Estimator(ClusterMixin, BaseEstimator):
    """A clusterer that takes NumPy arrays and tensors, and gives results of the same kind."""

    device: Any
    random_state: Any

    def _features(self, X: Any, reset: bool) -> torch.Tensor:
        """X (N, D) as float32 on the CPU; ``ValueError`` for another shape, or NaN and infinite values."""
        if self.device is not None and torch.device(self.device).type != "cpu":
            raise ValueError(f'device: only None and "cpu" are supported, got {self.device!r}')
        if isinstance(X, torch.Tensor):
            if X.device.type != "cpu":
                raise ValueError(f"X: only tensors on the CPU are supported, got one on {X.device}")
            X = X.detach().to(torch.float32 if X.dtype in (torch.bfloat16, torch.float16) else X.dtype).numpy()
        checked = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset, ensure_min_samples=1)
        return torch.from_numpy(np.array(checked, copy=True))

    @staticmethod
    def _like(X: Any, result: torch.Tensor) -> Any:
        """``result`` as a tensor if X is one, otherwise as a NumPy array."""
        return result if isinstance(X, torch.Tensor) else result.numpy()

    def _generator(self) -> torch.Generator:
        state = self.random_state
        if isinstance(state, np.random.RandomState):
            state = int(state.randint(2**31 - 1))
        seed = torch.seed() if state is None else int(state)
        return torch.Generator().manual_seed(seed)


def check_count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name}: expected an integer of at least {least}, got {value!r}")
    return int(value)


def check_distinct(X: torch.Tensor, k: int, name: str) -> None:
    """Raise ``ValueError`` if X (N, D) has fewer than ``k`` distinct rows."""
    if X.shape[0] < k:
        raise ValueError(f"{name}: expected at most n_samples={X.shape[0]}, got {k}")
    distinct = torch.unique(X[: 16 * k], dim=0).shape[0]
    if distinct < k:
        distinct = torch.unique(X, dim=0).shape[0]
    if distinct < k:
        raise ValueError(f"{name}: expected at most {distinct}, the number of distinct rows of X, got {k}")
