"""Device functions that kernels share; each may be called from any Triton kernel, on the GPU and on the CPU."""

from __future__ import annotations

import triton.language as tl

from warpwise.triton.kernel import jit


@jit
def cdiv(numerator, denominator):
    """The quotient rounded up, for numerator >= 0 and denominator > 0."""
    return (numerator + denominator - 1) // denominator


@jit
def tile_index(program, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Row and column of the output tile that a program computes, in an order that keeps operands in the L2 cache.

    Programs go down GROUP_M tile rows before they step to the next tile column: the GROUP_M * tiles_n programs of one
    group share GROUP_M row panels of the left operand, and neighbours in time share a column panel of the right one.
    The last group may be lower.
    """
    group_size = GROUP_M * tiles_n
    first_m = program // group_size * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    within = program % group_size
    return first_m + within % rows, within // rows


@jit
def online_softmax_combine(max_a, sum_a, max_b, sum_b):
    """Merge two partial softmax statistics, each a maximum m and a sum of exp(x - m); for ``tl.reduce`` and loops.

    exp(x - m) = exp(x - m_a) * exp(m_a - m) moves a sum to the greater maximum m. A part that saw only -inf (m_a = -inf)
    has the sum 0, and is left so rather than made NaN by -inf - -inf.
    """
    greatest = tl.maximum(max_a, max_b)
    base = tl.where(greatest == float("-inf"), 0.0, greatest)
    return greatest, sum_a * tl.exp(max_a - base) + sum_b * tl.exp(max_b - base)
