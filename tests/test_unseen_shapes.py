"""benchmarks/unseen_shapes.py: the same cases from the same seed, valid arguments, and a run on a CPU."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch._inductor.config
from benchmarks import unseen_compile, unseen_gpu_time, unseen_opponents, unseen_shapes

from warpwise import operation
from warpwise.operation.choice import GPU_TIME, wanted

NO_META = {"histogram"}  # their inputs are drawn by the generator of a device


@pytest.mark.parametrize("name", unseen_shapes.CASES)
def test_a_seed_gives_the_same_valid_cases(name):
    op, cases = operation.get(name), list(unseen_shapes.drawn(name, 3, 24))
    assert [str(each.case) for each in unseen_shapes.drawn(name, 3, 8)] == [str(each.case) for each in cases[:8]]
    assert [str(each.case) for each in unseen_shapes.drawn(name, 4, 8)] != [str(each.case) for each in cases[:8]]
    for each in cases if name not in NO_META else ():
        args = op.spec.arguments(each.case, each.dtype, torch.device("meta"), 0)
        op.spec.check(*unseen_shapes.arguments(op, args, each.arrangement))


def test_a_run_on_a_cpu(tmp_path, monkeypatch, capsys):
    dtypes, arrangements, _ = unseen_shapes.CASES["softmax"]
    small = dtypes, arrangements, lambda rng: ({"rows": rng.randint(1, 9), "columns": rng.randint(1, 9)}, {})
    monkeypatch.setitem(unseen_shapes.CASES, "softmax", small)
    monkeypatch.setattr(unseen_shapes, "LOOP_S", 1e-5)
    kept, drawing = tmp_path / "unseen.json", tmp_path / "unseen.svg"
    given = ["--operation", "softmax", "--count", "3", "--budget", "0", "--json", str(kept)]
    assert unseen_shapes.main(unseen_shapes.parser().parse_args(given)) == 0
    points = json.loads(kept.read_text())["points"]["softmax"]
    assert [point["right"] for point in points] == [True] * 3
    assert all(point["chosen"] == "torch" and point["ratio"][0] > 0 for point in points)
    shown = ["--show", str(kept), "--picture", str(drawing)]
    assert unseen_shapes.main(unseen_shapes.parser().parse_args(shown)) == 0
    assert "softmax, 3 shapes beside PyTorch: geometric mean" in capsys.readouterr().out
    assert drawing.read_text().startswith("<svg")


@pytest.mark.parametrize("options,chosen_by", [([], None), (["--by-gpu-time"], GPU_TIME)])
def test_choices_by_the_time_of_a_call_or_on_the_gpu(options, chosen_by, monkeypatch):
    seen: list[str | None] = []
    monkeypatch.setattr(unseen_shapes, "run", lambda given: seen.append(wanted[0]) or 0)
    assert unseen_shapes.main(unseen_shapes.parser().parse_args(options)) == 0
    assert seen == [chosen_by] and wanted[0] is None


@pytest.mark.parametrize("name", ["conv_block", "conv_block_backward"])
def test_a_block_is_timed_in_its_precision(name, monkeypatch):
    monkeypatch.setattr(unseen_shapes, "LOOP_S", 1e-5)
    sizes = {"n": 2, "c": 3, "h": 4, "w": 4, "k": 2}
    case = unseen_shapes.Drawn(operation.Case("small", sizes, {"tf32": True}), torch.float32, "nhwc")
    point = unseen_shapes.measured(name, case, torch.device("cpu"), 0.0, False)
    assert point["right"] and point["ratio"][0] > 0


def test_a_wrong_result_is_not_timed(monkeypatch):
    monkeypatch.setattr(unseen_shapes.ops, "softmax", lambda x, dim: torch.zeros_like(x))
    case = unseen_shapes.Drawn(operation.Case("small", {"rows": 4, "columns": 5}), torch.float32)
    point = unseen_shapes.measured("softmax", case, torch.device("cpu"), 0.0, False)
    assert not point["right"] and "ratio" not in point and "20 of 20 elements" in point["note"]


def test_an_error_of_pytorch_is_noted_and_timed(monkeypatch):
    """Where PyTorch computes and its own result misses the tolerance."""
    zeros = lambda x, dim: torch.zeros_like(x)
    monkeypatch.setattr(unseen_shapes.ops, "softmax", zeros)
    monkeypatch.setitem(unseen_shapes.PYTORCH, "softmax", zeros)
    monkeypatch.setattr(unseen_shapes, "LOOP_S", 1e-5)
    case = unseen_shapes.Drawn(operation.Case("small", {"rows": 4, "columns": 5}), torch.float32)
    point = unseen_shapes.measured("softmax", case, torch.device("cpu"), 0.0, False)
    assert point["right"] and "ratio" in point and point["note"].startswith("PyTorch's own deviation: 20 of 20")


def test_the_drawn_dimension_reaches_the_call():
    drawn = [each for name in ("softmax", "reduce_sum") for each in unseen_shapes.drawn(name, 3, 24)]
    dims = {each.case.attributes["dim"] for each in drawn if "dim" in each.case.attributes}
    assert dims == {0, -1}
    case = operation.Case("columns", {"rows": 4, "columns": 5}, {"dim": 0})
    for name in ("softmax", "reduce_sum"):
        args = operation.get(name).spec.arguments(case, torch.float32, torch.device("cpu"), 0)
        assert args[1] == 0


class FakeGpu:
    """Two argument sets; a graph that calls its function, and events of 1 ms."""

    l2_bytes = 64

    def __init__(self, device):
        self.calls = 0

    def graph(self, call, count):
        self.calls += 1
        return type("Graph", (), {"replay": lambda self: [call() for _ in range(count)]})()

    def event(self):
        return type("Event", (), dict.fromkeys(("record", "synchronize"), lambda self: None) | {
            "elapsed_time": lambda self, end: 1.0})()  # fmt: skip

    def spin(self, cycles):
        pass

    def synchronize(self):
        pass


def test_graphs_rotate_through_copies_of_the_arguments(monkeypatch):
    monkeypatch.setattr(unseen_gpu_time, "Gpu", FakeGpu)
    monkeypatch.setattr(unseen_gpu_time, "GRAPH_S", 0.0)
    seen = {"ours": set(), "theirs": set()}
    functions = {who: lambda x, places=places: places.add(x.data_ptr()) for who, places in seen.items()}
    found = unseen_gpu_time.GpuTime(torch.device("cpu")).samples("square", functions, (torch.zeros(4),), 0.0)
    assert {who: len(values) for who, values in found.items()} == dict.fromkeys(seen, unseen_gpu_time.LEAST_ROUNDS)
    assert all(value == 1e-3 / 8 for values in found.values() for value in values)
    assert len(seen["ours"]) == 8 and seen["ours"] == seen["theirs"]


def test_compiling_ahead(monkeypatch, capsys):
    """Every case of an operation that is not a GEMM is compiled and called once; an error is reported."""
    monkeypatch.setitem(unseen_shapes.CASES, "square", ((torch.float32,), (), lambda rng: ({"rows": 2, "cols": 3}, {})))
    broken = lambda *args: 1 / 0
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: broken if function is broken else function)
    threads = lambda jobs, mp_context: ThreadPoolExecutor(jobs)
    monkeypatch.setattr(unseen_compile.concurrent.futures, "ProcessPoolExecutor", threads)
    # Restored by the configuration itself: monkeypatch would delete the values, which no module dictionary holds.
    with torch._inductor.config.patch(autotune_local_cache=True, compile_threads=1):
        unseen_compile.compile_all(["matmul", "square"], 3, 2, 60.0, jobs=1)
    assert "2 of 2 cases" in capsys.readouterr().out
    monkeypatch.setitem(unseen_opponents.PYTORCH, "square", broken)
    assert unseen_compile.compile_case("square", next(unseen_shapes.drawn("square", 3, 1))).startswith(
        "square_0: ZeroDivisionError"
    )
    assert unseen_shapes.compiled_function(broken, ()) is None
