"""Graphs of lattices and points: neighbours, symmetry, colours, regions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.neighbors import NearestNeighbors

from warpwise.apps.clustering import connected_components, from_edges, from_sparse, grid, hexagonal, knn, radius
from warpwise.apps.clustering.components import merge_regions
from warpwise.apps.clustering.graph import Graph


def dense(graph: Graph) -> np.ndarray:
    matrix = np.zeros((graph.n_points, graph.n_points))
    matrix[graph.rows, graph.columns] = graph.weights
    return matrix


def check(graph: Graph) -> None:
    matrix = dense(graph)
    assert (matrix == matrix.T).all()
    assert (np.diag(matrix) == 0).all()
    assert (graph.colours >= 0).all()
    assert (graph.colours[graph.rows] != graph.colours[graph.columns]).all()


def clumped(axes: int) -> np.ndarray:
    """Points of very different density, with duplicates and one far away."""
    random = np.random.default_rng(axes)
    parts = [random.normal(size=(300, axes)) * 1e-3, random.random((200, axes)), np.zeros((9, axes))]
    return np.concatenate([*parts, np.full((1, axes), 50.0)])


@pytest.mark.parametrize(
    "shape, connectivity, degree, colours",
    [
        ((6, 7), "full", 8, 4),
        ((6, 7), "faces", 4, 2),
        ((6, 7), "auto", 8, 4),
        ((4, 5, 6), "full", 26, 8),
        ((4, 5, 6), "faces", 6, 2),
        ((4, 5, 6), "auto", 6, 2),
    ],
)
def test_grid(shape: tuple[int, ...], connectivity: str, degree: int, colours: int) -> None:
    graph = grid(shape, connectivity)
    check(graph)
    assert graph.degree.max() == degree and graph.colours.unique().numel() == colours
    places = np.indices(shape).reshape(len(shape), -1).T
    steps = np.abs(places[:, None] - places)
    near = steps.max(-1) == 1 if degree in (8, 26) else steps.sum(-1) == 1
    assert (dense(graph) == near).all()


def test_hexagonal_neighbours_are_at_distance_one() -> None:
    graph = hexagonal(7, 6)
    check(graph)
    row, column = np.indices((7, 6)).reshape(2, -1)
    places = np.stack([row * np.sqrt(3) / 2, column + row % 2 / 2], 1)
    near = np.abs(np.linalg.norm(places[:, None] - places, axis=2) - 1) < 1e-9
    assert (dense(graph) == near).all() and graph.colours.unique().numel() == 3


def test_one_point_and_one_row() -> None:
    assert grid((1, 1)).columns.numel() == 0
    assert grid((1, 5)).degree.tolist() == [1, 2, 2, 2, 1]
    assert knn([[0.0, 0.0]]).columns.numel() == 0
    assert knn(np.zeros((4, 2)), 8).degree.tolist() == [3] * 4


@pytest.mark.parametrize("axes", [2, 3])
def test_knn_reaches_the_nearest_points(axes: int) -> None:
    points = clumped(axes)
    graph = knn(points, 6)
    check(graph)
    matrix = dense(graph) > 0
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = np.sort(distance, axis=1)[:, :6]
    for point in range(len(points)):
        own = np.sort(distance[point][matrix[point]])
        assert np.allclose(own[:6], nearest[point], rtol=0, atol=1e-12)
    # An edge exists only if one end is among the nearest of the other.
    within = distance <= nearest[:, -1:]
    assert not (matrix & ~(within | within.T)).any()


@pytest.mark.parametrize("axes", [2, 3])
def test_radius_equals_brute_force(axes: int) -> None:
    points = clumped(axes)
    graph = radius(points, 0.2)
    check(graph)
    expected = NearestNeighbors(radius=0.2).fit(points).radius_neighbors_graph(points).toarray()
    np.fill_diagonal(expected, 0)
    assert (dense(graph) == expected).all()
    assert graph.degree[-1] == 0


def test_order_of_more_than_256_colours() -> None:
    none = from_edges(np.empty((0, 2), int), 300)
    graph = Graph(none.rowptr, none.columns, none.weights, torch.arange(300).flip(0))
    assert graph.order.tolist() == list(range(299, -1, -1))


def test_user_edges_are_made_symmetric() -> None:
    expected = np.array([[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]])
    edges = from_edges([[0, 1], [1, 0], [2, 1], [2, 2]], 3, [1, 2, 0.5, 9])
    lower = scipy.sparse.csr_matrix(np.tril(expected))
    for graph in (edges, from_sparse(lower), from_sparse((lower.indptr, lower.indices, lower.data))):
        check(graph)
        assert (dense(graph) == expected).all()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: grid((4,)), "two or three"),
        (lambda: grid((4, 0)), "positive"),
        (lambda: grid((4, 4), "corner"), "connectivity"),
        (lambda: hexagonal(0, 3), "positive"),
        (lambda: knn([[0.0, np.nan]]), "NaN or infinity in 1 of 1 points, first in point 0"),
        (lambda: knn([[0.0, 1.0]], 2.5), "k: expected an integer of at least 1, got 2.5"),
        (lambda: radius([[0.0, 1.0]], "far"), "distance: expected a positive number, got 'far'"),
        (lambda: hexagonal(2.5, 3), r"hexagonal: expected positive integers, got \(2.5, 3\)"),
        (lambda: knn(np.zeros((3, 4))), r"\(3, 4\)"),
        (lambda: knn(np.zeros((3, 2)), 0), "at least 1"),
        (lambda: radius(np.zeros((3, 2)), -1), "positive"),
        (lambda: from_edges([[0, 3]], 3), r"\[0, 3\)"),
        (lambda: from_edges([[0.5, 1]], 3), "integers"),
        (lambda: from_edges([[0, 1]], 3, [-1]), "not negative"),
        (lambda: from_edges([[0, 1]], 3, [1, 1]), "one an edge"),
        *(
            (
                lambda number=number: from_edges([], number),
                f"n_points: expected an integer of at least 0, got {number!r}",
            )
            for number in (3.0, -1, "3", None, True)
        ),
        (lambda: from_edges([["a", "b"]], 3), "edges: expected integers, the numbers of two points, got <U1"),
        (lambda: from_edges(np.eye(2, dtype=bool), 3), r"edges: expected integers, .*, got bool; from_sparse\("),
        (lambda: from_edges([[0, 1j]], 3), "edges: expected integers, .*, got complex128"),
        (lambda: from_edges([[0, None]], 3), "edges: expected integers, .*, got object"),
        (lambda: from_edges([[0, 1]], 3, ["a"]), "weights: expected real numbers, got <U1"),
        (lambda: from_edges([[0, 1]], 3, [1j]), "weights: expected real numbers, got complex128"),
        (lambda: from_edges([[0, 1]], 3, [1e39]), "weights: expected finite values of float32"),
        (lambda: from_sparse(scipy.sparse.eye(3, 4)), "square"),
        (lambda: from_sparse((np.array([0, 2, 1]), np.array([0]))), "rowptr"),
    ],
)
def test_errors(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_components_equal_scipys() -> None:
    graph = grid((40, 30))
    labels = torch.randint(3, (1200,), generator=torch.Generator().manual_seed(0))
    same = dense(graph) * (labels[:, None] == labels).numpy()
    count, expected = scipy.sparse.csgraph.connected_components(scipy.sparse.csr_matrix(same))
    found = connected_components(graph, labels)
    assert int(found.max()) + 1 == count
    assert len(np.unique(np.stack([found, expected]), axis=1).T) == count


def test_merging() -> None:
    graph = grid((30, 30))
    labels = torch.randint(4, (900,), generator=torch.Generator().manual_seed(0))
    flat = torch.zeros(900, 4)
    merged = merge_regions(graph, labels, flat, 1.0, min_region=12)
    assert torch.bincount(connected_components(graph, merged)).min() >= 12
    single = merge_regions(graph, labels, flat, 1.0, contiguous=True)
    assert int(connected_components(graph, single).max()) + 1 == single.unique().numel()
    assert torch.equal(merge_regions(graph, labels, flat, 1.0), labels)


def test_a_region_without_neighbours_is_kept() -> None:
    graph = from_edges([[0, 1], [1, 2]], 4)
    labels = torch.tensor([0, 0, 0, 1])
    assert merge_regions(graph, labels, torch.zeros(4, 2), 1.0, min_region=3).tolist() == [0, 0, 0, 1]


def test_no_edges() -> None:
    for edges in ([], np.empty((0, 2), int)):
        assert from_edges(edges, 3).degree.tolist() == [0, 0, 0]


def test_other_kinds_of_graphs_are_named_with_a_remedy() -> None:
    for given in (np.eye(3), [(0, 1)]):
        with pytest.raises(TypeError, match=rf"got {type(given).__name__}; from_edges\(edges, n_points\) takes pairs"):
            from_sparse(given)


def test_regions_of_an_array_are_an_array() -> None:
    labels = np.array([0, 0, 1, 1, 0, 0])
    found = connected_components(grid((1, 6)), labels)
    assert isinstance(found, np.ndarray) and found.tolist() == [0, 0, 1, 1, 2, 2]
    assert connected_components(grid((1, 6)), torch.from_numpy(labels)).tolist() == found.tolist()


@pytest.mark.parametrize("labels", [[0, 2**32, 2**32], [-(2**63), 2**62, 2**62], [True, False, False]])
def test_regions_of_labels_of_any_integers(labels: list[int]) -> None:
    """A cast to int32 would make 0 and 2**32 equal."""
    for given in (np.array(labels), torch.tensor(labels)):
        assert connected_components(grid((1, 3)), given).tolist() == [0, 1, 1]
    assert connected_components(grid((1, 3)), np.array([1, 2**63 + 1, 2**63 + 1], np.uint64)).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    "labels, message",
    [
        ([0.1, 0.9], "labels: expected integers, got float64"),
        (torch.zeros(2), "labels: expected integers, got torch.float32"),
        (["a", "b"], r"labels: expected integers, got <U1; numpy.unique\("),
        ([0, 0, 0], r"labels: expected \(2,\), one a point of graph, got \(3,\)"),
        ([[0, 0]], r"labels: expected \(2,\), one a point of graph, got \(1, 2\)"),
    ],
)
def test_labels_that_are_refused(labels, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        connected_components(grid((1, 2)), labels)


def test_regions_of_a_sparse_matrix() -> None:
    path = scipy.sparse.csr_array(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    assert connected_components(path, [5, 5, 6]).tolist() == [0, 0, 1]
    with pytest.raises(TypeError, match="expected a Graph, a scipy sparse matrix"):
        connected_components(np.eye(2), [0, 0])
