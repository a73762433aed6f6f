"""Triton's random numbers: all rounds of ``philox_impl`` at once, in NumPy.

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


def philox_of_words(*operands: Any) -> tuple[tl.tensor, ...] | None:
    """``philox_impl(c0, c1, c2, c3, k0, k1, n_rounds)`` of 32-bit words, or None for other operands.

    Counters have one shape, and keys are scalars, as in the calls of ``tl.rand``. Undefined lanes are left to the
    interpreter.
    """
    if len(operands) != 7:
        return None
    *words, rounds = operands
    rounds = rounds.value if isinstance(rounds, tl.constexpr) else rounds
    if type(rounds) is not int or rounds < 1:
        return None
    if any(not isinstance(word, tl.tensor) or word.type.scalar != tl.uint32 or lanes_of(word.handle) for word in words):
        return None
    counters, keys = words[:4], words[4:]
    if any(word.type != counters[0].type for word in counters) or any(key.type.is_block() for key in keys):
        return None
    c0, c1, c2, c3 = (word.handle.data for word in counters)
    k0, k1 = (int(key.handle.data.item()) for key in keys)
    for _ in range(rounds):
        (high0, low0), (high2, low2) = _product(c0, _MULTIPLIERS[0]), _product(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high2 ^ c1 ^ np.uint32(k0), low2, high0 ^ c3 ^ np.uint32(k1), low0
        k0, k1 = (k0 + _KEYS[0]) & 0xFFFFFFFF, (k1 + _KEYS[1]) & 0xFFFFFFFF
    kind = counters[0].type
    return tuple(tl.tensor(TensorHandle(data, tl.uint32), kind) for data in (c0, c1, c2, c3))
