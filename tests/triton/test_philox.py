"""Triton's random numbers on a CPU: those computed at once are the interpreted ones, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda import UninitializedRead
from warpwise.triton import interpreter

N = 64


@wt.jit
def words(out_ptr, seed, first, SCALAR: tl.constexpr, ROUNDS: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    if SCALAR:
        a, b, c, d = tl.randint4x(seed, first, ROUNDS)
    else:
        a, b, c, d = tl.randint4x(seed, first + at, ROUNDS)
    tl.store(out_ptr + at, a)
    tl.store(out_ptr + N + at, b)
    tl.store(out_ptr + 2 * N + at, c)
    tl.store(out_ptr + 3 * N + at, d)


@wt.jit
def wide_words(out_ptr, seed, N: tl.constexpr):
    at = tl.arange(0, N).to(tl.int64)
    zero = at * 0
    a, b, c, d = tl.philox(seed, at, zero, zero, zero)
    tl.store(out_ptr + at, (a ^ b ^ c ^ d).to(tl.int64, bitcast=True))


@wt.jit
def masked_counter(x_ptr, out_ptr, n, SELECT: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    drawn = tl.rand(7, tl.load(x_ptr + at, mask=at < n))
    tl.store(out_ptr + at, tl.where(at < n, drawn, 0.0) if SELECT else drawn)


@wt.jit
def seed_from_memory(seed_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    seed = tl.max(tl.load(seed_ptr + at, mask=at < n), 0)
    tl.store(out_ptr + at, tl.randint(seed, at))


def launched(kernel, size, *args, **options):
    out = torch.empty(size, dtype=torch.int32 if size != N else torch.int64)
    kernel[(1,)](out, *args, N=N, **options)
    return out


def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "philox_of_words", lambda *operands: None)


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("rounds", [1, 7, 10])
@pytest.mark.parametrize("seed,first", [(0, 0), (2**31 - 1, 5), (-3, -9), (2**40 + 17, 2**35 + 1)])
def test_words_are_those_of_the_interpreted_rounds(
    seed: int, first: int, rounds: int, scalar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = launched(words, 4 * N, seed, first, SCALAR=scalar, ROUNDS=rounds)
    interpreted(monkeypatch)
    assert torch.equal(found, launched(words, 4 * N, seed, first, SCALAR=scalar, ROUNDS=rounds))


def test_words_of_64_bits_are_interpreted() -> None:
    found = launched(wide_words, N, 7)
    multipliers, keys = (0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
    for at in (0, 1, N - 1):
        c0, c1, c2, c3, k0, k1 = at, 0, 0, 0, 7, 0
        for _ in range(10):
            first, second = multipliers[0] * c0, multipliers[1] * c2
            c0, c1, c2, c3 = second >> 64 ^ c1 ^ k0, second % 2**64, first >> 64 ^ c3 ^ k1, first % 2**64
            k0, k1 = (k0 + keys[0]) % 2**64, (k1 + keys[1]) % 2**64
        assert np.uint64(c0 ^ c1 ^ c2 ^ c3) == found.numpy().view(np.uint64)[at]


def test_numbers_of_undefined_counters_are_undefined() -> None:
    x = torch.arange(N, dtype=torch.int32)
    out = torch.empty(N)
    masked_counter[(1,)](x, out, 50, SELECT=True, N=N)
    with pytest.raises(UninitializedRead, match="undefined value"):
        masked_counter[(1,)](x, out, 50, SELECT=False, N=N)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_a_seed_from_memory(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = torch.full((N,), 5).neg().to(dtype)
    found, wanted = torch.empty(N, dtype=torch.int32), torch.empty(N, dtype=torch.int32)
    seed_from_memory[(1,)](seeds, found, N, N=N)
    with pytest.raises(UninitializedRead, match="undefined value"):
        seed_from_memory[(1,)](seeds, wanted, 50, N=N)
    interpreted(monkeypatch)
    seed_from_memory[(1,)](seeds, wanted, N, N=N)
    assert torch.equal(found, wanted)
