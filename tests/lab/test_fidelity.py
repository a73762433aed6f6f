"""The emulated counters against ncu's on an H200, for every CUDA rung, on a CPU: no block left out."""

from __future__ import annotations

import inspect
import json
from functools import cache
from pathlib import Path

import pytest
from benchmarks import fidelity_tables
from benchmarks.fidelity_compare import COUNTERS, Compared, compare, reference
from benchmarks.fidelity_points import EXACT, NOT_EXECUTED
from benchmarks.fidelity_record import RESULTS, Record, Recorded
from benchmarks.fidelity_report import MISSES, Report, kendall_tau, utilisation
from tests.sampled import thinned

from warpwise import operation, ops  # noqa: F401 - importing ops registers them
from warpwise.lab.explain import Options

OPS = sorted(EXACT)
COMPARED = thinned(OPS, every=2)
ROOT = Path(__file__).resolve().parents[2]

# Rungs that miss a counter at a recorded point, and why: with those that are not executed, at most 5 % of all.
KNOWN: dict[str, str] = {
    "matmul k15_mma_sync float16": "at the ragged size, where lanes of a cp.async fill their place with zeros, ncu counts "
    "8 % more conflicts of copies and 2 % fewer sectors than the model of them",
}


@cache
def record(op: str) -> Record:
    return Record.load(RESULTS / "h200" / "ncu" / f"{op}.json")


@cache
def compared(op: str) -> tuple[Compared, ...]:
    """Every launch of the small points, which take a CPU a quarter of a minute together."""
    return tuple(compare(record(op), "exact", Options(checks="none", blocks="all")))


@pytest.mark.parametrize("op", OPS)
def test_every_rung_is_recorded_at_two_sizes_and_large_ones(op: str) -> None:
    launches = record(op).launches
    for rung in operation.get(op).rungs:
        if rung.language == "cuda" and f"{op} {rung.name}" not in NOT_EXECUTED:
            cases = {launch.case for launch in launches if launch.rung == rung.name and launch.kind == "exact"}
            assert len(cases) >= 2, rung.name
            assert any(launch.rung == rung.name and launch.kind == "large" for launch in launches), rung.name
    assert not record(op).failures
    recorded = {f"{op} {launch.rung}" for launch in launches}
    assert not recorded & NOT_EXECUTED.keys(), "recorded by now: compare it"
    assert all(launch.time and launch.metrics["gpu__time_duration.sum"] > 0 for launch in launches)


@pytest.mark.parametrize("op", COMPARED)
def test_every_instruction_is_executed_as_often_as_on_the_gpu(op: str) -> None:
    for one in compared(op):
        assert not one.error, f"{one.recorded}: {one.error}"
        assert one.explanation is not None
        emulated = one.explanation.metrics["smsp__inst_executed.sum"]
        assert emulated == pytest.approx(one.recorded.metrics["smsp__inst_executed.sum"], rel=1e-3), str(one.recorded)


@pytest.mark.parametrize("op", COMPARED)
def test_counters_and_resources_agree(op: str) -> None:
    report = Report(exact=list(compared(op)))
    unexpected = {name: reasons for name, reasons in report.missing().items() if name not in KNOWN}
    assert not unexpected, "\n".join(f"{name}: {'; '.join(reasons)}" for name, reasons in unexpected.items())


def test_few_rungs_are_listed() -> None:
    rungs = sum(len({(launch.rung, launch.dtype) for launch in record(op).launches}) for op in OPS)
    assert len(KNOWN) <= MISSES * rungs
    assert all(KNOWN.values())


def test_what_is_not_executed_is_of_the_copy_engine() -> None:
    """A rung that keeps to a GPU uses what only a GPU has: a tensor map among its kernels' parameters, or another rung's."""
    for name in NOT_EXECUTED:
        op, _, number = name.partition(" ")
        rung = operation.get(op).rung(number)
        lent = [value for value in vars(inspect.getmodule(rung.launch)).values() if inspect.ismodule(value)]
        others = [inspect.getsource(module) for module in lent if module.__name__.startswith("warpwise.ops.")]
        assert "TensorMap" in rung.source.read_text() or any("tensor_map(" in text for text in others), name


def launch(metrics: dict[str, float]) -> Recorded:
    return Recorded(
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
    with pytest.raises(ValueError, match="collect it anew"):
        Record.load(tmp_path / "op.json")


def test_every_miss_of_the_record_has_its_reason_and_the_page_shows_them() -> None:
    data = json.loads((RESULTS / "h200" / "fidelity.json").read_text())
    figures, misses = data["summary"], data["misses"]
    assert all(figures[f"{what}_reached"] for what in ("rungs", "limiters", "times", "ladders")), figures
    assert all(miss.get("why") or miss["kind"] == "not executed" for miss in misses)
    page = fidelity_tables.page(data)
    assert all(miss["where"] in page and miss["what"] in page for miss in misses)
    assert page == (ROOT / "docs" / "fidelity.md").read_text(), "`benchmarks/fidelity.py docs` writes it anew"
    assert set(data["operations"]) == set(OPS)


def test_the_table_has_a_row_for_each_operation() -> None:
    report = Report(exact=[Compared(launch({}), None, "not launched here")])
    text = fidelity_tables.as_text(report.summary(), report.operations(), report.misses())
    lines = text.splitlines()
    assert lines[1].split()[:4] == ["op", "0", "of", "1"] and lines[2].startswith("all")
    assert "op rung float32: exact: not launched here" in text
