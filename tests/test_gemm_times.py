"""benchmarks/gemm_times.py: the times of every candidate, on a CPU with the rungs that run there."""

from __future__ import annotations

import json

import torch
from benchmarks import gemm_times
from benchmarks.unseen_shapes import Drawn

from warpwise import operation


def test_the_times_of_every_candidate(tmp_path, monkeypatch):
    shapes = [Drawn(operation.Case(f"s{size}", dict.fromkeys("mnk", size)), torch.float32, "nn") for size in (4, 6)]
    monkeypatch.setattr(gemm_times, "drawn", lambda name, seed, count: iter(shapes[:count]))
    kept = tmp_path / "times.json"
    given = ["--json", str(kept), "--operation", "matmul", "--budget", "0.01"]
    given += ["--rung", "k01", "--rung", "k02"]
    for count in (1, 2):
        assert gemm_times.main(gemm_times.parser().parse_args([*given, "--count", str(count)])) == 0
        points = json.loads(kept.read_text())["points"]["matmul"]
        assert list(points) == [f"1 {number}" for number in range(count)]
    assert points["1 1"]["sizes"] == {"m": 6, "n": 6, "k": 6}
    assert set(points["1 1"]["times"]) == {"k01_python_loops", "k02_c_blocked", "torch"}


def test_the_rungs_of_the_shipped_tables():
    found = gemm_times.rungs(operation.get("matmul"))
    assert "k13_warp_specialised" in found and "k03_naive" not in found


def test_shapes_of_another_dtype(tmp_path, monkeypatch):
    shape = Drawn(operation.Case("s4", dict.fromkeys("mnk", 4)), torch.float32, "nt")
    monkeypatch.setattr(gemm_times, "drawn", lambda name, seed, count: iter([shape]))
    kept = tmp_path / "times.json"
    given = ["--json", str(kept), "--operation", "matmul", "--budget", "0.01", "--rung", "k01", "--dtype", "int8"]
    assert gemm_times.main(gemm_times.parser().parse_args(given)) == 0
    assert json.loads(kept.read_text())["points"]["matmul"]["1 0"]["dtype"] == "int8"
