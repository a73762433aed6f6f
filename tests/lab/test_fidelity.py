"""Emulated counters against ncu's on an H200, for every recorded CUDA rung, with every block executed on a CPU."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import pytest
from tests.sampled import thinned

from warpwise import operation, ops  # noqa: F401 - importing ops registers them
from warpwise.lab.explain import Options
from warpwise.lab.fidelity import (
    COUNTERS,
    Compared,
    ProfiledPoint,
    Reason,
    Record,
    RecordedLaunch,
    Report,
    RungFilter,
    compare,
    not_executed,
    points,
    recorded_points,
    tables,
)
from warpwise.lab.fidelity.collect import joined
from warpwise.lab.fidelity.compare import reference
from warpwise.lab.fidelity.points import TENSOR_MAPS
from warpwise.lab.fidelity.report import MISSES, kendall_tau, utilisation
from warpwise.lab.profile.ncu import Measured, NcuError
from warpwise.operation import Case, assume_sm_count

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "h200"
OPS = sorted(path.stem for path in (RESULTS / "ncu").glob("*.json"))
PARTS = 2  # of the rungs of an operation
COMPARED = thinned([(op, part) for op in OPS for part in range(PARTS)], every=5, name=lambda one: f"{one[0]}-{one[1]}")
NOT_EXECUTED = not_executed(operation.all_ops())

# Rungs with a counter that differs at a recorded point, and the reason; at most 5 % of all rungs.
KNOWN: dict[str, str] = {
    "matmul k11_mma_sync float16": "at the ragged size, where lanes of a cp.async write zeros, ncu counts 8 % more "
    "bank conflicts of copies and 2 % fewer sectors than the model",
}

# Rungs whose counters are not compared until `benchmarks/fidelity.py collect --rung` measures them on an H200.
NEW = "added after the measurement"
FORM = "waits for the previous kernel; a partial last block computes single elements a block apart"
NOT_YET_RECORDED: dict[str, str] = {
    "matmul k14_cluster_split_k": NEW,
    "histogram k05_lane_copies": "waits for the previous kernel; one block stores its sums",
    "matrix_add k03_vectorised": f"{FORM}; a kernel of its own for contiguous matrices",
    "polynomial k03_vectorised": FORM,
    "polynomial_backward k01_vectorised": FORM,
    "reduce_sum k06_two_passes": "rows of other numbers of threads, and blocks of a row along the grid's y",
    "reduce_sum k08_columns": NEW,
    "reduce_sum k09_last_block": NEW,
    "reduce_sum k10_packed_columns": NEW,
    "reduce_sum k11_short_rows": NEW,
    "reduce_sum k12_adjacent_columns": NEW,
    "rgb_to_grayscale k02_planar_packs": "waits for the previous kernel, and packs of 4 bytes for small images",
    "rgb_to_grayscale k05_shifted_words": NEW,
    "softmax k05_row_in_registers": "waits for the previous kernel",
    "softmax k09_columns": NEW,
    "softmax_backward k03_row_in_registers": "waits for the previous kernel",
    "softmax_backward k07_columns": NEW,
    "softmax_backward k08_split_rows": NEW,
    "softmax k10_cluster_columns": NEW,
    "softmax_backward k09_cluster_columns": NEW,
    "softmax_backward k10_packed_columns": NEW,
    "softmax k11_short_rows": NEW,
    "softmax k12_split_rows": NEW,
    "softmax k13_packed_columns": NEW,
    "softmax k14_packed_rows": NEW,
    "softmax k15_shared_columns": NEW,
    "softmax_backward k11_short_rows": NEW,
    "softmax_backward k12_packed_rows": NEW,
    "square k03_vectorised": FORM,
    "transpose k04_padded_tile": "waits for the previous kernel, and loads four elements before it stores them",
    "transpose k05_register_blocks": "waits for the previous kernel; tiles along the short side are neighbours",
    "transpose k07_strips": NEW,
    "transpose k08_fitted_blocks": NEW,
    "transpose k09_unaligned_tiles": NEW,
    "transpose k10_short_sides": NEW,
    "vector_add k03_vectorised": FORM,
}


@cache
def record(op: str) -> Record:
    return Record.load(RESULTS / "ncu" / f"{op}.json")


def launches(op: str, stale: bool) -> Record:
    """The record of ``op`` with the launches of rungs in ``NOT_YET_RECORDED``, or with all others."""
    kept = [one for one in record(op).launches if (f"{op} {one.rung}" in NOT_YET_RECORDED) == stale]
    return replace(record(op), launches=kept)


def exact(known: Record) -> tuple[Compared, ...]:
    with assume_sm_count(int(known.environment["multiprocessors"])):
        return tuple(compare(known, "exact", Options(checks="none", blocks="all")))


def instructions(one: Compared) -> float:
    assert one.explanation is not None
    return one.explanation.metrics["smsp__inst_executed.sum"]


def recorded_instructions(one: Compared) -> object:
    return pytest.approx(one.recorded.metrics["smsp__inst_executed.sum"], rel=1e-3)


def compared(op: str, part: int) -> tuple[Compared, ...]:
    """Every launch of the exact points of one part of the rungs."""
    known = launches(op, stale=False)
    names = sorted({one.rung for one in known.launches})[part::PARTS]
    return exact(replace(known, launches=[one for one in known.launches if one.rung in names]))


@pytest.mark.parametrize("op", OPS)
def test_every_rung_is_recorded_at_two_sizes_and_large_ones(op: str) -> None:
    found = record(op).launches
    for rung in operation.get(op).rungs:
        if rung.language == "cuda" and f"{op} {rung.name}" not in {*NOT_EXECUTED, *NOT_YET_RECORDED}:
            cases = {launch.case for launch in found if launch.rung == rung.name and launch.kind == "exact"}
            assert len(cases) >= 2, rung.name
            assert any(launch.rung == rung.name and launch.kind == "large" for launch in found), rung.name
    assert not record(op).failures
    recorded = {f"{op} {launch.rung}" for launch in found}
    assert not recorded & NOT_EXECUTED.keys(), "recorded: compare it"
    own = {f"{op} {rung.name}" for rung in operation.get(op).rungs}
    assert recorded <= own, "there is no such rung any more: remove its launches from the record"
    assert all(launch.time and launch.metrics["gpu__time_duration.sum"] > 0 for launch in found)


@pytest.mark.parametrize("name", thinned(list(NOT_YET_RECORDED), every=5))
def test_what_is_not_yet_recorded_has_no_record_that_agrees(name: str) -> None:
    op, _, rung = name.partition(" ")
    assert op in OPS and NOT_YET_RECORDED[name]
    assert operation.get(op).rung(rung).name == rung and operation.get(op).rung(rung).language == "cuda"
    assert name not in NOT_EXECUTED and not any(known.startswith(f"{name} ") for known in KNOWN)
    stale = [one for one in launches(op, stale=True).launches if one.rung == rung]
    found = exact(replace(record(op), launches=stale))
    reason = NOT_YET_RECORDED[name]
    assert (not stale) == (reason == NEW), f"{name}: the record has {len(stale)} launches, but the reason is {reason!r}"
    agree = all(one.agrees and instructions(one) == recorded_instructions(one) for one in found)
    assert not stale or not agree, f"{name}: the record agrees; remove the entry"


@pytest.mark.parametrize("rungs", COMPARED)
def test_instructions_counters_and_resources_agree(rungs: tuple[str, int]) -> None:
    """Every instruction is executed as often as on the GPU."""
    found = compared(*rungs)
    for one in found:
        assert not one.error, f"{one.recorded}: {one.error}"
        assert instructions(one) == recorded_instructions(one), str(one.recorded)
    report = Report(exact=list(found))
    unexpected = {name: reasons for name, reasons in report.missing().items() if name not in KNOWN}
    assert not unexpected, "\n".join(f"{name}: {'; '.join(reasons)}" for name, reasons in unexpected.items())


def test_few_rungs_are_listed() -> None:
    rungs = sum(len({(launch.rung, launch.dtype) for launch in record(op).launches}) for op in OPS)
    assert len(KNOWN) <= MISSES * rungs
    assert all(KNOWN.values())


def test_rungs_without_a_record_use_tma_or_wgmma() -> None:
    """The kernel has a tensor map among its parameters, its launcher makes one, or a header of sm90/ is included."""
    for name in NOT_EXECUTED:
        op, _, number = name.partition(" ")
        rung = operation.get(op).rung(number)
        lent = [value for value in vars(inspect.getmodule(rung.launch)).values() if inspect.ismodule(value)]
        used = [Path(module.__file__) for module in lent if module.__name__.startswith("warpwise.ops.")]
        files = [rung.source, *used, *(path.with_suffix(".cu") for path in used)]
        texts = [file.read_text() for file in files if file.exists()]
        assert any(word in text for text in texts for word in ("TensorMap", "tensor_map(", "warpwise/sm90/")), name


def launch(metrics: dict[str, float]) -> RecordedLaunch:
    return RecordedLaunch(
        "op",
        "rung",
        "float32",
        "exact",
        {},
        "exact",
        0,
        "k",
        "k",
        "k.cu",
        (1, 1, 1),
        (32, 1, 1),
        0,
        0,
        8,
        None,
        metrics,
    )


def test_wavefronts_of_arbitration_do_not_count() -> None:
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"
    metrics = {wavefronts: 12586.0, conflicts: 4394.0, f"smsp__sass_{wavefronts}".replace("l1tex__", "l1tex_"): 12288.0}
    assert reference(wavefronts, metrics) == 12288 and reference(conflicts, metrics) == 4096
    del metrics[f"smsp__sass_{wavefronts}".replace("l1tex__", "l1tex_")]
    assert reference(wavefronts, metrics) == 12586 and reference(conflicts, metrics) == 4394
    assert wavefronts in COUNTERS and reference("l1tex__t_requests.sum", {}) is None


def test_kendall_tau_counts_pairs_that_have_an_order() -> None:
    assert kendall_tau([1, 2, 3], [10, 20, 30]) == 1
    assert kendall_tau([3, 2, 1], [10, 20, 30]) == -1
    assert kendall_tau([2, 1, 3], [100, 101, 300]) == 1  # the first two are as good as equal
    assert kendall_tau([1, 3, 2, 4], [1, 2, 3, 4]) == pytest.approx(4 / 6)
    assert kendall_tau([2, 1], [1, 1]) == 1


def test_the_most_used_unit() -> None:
    part = ".avg.pct_of_peak_sustained_elapsed"
    used = utilisation(
        {f"dram__cycles_active{part}": 61.0, f"lts__t_sectors{part}": 40.0, f"lts__d_sectors{part}": 55.0}
    )
    assert max(used, key=lambda unit: used[unit]) == "DRAM" and used["L2"] == 55 and used["ALU"] == 0


def test_a_launch_that_cannot_be_compared_is_a_miss() -> None:
    report = Report(exact=[Compared(launch({}), None, "not launched here")])
    assert report.missing() == {"op rung float32": ["exact: not launched here"]}
    assert report.summary()["rungs_missing"] == 1 and not report.summary()["rungs_reached"]


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    made = Record(
        "op",
        {"multiprocessors": 132},
        [launch({"a.sum": 3.0, "b.ratio": 0.123456789123})],
        {"a.sum": "inst"},
        {},
        ["one"],
    )
    made.save(tmp_path / "op.json")
    (read,) = Record.load(tmp_path / "op.json").launches
    assert read.metrics == {"a.sum": 3, "b.ratio": 0.123456789} and read.grid == (1, 1, 1)
    assert Record.load(tmp_path / "op.json").failures == ["one"]
    (tmp_path / "op.json").write_text('{"schema": 0}')
    with pytest.raises(ValueError, match="collect it again"):
        Record.load(tmp_path / "op.json")


def test_every_miss_of_the_record_has_its_reason_and_the_page_shows_them() -> None:
    data = json.loads((RESULTS / "fidelity.json").read_text())
    figures, misses = data["summary"], data["misses"]
    assert all(figures[f"{what}_reached"] for what in ("rungs", "limiters", "times", "ladders")), figures
    assert all(miss.get("why") or miss["kind"] == "not executed" for miss in misses)
    page = tables.page(data)
    unwrapped = " ".join(page.split())
    assert all(miss["where"] in unwrapped and miss["what"] in unwrapped for miss in misses)
    assert page == (ROOT / "docs" / "fidelity.md").read_text(), "`benchmarks/fidelity.py docs` writes it"
    assert set(data["operations"]) == set(OPS)
    shown = {f"{one['op']} {one['rung']}" for part in ("exact", "large") for one in data[part]}
    listed = {miss["where"] for miss in misses if miss["what"] == TENSOR_MAPS}
    assert listed == {name for name in NOT_EXECUTED if name.partition(" ")[0] in OPS}
    recorded = {f"{op} {launch.rung}" for op in OPS for launch in record(op).launches}
    assert shown == recorded


def test_a_reason_explains_the_misses_whose_place_starts_alike() -> None:
    exact = [Compared(launch({}), None, "not launched here")]
    known = Reason("counters", "op rung", "known")
    (miss,) = Report(exact, reasons=(Reason("time", "op rung", "of another kind"), known)).misses()
    assert miss["kind"] == "counters" and miss["why"] == "known"
    (miss,) = Report(exact, reasons=(Reason("counters", "op rung2", "of another rung"),)).misses()
    assert "why" not in miss


def test_launches_are_joined_with_the_kernels_that_ncu_measured() -> None:
    launched = {**asdict(launch({})), "symbol": "add"}
    found = Measured("add", (1, 1, 1), (32, 1, 1), {"a.sum": 2.0}, {}, {})
    key = tuple(launched[name] for name in ("op", "rung", "dtype", "case", "kind", "index"))
    (recorded,) = joined([launched], [found], {key: {"median_s": 1e-6}})
    assert recorded.metrics == {"a.sum": 2} and recorded.time == {"median_s": 1e-6}
    with pytest.raises(NcuError, match="1 kernels of 2 launched; number 1 is nothing, expected add"):
        joined([launched, launched], [found], {})
    with pytest.raises(NcuError, match=r"launched with \(1, 1, 1\) x \(32, 1, 1\), ncu measured \(2, 1, 1\)"):
        joined([launched], [replace(found, grid=(2, 1, 1))], {})


def test_points_are_plain_data_for_another_process() -> None:
    op = operation.get("matmul")
    case, only = Case("exact", {"m": 8, "n": 8, "k": 8}), RungFilter(("float16",), ("k11_mma_sync",))
    (fp16,) = points(op, [case], "exact", only)
    assert ProfiledPoint.from_json(json.loads(json.dumps(fp16.to_json()))) == fp16
    by_dtype = {point.dtype: point.only for point in points(op, [fp16.case], "exact")}
    skipped = {name.partition(" ")[2] for name in NOT_EXECUTED if name.startswith("matmul ")}
    named = [rung for rungs in by_dtype.values() for rung in rungs]
    assert len(named) == len(set(named)), "each rung in one dtype"
    assert set(named) == {rung.name for rung in op.rungs if rung.language == "cuda"} - skipped


@pytest.mark.parametrize("op", OPS)
def test_recorded_points_are_those_of_the_operation(op: str) -> None:
    """A large point's case is rebuilt from its name and sizes: it must be the operation's own case of that name."""
    own = {case.name: case for case in operation.get(op).spec.sizes}
    assert all(own[point.case.name] == point.case for point in recorded_points(record(op), "large"))


def test_the_table_has_a_row_for_each_operation() -> None:
    report = Report(exact=[Compared(launch({}), None, "not launched here")])
    text = tables.as_text(report.summary(), report.operations(), report.misses())
    lines = text.splitlines()
    assert lines[1].split()[:4] == ["op", "0", "of", "1"] and lines[2].startswith("all")
    assert "op rung float32: exact: not launched here" in text
