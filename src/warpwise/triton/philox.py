"""Triton's random numbers: all rounds of ``tl.philox`` at once, in NumPy.

Interpreted like other functions, the 10 rounds of ``tl.rand`` are 100 calls of Triton's front end for each program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl

from warpwise.triton.compat import TensorHandle
from warpwise.triton.undefined import lanes_of

# Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", 2011.
_KEYS = 0x9E3779B9, 0xBB67AE85
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WORD = np.uint64(32)

Array = np.ndarray[Any, np.dtype[Any]]


def _product(word: Array, multiplier: np.uint64) -> tuple[Array, Array]:
    """The upper and the lower 32 bits of the product."""
    product = word.astype(np.uint64) * multiplier
    return (product >> _WORD).astype(np.uint32), product.astype(np.uint32)


def philox_of_words(seed: Any, *counters: Any) -> tuple[tl.tensor, ...] | None:
    """``tl.philox(seed, c0, c1, c2, c3, n_rounds)`` of 32-bit counters, or None for other operands.

    The seed is a scalar, and counters have one shape, as in the calls of ``tl.rand``. Undefined lanes are left to the
    interpreter.
    """
    if len(counters) != 5:
        return None
    *words, rounds = counters
    rounds, key = _constant(rounds), _integer(seed)
    if type(rounds) is not int or rounds < 1 or key is None:
        return None
    if any(not isinstance(word, tl.tensor) or lanes_of(word.handle) for word in words):
        return None
    kind = words[0].type
    if kind.scalar not in (tl.int32, tl.uint32) or any(word.type != kind for word in words):
        return None
    c0, c1, c2, c3 = (word.handle.data.view(np.uint32) for word in words)
    k0, k1 = key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF
    for _ in range(rounds):
        (high0, low0), (high2, low2) = _product(c0, _MULTIPLIERS[0]), _product(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high2 ^ c1 ^ np.uint32(k0), low2, high0 ^ c3 ^ np.uint32(k1), low0
        k0, k1 = (k0 + _KEYS[0]) & 0xFFFFFFFF, (k1 + _KEYS[1]) & 0xFFFFFFFF
    made = tl.block_type(tl.uint32, kind.shape) if kind.is_block() else tl.uint32
    return tuple(tl.tensor(TensorHandle(data, tl.uint32), made) for data in (c0, c1, c2, c3))


def _constant(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _integer(seed: Any) -> int | None:
    """The value of a scalar integer; None for another value, or one that is undefined."""
    if isinstance(seed, tl.tensor):
        scalar = not seed.type.is_block() and seed.type.is_int() and not lanes_of(seed.handle)
        return int(seed.handle.data.item()) if scalar else None
    seed = _constant(seed)
    return seed if type(seed) is int else None
