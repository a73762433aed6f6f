"""Climbing a ladder: verdicts, times beside opponents, and the results file; timed by a timer that the test wrote."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from tests.lab import toys
from tests.lab.fakes import FakeTimer
from tests.lab.toys import broken, broken_when_large, quick, slow

from warpwise.lab import Roofline, VacuousProblem, climb, recorded, tune, verify, verify_gradient
from warpwise.operation import UnknownRung

CEILINGS = Roofline(bandwidth=1e9, flops=1e9, source="a test")
F32 = [torch.float32]


def emulated(out, x):
    out.copy_((2 * x.double() + 1).to(out.dtype))


def climbed(*launches, spec=toys.AFFINE, times=None, options=None, **more):
    op = toys.op(spec, *launches, **(options or {}))
    timer = FakeTimer(**{"slow": [4.0], "quick": [1.0], "torch": [2.0], **(times or {})})
    more = {"dtypes": F32, "compiled": False, "ceilings": lambda device, dtype: CEILINGS, "timer": timer, **more}
    return climb(op, device="cpu", **more)


def test_every_right_rung_is_timed_beside_the_opponents():
    ladder = climbed(slow, quick)
    assert ladder.right
    assert [row.rung for row in ladder.rows] == ["slow", "quick"]
    (point,) = ladder.points
    assert [(entry.name, entry.kind) for entry in point.entries] == [
        ("slow", "rung"),
        ("quick", "rung"),
        ("torch", "opponent"),
    ]
    assert point.best == "torch"
    assert point.entry("quick").timing.median == 1.0
    assert point.entry("quick").ratio.median == 2.0
    assert point.entry("slow").ratio.median == 0.5
    assert point.entry("torch").ratio.median == 1.0
    assert point.entry("quick").timing.percent == pytest.approx(100 * (2 * 4 * 8192) / 1e9)
    assert ladder.place.startswith("cpu: ")


def test_a_broken_rung_is_not_timed():
    ladder = climbed(broken, quick)
    assert not ladder.right
    assert ladder.row("broken").verdict.status == "wrong"
    assert ladder.points[0].entry("broken") is None
    assert ladder.points[0].entry("quick").timing is not None


def test_a_rung_that_is_wrong_at_the_timed_size_is_wrong_and_not_timed():
    ladder = climbed(broken_when_large, quick)
    verdict = ladder.row("broken_when_large").verdict
    assert verdict.status == "wrong"
    assert verdict.failures[-1].index == (5000,)
    assert verdict.failures[-1].case.name == "large"
    entry = ladder.points[0].entry("broken_when_large")
    assert entry.timing is None
    assert entry.note == "wrong at this size"


def test_a_rung_that_cheats_while_it_is_timed_is_rejected_afterwards():
    calls = []

    def stops_working(out, x):
        if len(x) == 8192:
            calls.append(1)
        if len(calls) < 2:
            out.copy_((2 * x.double() + 1).to(out.dtype))

    ladder = climbed(stops_working, times={"stops_working": [0.5]})
    timing = ladder.points[0].entry("stops_working").timing
    assert timing.void.startswith("wrong after the timed runs: output[0] is nan")
    assert math.isnan(timing.median)
    assert ladder.points[0].entry("stops_working").ratio is None
    assert ladder.row("stops_working").verdict.status == "wrong"


def test_a_rung_beyond_its_limits_at_a_size_gets_a_note():
    ladder = climbed(quick, options={"limits": lambda x: "at most 2000 elements" if x.numel() > 2000 else None})
    entry = ladder.points[0].entry("quick")
    assert entry.timing is None
    assert entry.note == "at most 2000 elements"
    assert ladder.row("quick").verdict.right


def test_an_impossible_time_is_void_in_the_ladder_and_no_verdict():
    ceilings = Roofline(bandwidth=1e9, peak_bandwidth=1e9)
    ladder = climbed(quick, times={"quick": [1e-7]}, ceilings=lambda device, dtype: ceilings)
    assert ladder.points[0].entry("quick").timing.void.startswith("impossible")
    assert ladder.points[0].entry("quick").note == ladder.points[0].entry("quick").timing.void
    assert ladder.right


def test_a_rung_with_units_of_its_own_is_held_to_their_ceilings():
    rates = {"bf16": Roofline(bandwidth=1e12, peak_bandwidth=1e12)}
    slowest = Roofline(bandwidth=1e9, peak_bandwidth=1e9)
    asked = []

    def ceilings(device, units):
        asked.append(units)
        return rates.get(units, slowest)

    ladder = climbed(quick, times={"quick": [1e-7]}, options={"units": "bf16"}, ceilings=ceilings)
    assert not ladder.points[0].entry("quick").timing.void
    assert ladder.points[0].entry("quick").timing.floor == ladder.points[0].entry("torch").timing.floor / 1000
    assert asked == [torch.float32, "bf16"]


def test_an_operation_with_units_is_held_to_their_ceilings():
    asked = []

    def ceilings(device, units):
        asked.append(units)
        return CEILINGS

    climbed(quick, spec=replace(toys.AFFINE, units="tf32"), ceilings=ceilings)
    assert asked == ["tf32"]


def test_an_inexact_opponent_takes_part_with_a_note_and_is_not_the_best():
    spec = replace(toys.AFFINE, opponents={"half": lambda x: (2 * x.half() + 1).to(x.dtype)})
    (point,) = climbed(quick, spec=spec, times={"half": [0.1]}).points
    assert point.entry("half").timing.median == 0.1
    assert "outside the tolerance" in point.entry("half").note
    assert point.best == "torch"


def test_an_opponent_that_does_not_run_is_noted():
    def refuses(x):
        raise RuntimeError("no such shape\nand more")

    (point,) = climbed(quick, spec=replace(toys.AFFINE, opponents={"other": refuses})).points
    assert point.entry("other").timing is None
    assert point.entry("other").note == "did not run: RuntimeError: no such shape"


def test_the_vendors_library_gives_eager_its_name():
    spec = replace(toys.AFFINE, vendor="cuFast")
    (point,) = climbed(quick, spec=spec, times={"cuFast": [0.5]}).points
    assert point.best == "cuFast"


def test_eager_is_compared_with_the_reference():
    ladder = climb(toys.op(replace(toys.AFFINE, eager=lambda x: 2 * x + 2), quick), device="cpu", dtypes=F32)
    assert all(row.verdict.right for row in ladder.rows)
    assert not ladder.right
    assert "elements are wrong" in ladder.eager


def test_emulated_kernels_are_verified_and_never_timed():
    ladder = climbed(emulated, options={"language": "cuda"})
    assert ladder.row("emulated").verdict.right
    assert ladder.points[0].entry("emulated") is None


def test_on_a_cpu_nothing_is_timed_by_itself():
    ladder = climb(toys.op(toys.AFFINE, quick), device="cpu", dtypes=F32)
    assert ladder.points == ()
    assert ladder.rows[0].verdict.seconds > 0


def test_torch_compile_is_an_opponent(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: function)
    (point,) = climbed(quick, times={"torch.compile": [0.5]}, compiled=True).points
    assert point.best == "torch.compile"


def test_sizes_rungs_and_dtypes_are_chosen():
    ladder = climbed(slow, quick, rungs=["quick"], sizes=["large", toys.AFFINE.cases[0]], dtypes=[torch.float16])
    assert [row.rung for row in ladder.rows] == ["quick"]
    assert [(point.case.name, point.dtype) for point in ladder.points] == [
        ("large", torch.float16),
        ("even", torch.float16),
    ]
    with pytest.raises(ValueError, match="no size 'huge'; there are large"):
        climbed(quick, sizes=["huge"])
    with pytest.raises(UnknownRung):
        climbed(quick, rungs=["missing"])


def test_fewer_dtypes_can_be_timed_than_verified():
    ladder = climbed(quick, dtypes=None, timed_dtypes=[torch.float16])
    assert {result.dtype for result in ladder.rows[0].verdict.cases} == {torch.float32, torch.float16}
    assert [point.dtype for point in ladder.points] == [torch.float16]


def test_a_vacuous_size_is_refused():
    def inputs(case, dtype, device, seed):
        if case.name == "large":
            return {"x": torch.ones(case.sizes["n"], dtype=dtype)}
        return toys.affine_inputs(case, dtype, device, seed)

    with pytest.raises(VacuousProblem, match="large"):
        climbed(quick, spec=replace(toys.AFFINE, inputs=inputs))


def test_progress_ends_each_point_with_its_result():
    steps = []
    ladder = climbed(slow, quick, progress=steps.append)
    assert [step.result for step in steps if step.stage == "time" and step.result] == list(ladder.points)
    assert [step.result.rung for step in steps if step.stage == "verify" and step.result] == ["slow", "quick"]
    assert any("round" in step.detail for step in steps)


def test_a_results_file_comes_back_as_recorded(tmp_path):
    ladder = climbed(slow, broken)
    path = tmp_path / "h200" / "affine.json"
    ladder.save(path)
    data = json.loads(path.read_text())
    assert data["schema"] == 1
    assert data["environment"]["torch"] == torch.__version__.partition("+")[0] or torch.__version__
    assert {"device", "date", "python", "torch"} <= set(data["environment"])
    found = recorded("affine", [tmp_path])
    assert found is not None
    assert found.device == ladder.place
    assert found.date == ladder.environment["date"]
    assert (found.status("slow"), found.status("broken"), found.status("new")) == ("right", "wrong", None)
    assert [(case.name, dtype) for case, dtype in found.points()] == [("large", torch.float32)]
    assert found.entry("slow", "large", torch.float32)["timing"]["median_s"] == 4.0
    assert found.entry("slow", "large", torch.float32)["ratio"]["median"] == 0.5
    assert found.entry("slow", "small", torch.float32) is None
    assert [file.name for file in path.parent.iterdir()] == ["affine.json"]


def test_the_newest_results_count_and_other_schemas_do_not(tmp_path):
    ladder = climbed(quick)
    for folder, date in (("a", "2026-01-01"), ("b", "2026-03-01"), ("c", "2026-02-01")):
        replace(ladder, environment={**ladder.environment, "date": date}).save(tmp_path / folder / "affine.json")
    assert recorded("affine", [tmp_path]).path.parent.name == "b"
    newer = tmp_path / "d" / "affine.json"
    newer.parent.mkdir()
    newer.write_text(json.dumps({"schema": 99, "points": [1], "environment": {"date": "2027"}}))
    assert recorded("affine", [tmp_path]).path.parent.name == "b"
    assert recorded("nothing", [tmp_path]) is None
    newer.write_text("{")
    with pytest.raises(ValueError, match="got invalid JSON"):
        recorded("affine", [tmp_path])


def test_on_a_cpu_the_ladder_carries_what_was_recorded(tmp_path, monkeypatch):
    climbed(quick).save(tmp_path / "benchmarks" / "results" / "fake" / "affine.json")
    monkeypatch.chdir(tmp_path)
    ladder = climb(toys.op(toys.AFFINE, quick), device="cpu", dtypes=F32)
    assert ladder.recorded is not None
    assert ladder.recorded.entry("quick", "large", torch.float32)["timing"]["median_s"] == 1.0


def test_json_has_no_nan(tmp_path):
    def nan(out, x):
        out.fill_(math.nan)

    text = climbed(nan).to_json()
    assert '"actual": "nan"' in text
    json.loads(text, parse_constant=pytest.fail)


def test_after_a_lost_context_nothing_else_runs(monkeypatch):
    from warpwise.lab.verify import attempt as attempts

    ran = []

    def crashes(out, x):
        raise RuntimeError("an illegal memory access was encountered")

    def later(out, x):
        ran.append(1)

    original = attempts._launch

    def on_a_gpu(op, rung, instance, outputs):
        stopped = original(op, rung, instance, outputs)
        return replace(stopped, lost=True) if stopped else None

    monkeypatch.setattr(attempts, "_launch", on_a_gpu)
    ladder = climbed(crashes, later)
    assert ladder.row("crashes").verdict.lost
    assert "the CUDA context is lost" in str(ladder.row("crashes").verdict)
    assert ladder.row("later").verdict.status == "untested"
    assert ladder.points == ()
    assert not ran
    assert "lost" in ladder.notes[0]


@pytest.mark.parametrize("call", [climb, verify_gradient, tune, lambda op: verify(op, "k01")])
def test_an_operation_is_an_op_or_a_name(call):
    with pytest.raises(TypeError, match="expected op to be an Op or the name of a registered one, got int"):
        call(5)
    with pytest.raises(LookupError, match="no operation 'softmx'"):
        call("softmx")
