"""Shared code of the estimators: X as a tensor on a device, results of the same kind as X, and checks of parameters."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

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

Model = TypeVar("Model")
P = ParamSpec("P")
R = TypeVar("R")

_NOT_OF_THE_USER = ("warpwise", "sklearn")  # packages whose lines a warning does not name; fit_predict is of sklearn


def all_or_nothing(method: Callable[Concatenate[Model, P], R]) -> Callable[Concatenate[Model, P], R]:
    """``method``; if it raises an exception, or is interrupted, the object has the attributes that it had before."""

    @functools.wraps(method)
    def complete(self: Model, *args: P.args, **kwargs: P.kwargs) -> R:
        before = dict(self.__dict__)
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            self.__dict__ = before
            raise

    return complete


class Estimator(ClusterMixin, BaseEstimator):
    """A clusterer that takes NumPy arrays or tensors and returns results of the same kind."""

    device: Any
    random_state: Any
    missing: str = "error"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "marginalise"
        return tags

    def _features(self, X: Any, reset: bool, device: torch.device | None = None) -> torch.Tensor:
        """X (N, D) as float32 or float64 on ``device``, or if it is None on the device of the fit.

        Raises ``ValueError`` for another shape, for infinite values, for NaN unless ``missing`` is "marginalise", and
        for a device that is not supported.
        """
        wanted = self._device(X)
        device = wanted if device is None else device
        if isinstance(X, torch.Tensor):
            _require_real_matrix(X)
            X = X.detach().to(torch.float32 if X.dtype in (torch.bfloat16, torch.float16) else X.dtype)
            if device.type == "cuda":
                X = X if X.dtype == torch.float32 else X.double()
                return self._checked(X.to(device), reset)
            X = X.cpu().numpy()
        else:
            _require_real_matrix(X)
        dtypes = [np.float64, np.float32]
        checked = validate_data(self, X, dtype=dtypes, reset=reset, ensure_all_finite=False)
        if self.missing != "marginalise":
            self._require_no_nan(np.isnan(checked).any(axis=1))
        self._require_finite(np.isinf(checked).any(axis=1))
        return as_tensor(checked).to(device)

    def _uncopied(self, X: Any) -> Any:
        """X itself if it is a tensor or an array of floats (N, D), otherwise a NumPy array. Its values are not checked.

        Raises ``ValueError`` for another shape.
        """
        if isinstance(X, torch.Tensor):
            _require_real_matrix(X)
            X = X.detach()
        elif not (isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64)):
            return self._features(X, reset=True, device=torch.device("cpu")).numpy()
        if X.ndim != 2 or not X.shape[0] or not X.shape[1]:
            raise ValueError(f"X: expected (N, D) with N and D of at least 1, a 2D array, got {tuple(X.shape)}")
        validate_data(self, X, reset=True, skip_check_array=True)
        return X

    def _checked(self, X: torch.Tensor, reset: bool) -> torch.Tensor:
        """X (N, D) itself, checked on its own device."""
        if X.dim() != 2 or not X.numel():
            raise ValueError(f"X: expected (N, D) with N and D of at least 1, a 2D array, got {tuple(X.shape)}")
        validate_data(self, X, reset=reset, skip_check_array=True)
        # A sum with a NaN or an infinity is not finite. A sum of finite values can overflow, so each is tested then.
        if not bool(torch.isfinite(X.sum())):
            if self.missing != "marginalise":
                self._require_no_nan(X.isnan().any(dim=1).cpu().numpy())
            self._require_finite(X.isinf().any(dim=1).cpu().numpy())
        return X

    @staticmethod
    def _require_finite(points: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        """Raise ``ValueError`` if one of ``points`` (N,), which have an infinite value, is True."""
        if count := int(points.sum()):
            where = f"in {count:,} of {len(points):,} points, first in point {points.argmax()}"
            raise ValueError(f"X: expected finite values, got infinity {where}")

    def _require_no_nan(self, points: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        """Raise ``ValueError`` if one of ``points`` (N,), which have a NaN, is True."""
        count = int(points.sum())
        if not count:
            return
        hint = "; missing='marginalise' treats NaN as a missing value" if "missing" in self.get_params() else ""
        where = f"in {count:,} of {len(points):,} points, first in point {points.argmax()}"
        raise ValueError(f"X: contains NaN {where}{hint}")

    def _device(self, X: Any) -> torch.device:
        """``device``, or where it is None the device of the tensor X, or the CPU."""
        if self.device is None:
            device = X.device if isinstance(X, torch.Tensor) else torch.device("cpu")
        else:
            try:
                device = torch.device(self.device)
            except (RuntimeError, TypeError) as error:
                raise ValueError(f'device: expected None, "cpu" or "cuda", got {self.device!r}') from error
        if device.type not in ("cpu", "cuda"):
            raise ValueError(f'device: expected None, "cpu" or "cuda", got {str(device)!r}')
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f'device: got {str(device)!r}, but PyTorch finds no CUDA device; expected None or "cpu"')
        return device

    @staticmethod
    def _like(X: Any, result: torch.Tensor) -> Any:
        """``result`` as a tensor on the device of X if X is one, otherwise as a NumPy array."""
        return result.to(X.device) if isinstance(X, torch.Tensor) else result.cpu().numpy()

    def _generator(self) -> torch.Generator:
        state = self.random_state
        if isinstance(state, np.random.RandomState):
            state = state.randint(2**31 - 1)
        elif isinstance(state, np.random.Generator):
            state = state.integers(2**31 - 1)
        elif state is None:
            state = torch.seed()
        if not isinstance(state, int | np.integer) or not -(2**63) <= state < 2**64:
            raise ValueError(
                "random_state: expected None, an int of at most 64 bits, a numpy.random.RandomState or Generator, "
                f"got {state!r}"
            )
        return torch.Generator().manual_seed(int(state))


def warn(message: str) -> None:
    """Warn at the line of the user's program that calls this package, directly or through scikit-learn."""
    frame, level = sys._getframe(), 1
    while frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_OF_THE_USER and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def as_tensor(values: np.ndarray[Any, Any]) -> torch.Tensor:
    """``values`` as a tensor: a copy if PyTorch has no tensor of such strides, or if they are read-only."""
    usable = values.flags.writeable and all(step >= 0 and step % values.itemsize == 0 for step in values.strides)
    return torch.from_numpy(values if usable else values.copy("C"))


def check_numbers(name: str, values: Any, expected: str) -> torch.Tensor:
    """``values``, an array, a tensor or sequences, as float32, or ``ValueError``."""
    try:
        if isinstance(values, torch.Tensor):
            return values.detach().to(torch.float32)
        return as_tensor(np.asarray(values, dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected {expected}, got {values!r}") from error


def check_count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name}: expected an integer of at least {least}, got {value!r}")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ValueError(f"{name}: expected True or False, got {value!r}")


def check_at_most_points(name: str, k: int, n_points: int) -> None:
    """Raise ``ValueError`` if ``k`` classes are more than the points."""
    if k > n_points:
        raise ValueError(f"{name}: expected at most n_samples={n_points}, got {k}")


def check_distinct(X: torch.Tensor | np.ndarray[Any, Any], k: int, name: str) -> None:
    """Raise ``ValueError`` if X (N, D) has fewer than ``k`` distinct rows."""
    check_at_most_points(name, k, X.shape[0])
    some = X[: 16 * k]
    distinct = _distinct(some.cpu() if isinstance(some, torch.Tensor) else some)
    if distinct < k:
        distinct = _distinct(X)
    if distinct < k:
        raise ValueError(f"{name}: expected at most {distinct}, the number of distinct rows of X, got {k}")


def _distinct(X: torch.Tensor | np.ndarray[Any, Any]) -> int:
    return torch.unique(X if isinstance(X, torch.Tensor) else as_tensor(X), dim=0).shape[0]


def _require_real_matrix(X: Any) -> None:
    """Raise ``ValueError`` if X is not two-dimensional, or is complex.

    The messages of scikit-learn for these two contain the whole array.
    """
    try:
        array = X if hasattr(X, "shape") else np.asarray(X)
    except ValueError:  # rows of several lengths: scikit-learn's message is short
        return
    shape, dtype = tuple(array.shape), getattr(array, "dtype", None)
    if len(shape) != 2:
        advice = ". Reshape your data: X.reshape(-1, 1) is (N, 1)" if len(shape) == 1 else ""
        raise ValueError(f"X: expected (N, D), a 2D array, got {'None' if X is None else f'shape {shape}'}{advice}")
    if dtype is not None and "complex" in str(dtype):
        raise ValueError(f"X: expected real numbers, got {dtype}. Complex data not supported: pass X.real, for example")
