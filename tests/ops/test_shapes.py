"""Random shapes, emulated and compared exactly or with the reference's tolerance."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples

from warpwise import ops

FEW = settings(max_examples=examples(12), deadline=None)


@FEW
@given(
    rows=st.integers(1, 140),
    cols=st.integers(1, 140),
    dtype=st.sampled_from([torch.uint8, torch.int16, torch.int32, torch.int64]),
)
def test_register_blocks_turn_any_matrix(rows, cols, dtype):
    matrix = torch.arange(rows * cols).to(dtype).view(rows, cols)
    assert torch.equal(ops.transpose(matrix, rung="k05_register_blocks"), matrix.t())


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.complex64, torch.int8])
def test_transpose_moves_bits_of_any_dtype(dtype):
    matrix = torch.randint(0, 2, (5, 19)).to(dtype)
    for rung in ("k04_padded_tile", "k05_register_blocks"):
        assert torch.equal(ops.transpose(matrix, rung=rung), matrix.t())


@FEW
@given(n=st.integers(1, 5000), shift=st.integers(0, 5))
def test_loads_in_flight_at_any_length_and_alignment(n, shift):
    a, b = (torch.arange(n + shift, dtype=torch.float32) * scale for scale in (1, 3))
    a, b = a[shift:], b[shift:]
    assert torch.equal(ops.vector_add(a, b, rung="k04_loads_in_flight"), a + b)


@FEW
@given(rows=st.integers(1, 20), cols=st.integers(1, 70), a_gap=st.integers(0, 9), b_gap=st.integers(0, 9))
def test_matrices_with_gaps_between_rows(rows, cols, a_gap, b_gap):
    a = torch.arange(rows * (cols + a_gap), dtype=torch.float32).view(rows, -1)[:, a_gap:]
    b = torch.arange(rows * (cols + b_gap), dtype=torch.float32).view(rows, -1)[:, b_gap:]
    assert torch.equal(ops.matrix_add(a, b, rung="k03_vectorised"), a + b)


@FEW
@given(height=st.integers(8, 70), width=st.integers(8, 90), taps=st.sampled_from([(3, 3), (15, 1), (1, 15), (7, 5)]))
def test_8_bit_blur_is_the_same_in_every_rung(height, width, taps):
    image = torch.randint(
        0, 256, (1, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(height)
    )
    expected = ops.gaussian_blur(image, taps)
    for rung in ("k03_separable", "k04_shared_tile"):
        assert torch.equal(ops.gaussian_blur(image, taps, rung=rung), expected)
