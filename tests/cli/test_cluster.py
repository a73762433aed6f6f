"""``warpwise cluster``: each kind of input, what it writes, and wrong options."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from sklearn.metrics import adjusted_rand_score

from warpwise.apps.clustering import generators
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
    pixels = np.zeros((20, 30, 3), np.uint8)
    pixels[:, 12:] = 200
    image.fromarray(pixels).save(inputs / "two.png")
    assert run(inputs / "two.png", "--domains", "2", "-o", inputs / "out").exit_code == 0
    assert len(np.unique(np.load(inputs / "out" / "labels.npy").reshape(20, 30)[:, :12])) == 1
    drawn = np.asarray(image.open(inputs / "out" / "domains.png"))
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) == 2


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "either INPUT or --example"),
        (["points.npy"], "no positions"),
        (["points.npy", "--shape", "30,23"], "690 points, but X has 720"),
        (["points.npy", "--shape", "30x24"], "ROWS,COLUMNS"),
        (["cells.csv", "--coords", "x,z"], "no column 'z'"),
        (["image.npy", "--coords", "x,y"], "names columns of a .csv"),
        (["points.npz", "--fast", "--types", "4"], "--fast takes no"),
        (["points.npz", "--domains", "721"], "n_domains"),
        (["--example", "layered", "--shape", "3,3"], "--example takes no"),
    ],
)
def test_wrong_options(inputs: Path, arguments: list[str], message: str) -> None:
    named = [inputs / one if one.partition(".")[2] in ("npy", "npz", "csv") else one for one in arguments]
    result = run(*named, "-o", inputs / "out")
    assert result.exit_code == 2 and message in " ".join(result.output.replace("│", " ").split())
    assert not (inputs / "out").exists()
