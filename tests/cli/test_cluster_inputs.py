"""``warpwise cluster``: files with missing values or without points."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture
from warpwise.cli import cli

HEADER = "x,y,a,b\n"
ROWS = [f"{i % 6},{i // 6},{i % 5},{i % 7}\n" for i in range(36)]


def run(path: Path, *options: str) -> Result:
    common = ("--coords", "x,y", "--domains", "2", "--starts", "1", "-o", str(path.parent / "out"))
    return CliRunner().invoke(cli, ["cluster", str(path), *common, *options])


def said(done: Result) -> str:
    return " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize("cell", ["nan", "NaN", "NA", '"NA"', "", " NA"])
def test_a_missing_value_is_an_error_that_names_its_line_and_the_option(tmp_path: Path, cell: str) -> None:
    path, text = tmp_path / "cells.csv", HEADER + "".join(ROWS[:2]) + "\n" + ROWS[2] + "0,1,{},{}\n" + "".join(ROWS[4:])
    path.write_text(text.format(cell, "2"))
    done = run(path)
    assert done.exit_code == 2 and "line 6, column 'a': the value is missing, as in 1 of 36 rows" in said(done), done
    assert "--missing marginalise takes" in said(done) and "--ignore a leaves the column out" in said(done)
    done = run(path, "--missing", "marginalise")
    assert done.exit_code == 0, done.output
    expected = np.load(tmp_path / "out" / "labels.npy")
    assert np.array_equal(clustered(path, text.format("nan", "2"), "--missing", "marginalise")[1], expected)


@pytest.mark.parametrize("options", [(), ("--missing", "marginalise"), ("--fast",)])
def test_a_position_that_is_missing(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = tmp_path / "cells.csv"
    path.write_text(HEADER + "".join(ROWS[:3]) + "0,NA,1,2\n" + "".join(ROWS[4:]))
    arguments = [str(path), "--coords", "x,y", *options, "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, ["cluster", *arguments])
    assert done.exit_code == 2 and "line 5, column 'y': the value is missing" in said(done), done.output
    assert "a point needs a position" in said(done)


def test_a_table_of_a_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    path.write_text("\ufeffx, y,a,b\n" + "".join(ROWS[:3]) + '0,1,,"2"\n' + "".join(ROWS[4:]), encoding="utf-8")
    done = run(path)
    assert done.exit_code == 2 and "line 5, column 'a': the value is missing" in said(done), done.output
    done = run(path, "--missing", "marginalise")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "row, message",
    [
        ("0,1,one,2", "line 5, column 'a': expected a number, got 'one'"),
        ("0,1,2,0#9", "line 5, column 'b': expected a number, got '0#9'"),
        ("0,1,2", "line 5: expected 4 cells"),
        ("# the end", "line 5: expected 4 cells"),
    ],
)
def test_a_wrong_row_is_named_as_in_the_file(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "cells.csv"
    path.write_text(HEADER + "".join(ROWS[:3]) + row + "\n" + "".join(ROWS[4:]))
    done = run(path)
    assert done.exit_code == 2 and message in said(done), done.output


def clustered(path: Path, text: str, *options: str) -> tuple[int, np.ndarray]:
    """The number of features and the labels of the table ``text``."""
    path.write_text(text)
    done = run(path, *options)
    assert done.exit_code == 0, done.output
    out = path.parent / "out"
    return json.loads((out / "summary.json").read_text())["features"], np.load(out / "labels.npy")


def test_columns_that_are_no_features_are_left_out(tmp_path: Path) -> None:
    """Without this the numbers of the rows, which pandas writes by default, would be a feature."""
    plain = clustered(tmp_path / "cells.csv", HEADER + "".join(ROWS))
    numbered = ["," + HEADER, *(f"{i},{row}" for i, row in enumerate(ROWS))]
    named = ['"",' + HEADER, *(f'"cell {i}",{row}' for i, row in enumerate(ROWS))]
    kinds = [f"{row.strip()},cortex\n" for row in ROWS]
    for name, text, options in (
        ("cells.csv", "".join(numbered), ()),
        ("cells.csv", "".join(named), ()),
        ("cells.tsv", "".join(named).replace(",", "\t"), ()),
        ("cells.csv", HEADER.strip() + ",kind\n" + "".join(kinds), ("--ignore", "kind")),
    ):
        features, labels = clustered(tmp_path / name, text, *options)
        assert features == plain[0] == 2 and np.array_equal(labels, plain[1])


def test_columns_to_ignore_are_named_correctly(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    path.write_text(HEADER.strip() + ",kind\n" + "".join(f"{row.strip()},cortex\n" for row in ROWS))
    for options, message in (
        ((), "got 'cortex'; --ignore kind leaves the column out"),
        (("--ignore", "sort"), "no column 'sort'; its columns are x, y, a, b, kind"),
        (("--ignore", "a,b,kind"), "expected columns of features"),
        (("--ignore", "kind, y"), "--coords and --ignore: expected different columns, got 'y' in both"),
    ):
        done = run(path, *options)
        assert done.exit_code == 2 and message in said(done), done.output


def test_the_index_of_a_parquet_table_is_left_out(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    numbers = np.loadtxt(ROWS, delimiter=",")
    columns = {name: numbers[:, i] for i, name in enumerate(HEADER.strip().split(","))}
    stored = {b"pandas": json.dumps({"index_columns": ["cell"]}).encode()}
    table = pyarrow.table({**columns, "cell": [f"cell {i}" for i in range(36)], "kind": ["cortex"] * 36})
    parquet.write_table(table.replace_schema_metadata(stored), tmp_path / "cells.parquet")
    done = run(tmp_path / "cells.parquet")
    assert done.exit_code == 2 and "--ignore kind leaves" in " ".join(done.output.split()), done.output
    assert run(tmp_path / "cells.parquet", "--ignore", "kind").exit_code == 0
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["features"] == 2
    numbers[3, 2] = np.nan
    parquet.write_table(pyarrow.table({name: numbers[:, i] for i, name in enumerate("xyab")}), tmp_path / "gap.parquet")
    assert "row 4, column 'a': the value is missing, as in 1 of 36 rows" in said(run(tmp_path / "gap.parquet"))
    assert run(tmp_path / "gap.parquet", "--missing", "marginalise").exit_code == 0


def test_arrays_with_two_kinds_of_positions_or_a_wrong_shape(tmp_path: Path) -> None:
    X, path = np.zeros((36, 2)), tmp_path / "points.npz"
    for arrays, message in (
        ({"X": X[:, 0]}, "points.npz: expected X to be (N, D), N points of D features, got (36,)"),
        ({"shape": np.array([10**6, 10**6])}, "(1000000, 1000000) has 1000000000000 points, but X has 36"),
        ({"shape": np.array(36)}, "two or three integers"),
        ({"shape": np.array([6, 6]), "coords": np.zeros((36, 2))}, "either coords or shape"),
    ):
        np.savez(path, **{"X": X, **arrays})
        done = CliRunner().invoke(cli, ["cluster", str(path), "-o", str(tmp_path / "out")])
        assert done.exit_code == 2 and message in said(done), done.output


@pytest.mark.parametrize(
    "text, message",
    [
        (HEADER, "got no row"),
        ("", "expected a row of column names and a row of numbers for each point, got an empty file"),
        ("\n" + HEADER, "got a first line without names"),
        ("x,y\n", "got no row"),
        (HEADER + "0,1,2,é\n", "cells.csv: expected text in UTF-8, got the byte 0xe9; save the table as UTF-8"),
        ("é,x,y\n", "cells.csv: expected text in UTF-8, got the byte 0xe9; save the table as UTF-8"),
        (HEADER + "0,1,2," + "9" * 200_000 + "x\n", "field larger than field limit"),
    ],
)
def test_a_table_without_points_or_with_other_text(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "cells.csv"
    path.write_text(text, encoding="latin-1")
    done = run(path)
    assert done.exit_code == 2 and message in said(done), done.output


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_an_estimator_names_the_parameter_only_if_it_has_it(kind) -> None:
    X = kind(np.full((9, 2), np.nan))
    with pytest.raises(ValueError, match=r"contains NaN in 9 of 9 points, first in point 0; missing='marginalise'"):
        SpatialMixture(2).fit(X, shape=(3, 3))
    with pytest.raises(ValueError, match=r"contains NaN in 9 of 9 points, first in point 0$"):
        SmoothedKMeans(2).fit(X, shape=(3, 3))


def test_a_table_with_semicolons_and_decimal_commas(tmp_path: Path) -> None:
    text = HEADER + "".join(ROWS)
    expected = clustered(tmp_path / "cells.csv", text)
    decimal = HEADER + "".join(f"{row.strip()}.0\n" for row in ROWS)
    for other in (text.replace(",", ";"), decimal.replace(",", ";").replace(".", ",")):
        features, labels = clustered(tmp_path / "cells.csv", other)
        assert features == expected[0] and np.array_equal(labels, expected[1])


@pytest.mark.parametrize("coords", ["x", "x,x", "x,y,a,b"])
def test_columns_of_positions(tmp_path: Path, coords: str) -> None:
    path = tmp_path / "cells.csv"
    path.write_text(HEADER + "".join(ROWS))
    done = run(path, "--coords", coords)
    message = " ".join(done.output.replace("│", " ").split())
    assert done.exit_code == 2 and "--coords: expected two or three different columns" in message, done.output


def test_errors_name_the_options(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    path.write_text(HEADER + "".join(ROWS))
    for option in ("--domains", "--types"):
        for number in ("50", "1000000000000"):
            done = run(path, option, number)
            assert done.exit_code == 2 and f"Error: {option}: expected at most n_samples=36" in done.output, done.output
    done = CliRunner().invoke(cli, ["cluster", "--example", "layered", "--domains", "1000000000000"])
    assert done.exit_code == 2 and "--domains: expected at most 20000" in done.output, done.output


def test_a_file_that_is_not_of_numpy(tmp_path: Path) -> None:
    for name in ("cells.npy", "cells.npz"):
        path = tmp_path / name
        path.write_text("a, b")
        done = CliRunner().invoke(cli, ["cluster", str(path)])
        assert done.exit_code == 2 and "expected numbers in a file of numpy.save" in done.output, done.output
