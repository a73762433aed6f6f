"""NVIDIA's libdevice functions in NumPy, for ``tl.extra.libdevice`` and ``triton.language.extra.cuda.libdevice``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from warpwise.cuda.errors import UnsupportedFeature

Array = np.ndarray[Any, np.dtype[Any]]


def _through_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    def call(values: Array) -> Array:
        contiguous = np.array(values, order="C")
        return function(torch.from_numpy(contiguous)).numpy()

    return call


erf = _through_torch(torch.erf)


def rsqrt(values: Array) -> Array:
    result: Array = 1 / np.sqrt(values)
    return result


def _round_away(values: Array) -> Array:
    return np.copysign(np.floor(np.abs(values) + 0.5), values)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "copysign": np.copysign, "cos": np.cos,
    "cosh": np.cosh, "erf": erf, "erfc": _through_torch(torch.erfc), "erfinv": _through_torch(torch.erfinv),
    "exp": np.exp, "exp10": lambda x: np.power(x.dtype.type(10), x), "exp2": np.exp2, "expm1": np.expm1,
    "fabs": np.abs, "fast_cosf": np.cos, "fast_exp10f": lambda x: np.power(x.dtype.type(10), x), "fast_expf": np.exp,
    "fast_fdividef": np.divide, "fast_log10f": np.log10, "fast_log2f": np.log2, "fast_logf": np.log,
    "fast_powf": np.power, "fast_sinf": np.sin, "fast_tanf": np.tan, "floor": np.floor,
    "fma": lambda x, y, z: x * y + z,
    "fmax": np.fmax, "fmin": np.fmin, "fmod": np.fmod, "hypot": np.hypot, "isinf": np.isinf, "isnan": np.isnan,
    "ldexp": np.ldexp, "lgamma": _through_torch(torch.lgamma), "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "nearbyint": np.rint, "pow": np.power, "powi": np.power, "rcp_rn": np.reciprocal, "rint": np.rint,
    "round": _round_away, "rsqrt": rsqrt, "saturate": lambda x: np.clip(np.nan_to_num(x), 0, 1),
    "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "sqrt_rn": np.sqrt, "tan": np.tan, "tanh": np.tanh,
    "trunc": np.trunc, "abs": np.abs, "llrint": np.rint, "llround": _round_away, "finite": np.isfinite,
    "isfinite": np.isfinite, "signbit": np.signbit, "float2int_rn": np.rint, "float2int_rz": np.trunc,
    "float2int_rd": np.floor, "float2int_ru": np.ceil,
}  # fmt: skip


def call(symbol: str, arguments: list[Array]) -> Array:
    """Call a libdevice function by symbol, such as ``__nv_tanhf`` (float32) or ``__nv_tanh`` (float64)."""
    plain = symbol.removeprefix("__nv_")
    function = _FUNCTIONS.get(plain) or _FUNCTIONS.get(plain.removesuffix("f").removesuffix("d"))
    if function is None and plain.endswith("ff"):
        function = _FUNCTIONS.get(plain[:-2])
    if function is None:
        raise UnsupportedFeature(f"libdevice function {symbol} is not supported on the CPU; run this kernel on a GPU")
    return function(*arguments)
