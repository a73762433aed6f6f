"""Fits by several processes: blocks of points, and results equal to those of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.processes import in_processes

from warpwise.apps.clustering import SpatialMixture, generators, grid, rounding
from warpwise.apps.clustering.parallel import morton_blocks
from warpwise.apps.clustering.ranks import block_of

SHAPE = (24, 20)
DATA = generators.layered(1.2, SHAPE, n_domains=3, n_features=4)
FITS: dict[str, dict[str, Any]] = {
    "potts": {},
    "layers": {"prior": "layers", "min_region": 9},
    "student": {"covariance": "t", "field": np.eye(3)[DATA.labels]},
    "types": {"n_types": 4, "sizes": [2, 1, 1]},
}


def fits(group: Any = None) -> dict[str, Any]:
    """Of each fit: labels, probabilities, and numbers."""
    found: dict[str, Any] = {}
    for name, options in FITS.items():
        structure = {"coords": DATA.coords} if name == "layers" else {"shape": SHAPE}
        model = SpatialMixture(3, n_init=2, random_state=0, **options).fit(DATA.X, **structure, group=group)
        found[f"{name} labels"], found[f"{name} probabilities"] = model.labels_, model.probabilities_
        found[f"{name} numbers"] = [model.beta_, model.elbo_ / 1000, model.bic_ / 1000, model.n_iter_]
    with pytest.MonkeyPatch.context() as patch:  # as on a GPU: the halo is exchanged in bfloat16, features are rounded
        patch.setattr(rounding, "kernels_take", lambda X, graph: True)
        patch.setattr(rounding, "_LEAST_WORK", 0)
        model = SpatialMixture(3, n_init=2, max_iter=8, random_state=0).fit(DATA.X, shape=SHAPE, group=group)
        found["rounded labels"], found["rounded probabilities"] = model.labels_, model.probabilities_
    return found


def write(rank: int, folder: Path) -> None:
    """The fits of a process, to a file of ``folder``. All processes raise the error of a value that one of them has."""
    group = torch.distributed.group.WORLD
    np.savez(folder / f"{rank}.npz", **fits(group))
    wrong = DATA.X.copy()
    wrong[0, 0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        SpatialMixture(3, random_state=0).fit(wrong, shape=SHAPE, group=group)
    with pytest.raises(ValueError, match="at most 1 processes, one for each point, got 2"):
        SpatialMixture(1, random_state=0).fit(DATA.X[:1], shape=(1, 1), group=group)


def test_labels_of_two_processes_are_those_of_one(tmp_path: Path) -> None:
    expected = fits()
    in_processes(write, tmp_path)
    for rank in range(2):
        with np.load(tmp_path / f"{rank}.npz") as found:
            for name, value in expected.items():
                if name.endswith("labels"):
                    assert np.array_equal(found[name], value), name
                else:
                    assert np.allclose(found[name], value, rtol=1e-3, atol=1e-3), name


def fit_rounded(rank: int, folder: Path) -> None:
    """Fits that round features if a process has as many points as the smallest block, and if as many as the largest."""
    own = [len(block_of(grid(SHAPE), number, 3).ids) for number in range(3)]
    assert min(own) < max(own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounding, "kernels_take", lambda X, graph: True)
        for points in (160, min(own), max(own)):
            patch.setattr(rounding, "_LEAST_WORK", 8 * points)
            SpatialMixture(3, n_init=2, max_iter=6, random_state=0).fit(
                DATA.X, shape=SHAPE, group=torch.distributed.group.WORLD
            )


def test_processes_with_halos_of_different_sizes_decide_together(tmp_path: Path) -> None:
    in_processes(fit_rounded, tmp_path, 3)


def test_blocks_of_a_graph_cover_its_points_and_agree_on_what_they_exchange() -> None:
    graph = grid((9, 14))
    blocks = [block_of(graph, rank, 3) for rank in range(3)]
    assert torch.cat([block.ids[: block.own] for block in blocks]).sort().values.equal(torch.arange(126))
    assert all(graph.blocks[rank, 3] is block for rank, block in enumerate(blocks))
    for colour in range(4):
        for to in range(3):
            swap = blocks[to].swaps[colour]
            assert isinstance(swap.fetched, slice)
            begin = swap.fetched.start
            for peer in range(3):
                count, other = swap.fetched_from[peer], blocks[peer].swaps[colour]
                before = sum(other.sent_to[:to])
                sent = blocks[peer].ids[other.sent[before : before + count]]
                assert other.sent_to[to] == count
                assert blocks[to].ids[begin : begin + count].equal(sent)
                begin += count
    for block in blocks:
        rows = block.graph.rows
        pairs = torch.stack([block.ids[rows], block.ids[block.graph.columns]], 1)
        own = torch.isin(graph.rows, block.ids[: block.own])
        expected = torch.stack([graph.rows[own], graph.columns[own]], 1)
        assert torch.unique(pairs, dim=0).equal(torch.unique(expected, dim=0))


def test_morton_blocks() -> None:
    places = torch.cartesian_prod(torch.arange(8.0), torch.arange(8.0)).double()
    block = morton_blocks(places, 64, 4)
    assert torch.bincount(block).tolist() == [16] * 4
    for number in range(4):
        assert float((places[block == number].amax(0) - places[block == number].amin(0)).max()) == 3  # a quadrant
    assert morton_blocks(None, 10, 3).tolist() == [0] * 3 + [1] * 3 + [2] * 4
    assert morton_blocks(torch.zeros(5, 3).double(), 5, 2).tolist() == [0, 0, 1, 1, 1]


def test_a_group_that_is_not_initialised() -> None:
    with pytest.raises(ValueError, match="init_process_group"):
        SpatialMixture(3, random_state=0).fit(DATA.X, graph=grid(SHAPE), group="WORLD")


def fit_on_gpu(group: Any = None) -> np.ndarray:
    X = torch.from_numpy(DATA.X).cuda()
    return SpatialMixture(3, n_init=2, random_state=0).fit(X, shape=SHAPE, group=group).labels_.cpu().numpy()


def write_on_gpu(rank: int, folder: Path) -> None:
    np.save(folder / f"{rank}.npy", fit_on_gpu(torch.distributed.group.WORLD))


@pytest.mark.gpu
def test_two_processes_on_one_gpu(tmp_path: Path) -> None:
    """With gloo, through host memory: NCCL needs a GPU for each process."""
    expected = fit_on_gpu()
    in_processes(write_on_gpu, tmp_path)
    for rank in range(2):
        assert np.array_equal(np.load(tmp_path / f"{rank}.npy"), expected)
