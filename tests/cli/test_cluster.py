"""``warpwise cluster``: each kind of input, what it writes, and wrong options."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from sklearn.metrics import adjusted_rand_score

from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture, generators, starts
from warpwise.apps.clustering.field import MeanField
from warpwise.cli import cli

DATA = generators.layered(1.2, (30, 24), n_domains=3, n_features=4, random_state=1)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["cluster", *map(str, arguments)])


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    header = "x,y," + ",".join(f"gene{i}" for i in range(4))
    np.savetxt(tmp_path / "cells.csv", np.hstack([DATA.coords, DATA.X]), delimiter=",", header=header, comments="")
    np.save(tmp_path / "points.npy", DATA.X)
    np.save(tmp_path / "image.npy", DATA.X.reshape(30, 24, 4))
    np.savez(tmp_path / "points.npz", X=DATA.X, coords=DATA.coords)
    return tmp_path


@pytest.mark.parametrize(
    "name, options",
    [
        ("cells.csv", ["--coords", "x,y"]),
        ("points.npy", ["--shape", "30,24"]),
        ("image.npy", ["--prior", "layers"]),
        ("points.npz", ["--min-region", "9"]),
        ("points.npz", ["--fast"]),
    ],
)
def test_inputs(inputs: Path, name: str, options: list[str]) -> None:
    output = inputs / "out"
    result = run(inputs / name, "--domains", "3", *options, "-o", output)
    assert result.exit_code == 0, result.output
    labels = np.load(output / "labels.npy")
    assert adjusted_rand_score(DATA.labels, labels) > 0.8
    summary = json.loads((output / "summary.json").read_text())
    assert summary["points"] == 720 and sum(summary["sizes"]) == 720
    assert (output / "probabilities.npy").exists() == ("--fast" not in options)
    pytest.importorskip("PIL")
    assert (output / "domains.png").stat().st_size > 0


def test_a_photograph(inputs: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    from warpwise.cli.cluster_picture import LEFT, TOP

    pixels = np.zeros((20, 30, 3), np.uint8)
    pixels[:, 12:] = 200
    image.fromarray(pixels).save(inputs / "two.png")
    assert run(inputs / "two.png", "--domains", "2", "-o", inputs / "out").exit_code == 0
    assert len(np.unique(np.load(inputs / "out" / "labels.npy").reshape(20, 30)[:, :12])) == 1
    drawn = np.asarray(image.open(inputs / "out" / "domains.png"))[TOP : TOP + 20 * 26, LEFT : LEFT + 30 * 26]
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) == 2, "the title, the axes and the legend are around the pixels"
    image.fromarray((pixels[..., 0].astype(np.uint16) + 1000) * 50).save(inputs / "sixteen.png")
    assert run(inputs / "sixteen.png", "--domains", "2", "-o", inputs / "out").exit_code == 0
    labels = np.load(inputs / "out" / "labels.npy").reshape(20, 30)
    assert len(np.unique(labels[:, :12])) == 1 and labels[0, 0] != labels[0, 20], "16 bits of a pixel"


def test_results_of_an_earlier_run_are_removed(inputs: Path) -> None:
    for options in ([], ["--fast"]):
        assert run(inputs / "points.npz", "--domains", "3", *options, "-o", inputs / "out").exit_code == 0
    names = {file.name for file in (inputs / "out").iterdir()}
    assert names - {"domains.png"} == {"labels.npy", "summary.json"}


def test_a_parquet_table(inputs: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"x": DATA.coords[:, 0], "y": DATA.coords[:, 1], **{f"gene{i}": DATA.X[:, i] for i in range(4)}}
    parquet.write_table(pyarrow.table(columns), inputs / "cells.parquet")
    result = run(inputs / "cells.parquet", "--coords", "x,y", "--domains", "3", "-o", inputs / "out")
    assert result.exit_code == 0, result.output
    assert adjusted_rand_score(DATA.labels, np.load(inputs / "out" / "labels.npy")) > 0.8
    parquet.write_table(pyarrow.table({**columns, "name": ["a"] * 720}), inputs / "named.parquet")
    result = run(inputs / "named.parquet", "--coords", "x,y", "-o", inputs / "none")
    assert result.exit_code == 2 and "'name': expected numbers" in " ".join(result.output.split())


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")  # anndata 0.12 with pandas 3
def test_an_annotated_matrix(inputs: Path) -> None:
    anndata = pytest.importorskip("anndata")
    pandas = pytest.importorskip("pandas")
    adata = anndata.AnnData(DATA.X, obsm={"X_pca": DATA.X, "spatial": DATA.coords})
    for names in ("obs_names", "var_names"):  # anndata 0.12 does not write the strings of pandas 3
        setattr(adata, names, pandas.Index(list(getattr(adata, names)), dtype=object))
    adata.obs["row"], adata.obs["column"] = DATA.coords.T
    adata.write_h5ad(inputs / "cells.h5ad")
    for options in ([], ["--basis", "X", "--coords", "row,column"]):
        result = run(inputs / "cells.h5ad", "--domains", "3", *options, "-o", inputs / "out")
        assert result.exit_code == 0, result.output
        assert adjusted_rand_score(DATA.labels, np.load(inputs / "out" / "labels.npy")) > 0.8
    result = run(inputs / "cells.h5ad", "--basis", "X_umap", "-o", inputs / "none")
    assert result.exit_code == 2 and "no obsm 'X_umap'" in " ".join(result.output.split())


def test_a_nifti_volume(inputs: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    volume = np.zeros((8, 9, 10), np.float32)
    volume[1:7, 1:8, 1:5], volume[1:7, 1:8, 5:9] = 100, 160
    for outside in (0, np.nan):
        noisy = np.where(volume > 0, volume + np.random.default_rng(0).normal(0, 10, volume.shape), outside)
        nibabel.save(nibabel.Nifti1Image(noisy.astype(np.float32), np.eye(4)), inputs / "brain.nii.gz")
        result = run(inputs / "brain.nii.gz", "--domains", "2", "-o", inputs / "out")
        assert result.exit_code == 0, result.output
        labels = np.asarray(nibabel.load(inputs / "out" / "labels.nii.gz").dataobj)
        assert (labels[volume == 0] == 0).all() and set(labels[volume > 0]) == {1, 2}
        assert adjusted_rand_score(volume[volume > 0], labels[volume > 0]) > 0.95


@pytest.mark.parametrize("name, package", [("mni", "nilearn"), ("astronaut", "skimage")])
def test_examples_that_come_with_packages(name: str, package: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(package) is None:
        result = run("--example", name, "-o", tmp_path / "out")
        assert result.exit_code == 2 and "clustering-files" in result.output
    else:
        result = run("--example", name, "--starts", "1", "-o", tmp_path / "out")
        assert result.exit_code == 0 and (tmp_path / "out" / "labels.npy").exists()


def test_an_interrupted_run_is_resumed(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "_ELEMENTS", 1)
    whole = ["points.npz", "--domains", "3", "--starts", "4"]
    assert run(inputs / whole[0], *whole[1:], "-o", inputs / "whole").exit_code == 0
    calls = []

    def interrupt(model: MeanField, iterations: int, *rest: Any, **named: Any) -> int:
        calls.append(iterations)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run_model(model, iterations, *rest, **named)

    run_model = MeanField.run
    with monkeypatch.context() as patch:
        patch.setattr(MeanField, "run", interrupt)
        result = run(inputs / whole[0], *whole[1:], "-o", inputs / "out")
        assert result.exit_code == 130 and "--resume" in result.output
        calls.clear()
        calls.extend([0] * 9)
        assert run(inputs / whole[0], *whole[1:], "--resume", "-o", inputs / "out").exit_code == 0
        assert len(calls) == 9 + 2 + 2 + 1  # two starts that were not finished, two that continue, and the best one
    expected = np.load(inputs / "whole" / "probabilities.npy")
    assert np.array_equal(np.load(inputs / "out" / "probabilities.npy"), expected)
    assert not (inputs / "out" / "restarts.pt").exists()


def test_a_checkpoint_of_another_run_says_how_to_run_without_it(inputs: Path) -> None:
    out = inputs / "out"
    out.mkdir()
    (out / "restarts.pt").write_text("text")
    result = run(inputs / "points.npz", "--starts", "1", "--resume", "-o", out)
    said = " ".join(result.output.split())
    assert result.exit_code == 2 and "of SpatialMixture; without --resume the run starts again" in said
    assert run(inputs / "points.npz", "--starts", "1", "-o", out).exit_code == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "either INPUT or --example"),
        (["points.npy"], "no positions"),
        (["points.npy", "--shape", "30,23"], "690 points, but X has 720"),
        (["points.npy", "--shape", "30x24"], "ROWS,COLUMNS"),
        (["cells.csv", "--coords", "x,z"], "no column 'z'"),
        (["image.npy", "--coords", "x,y"], "names columns of a .csv, .tsv, .parquet or .h5ad"),
        (["points.npz", "--fast", "--types", "4"], "--fast takes none of"),
        (["points.npz", "--fast", "--resume"], "--fast takes none of"),
        (["points.npz", "--fast", "--starts", "2"], "--fast takes none of"),
        (["points.npz", "--shape", "30,24"], "features without positions"),
        (["image.npy", "--shape", "24,30"], "features without positions"),
        (["cells.csv", "--coords", "x,y", "--shape", "30,24"], "features without positions"),
        (["points.npz", "--basis", "X"], "--basis names features of a .h5ad"),
        (["points.npz", "--domains", "721"], "--domains: expected at most n_samples=720"),
        (["--example", "layered", "--shape", "3,3"], "--example takes no"),
        (["points.npz", "--seed", str(2**64)], "--seed: expected an integer from -2**63 to 2**64 - 1, got 18446744"),
    ],
)
def test_wrong_options(inputs: Path, arguments: list[str], message: str) -> None:
    named = [inputs / one if one.partition(".")[2] in ("npy", "npz", "csv") else one for one in arguments]
    result = run(*named, "-o", inputs / "out")
    assert result.exit_code == 2 and message in " ".join(result.output.replace("│", " ").split())
    assert not (inputs / "out").exists()


@pytest.mark.parametrize("options", [(), ("--fast",)])
def test_an_output_folder_that_cannot_be_used_is_found_before_the_fit(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the fit has started")

    monkeypatch.setattr(SpatialMixture, "fit", never)
    monkeypatch.setattr(SmoothedKMeans, "fit", never)
    (inputs / "file").write_text("")
    (inputs / "out" / "labels.npy").mkdir(parents=True)
    for output, message in (
        (inputs / "file" / "sub", "Not a directory"),
        (Path("/proc/none/sub"), "No such file or directory"),
        (inputs / "out", "because the command writes a file of this name"),
    ):
        result = run(inputs / "points.npz", *options, "-o", output)
        said = " ".join(result.output.replace("│", " ").split())
        assert result.exit_code == 2 and "--output: " in said and message in said, result.output
    assert list((inputs / "out").iterdir()) == [inputs / "out" / "labels.npy"]


def test_folders_of_a_fit_that_fails_are_removed_if_the_command_created_them(inputs: Path) -> None:
    np.savez(inputs / "same.npz", X=np.zeros((9, 2)), coords=DATA.coords[:9])
    (inputs / "own").mkdir()
    for output in ("new/a/b", "own/a"):
        assert run(inputs / "same.npz", "--domains", "3", "-o", inputs / output).exit_code == 2
    assert not (inputs / "new").exists() and not list((inputs / "own").iterdir())
