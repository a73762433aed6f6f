"""Device functions for Triton kernels, on the GPU and on the CPU."""

from __future__ import annotations

import triton.language as tl

from warpwise.triton.kernel import jit


@jit
def cdiv(numerator, denominator):
    """Return numerator / denominator rounded up, for numerator >= 0 and denominator > 0."""
    return (numerator + denominator - 1) // denominator


@jit
def tile_index(program, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Return the row and column of a program's output tile, in a grouped order that improves L2 reuse.

    Consecutive programs go down GROUP_M tile rows, then to the next tile column: the GROUP_M * tiles_n programs of one
    group share GROUP_M row panels of A, and consecutive programs share a column panel of B. The last group can have
    fewer rows.
    """
    group_size = GROUP_M * tiles_n
    first_m = program // group_size * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    within = program % group_size
    return first_m + within % rows, within // rows


@jit
def online_softmax_combine(max_a, sum_a, max_b, sum_b):
    """Merge two partial softmax statistics, each a maximum m and a sum of exp(x - m); for ``tl.reduce`` and loops.

    exp(x - m) = exp(x - m_a) * exp(m_a - m) rescales a sum to the greater maximum m. If both maxima are -inf, the base
    is 0 instead of -inf, so that -inf - -inf does not give NaN and the sum stays 0.
    """
    greatest = tl.maximum(max_a, max_b)
    base = tl.where(greatest == float("-inf"), 0.0, greatest)
    return greatest, sum_a * tl.exp(max_a - base) + sum_b * tl.exp(max_b - base)


@jit
def normal_cdf(x):
    """Return Phi(x), by Abramowitz and Stegun 7.1.26; absolute error below 2^-23.6."""
    t = 1.0 / (1.0 + 0.23164189 * tl.abs(x))  # 0.3275911 / sqrt(2)
    sum = t * (0.127414796 + t * (-0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145))))
    tail = sum * tl.exp(-0.5 * x * x)
    return tl.where(x > 0, 1.0 - tail, tail)


@jit
def apply_activation(x, ACTIVATION: tl.constexpr):
    """Apply relu, gelu (x * Phi(x)), gelu_tanh (the tanh approximation) or None to float32 ``x``; NaN stays NaN.

    (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)); if the exponential overflows, the result 0 is still correct.
    """
    if ACTIVATION == "relu":
        return tl.where(x < 0, 0.0, x)
    elif ACTIVATION == "gelu":
        return x * normal_cdf(x)
    elif ACTIVATION == "gelu_tanh":
        return x / (1.0 + tl.exp(-1.5957691216057308 * x * (1.0 + 0.044715 * x * x)))
    else:
        return x


@jit
def activation_backward(gradient, x, ACTIVATION: tl.constexpr):
    """Return the gradient of the activation's input ``x``, given that of its output, in float32; relu'(0) = 0."""
    if ACTIVATION == "relu":
        return tl.where(x <= 0, 0.0, gradient)
    elif ACTIVATION == "gelu":
        return gradient * (normal_cdf(x) + x * 0.3989422804014327 * tl.exp(-0.5 * x * x))
    else:
        tl.static_assert(ACTIVATION == "gelu_tanh", "relu, gelu or gelu_tanh")
        # With p = exp(-|2 u|): cdf * (1 - cdf) = p / (1 + p)^2, which has no cancellation where cdf is close to 1.
        p = tl.exp(-1.5957691216057308 * tl.abs(x) * (1.0 + 0.044715 * x * x))
        r = 1.0 / (1.0 + p)
        cdf = tl.where(x > 0, r, p * r)
        # x * (...) can overflow where p is 0; 0 * x is evaluated first.
        return gradient * (cdf + p * r * r * x * (1.5957691216057308 * (1.0 + 0.134145 * x * x)))


@jit
def mean_of_losses(sums_ptr, counts_ptr, loss_ptr, count_ptr, programs, BLOCK: tl.constexpr):
    """loss = sum(sums) / sum(counts), count = sum(counts); without targets the loss is NaN.

    sums, counts: (programs), which other programs have stored; loss, count: one element. Grid: one program.
    """
    total = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.int32)
    for first in range(0, programs, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(sums_ptr + at, mask=at < programs, other=0.0)
        count += tl.load(counts_ptr + at, mask=at < programs, other=0)
    counted = tl.sum(count, axis=0)
    tl.store(loss_ptr, tl.sum(total, axis=0) / counted.to(tl.float32))
    tl.store(count_ptr, counted.to(tl.int64))
