"""Ladders and timings as a notebook shows them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from tests.lab.fakes import FakeTimer
from tests.lab.report.reading import Read
from tests.lab.toys import AFFINE, op

from warpwise import lab
from warpwise.lab.report import draw
from warpwise.lab.timing.samples import Clock
from warpwise.operation import Cost


def good(output: torch.Tensor, x: torch.Tensor) -> None:
    output.copy_((2 * x.double() + 1).to(x.dtype))


def bad(output: torch.Tensor, x: torch.Tensor) -> None:
    output.copy_(2 * x)


TIMING = lab.Timing(
    "k02 <b>",
    4e-5,
    3.9e-5,
    4.1e-5,
    20,
    0.1,
    "NVIDIA H200",
    "CUDA events",
    Cost(64_000_000, 0),
    16e-6,
    "memory",
    Clock(1700, 1900, 1980),
    throttled=True,
)


def test_a_timing_shows_its_interval_and_where_it_is_from() -> None:
    text = Read(TIMING._repr_html_()).text
    assert (
        "40 µs" in text
        and "k02 <b> · 1,600 GB/s · 40 % of the ceiling · 95 % interval 39 µs to 41 µs, 20 samples" in text
    )
    assert "NVIDIA H200, SM clock 1,900 MHz; CUDA events; the SM clock was low" in text


def test_a_void_timing_shows_why_and_no_number() -> None:
    nothing = float("nan")
    text = Read(
        dataclasses.replace(TIMING, void="wrong <after>", median=nothing, low=nothing, high=nothing)._repr_html_()
    ).text
    assert text == "k02 <b>: void: wrong <after>"


def test_a_ladder_shows_verdicts_and_no_time_of_emulation() -> None:
    ladder = lab.climb(op(AFFINE, good, bad), device="cpu", dtypes=[torch.float32], seeds=(0,))
    html = ladder._repr_html_()
    read = Read(html)
    assert [row[:3] for row in read.rows if row and row[0] in ("good", "bad")] == [
        ["good", "a test", "✓ right"],
        ["bad", "a test", "✗ wrong"],
    ]
    assert "GPU kernels emulated" in read.text
    assert "output[0]" in read.text, "the failure is shown"
    assert "<svg" not in html and "GB/s" not in read.text and " ms" not in read.text
    assert all(not href for href in read.all("href"))


@pytest.mark.parametrize("drawable", [True, False])
def test_a_timed_ladder_shows_bars_where_they_can_be_drawn(drawable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    timer = FakeTimer(good=[2e-5] * 9, torch=[4e-5] * 9)
    ladder = lab.climb(
        op(AFFINE, good),
        device="cpu",
        dtypes=[torch.float32],
        seeds=(0,),
        timer=timer,
        ceilings=lambda *_: None,
        compiled=False,
    )

    def missing() -> None:
        raise draw.MissingLibrary("not here")

    if not drawable:
        monkeypatch.setattr(draw, "require_library", missing)
    html = ladder._repr_html_()
    assert ("<svg" in html) is drawable
    assert "<a " not in html
    row = next(row for row in Read(html).rows if row[:2] == ["good", "20 µs"])
    assert "2.00 ×" in row


def test_a_ladder_of_a_cpu_shows_what_was_recorded_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    import warpwise.ops  # noqa: F401 - registers the operations

    path = Path(__file__).parents[3] / "benchmarks" / "results" / "h200" / "square.json"
    kept = lab.recorded("square", [path.parents[1]])
    assert kept is not None
    ladder = lab.Ladder("square", "x²", "cpu: EPYC", {"date": "2026-03-01T12:00:00+00:00"}, (), recorded=kept)
    text = Read(ladder._repr_html_()).text
    assert f"Recorded on {kept.device}, {kept.date[:10]}, not measured here: " in text
