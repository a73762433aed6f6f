"""smooth_features beyond its cases: random shapes against the definition, and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples

from warpwise import operation, ops
from warpwise.operation import Case

FEW = settings(max_examples=examples(6), deadline=None)
OP = operation.get("smooth_features")


def arguments(n: int, width: int, degree: int, **attributes: Any) -> dict[str, Any]:
    case = Case("drawn", {"n": n, "width": width, "degree": degree}, attributes)
    return OP.spec.named(OP.spec.arguments(case, torch.float32, torch.device("cpu"), 1))


@FEW
@given(n=st.integers(1, 200), width=st.integers(1, 70), degree=st.integers(0, 12), hops=st.integers(1, 3))
def test_rungs_agree_with_a_dense_matrix(n: int, width: int, degree: int, hops: int) -> None:
    drawn = arguments(n, width, degree, weighted=True, hops=hops)
    rows = torch.repeat_interleave(drawn["rowptr"].long().diff())
    matrix = torch.eye(n).index_put((rows, drawn["columns"].long()), drawn["weights"], accumulate=True)
    expected = torch.linalg.matrix_power(matrix * drawn["scale"][:, None], hops) @ drawn["values"]
    for rung in (None, "k01", "k02"):
        torch.testing.assert_close(ops.smooth_features(**drawn, rung=rung), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "changed,error,message",
    [
        ({"values": torch.ones(9)}, ValueError, "values with 2 dimensions"),
        ({"rowptr": torch.zeros(9, dtype=torch.int32)}, ValueError, r"rowptr \(10,\)"),
        ({"rowptr": torch.zeros(10, dtype=torch.int64)}, TypeError, "rowptr of dtype torch.int32"),
        ({"weights": torch.ones(3)}, ValueError, "weights"),
        ({"scale": torch.ones(9).double()}, TypeError, "scale of values's dtype"),
        ({"hops": 0}, ValueError, "hops as an int of at least 1, got 0"),
    ],
)
def test_wrong_arguments(changed: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ops.smooth_features(**{**arguments(9, 4, 2), **changed})
