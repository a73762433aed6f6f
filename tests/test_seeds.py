"""Tests draw the same random values in each run."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

FIRST = torch.rand(4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("number", range(2))
def test_each_test_draws_from_the_same_seed(number: int) -> None:
    assert torch.equal(torch.rand(4), FIRST)


@given(st.integers(0, 9))
def test_each_example_draws_from_the_same_seed(number: int) -> None:
    assert torch.equal(torch.rand(4), FIRST)
