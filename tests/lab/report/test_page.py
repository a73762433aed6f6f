"""The text of the pages: figures as recorded, all text escaped, no external files, and no broken link."""

from __future__ import annotations

import dataclasses
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.report.reading import README, Read, explained
from tests.lab.report.samples import CPU, full, ladder, source, timed, toy, verdict

from warpwise.lab import report
from warpwise.lab.report import charts, draw, html, tables
from warpwise.lab.report.collected import Verified
from warpwise.lab.report.counters import LaunchCounters, NcuCounters
from warpwise.lab.report.explained import Explained
from warpwise.lab.report.page import page
from warpwise.lab.timing.timing import duration


@pytest.fixture
def drawn(tmp_path: Path) -> Read:
    return Read(page(full(toy(tmp_path, README)), explained()))


def test_the_figures_are_those_that_were_recorded(tmp_path: Path) -> None:
    found = full(toy(tmp_path))
    read = Read(page(found))
    for point in found.points:
        for one in point.entries:
            assert one.median is not None
            rows = [row for row in read.rows if row[:2] == [one.name, duration(one.median)]]
            assert rows, f"{point.case} {point.dtype} {one.name}"
    k02 = next(row for row in read.rows if row[:2] == ["k02_wide", "40 µs"])
    assert k02[2:] == ["39.6 µs – 40.4 µs", "20", "1,600 GB/s", "40 %", "1.50 ×", "×4.00"]
    assert "40 µsk02_widethe best rung at large, 8192, float32" in read.text
    assert "1.50 ×" in read.text and "the speed of torch.compile" in read.text
    assert "of what the NVIDIA H200 copies" in read.text and "1,600 of 4,000 GB/s" in read.text


def test_marks_of_the_charts_carry_their_figures(drawn: Read) -> None:
    labels = [
        attributes["aria-label"] for tag, attributes in drawn.elements if tag == "path" and "aria-label" in attributes
    ]
    wanted = (
        "k02_wide: 40 µs (95 % interval 39.6 µs to 40.4 µs, 20 samples), 1,600 GB/s, 40 % of the ceiling, 1.50 × "
        "torch.compile"
    )
    assert sum(label == wanted for label in labels) == 4, "two ladders, wide and narrow, for both dtypes"
    assert any(label.startswith(wanted) and "FLOP per byte of DRAM traffic" in label for label in labels)
    assert any(label.startswith("small, 2048: torch: 20 µs") for label in labels)


def test_the_page_needs_nothing_from_outside(drawn: Read) -> None:
    for tag, attributes in drawn.elements:
        assert tag not in ("img", "iframe", "object", "embed"), tag
        for name in ("src", "href", "xlink:href", "action", "srcset"):
            value = attributes.get(name, "")
            assert value.startswith(("#", "data:,")) or value in ("", "index.html"), f"{tag} {name}={value}"
    assert "@import" not in html.resource("page.css") and "url(" not in html.resource("page.css")
    assert "http" not in html.resource("page.js")
    assert "example.org" not in " ".join(value for _, attributes in drawn.elements for value in attributes.values())


def test_links_lead_to_what_is_there_and_ids_are_one_of_a_kind(drawn: Read) -> None:
    ids = drawn.all("id")
    assert len(ids) == len(set(ids))
    inside = {href[1:] for href in drawn.all("href") if href.startswith("#")}
    assert inside - {"torch", "torch.compile"} <= set(ids)
    assert {"k01_naive", "k02_wide", "k03_triton"} <= set(ids)


def test_names_texts_and_sources_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'&"
    op = toy(tmp_path, f"**{evil}.** {evil} `{evil}`\n\n| `k01_naive` | {evil} | {evil} | |\n", summary=evil)
    entries = [timed("k01_naive", 1e-5), timed("torch", 2e-5, message=evil)]
    bad = [verdict("k01_naive", "wrong", evil)]
    found = report.collect(op, [source(*bad, *entries)])
    found = dataclasses.replace(found, environment={**found.environment, "driver": evil})
    text = page(found, {"k01_naive": Explained(reason=evil)})
    read = Read(text)
    assert sum(tag == "script" for tag, _ in read.elements) == 1
    assert text.count("<script>") == 1
    assert read.text.count("<script>alert(1)</script>") >= 5
    assert "idea <0> & more" in read.text


def test_a_prediction_stands_beside_what_came(drawn: Read) -> None:
    assert "changes 16-byte loads" in drawn.text.replace("changes16", "changes 16")
    assert "9 µs: float4" in drawn.text
    assert "small, float16: 10 µs (95 % interval" in drawn.text
    chosen = next(
        attributes["value"] for tag, attributes in drawn.elements if tag == "option" and "selected" in attributes
    )
    assert chosen == "small float16 2048", "the point that the predictions are for is shown first"


def test_verdicts_and_findings_are_shown(tmp_path: Path) -> None:
    op = toy(tmp_path)
    bad = source(
        verdict("k01_naive", "wrong", "ragged(n=3): y[2] is 0"),
        verdict("k02_wide", "untested", "too wide"),
        minutes=3,
        device=CPU,
    )
    text = Read(page(report.collect(op, [source(*ladder()), bad]))).text
    assert "✗ wrong emulated on EPYC 9654, 2026-03-01" in text
    assert "ragged(n=3): y[2] is 0" in text
    assert "too wide" in text
    assert "k03_triton" in text and "not verified" in text


def test_the_verdict_on_the_gradient_is_shown(tmp_path: Path) -> None:
    gradient = dataclasses.replace(verdict("gradient", "wrong", "a call: the gradient of x[0] is 3"), kind="gradient")
    collected = report.collect(toy(tmp_path), [source(*ladder(), gradient, device=CPU)])
    (row,) = [row for row in tables.verdicts(collected).rows if row[0] == "gradient"]
    assert row[1].text == "✗ wrong" and row[4] == "EPYC 9654"
    assert "gradient" not in collected.rungs
    assert "a call: the gradient of x[0] is 3" in Read(page(collected)).text


def test_errors_are_explained_where_they_are_shown(tmp_path: Path) -> None:
    op = toy(tmp_path)
    results = source(*(verdict(rung.name) for rung in op.rungs), device=CPU)
    for worst in (float("nan"), 0.5):
        verdicts = {op.rungs[0].name: Verified("right", CPU, results.run.started, 3, worst=worst)}
        text = Read(page(report.collect(op, [dataclasses.replace(results, verdicts=verdicts)]), explained())).text
        assert ("An error of 1 is the tolerance" in text) == ("worst error / tolerance" in text) == (worst == 0.5)


def test_what_was_emulated_never_looks_timed(tmp_path: Path) -> None:
    op = toy(tmp_path)
    found = report.collect(op, [source(*(verdict(rung.name) for rung in op.rungs), device=CPU)])
    text = page(found, explained())
    read = Read(text)
    assert "Nothing was timed." in read.text
    assert "GPU kernels ran emulated on EPYC 9654, which verifies their results" in read.text
    assert "but does not indicate their speed on a GPU." in read.text
    assert "Predicted, not measured" in read.text
    assert not re.search(r"Measured on|of the ceiling|GB/s|× the best", read.text)
    bars = [
        attributes
        for tag, attributes in read.elements
        if tag == "path" and attributes.get("aria-roledescription") == "bar"
    ]
    assert bars and all(bar["fill"] == "none" and "stroke-dasharray" in bar for bar in bars), "outlined: not measured"


def test_times_of_a_cpu_say_so(tmp_path: Path) -> None:
    text = Read(page(report.collect(toy(tmp_path), [source(*ladder(), device=CPU)]))).text
    assert "timed on a CPU (EPYC 9654), 2026-03-01" in text


def test_the_explanation_says_where_the_time_goes(drawn: Read) -> None:
    assert "42 µs predicted on one H200 SXM, limited by DRAM (DRAM 40 µs, L2 9 µs)" in drawn.text
    assert "uncoalesced <loads> up to 4× faster line 4: 8 × the sectors Change the order." in drawn.text
    assert "Not explained: OutOfBounds: y[<9>]" in drawn.text
    assert "Stall cycles in included files: pack.cuh 25 %." in drawn.text
    row = next(
        row for row in drawn.rows if row[-1:] == ["  if (i < n) y[i] = 2 * x[i] + 1;  // <b>&amp;"] and len(row) == 5
    )
    assert [cell.strip() for cell in row[:4]] == ["50 %", "40", "64 8×", "4"]


def test_a_prediction_at_a_timed_size_is_compared(tmp_path: Path) -> None:
    text = Read(page(full(toy(tmp_path)), explained())).text
    assert "Measured on the NVIDIA H200 at this size: 160 µs; the prediction is 74% too low." in text


@given(st.lists(st.floats(0, 200), max_size=12).map(sorted))
def test_labels_stand_apart_and_inside(spots: list[float]) -> None:
    placed = charts.spread(spots, 11.0, 0.0, 224.0)
    assert all(later - earlier >= 11.0 - 1e-6 for earlier, later in pairwise(placed))
    assert all(-1e-6 <= spot <= 224.0 for spot in placed)


def test_tidying_leaves_texts_and_keeps_links_inside() -> None:
    specification = {
        "data": {"values": [{"t": "0.123456 ms"}]},
        "mark": {"type": "text"},
        "encoding": {"text": {"field": "t"}, "href": {"value": "#here"}},
    }
    made = draw.svg(specification, 'a "label"')
    assert ">0.123456 ms<" in made and 'href="#here"' in made and "http" not in made
    assert Read(made).elements[0][1]["aria-label"] == 'a "label"'


def test_the_index_leads_to_every_page(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    one = full(toy(folders[0]))
    op = toy(folders[1], schema="index(Tensor x) -> Tensor")
    run = dataclasses.replace(source().run, op="index", device=CPU)
    other = report.collect(op, [report.RecordedRun(run, (verdict("k01_naive", "wrong", "y[0]"),))])
    made = report.write([one, other], tmp_path / "out")
    assert [path.name for path in made] == ["index.html", "affine.html", "index_.html"]
    read = Read(made[0].read_text())
    assert {"affine.html", "index_.html"} <= set(read.all("href"))
    assert (
        "2 operations, 6 rungs. In 1 of 1 the best rung is as fast as the best opponent or faster. Wrong: index "
        "k01_naive." in read.text
    )
    assert [
        "affine",
        "k02_wide",
        "large, float32",
        "40 µs",
        "1,600 GB/s",
        "40 %",
        "1.50 × torch.compile",
        "3 right",
    ] in read.rows
    assert all((tmp_path / "out" / href).is_file() for href in read.all("href") if href.endswith(".html"))
    assert not list((tmp_path / "out").glob(".*")), "nothing temporary is left"


def test_a_page_that_cannot_be_made_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, folder = full(toy(tmp_path)), tmp_path / "out"
    report.write([found], folder)
    before_it = (folder / "affine.html").read_bytes()

    def broken(*args: object) -> str:
        raise OSError("no space left on device")

    monkeypatch.setattr("warpwise.lab.report.files.page", broken)
    with pytest.raises(OSError, match="no space left"):
        report.write([found], folder)
    assert (folder / "affine.html").read_bytes() == before_it
    assert sorted(path.name for path in folder.iterdir()) == ["affine.html", "index.html"]


def test_without_ceilings_cost_or_opponents_there_is_still_a_ladder(tmp_path: Path) -> None:
    bare = [
        timed("k01_naive", 2e-5, bytes=None, flops=None, floor=None, bound=""),
        timed("k02_wide", 1e-5, bytes=None, flops=None, floor=None),
    ]
    read = Read(page(report.collect(toy(tmp_path), [source(*bare)])))
    assert "10 µs" in read.text and "Calls per second." in read.text
    assert "the speed of" not in read.text and "The roofline" not in read.text


def test_explanations_survive_the_cache() -> None:
    from warpwise.lab.report.explained import _read

    one = explained()["k01_naive"]
    assert _read(json.loads(json.dumps(dataclasses.asdict(one)))) == one


def test_a_launch_that_a_gpu_does_not_get_is_not_compared(tmp_path: Path) -> None:
    found = full(toy(tmp_path))
    few = dataclasses.replace(found, environment={**found.environment, "multiprocessors": 132})
    text = Read(page(few, explained())).text
    assert "The launch differs on a GPU: grid 4 here." in text
    assert "too low" not in text
    counted = NcuCounters(
        {("k01_naive", "large", "float32"): (LaunchCounters("affine", (4, 1, 1), 32, 0, {}),)}, {"ncu": "1"}
    )
    assert "the prediction is 74% too low." in Read(page(dataclasses.replace(few, counters=counted), explained())).text
    other = NcuCounters(
        {("k01_naive", "large", "float32"): (LaunchCounters("affine", (1056, 1, 1), 32, 0, {}),)}, {"ncu": "1"}
    )
    text = Read(page(dataclasses.replace(few, counters=other), explained())).text
    assert "grid 4 here, and grid 1,056 on the NVIDIA H200." in text


def test_sizes_of_different_ceilings_share_one_unit(tmp_path: Path) -> None:
    compute = ladder(case="compute", bound="compute", flops=10**9, floor=30e-6)
    found = report.collect(toy(tmp_path), [source(*ladder(), *compute)])
    chart = charts.sizes(found.points, found.rungs, "rate")
    assert ">GB/s<" in chart
    for what in ("rate", "time"):
        labels = [
            attributes.get("aria-label", "")
            for _, attributes in Read(charts.sizes(found.points, found.rungs, what)).elements
        ]
        assert sum(label.startswith("compute, 8192: k02_wide") for label in labels) == 1
        assert sum(label.startswith("large, 8192: k02_wide") for label in labels) == 1
