"""NVIDIA's libdevice functions in NumPy, for ``tl.extra.libdevice`` and ``triton.language.extra.cuda.libdevice``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from warpwise.cuda.errors import UnsupportedFeature
from warpwise.triton import directed_rounding

Array = np.ndarray[Any, np.dtype[Any]]


def _through_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    def call(values: Array) -> Array:
        contiguous = np.array(values, order="C")
        return function(torch.from_numpy(contiguous)).numpy()

    return call


erf = _through_torch(torch.erf)
fma = functools.partial(directed_rounding.arithmetic, "fma", "rn")
_normal_quantile = _through_torch(torch.special.ndtri)


def rsqrt(values: Array) -> Array:
    result: Array = 1 / np.sqrt(values)
    return result


def _round_away(values: Array) -> Array:
    whole = np.trunc(values)
    return np.copysign(whole + (np.abs(values - whole) >= 0.5) * np.sign(values), values)


def _bits(values: Array) -> Array:
    """The bits of each element as 0 or 1 in a last axis, the least significant first."""
    contiguous = np.ascontiguousarray(values).reshape(*values.shape, 1)
    return np.unpackbits(contiguous.view(np.uint8), axis=-1, bitorder="little")


def _reversed_bits(values: Array) -> Array:
    packed = np.packbits(_bits(values)[..., ::-1], axis=-1, bitorder="little")
    return packed.view(values.dtype).reshape(values.shape)


def _leading_zeros(values: Array) -> Array:
    bits = _bits(values)
    return np.where(bits.any(axis=-1), bits[..., ::-1].argmax(axis=-1), bits.shape[-1])


def _first_set(values: Array) -> Array:
    bits = _bits(values)
    return np.where(bits.any(axis=-1), bits.argmax(axis=-1) + 1, 0)


def _byte_perm(x: Array, y: Array, selector: Array) -> Array:
    """Each 4 bits of the selector select a byte of x and y by their three low bits; PTX ``prmt`` uses bit 3 too."""
    source = x.view(np.uint32).astype(np.uint64) | (y.view(np.uint32).astype(np.uint64) << np.uint64(32))
    result = np.zeros(np.broadcast_shapes(x.shape, y.shape, selector.shape), dtype=np.uint32)
    for byte in range(4):
        chosen = (selector.view(np.uint32) >> np.uint32(4 * byte)) & np.uint32(7)
        taken = (source >> (chosen * np.uint32(8)).astype(np.uint64)) & np.uint64(255)
        result |= taken.astype(np.uint32) << np.uint32(8 * byte)
    return result.view(np.int32)


def _high_product(x: Array, y: Array) -> Array:
    """The upper half of the exact product."""
    product = (x.astype(object) * y.astype(object)) >> (8 * x.dtype.itemsize)
    return np.asarray(product).astype(x.dtype)


def _product_of_24_bits(x: Array, y: Array) -> Array:
    shift = x.dtype.type(8)
    return ((x << shift) >> shift) * ((y << shift) >> shift)


def _mean(rounds_up: int) -> Callable[[Array, Array], Array]:
    return lambda x, y: ((x.astype(np.int64) + y.astype(np.int64) + rounds_up) >> 1).astype(x.dtype)


def _absolute_difference(x: Array, y: Array, z: Array) -> Array:
    return (np.abs(x.astype(np.int64) - y.astype(np.int64)) + z.astype(np.int64)).astype(np.uint32).view(np.int32)


def _of_halves(high: Array, low: Array) -> Array:
    bits = (high.view(np.uint32).astype(np.uint64) << np.uint64(32)) | low.view(np.uint32).astype(np.uint64)
    return bits.view(np.float64)


def _exponent(values: Array) -> Array:
    """``ilogb``: the exponent of each value; the smallest integer for 0 and NaN, the largest for an infinity."""
    limits = np.iinfo(np.int32)
    found = np.where((values == 0) | np.isnan(values), limits.min, np.frexp(values)[1] - 1)
    return np.where(np.isinf(values), limits.max, found)


def _logb(values: Array) -> Array:
    finite = np.where(values == 0, -np.inf, np.frexp(values)[1] - 1.0)
    return np.where(np.isfinite(values), finite, np.abs(values))


def _norm(*values: Array) -> Array:
    result = values[0]
    for value in values[1:]:
        result = np.hypot(result, value)
    return result


def _of_pi(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """``sinpi`` and ``cospi``: the argument is reduced exactly."""
    return lambda values: function(np.pi * np.fmod(values.astype(np.float64), 2))


_gamma = np.vectorize(lambda x: _gamma_of(float(x)), otypes=[np.float64])


def _gamma_of(value: float) -> float:
    try:
        return math.gamma(value)
    except OverflowError:
        return math.inf
    except ValueError:  # 0, a negative integer, or minus infinity
        return math.copysign(math.inf, value) if value == 0 else math.nan


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "copysign": np.copysign, "cos": np.cos,
    "cosh": np.cosh, "erf": erf, "erfc": _through_torch(torch.erfc), "erfinv": _through_torch(torch.erfinv),
    "exp": np.exp, "exp10": lambda x: np.power(x.dtype.type(10), x), "exp2": np.exp2, "expm1": np.expm1,
    "fabs": np.abs, "fast_cosf": np.cos, "fast_exp10f": lambda x: np.power(x.dtype.type(10), x), "fast_expf": np.exp,
    "fast_fdividef": np.divide, "fast_log10f": np.log10, "fast_log2f": np.log2, "fast_logf": np.log,
    "fast_powf": np.power, "fast_sinf": np.sin, "fast_tanf": np.tan, "floor": np.floor,
    "fma": fma,
    "fmax": np.fmax, "fmin": np.fmin, "fmod": np.fmod, "hypot": np.hypot, "isinf": np.isinf, "isnan": np.isnan,
    "ldexp": np.ldexp, "lgamma": _through_torch(torch.lgamma), "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "nearbyint": np.rint, "pow": np.power, "powi": np.power, "rcp_rn": np.reciprocal, "rint": np.rint,
    "round": _round_away, "rsqrt": rsqrt, "saturate": lambda x: np.clip(np.nan_to_num(x), 0, 1),
    "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "sqrt_rn": np.sqrt, "tan": np.tan, "tanh": np.tanh,
    "trunc": np.trunc, "abs": np.abs, "llrint": np.rint, "llround": _round_away, "finite": np.isfinite,
    "isfinite": np.isfinite, "signbit": np.signbit, "remainder": lambda x, y: np.vectorize(math.remainder)(x, y),
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(x <= y, 0, x + y)), "nextafter": np.nextafter,
    "ilogb": _exponent, "logb": _logb, "scalbn": np.ldexp, "rcbrt": lambda x: 1 / np.cbrt(x), "cospi": _of_pi(np.cos),
    "sinpi": _of_pi(np.sin), "rhypot": lambda x, y: 1 / np.hypot(x, y), "norm3d": _norm, "norm4d": _norm,
    "rnorm3d": lambda *x: 1 / _norm(*x), "rnorm4d": lambda *x: 1 / _norm(*x), "tgamma": _gamma,
    "normcdf": _through_torch(torch.special.ndtr), "normcdfinv": _normal_quantile,
    "erfcinv": lambda x: -_normal_quantile(x / 2) * np.sqrt(x.dtype.type(0.5)),
    "erfcx": _through_torch(torch.special.erfcx), "cyl_bessel_i0": _through_torch(torch.special.i0),
    "cyl_bessel_i1": _through_torch(torch.special.i1), "j0": _through_torch(torch.special.bessel_j0),
    "j1": _through_torch(torch.special.bessel_j1), "y0": _through_torch(torch.special.bessel_y0),
    "y1": _through_torch(torch.special.bessel_y1), "llabs": np.abs, "popc": lambda x: _bits(x).sum(axis=-1),
    "clz": _leading_zeros, "ffs": _first_set, "brev": _reversed_bits, "byte_perm": _byte_perm,
    "mulhi": _high_product, "umulhi": _high_product, "mul64hi": _high_product, "umul64hi": _high_product,
    "mul24": _product_of_24_bits, "umul24": _product_of_24_bits, "hadd": _mean(0), "uhadd": _mean(0),
    "rhadd": _mean(1), "urhadd": _mean(1), "sad": _absolute_difference, "usad": _absolute_difference,
    "float_as_int": lambda x: x.view(np.int32), "float_as_uint": lambda x: x.view(np.int32),
    "int_as_float": lambda x: x.view(np.float32), "uint_as_float": lambda x: x.view(np.float32),
    "double_as_longlong": lambda x: x.view(np.int64), "longlong_as_double": lambda x: x.view(np.float64),
    "hiloint2double": _of_halves, "double2hiint": lambda x: (x.view(np.int64) >> 32).astype(np.int32),
    "double2loint": lambda x: x.view(np.int64).astype(np.int32),
}  # fmt: skip
_WIDE = ("popc", "clz", "ffs", "brev")  # their 64-bit versions have the suffix "ll"


def call(symbol: str, arguments: list[Array]) -> Array:
    """Call a libdevice function by symbol, such as ``__nv_tanhf`` (float32) or ``__nv_tanh`` (float64)."""
    plain = symbol.removeprefix("__nv_")
    names = [plain, *(plain.removesuffix(suffix) for suffix in ("f", "d") if plain.endswith(suffix))]
    names += [plain.removesuffix("ll") for name in _WIDE if plain == f"{name}ll"]
    found = (_FUNCTIONS.get(name) for name in names)
    function = next((each for each in found if each is not None), None) or directed_rounding.function(plain)
    if function is None:
        raise UnsupportedFeature(f"libdevice function {symbol} is not supported on the CPU; run this kernel on a GPU")
    return function(*arguments)
