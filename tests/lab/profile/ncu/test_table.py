"""ncu's output is parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpwise.lab.profile.ncu import NcuError
from warpwise.lab.profile.ncu.table import number, parse

RAW = (Path(__file__).parent / "recorded" / "raw_page.csv").read_text()


def test_a_launch_a_row_with_its_shape() -> None:
    first, second = parse(RAW)
    assert first.kernel == "void matmul_naive<float, 32>(const float *, const float *, float *, int, int, int)"
    assert (first.grid, first.block) == ((4, 4, 1), (32, 32, 1))
    assert second.kernel == "_Z7softmaxIfLi256EEvPKT_PS0_i" and second.block == (256, 1, 1)


def test_numbers_with_and_without_separators_and_units() -> None:
    first, second = parse(RAW)
    assert first.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 2_179_072
    assert first.metrics["dram__throughput.avg.pct_of_peak_sustained_elapsed"] == 0.42
    assert second.metrics["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 1e6
    assert second.metrics["gpu__time_duration.sum"] == 263456.5
    assert first.units["gpu__time_duration.sum"] == "ns" and first.units["dram__bytes_read.sum"] == "byte"


def test_what_could_not_be_measured_is_left_out_and_words_are_texts() -> None:
    first, second = parse(RAW)
    assert "made_up_metric" not in first.metrics and "made_up_metric" not in first.texts
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" not in second.metrics
    assert first.texts["launch__cluster_scheduling_policy"] == "PolicySpread"
    assert first.texts["breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed"].count(",") == 1
    assert not any(name in first.metrics for name in ("ID", "Process ID", "Device", "CC", "Stream"))


def test_messages_between_rows_are_passed_over() -> None:
    rows = RAW.splitlines(keepends=True)
    rows.insert(7, "==WARNING== Found outstanding GPU clock reset\n")
    assert len(parse("".join(rows))) == 2


@pytest.mark.parametrize("text", ["", "==PROF== Connected\n==WARNING== No kernels were profiled.\n"])
def test_no_table_is_an_error_that_shows_what_was_said(text: str) -> None:
    with pytest.raises(NcuError, match="no table of metrics"):
        parse(text)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1,234,567", 1234567.0),
        ("-3", -3.0),
        (".5", 0.5),
        ("2e-3", 0.002),
        ("nan", None),
        ("", None),
        ("12 (1; 2)", None),
    ],
)
def test_number(text: str, expected: float | None) -> None:
    assert number(text) == expected
