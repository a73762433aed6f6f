"""benchmarks/candidates.py: cases of a seed, cases of the command line, and a run with a GPU that only counts."""

from __future__ import annotations

import json

import pytest
import torch
from benchmarks import candidates, unseen_gpu_time
from tests.test_unseen_shapes import FakeGpu

from warpwise import operation


@pytest.mark.parametrize("name", candidates.FAMILIES)
def test_the_cases_of_a_family_have_candidates(name):
    family = candidates.FAMILIES[name]
    op, cases = operation.get(family.operation), list(family.drawn(name, 5, 4))
    assert cases == list(family.drawn(name, 5, 4)) and cases != list(family.drawn(name, 6, 4))
    for each in cases:
        args = op.spec.arguments(each.case, each.dtype, torch.device("meta"), 0)
        op.spec.check(*args)
        assert list(candidates.candidates(family, op, args))


def test_a_case_of_the_command_line():
    name, each = candidates.given("softmax_columns:rows=3,columns=5:bfloat16")
    assert (name, dict(each.case.sizes), each.dtype) == ("softmax_columns", {"rows": 3, "columns": 5}, torch.bfloat16)
    assert each.case.attributes == {"dim": 0}


def test_a_point_has_the_times_of_all_candidates(monkeypatch):
    monkeypatch.setattr(unseen_gpu_time, "Gpu", FakeGpu)
    monkeypatch.setattr(unseen_gpu_time, "GRAPH_S", 0.0)
    monkeypatch.setattr(candidates, "compiled_function", lambda function, args: function)
    name, each = candidates.given("short_rows:m=9,k=5:float32")
    gpu = unseen_gpu_time.GpuTime(torch.device("cpu"))
    point = json.loads(json.dumps(candidates.measured(name, each, torch.device("cpu"), gpu)))
    assert not point["wrong"] and {"choice", "torch", "compiled"} < point["us"].keys()
    assert any(who.startswith("k06_unaligned_rows@") for who in point["us"])
    assert candidates.line(point).startswith("short_rows 9×5  float32: 1.000 by torch; choice")


def test_a_run_on_a_cpu(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(candidates.unseen_compile, "in_processes", lambda work, tasks, limit: None)
    given = ["--shapes", "sum_few_columns:rows=9,columns=3:float32", "--json", str(tmp_path / "found.json")]
    assert candidates.main(candidates.parser().parse_args(given)) == 0
    assert candidates.main(candidates.parser().parse_args(["--show", str(tmp_path / "found.json")])) == 0
    assert capsys.readouterr().out.count("sum_few_columns 9×3 dim=0 float32") == 2
