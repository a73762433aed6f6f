"""float32 as three bfloat16 parts: as exact as float32, at any magnitude; infinities are its limit."""

from __future__ import annotations

import pytest
import torch

from warpwise import operation, ops

RUNG = "k17_bf16x3"


def worst(product: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest error of an element over the sum of its products' magnitudes."""
    exact, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    return ((product.double() - exact).abs() / scale).max().item()


@pytest.mark.parametrize("magnitude", [1.0, 1e-12, 1e15])
def test_errors_are_those_of_float32(magnitude):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(shape, generator=generator) * magnitude for shape in ((60, 200), (200, 70)))
    assert worst(ops.matmul(a, b, rung=RUNG), a, b) < 2**-22


def test_all_24_bits_of_both_operands_count():
    """1 + 2^-23 times 1 + 2^-23: without middle and low parts the product would be 1."""
    x = torch.full((1, 1), 1 + 2**-23)
    assert ops.matmul(x, x, rung=RUNG).item() == 1 + 2**-22


def test_the_largest_float_does_not_become_infinity():
    """Rounding to bfloat16 instead of truncating would overflow."""
    top = torch.full((1, 1), torch.finfo(torch.float32).max)
    assert ops.matmul(top, torch.ones(1, 1), rung=RUNG).item() == top.item()


def test_an_infinity_has_no_parts():
    a = torch.tensor([[float("inf"), 1.0], [1.0, 1.0]])
    product = ops.matmul(a, torch.ones(2, 2), rung=RUNG)
    assert product[0].isnan().all()
    assert product[1].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("config", operation.get("matmul").rung(RUNG).configs(torch.ones(1, 1), torch.ones(1, 1)))
def test_every_configuration(config):
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(130, 70, generator=generator), torch.randn(70, 66, generator=generator)
    assert worst(ops.matmul(a, b, rung=f"{RUNG}@{config}"), a, b) < 2**-22
