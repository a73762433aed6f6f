"""``warpwise ops``: what it lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.test_tune import SOURCE

from warpwise import operation
from warpwise.cli import cli


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["ops", *map(str, arguments)], standalone_mode=False)


def test_every_operation_is_listed():
    said = run().output
    for op in operation.all_ops():
        assert op.name in said.split()
    assert "the product of two matrices" in said


@pytest.mark.parametrize("name", ["matmul", "softmax", "grouped_matmul"])
def test_every_rung_is_listed(name):
    said = run(name).output
    for rung in operation.get(name).rungs:
        assert rung.name in said.split()


@pytest.mark.parametrize("name", ["matmul", "softmax", "grouped_matmul"])
def test_each_size_has_a_line(name):
    lines = run(name).output.splitlines()
    cases = [str(case) for case in operation.get(name).spec.sizes]
    first = lines.index(f"sizes       {cases[0]}")
    assert [line.strip() for line in lines[first + 1 : first + len(cases)]] == cases[1:]


def test_the_schema_outputs_gradient_and_attributes_are_shown():
    lines = dict(line.split(maxsplit=1) for line in run("softmax").output.splitlines() if line[:1].isalpha())
    assert lines["schema"] == "softmax(Tensor input, int dim=-1) -> Tensor"
    assert lines["outputs"] == "output"
    assert lines["gradient"] == "by softmax_backward"
    assert lines["attribute"] == "masked: True"
    said = run("histogram").output
    assert "histogram(Tensor input, int bins=256) -> Tensor" in said
    assert "output (int64)" in said
    assert "attribute   pattern: 'one_value', 'runs'" in said
    assert "gradient    none" in said


def test_what_a_rung_takes_and_what_is_tuned():
    said = run("matmul").output
    line = next(line for line in said.splitlines() if line.startswith("k13_warp_specialised"))
    assert line.split()[-4:] == ["float32", "GPU", "and", "CPU"]
    assert next(line for line in said.splitlines() if line.startswith("k02_c_blocked")).split()[-2:] == [
        "float32",
        "CPU",
    ]
    assert "by `warpwise tune matmul`; layouts nn, nt, tn, tt" in said
    assert "(by name only)" in said
    assert "warpwise tune" not in run("softmax").output


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "doubled.py"
    path.write_text(SOURCE)
    said = run(path).output
    assert "k01_pieces" in said and "layouts one" in said
    operation.unregister("doubled")


def test_an_unknown_operation():
    assert "no operation 'sqare'" in str(run("sqare").exception)
