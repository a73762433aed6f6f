"""kmeans_assign and kmeans_update beyond their cases: random shapes, ties, limits, repeatability and errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples

from warpwise import operation, ops

FEW = settings(max_examples=examples(8), deadline=None)


def points(n: int, width: int, seed: int = 0) -> torch.Tensor:
    """Small integers, whose distances are exact."""
    return torch.randint(-4, 5, (n, width), generator=torch.Generator().manual_seed(seed)).float()


@FEW
@given(n=st.integers(1, 200), width=st.integers(1, 40), clusters=st.integers(1, 90))
def test_labels_are_those_of_the_definition(n: int, width: int, clusters: int) -> None:
    X, centroids = points(n, width), points(clusters, width, 1)
    distances = (X[:, None] - centroids).square().sum(2)
    expected = distances.min(1)
    for rung in ("k01", "k02"):
        labels, found = ops.kmeans_assign(X, centroids, True, rung=rung)
        assert torch.equal(found, expected.values)
        assert torch.equal(labels, (distances == expected.values[:, None]).int().argmax(1).int())  # the first of ties


@FEW
@given(n=st.integers(1, 3000), width=st.integers(1, 40), clusters=st.integers(1, 60))
def test_sums_are_those_of_the_definition(n: int, width: int, clusters: int) -> None:
    X, generator = points(n, width), torch.Generator().manual_seed(n)
    labels = torch.randint(clusters, (n,), generator=generator, dtype=torch.int32)
    sums, counts = ops.kmeans_update(X, labels, clusters, rung="k02")
    expected = torch.zeros(clusters, width).index_add_(0, labels, X)
    assert torch.equal(sums, expected)
    assert torch.equal(counts, torch.bincount(labels, minlength=clusters).int())


def test_the_update_takes_two_launches_on_a_gpu() -> None:
    """The second one adds the sums of the blocks."""
    X, labels = torch.empty(100_000, 16, device="meta"), torch.empty(100_000, dtype=torch.int32, device="meta")
    op = operation.get("kmeans_update")
    assert len(op.kernels(op.rung("k02"), X, labels, 8)) == 2


def test_labels_outside_the_clusters_are_left_out() -> None:
    labels = torch.tensor([0, 1, -1, 2, 1], dtype=torch.int32)
    for rung in ("k01", "k02"):
        sums, counts = ops.kmeans_update(torch.ones(5, 3), labels, 2, rung=rung)
        assert counts.tolist() == [1, 2] and sums[:, 0].tolist() == [1, 2]


def test_limits_name_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="k02_team_copies takes sums that fit in 229376 bytes"):
        ops.kmeans_update(torch.zeros(1, 100), torch.zeros(1, dtype=torch.int32), 1000, rung="k02")
    with pytest.raises(ValueError, match=r"k02_team_copies takes labels of int32, not torch\.int64"):
        ops.kmeans_update(torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64), 1, rung="k02")
    with pytest.raises(ValueError, match="k02_register_tiles takes points and centroids that fit"):
        ops.kmeans_assign(torch.zeros(1, 1000), torch.zeros(1, 1000), rung="k02")
    with pytest.raises(ValueError, match="k03_triton takes up to 256 features"):
        ops.kmeans_assign(torch.zeros(1, 257), torch.zeros(1, 257), rung="k03")


@pytest.mark.parametrize(
    "call,error,message",
    [
        (lambda x: ops.kmeans_assign(x[0], x), ValueError, "kmeans_assign: expected X with 2 dimensions"),
        (lambda x: ops.kmeans_assign(x, x.double()), TypeError, "centroids of X's dtype"),
        (
            lambda x: ops.kmeans_assign(x, x[:, :2]),
            ValueError,
            r"centroids \(K, 3\) or \(R, K, 3\) with K of at least 1",
        ),
        (lambda x: ops.kmeans_assign(x, x[:0]), ValueError, "K of at least 1"),
        (lambda x: ops.kmeans_update(x, torch.zeros(3, dtype=torch.int32), 2), ValueError, r"expected labels \(4,\)"),
        (lambda x: ops.kmeans_update(x, torch.zeros(4), 2), TypeError, "labels of dtype torch.int32, torch.int64"),
        (lambda x: ops.kmeans_update(x, torch.zeros(4, dtype=torch.int32), 0), ValueError, "n_clusters"),
        (lambda x: ops.kmeans_update(x, torch.zeros(4, dtype=torch.int32), "2"), TypeError, "n_clusters to be an int"),
    ],
)
def test_wrong_arguments(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call(torch.zeros(4, 3))
