"""Profiles of a GPU's work: kernels under their range, and a host clock that measures the launch only."""

from __future__ import annotations

import json

import pytest
import torch

import warpwise.ops  # noqa: F401 - registers its operations
from warpwise import operation
from warpwise.lab.profile import naive_clock, profile

pytestmark = pytest.mark.gpu


def test_a_rungs_kernel_is_in_the_table_and_under_its_range_in_the_trace(tmp_path):
    op = operation.get("softmax")
    x = torch.randn(512, 512, device="cuda")
    result = profile(lambda: op(x, -1, rung="k03"), trace=tmp_path / "t.json", device="cuda")
    rows = {row.name: row for row in result.table}
    assert rows["softmax:k03_warp_shuffle"].cuda > 0
    assert result.on_gpu
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert any(event.get("cat") == "kernel" and "softmax_warp_shuffle" in event["name"] for event in events)
    assert any(event.get("name") == "softmax:k03_warp_shuffle" for event in events)


def test_an_unsynchronised_clock_measures_the_launch_only():
    x = torch.randn(8192, 8192, device="cuda")
    result = naive_clock(torch.sin, x, repeats=20)
    seconds = {reading.method: reading.seconds for reading in result.readings}
    assert seconds["time.time, not synchronised"] < result.lab.seconds
    assert result.remark == ""
