"""Guarded outputs and watched inputs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwise.lab.verify.guard import guarded, poison, snapshot

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.float8_e4m3fn,
    torch.int32,
    torch.uint8,
    torch.bool,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_output_starts_as_poison_in_intact_bands(dtype):
    made = guarded(torch.empty(3, 5, dtype=dtype))
    assert made.view.shape == (3, 5)
    assert made.view.dtype == dtype
    assert made.view.is_contiguous()
    assert made.view.data_ptr() - made.buffer.data_ptr() >= 1 << 13
    assert made.unwritten((2, 4))
    if dtype.is_floating_point:
        assert bool(made.view.float().isnan().all())
    made.view[2, 4] = 1
    assert not made.unwritten((2, 4)) or dtype == torch.bool
    assert made.write_outside() is None


def test_integers_are_poisoned_differently_in_the_second_run():
    assert poison(torch.int32, 0) != poison(torch.int32, 1)
    assert poison(torch.bool, 0) != poison(torch.bool, 1)
    assert poison(torch.float32, 0) == poison(torch.float32, 1)


@pytest.mark.parametrize("offset", [-1, 6, 1000, -2000])
def test_a_write_beside_the_output_is_found(offset):
    made = guarded(torch.empty(2, 3))
    made.view.fill_(0)
    made.view.as_strided((1,), (1,), made.view.storage_offset() + offset).fill_(1.5)
    assert made.write_outside() == offset * 4


def test_gaps_between_the_rows_of_a_strided_output_are_guarded():
    made = guarded(torch.empty_strided((2, 3), (5, 1)))
    made.view.fill_(0)
    assert made.write_outside() is None
    made.view.as_strided((1,), (1,), made.view.storage_offset() + 3).fill_(2)
    assert made.write_outside() == 12


def test_an_empty_output_is_all_guard():
    made = guarded(torch.empty(0, 4))
    assert made.view.numel() == 0
    assert made.write_outside() is None


@settings(deadline=None)
@given(st.lists(st.integers(1, 7), max_size=4), st.sampled_from(DTYPES))
def test_any_shape_and_dtype(shape, dtype):
    made = guarded(torch.empty(shape, dtype=dtype))
    assert made.view.shape == tuple(shape)
    made.view.copy_(torch.ones(shape).to(dtype))
    assert bool((made.view.float() == 1).all())
    assert made.write_outside() is None


def test_a_changed_input_is_named_and_put_back():
    wide = torch.arange(20.0).reshape(4, 5)
    args = (3, torch.ones(2), wide[:, 1:3], 0.5)
    before = snapshot(args)
    assert before.changed() is None
    wide[2, 4] = -1
    assert before.changed() == (2, 4 * 14 + 2)
    before.restore()
    assert before.changed() is None
    assert torch.equal(wide, torch.arange(20.0).reshape(4, 5))


def test_nan_inputs_are_compared_bit_by_bit():
    value = torch.tensor([float("nan"), 1.0])
    before = snapshot((value,))
    assert before.changed() is None
    value[0] = -value[0]
    assert before.changed() is not None
