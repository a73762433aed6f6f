"""The contents of a page: points, verdicts and ceilings from several runs."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest
from tests.lab.report.samples import BYTES, CPU, FLOOR, GPU, digest, full, ladder, source, timed, toy, verdict

from warpwise.lab import report
from warpwise.lab.report import format as fmt
from warpwise.lab.report import panels
from warpwise.lab.report.counters import read_counters
from warpwise.lab.report.readme import parse, read
from warpwise.lab.store import Store
from warpwise.operation import Op

H200 = Path(__file__).parents[3] / "benchmarks" / "results" / "h200"


@pytest.fixture
def op(tmp_path: Path) -> Op:
    return toy(tmp_path)


def test_of_each_point_the_newest_run_counts(op: Op) -> None:
    old, new = source(*ladder(), *ladder(case="other")), source(*ladder(0.5), minutes=60)
    found = report.collect(op, [old, new])
    assert [(point.case, point.run.id) for point in found.points] == [("large", "r61"), ("other", "r1")]
    best, rival = found.points[0].best, found.points[0].rival
    assert best is not None and (best.name, best.median) == ("k02_wide", pytest.approx(20e-6))
    assert rival is not None and rival.name == "torch.compile"
    assert found.device == GPU and found.measured_on_gpu


def test_one_report_is_of_one_device(op: Op) -> None:
    here, there = source(*ladder(), device="RTX 5090", minutes=5), source(*ladder())
    assert report.collect(op, [here, there]).device == "RTX 5090", "timed last"
    assert report.collect(op, [here, there], "h200").device == GPU
    with pytest.raises(report.NothingRecorded, match="'A100'; there are: RTX 5090, NVIDIA H200"):
        report.collect(op, [here, there], "A100")
    with pytest.raises(report.NothingRecorded, match="`warpwise climb affine`"):
        report.collect(op, [])


def test_a_wrong_or_inexact_one_is_neither_best_nor_rival(op: Op) -> None:
    entries = [
        timed("k01_naive", 1e-6, verdict="wrong", message="wrong at this size"),
        timed("k02_wide", 5e-6),
        timed("torch", 1e-6, message="outside the tolerance"),
        timed("torch.compile", 9e-6),
    ]
    point = report.collect(op, [source(*entries)]).points[0]
    assert point.best is not None and point.best.name == "k02_wide"
    assert point.rival is not None and point.rival.name == "torch.compile"


def test_what_a_cpu_says_stands_beside_a_gpus_verdict_and_gives_no_time(op: Op) -> None:
    gpu = source(verdict("k01_naive"), *ladder())
    cpu = source(verdict("k01_naive", "wrong", "ragged: y[3] is 0"), minutes=60, device=CPU)
    found = report.collect(op, [gpu, cpu])
    assert found.device == GPU
    assert [(one.place, one.status) for one in found.verdicts["k01_naive"]] == [(CPU, "wrong"), (GPU, "right")]
    assert found.status("k01_naive") == "wrong"
    assert found.ran("k01_naive", found.verdicts["k01_naive"][0]) == "emulated on EPYC 9654"
    alone = report.collect(op, [cpu])
    assert not alone.points and not alone.measured_on_gpu and alone.device == ""


def test_ceilings_come_back_from_floors(op: Op) -> None:
    compute = timed("k01_naive", 1e-3, dtype="float16", bound="compute", flops=8_000_000_000, floor=1e-4)
    found = report.collect(op, [source(*ladder(), compute)])
    assert found.roofs.bandwidth == pytest.approx(BYTES / FLOOR)
    assert found.roofs.flops == {"float16": pytest.approx(8e13)}


def test_ideas_are_measured_against_the_best_before_them(op: Op) -> None:
    found = report.collect(op, [source(*ladder())])
    steps = fmt.steps(found.points[0], found.rungs)
    assert [(step.entry.name, step.factor, step.before) for step in steps] == [
        ("k01_naive", None, ""),
        ("k02_wide", pytest.approx(4.0), "k01_naive"),
        ("k03_triton", pytest.approx(0.8), "k02_wide"),
    ]
    assert [step.is_faster for step in steps] == [False, True, False]


def test_a_rung_that_runs_by_name_alone_is_shown_and_never_the_best(op: Op) -> None:
    named = tuple(dataclasses.replace(rung, by_name=rung.name == "k02_wide") for rung in op.rungs)
    found = report.collect(dataclasses.replace(op, rungs=named), [source(*ladder())])
    (point,) = found.points
    assert point.best is not None and point.best.name == "k03_triton"
    assert point.entry("k02_wide") is not None
    assert [step.entry.name for step in fmt.steps(point, found.rungs)] == ["k01_naive", "k03_triton"]
    assert "k02_wide runs only if the caller names it." in panels.panel(found, point, True)


def test_a_source_that_changed_since_is_reported(op: Op, tmp_path: Path) -> None:
    same = digest(tmp_path, "k01_naive.cu")
    entries = [
        timed("k01_naive", 1e-5, source=same),
        timed("k02_wide", 1e-5, source="0" * 20),
        timed("k03_triton", 1e-5),
    ]
    assert report.collect(op, [source(*entries)]).changed == {"k02_wide"}


def test_everything_comes_back_from_the_store(op: Op) -> None:
    with Store.open() as store:
        for minutes, scale in ((0, 1.0), (60, 0.5)):
            kept = dataclasses.replace(source().run, id="", started=source(minutes=minutes).run.started)
            store.finish(store.record(kept, verdict("k01_naive"), *ladder(scale)))
        found = report.collect(op, report.from_store(store, "affine"))
    assert [one.name for one in found.points[0].entries] == [one.name for one in ladder()]
    assert found.points[0].run.id == "r2"
    assert found.origins == ("results store, run r2",)


def test_the_recorded_ladders_hold_what_their_files_hold(tmp_path: Path) -> None:
    data = json.loads((H200 / "square.json").read_text())
    read = report.read_file(H200 / "square.json")
    assert read is not None
    found = report.collect(
        dataclasses.replace(
            toy(tmp_path), spec=dataclasses.replace(toy(tmp_path).spec, schema="square(Tensor x) -> Tensor")
        ),
        [read],
    )
    there = {(point["case"]["name"], point["dtype"]): point for point in data["points"]}
    assert {(point.case, point.dtype) for point in found.points} == set(there)
    for point in found.points:
        kept = there[point.case, point.dtype]
        assert [one.median for one in point.entries] == [entry["timing"]["median_s"] for entry in kept["entries"]]
        assert point.rival is not None and point.rival.name == kept["best_opponent"]
    told = read.verdicts[data["rungs"][0]["name"]]
    assert told.tested == sum(case["status"] != "untested" for case in data["rungs"][0]["verdict"]["cases"])
    assert math.isclose(told.worst, data["rungs"][0]["verdict"]["worst"])


def test_ncus_counters_are_read_by_rung_and_point(tmp_path: Path) -> None:
    counted = read_counters(H200 / "ncu" / "transpose.json", GPU)
    assert counted is not None
    moved = counted.moved("k05_register_blocks", "large", "float32")
    assert moved is not None and moved == pytest.approx(2 * 16384**2 * 4, rel=0.05)
    assert counted.moved("k06_triton", "large", "float32") is None
    assert read_counters(H200 / "ncu" / "transpose.json", "RTX 5090") is None
    assert read_counters(tmp_path / "none.json", GPU) is None
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ValueError, match=r"broken\.json: expected ncu's counters"):
        read_counters(tmp_path / "broken.json", GPU)


def test_results_are_found_in_a_folder_and_in_folders_in_it(tmp_path: Path) -> None:
    (tmp_path / "h200" / "ncu").mkdir(parents=True)
    for where in (tmp_path, tmp_path / "h200", tmp_path / "h200" / "ncu"):
        shutil.copy(H200 / "square.json", where / "square.json")
    (tmp_path / "other.json").write_text("[]")
    found = report.recorded_files("square", [tmp_path])
    assert [path.parent for path in found] == [tmp_path, tmp_path / "h200"]
    assert report.read_file(tmp_path / "other.json") is None


def test_ideas_predictions_and_points_are_read_from_a_readme() -> None:
    told = parse(
        "# op\n\nAbout it.\n\n**Floor.** 2 · N bytes,\nin a line.\n\n<!-- measured: large float16 / small uint8 -->\n"
        "| rung | what changes | prediction | measured |\n|---|---|---|---|\n"
        "| `k01_naive` | a thread | 3 ms: slow | 4 ms |\n"
    )
    assert told.changes == {"k01_naive": "a thread"}
    assert told.predictions == {"k01_naive": "3 ms: slow"}
    assert told.points == (("large", "float16"), ("small", "uint8"))
    assert told.paragraphs == (("Floor", "2 · N bytes, in a line."),)


def test_notes_add_predictions_and_paragraphs() -> None:
    told = parse(
        "**Floor.** 2 · N bytes.\n\n| rung | what changes | measured |\n|---|---|---|\n"
        "| `k01_naive` | a thread | 4 ms |\n",
        "# Notes\n\nAbout them.\n\n## Predictions\n\n<!-- measured: large float16 -->\n"
        "| rung | prediction, large | measured |\n|---|---|---|\n| `k01_naive` | 3 ms | 4 ms |\n\n"
        "## Dead ends\n\nTried\ntwice.\n\n- Larger tiles:\n  slower.\n- Smaller tiles.\n\n| a | b |\n|---|---|\n"
        "| 1 | 2 |\n",
    )
    assert told.changes == {"k01_naive": "a thread"}
    assert told.predictions == {"k01_naive": "3 ms"}
    assert told.points == (("large", "float16"),)
    assert told.paragraphs == (
        ("Floor", "2 · N bytes."),
        ("Dead ends", "Tried twice."),
        ("", "• Larger tiles: slower."),
        ("", "• Smaller tiles."),
    )


def test_two_ladders_of_one_folder_are_told_apart(tmp_path: Path) -> None:
    table = "| rung | what changes | measured |\n|---|---|---|\n| `k01_naive` | {} | 4 ms |\n"
    (tmp_path / "README.md").write_text(
        f"<!-- measured op: small uint8 -->\n{table.format('forward')}\n"
        f"<!-- measured op_backward: large uint8 -->\n{table.format('backward')}"
    )
    (tmp_path / "backward").mkdir()
    told = read(tmp_path / "backward", "op_backward")
    assert told.changes == {"k01_naive": "backward"}
    assert told.points == (("large", "uint8"),)


def test_full_sample_has_all(op: Op) -> None:
    assert [(point.case, point.dtype) for point in full(op).points] == [
        ("large", "float32"),
        ("large", "float16"),
        ("small", "float32"),
        ("small", "float16"),
    ]
