"""``fit_anndata`` and ``segment``: input, results, masks, and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.metrics import adjusted_rand_score

from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture, examples, fit_anndata, generators, grid, segment

SHAPE = (30, 24)
DATA = generators.layered(1.8, SHAPE, n_domains=3, n_features=4, random_state=1)


def annotated() -> Any:
    """The attributes of AnnData that ``fit_anndata`` uses."""
    graph = grid(SHAPE)
    parts = (graph.weights.numpy(), graph.columns.numpy(), graph.rowptr.numpy())
    return SimpleNamespace(
        X=scipy.sparse.csr_matrix(DATA.X),
        obs={},
        obsm={"X_pca": DATA.X, "spatial": DATA.coords},
        obsp={"spatial_connectivities": scipy.sparse.csr_matrix(parts, shape=(720, 720))},
        uns={},
    )


@pytest.mark.parametrize("options", [{}, {"basis": None}, {"graph_key": "spatial_connectivities"}], ids=str)
def test_results_in_an_annotated_matrix(options: dict[str, Any]) -> None:
    adata = annotated()
    model = fit_anndata(adata, 3, random_state=0, **options)
    assert adjusted_rand_score(DATA.labels, np.asarray(adata.obs["domain"])) > 0.9
    assert set(np.asarray(adata.obs["domain"])) == {"0", "1", "2"}
    assert np.array_equal(np.asarray(adata.obs["domain"]).astype(int), model.labels_)
    assert np.array_equal(adata.obs["domain_uncertainty"], model.uncertainty_)
    assert adata.obsm["domain_probabilities"].shape == (720, 3)
    assert adata.uns["domain"]["beta"] == model.beta_ and adata.uns["domain"]["params"]["random_state"] == 0


def test_parameters_in_an_annotated_matrix() -> None:
    adata, prior = annotated(), 2 * np.eye(3)
    fit_anndata(adata, np.int64(3), prior=prior, n_init=np.int64(4), contiguous=np.bool_(True), random_state=0)
    params = adata.uns["domain"]["params"]
    assert np.array_equal(params.pop("prior"), prior)
    names = {"basis": "X_pca", "spatial_key": "spatial"}
    assert params == {"n_domains": 3, "n_init": 4, "contiguous": True, "random_state": 0, **names}
    assert type(params["n_domains"]) is type(params["n_init"]) is int


def test_the_package_of_an_example_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="nilearn is not installed"):
        examples.mni()


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")  # anndata 0.12 with pandas 3
def test_an_anndata_object_is_written_and_read(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    given = annotated()
    pandas = pytest.importorskip("pandas")
    adata = anndata.AnnData(given.X, obsm=given.obsm, obsp=given.obsp)
    for names in ("obs_names", "var_names"):  # anndata 0.12 does not write the strings of pandas 3
        setattr(adata, names, pandas.Index(list(getattr(adata, names)), dtype=object))
    fit_anndata(adata, 3, key_added="layer", prior="layers", random_state=0)
    assert adata.obs["layer"].cat.categories.tolist() == ["0", "1", "2"]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    read = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert read.uns["layer"]["params"]["prior"] == "layers" and read.obsm["layer_probabilities"].shape == (720, 3)


def test_absent_entries_of_an_annotated_matrix() -> None:
    adata = annotated()
    with pytest.raises(KeyError, match=r"obsm has no 'X_umap'; it has 'X_pca', 'spatial'"):
        fit_anndata(adata, 3, basis="X_umap")
    with pytest.raises(KeyError, match="obsp has no 'knn'"):
        fit_anndata(adata, 3, graph_key="knn")
    with pytest.raises(ValueError, match="n_domains"):
        fit_anndata(adata, 0)
    assert not adata.obs and not adata.uns


def test_an_image_is_segmented_as_a_grid() -> None:
    image = DATA.X.reshape(*SHAPE, 4)
    labels = segment(image, 3, random_state=0)
    expected = SpatialMixture(3, random_state=0).fit(DATA.X, shape=SHAPE).labels_
    assert np.array_equal(labels, expected.reshape(SHAPE))
    moved = segment(torch.from_numpy(image).movedim(-1, 0), 3, channel_axis=0, random_state=0)
    assert isinstance(moved, torch.Tensor) and np.array_equal(moved.numpy(), labels)


def test_a_volume_and_a_picture_of_integers() -> None:
    truth = np.zeros((8, 9, 10), int)
    truth[:, 4:] = 1
    noisy = truth * 60 + np.random.default_rng(0).normal(100, 15, truth.shape)
    assert adjusted_rand_score(truth.ravel(), segment(noisy, 2, random_state=0).ravel()) > 0.95
    picture = np.zeros((12, 10, 3), np.uint8)
    picture[:, 5:] = 200
    assert len(np.unique(segment(picture, 2, random_state=0)[:, :5])) == 1


def test_points_outside_a_mask() -> None:
    image, mask = DATA.X.reshape(*SHAPE, 4), np.ones(SHAPE, bool)
    mask[:, :6] = mask[10, 10] = False
    image = np.where(mask[..., None], image, 1e6)
    labels = segment(image, 3, mask=mask, random_state=0)
    assert (labels[~mask] == -1).all()
    assert adjusted_rand_score(DATA.labels.reshape(SHAPE)[mask], labels[mask]) > 0.9
    tensor = segment(torch.from_numpy(image), 3, mask=torch.from_numpy(mask), random_state=0)
    assert np.array_equal(tensor.numpy(), labels)


def test_images_and_masks_of_negative_strides() -> None:
    image, mask = DATA.X.reshape(*SHAPE, 4), np.ones(SHAPE, bool)
    mask[:, :6] = False
    turned, turned_mask = np.rot90(image, 2), np.rot90(mask, 2)
    found = segment(turned, 3, mask=turned_mask, random_state=0)
    assert np.array_equal(found, segment(turned.copy(), 3, mask=turned_mask.copy(), random_state=0))
    channels = segment(image[..., ::-1], 3, random_state=0)
    assert np.array_equal(channels, segment(image[..., ::-1].copy(), 3, random_state=0))


@pytest.mark.parametrize(
    "image, options, message",
    [
        (np.zeros(9), {}, "two or three axes"),
        (np.zeros((2, 3, 4, 5, 6)), {}, "two or three axes"),
        (np.zeros((3, 3, 3)), {"channel_axis": 3}, "channel_axis"),
        (np.zeros((3, 3, 3)), {"channel_axis": "first"}, "channel_axis"),
        (np.eye(3), {"mask": np.ones((3, 4))}, r"mask: expected \(3, 3\)"),
        (np.eye(3), {"mask": np.zeros((3, 3))}, "at least one point"),
        (np.full((3, 3), np.nan), {}, "NaN"),
    ],
    ids=range(7),
)
def test_wrong_images(image: np.ndarray, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        segment(image, 2, **options)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize(
    "X, message",
    [
        (np.zeros(1000), r"X: expected \(N, D\), a 2D array, got shape \(1000,\). Reshape your data"),
        (np.zeros((9, 9, 4)), r"X: expected \(N, D\), a 2D array, got shape \(9, 9, 4\)"),
        (np.zeros((1000, 4), complex), "X: expected real numbers, got .*complex128. Complex data not supported"),
    ],
)
def test_a_wrong_shape_or_dtype_is_not_printed_as_a_whole_array(kind: Any, X: Any, message: str) -> None:
    for estimator in (SpatialMixture(2), SmoothedKMeans(2)):
        with pytest.raises(ValueError, match=message) as raised:
            estimator.fit(kind(X), coords=np.zeros((len(X), 2)))
        assert len(str(raised.value)) < 120


def test_a_warning_names_the_line_of_the_caller() -> None:
    X = DATA.X.astype(np.float64)
    X[:, 0] = 1e9 + 1e-7 * X[:, 0]
    sized, adata = SpatialMixture(3, sizes=[1, 1, 98], max_iter=1, random_state=0), annotated()
    adata.obsm["X_pca"] = X
    calls: list[Callable[[], Any]] = [
        lambda: SpatialMixture(3, random_state=0).fit(X, shape=SHAPE),
        lambda: SpatialMixture(3, random_state=0).fit_predict(X, shape=SHAPE),
        lambda: SpatialMixture(3, random_state=0).select(X, [3], shape=SHAPE),
        lambda: SmoothedKMeans(3, random_state=0).fit(X, shape=SHAPE),
        lambda: sized.fit(DATA.X, shape=SHAPE),
        lambda: segment(X.reshape(*SHAPE, -1), 3, random_state=0),
        lambda: fit_anndata(adata, 3, random_state=0),
    ]
    for call in calls:
        with pytest.warns(UserWarning, match="no effect|sizes: expected") as caught:
            call()
        assert {(warning.filename, warning.lineno) for warning in caught} == {
            (__file__, call.__code__.co_firstlineno)
        }, call
