"""potts_bound of q in bfloat16: the conversion by integers and values that it does not take."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from warpwise import ops
from warpwise.apps.clustering import grid
from warpwise.ops.potts_em_step.spec import empty_rows

SIDE, RESTARTS, DOMAINS = 7, 2, 11
Given = dict[str, torch.Tensor]


def _minus_infinity(given: Given) -> None:
    given["external"][3, 0, 1] = -torch.inf


def _infinite_weight(given: Given) -> None:
    given["weights"][5] = torch.inf


def _large_field(given: Given) -> None:
    given["external"] += 1e31


def _negative_zero(given: Given) -> None:
    given["q"][7, 0, 2] = -0.0


def _nan(given: Given) -> None:
    given["q"][7, 1, 2] = torch.nan


def _denormal(given: Given) -> None:
    given["q"][7, 0, 2] = 1e-39


@pytest.mark.parametrize(
    "change",
    [_minus_infinity, _infinite_weight, _large_field, _negative_zero, _nan, _denormal],
    ids=lambda f: f.__name__,
)
def test_unusual_values_give_the_bound_of_the_conversion_by_the_gpu(change: Callable[[Given], None]) -> None:
    n, generator = SIDE * SIDE, torch.Generator().manual_seed(1)
    graph = grid((SIDE, SIDE)).by_colour[1]
    q = torch.rand(n, RESTARTS, DOMAINS, generator=generator) ** 4
    given = {
        "q": empty_rows(n, RESTARTS, DOMAINS).copy_(q / q.sum(2, keepdim=True)),
        "weights": torch.ones(len(graph.columns)),
        "external": torch.zeros(n, RESTARTS, DOMAINS),
    }
    change(given)
    rest = torch.full((RESTARTS,), 0.7), given["external"], None
    edges = graph.rowptr.int(), graph.columns.int(), given["weights"]
    expected, found = (ops.potts_bound(given["q"], *edges, *rest, rung=rung) for rung in ("k01", "k02"))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0, equal_nan=True)
