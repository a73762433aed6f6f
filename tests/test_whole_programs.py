"""``benchmarks/whole_programs.py``: the outcome of a run from its status and what it printed."""

from __future__ import annotations

import pytest
from benchmarks import whole_programs


@pytest.mark.parametrize(
    "status, printed, outcome",
    [
        (0, "PASS", "pass"),
        (0, "Mismatches: 0", "pass"),
        (0, "Number of misses: 0", "pass"),
        (0, "Non-Matching Outputs Beyond Error Threshold of 0.05 Percent: 0", "pass"),
        (0, "Max error = 0.000000", "pass"),
        (0, "Max error = 0.000001", "ends"),
        (0, "3 launches", "ends"),
        (0, "Non-Matching Outputs Beyond Error Threshold of 0.05 Percent: 669", "fails"),
        (0, "Mismatch at index: 0", "fails"),
        (0, "PASS\nFAIL", "fails"),
        (1, "PASS", "fails"),
        (1, "Usage: main <n>", "needs data"),
        (2, "Waiving the sample", "needs data"),
        (None, "PASS", "time limit"),
    ],
)
def test_the_outcome_of_a_run(status, printed, outcome):
    assert whole_programs.classed(status, printed, "")[0] == outcome


def test_findings_and_refusals():
    assert whole_programs.classed(1, "PASS", "DataRace: k: x[0]")[0] == "finding"
    assert whole_programs.classed(2, "", "CompileError: k.cu")[0] == "refused"
