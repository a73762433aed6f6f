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


@jit
def tile_product(a_ptr, b_ptr, rows, columns, m, n, k, a_row, a_column, b_row, b_column, BLOCK_K: tl.constexpr):
    """The float32 sums of A B at ``rows`` (int64) and ``columns``; A (m, k) and B (k, n) lie by their strides, in elements.

    float32 factors are not rounded to TF32. What lies past an edge counts as zero.
    """
    depth = tl.arange(0, BLOCK_K)
    a_from = a_ptr + rows[:, None] * a_row + depth[None, :].to(tl.int64) * a_column
    b_from = b_ptr + depth[:, None].to(tl.int64) * b_row + columns[None, :].to(tl.int64) * b_column
    a_inside, b_inside = rows[:, None] < m, columns[None, :] < n
    sums = tl.zeros((rows.shape[0], columns.shape[0]), tl.float32)
    for first in range(0, k, BLOCK_K):
        a = tl.load(a_from, mask=a_inside & (first + depth[None, :] < k), other=0.0)
        b = tl.load(b_from, mask=(first + depth[:, None] < k) & b_inside, other=0.0)
        sums = tl.dot(a, b, sums, input_precision="ieee")
        a_from += BLOCK_K * tl.cast(a_column, tl.int64)
        b_from += BLOCK_K * tl.cast(b_row, tl.int64)
    return sums


@jit
def finished(sums, rows, columns, m, n, bias_ptr, scale_ptr, ACTIVATION: tl.constexpr):
    """What follows a product: h = scale * sums + bias, and the activation of h; both in float32.

    bias: (n), scale: (m); either may be None.
    """
    if scale_ptr is not None:
        sums *= tl.load(scale_ptr + rows, mask=rows < m, other=0.0).to(tl.float32)[:, None]
    if bias_ptr is not None:
        sums += tl.load(bias_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)[None, :]
    return sums, activated(sums, ACTIVATION)


@jit
def normal_distribution(x):
    """Phi(x) by Abramowitz and Stegun's 7.1.26, within 2^-23.6 of it: an exponential, a quotient, some ten multiply-adds."""
    t = 1.0 / (1.0 + 0.23164189 * tl.abs(x))  # 0.3275911 / sqrt(2)
    sum = t * (0.127414796 + t * (-0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145))))
    beyond = sum * tl.exp(-0.5 * x * x)
    return tl.where(x > 0, 1.0 - beyond, beyond)


@jit
def activated(x, ACTIVATION: tl.constexpr):
    """relu, gelu (x times the normal distribution), gelu_tanh (its approximation by tanh) or None; float32, NaN stays NaN.

    (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 u)), whose exponential may overflow and is right there too.
    """
    if ACTIVATION == "relu":
        return tl.where(x < 0, 0.0, x)
    elif ACTIVATION == "gelu":
        return x * normal_distribution(x)
    elif ACTIVATION == "gelu_tanh":
        return x / (1.0 + tl.exp(-1.5957691216057308 * x * (1.0 + 0.044715 * x * x)))
    else:
        return x


@jit
def activation_backward(gradient, x, ACTIVATION: tl.constexpr):
    """The gradient before the activation, from that after it and x, what was activated; float32. relu's slope at 0 is 0."""
    if ACTIVATION == "relu":
        return tl.where(x <= 0, 0.0, gradient)
    elif ACTIVATION == "gelu":
        return gradient * (normal_distribution(x) + x * 0.3989422804014327 * tl.exp(-0.5 * x * x))
    else:
        tl.static_assert(ACTIVATION == "gelu_tanh", "relu, gelu or gelu_tanh")
        share = 1.0 / (1.0 + tl.exp(-1.5957691216057308 * x * (1.0 + 0.044715 * x * x)))
        # x times the exponent's slope may overflow; where it does, the product of the shares is 0 and comes first.
        return gradient * (share + share * (1.0 - share) * x * (1.5957691216057308 * (1.0 + 0.134145 * x * x)))
