"""The kernels of passes over all points and of k-means, emulated, beside PyTorch."""

from __future__ import annotations

import pytest
import torch

from warpwise.apps.clustering import kmeans, points
from warpwise.apps.clustering.graph import Graph
from warpwise.apps.clustering.lattices import grid
from warpwise.ops.potts_em_step.spec import empty_rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_less_their_mean(dtype: torch.dtype) -> None:
    X, mean, scale = (torch.randn(*shape, dtype=dtype) for shape in ((50, 7), (7,), (7,)))
    order, some, every = torch.randperm(50)[:33], torch.empty(33, 7, dtype=dtype), torch.empty_like(X)
    points.launch_centred_rows(X, order, mean, scale, some)
    points.launch_centred_rows(X, None, None, None, every)
    assert torch.equal(some, (X[order] - mean) * scale) and torch.equal(every, X)


@pytest.mark.parametrize("n,width,depth", [(3000, 16, 16), (1, 1, 1), (700, 19, 5), (130, 33, 40)])
def test_sums_of_products(n: int, width: int, depth: int) -> None:
    first, second = torch.randn(n, width), torch.randn(n, depth)
    expected = first.double().T @ second.double()
    torch.testing.assert_close(points.sums_of_products(first, second), expected, rtol=1e-12, atol=1e-11)


def test_sums_of_products_of_one_array() -> None:
    """An operand is loaded once in a tile on the diagonal, also of rows that are not aligned."""
    X = torch.randn(500, 37)
    for part in (X, X.flatten()[1:-36].view(-1, 37), X.flatten()[1:17].view(-1, 2)):
        expected = part.double().T @ part.double()
        torch.testing.assert_close(points.sums_of_products(part, part), expected, rtol=1e-12, atol=1e-11)


def test_sums_of_products_compile_for_gpus_without_products_of_doubles() -> None:
    pytest.importorskip("cuda.bindings", exc_type=ImportError)
    assert points.KERNELS["sums_of_products"].compile("sm_75").cubin


@pytest.mark.parametrize("n,width", [(3000, 16), (1, 1), (40, 100), (30, 300), (9, 1100), (50, 6)])
def test_statistics_of_columns(n: int, width: int) -> None:
    X = torch.randn(n, width) + 100
    for part in (X, X.flatten()[1:].view(-1, 1))[: 1 + (n > 1)]:
        found, exact = points.statistics_of_columns(part), part.double()
        offsets = exact - exact[0]
        assert torch.equal(found.first, exact[0])
        torch.testing.assert_close(found.sums, offsets.sum(0), rtol=1e-12, atol=1e-11)
        torch.testing.assert_close(found.squares, offsets.square().sum(0), rtol=1e-12, atol=0)
        assert torch.equal(found.low, exact.amin(0)) and torch.equal(found.high, exact.amax(0))


@pytest.mark.parametrize("n,k,restarts", [(37, 8, 1), (50, 7, 2), (40, 100, 1), (33, 1, 3)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_first_probabilities(n: int, k: int, restarts: int, dtype: torch.dtype) -> None:
    labels = torch.randint(k, (restarts, n)).to(dtype)
    found = torch.full((n, restarts, k), torch.nan)
    points.launch_q_of_labels(labels, found, 0.1 / k, 0.9 + 0.1 / k)
    expected = points.q_of_labels(labels, k)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(expected.sum(2), torch.ones(n, restarts))
    rows = empty_rows(n, restarts, k).fill_(torch.nan)
    points.launch_q_of_labels(labels, rows, 0.1 / k, 0.9 + 0.1 / k)
    assert torch.equal(rows, expected.bfloat16())


@pytest.mark.parametrize("n,k", [(37, 8), (300, 3), (40, 100), (33, 1)])
def test_most_probable_domains_of_rounded_probabilities(n: int, k: int) -> None:
    """In padded rows, with equal probabilities in some of them."""
    q = empty_rows(n, 2, k).copy_(torch.softmax(torch.randn(n, 2, k), 2))
    q[:5] = 1 / k
    assert torch.equal(kmeans.launch_most_probable(q).long(), q.argmax(2))
    assert torch.equal(kmeans.launch_most_probable(q[:, :1]).long(), q[:, :1].argmax(2))


@pytest.mark.parametrize("n,k", [(37, 8), (50, 7), (300, 3), (40, 100), (33, 1)])
def test_results_in_the_order_of_the_points(n: int, k: int) -> None:
    """In two parts, with equal probabilities in some rows."""
    q, order = torch.softmax(torch.randn(n, k), 1), torch.randperm(n)
    q[:5] = 1 / k
    parts = [(q[:20], order[:20]), (q[20:], order[20:])]
    found = torch.full((n, k), torch.nan), torch.full((n,), -1), torch.full((n,), torch.nan)
    for part in parts:
        points.launch_results(*part, *found)
    for value, expected in zip(found, points.results(iter(parts), n), strict=True):
        assert torch.equal(value, expected)


@pytest.mark.parametrize("k,width,weighted,field", [(8, 16, False, False), (7, 5, True, True), (33, 3, True, False)])
def test_pseudo_likelihood(k: int, width: int, weighted: bool, field: bool) -> None:
    graph = grid((9, 7))
    n, rows = graph.n_points, torch.repeat_interleave(graph.rowptr.diff())
    weights = torch.rand(len(rows)) if weighted else torch.ones(len(rows))
    graph = Graph(graph.rowptr.int(), graph.columns.int(), weights, graph.colours)
    q, X, external = torch.softmax(torch.randn(n, k), 1), torch.randn(n, width), torch.randn(n if field else 1, k)
    linear, constant, beta = torch.randn(k, width), torch.randn(k), torch.tensor([0.7])
    found = points.pseudo_likelihood(q, X, (linear, constant), graph, beta, external, 0.8, n - 5)
    near = torch.zeros(n, k, dtype=torch.float64)
    near.index_add_(0, rows, q.double()[graph.columns.long()] * weights[:, None])
    prior = torch.log_softmax(0.7 * near + external, 1)
    expected = torch.logsumexp(0.8 * (X.double() @ linear.double().T + constant) + prior, 1)[: n - 5].sum()
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


def test_means_of_clusters() -> None:
    sums, counts = torch.randn(3, 5, 7), torch.randint(0, 3, (3, 5), dtype=torch.int32)
    previous = torch.randn(3, 5, 7)
    torch.testing.assert_close(kmeans.launch_means(sums, counts, previous), kmeans.means(sums, counts, previous))


@pytest.mark.parametrize("n,restarts,k,width", [(3000, 4, 8, 16), (37, 1, 3, 5)])
def test_a_centre_is_the_point_that_wins_the_race(n: int, restarts: int, k: int, width: int) -> None:
    X, near, distances = torch.randn(n, width), torch.rand(restarts, n), torch.rand(restarts, n)
    near[:, ::3] = 0
    draws = torch.empty(restarts, n).exponential_()
    centres, latest = torch.zeros(restarts, k, width), torch.zeros(restarts, width)
    least = torch.minimum(near, distances)
    expected = X[(draws / least.clamp(min=1e-30)).argmin(1)]
    kmeans.launch_race(X, near, distances, draws, centres, latest, 2)
    assert torch.equal(near, least) and torch.equal(latest, expected)
    assert torch.equal(centres[:, 2], expected) and not centres[:, :2].any()
