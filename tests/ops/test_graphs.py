"""The checks of a graph, which six operations share."""

from __future__ import annotations

import pytest
import torch

from warpwise import ops
from warpwise.operation import check_shapes
from warpwise.ops._graphs import check_bounds, check_graph

ROWPTR, COLUMNS, POINTS = torch.tensor([0, 1, 2, 2]), torch.tensor([1, 0]), torch.zeros(3, 5)


@pytest.mark.parametrize(
    "rowptr,columns,error,message",
    [
        (ROWPTR[:3], COLUMNS, ValueError, r"f: expected rowptr \(4,\), got \(3,\)"),
        (ROWPTR[None], COLUMNS, ValueError, r"f: expected rowptr with 1 dimension, got shape \(1, 4\)"),
        (ROWPTR.int(), COLUMNS, TypeError, "f: expected rowptr of dtype torch.int64, got torch.int32"),
        (ROWPTR, COLUMNS.float(), TypeError, "f: expected columns of dtype torch.int32, torch.int64, got"),
        (ROWPTR, None, TypeError, "f: expected columns to be a torch.Tensor, got NoneType"),
        (ROWPTR.to("meta"), COLUMNS, ValueError, "f: expected rowptr on q's device cpu, got meta"),
        (ROWPTR, COLUMNS.to("meta"), ValueError, "f: expected columns on q's device cpu, got meta"),
    ],
)
def test_a_wrong_graph_is_refused(rowptr, columns, error, message):
    check_graph("f", ROWPTR, COLUMNS, "q", POINTS)
    with pytest.raises(error, match=f"^{message}"):
        check_graph("f", rowptr, columns, "q", POINTS)


@pytest.mark.parametrize("bounds", [(), (0,), (-1, 3), (0, 4), (0, 2, 1)])
def test_wrong_bounds_are_refused(bounds):
    check_bounds("f", (0, 2, 2, 3), 3)
    with pytest.raises(ValueError, match="^f: expected bounds that rise from at least 0 to at most 3, got"):
        check_bounds("f", bounds, 3)


@pytest.mark.parametrize(
    "tensor,error,message",
    [
        (POINTS[0], ValueError, r"f: expected y \(3, 5\), got \(5,\)"),
        (POINTS.half(), TypeError, "f: expected y of x's dtype torch.float32, got torch.float16"),
        (POINTS.to("meta"), ValueError, "f: expected y on x's device cpu, got meta"),
        ([1.0], TypeError, "f: expected y to be a torch.Tensor, got list"),
    ],
)
def test_a_wrong_shape_is_refused(tensor, error, message):
    check_shapes("f", "x", POINTS, {"y": (POINTS, (3, 5)), "z": (None, (1,))})
    with pytest.raises(error, match=f"^{message}"):
        check_shapes("f", "x", POINTS, {"y": (tensor, (3, 5))})


def test_weights_of_another_number_of_edges_are_refused():
    with pytest.raises(ValueError, match=r"smooth_features: expected weights \(2,\), got \(3,\)"):
        ops.smooth_features(POINTS, ROWPTR, COLUMNS, torch.ones(3), torch.ones(3), hops=1)
