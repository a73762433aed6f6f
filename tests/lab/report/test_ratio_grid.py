"""The grid of speed ratios: one bar a measured point; and the one in the documentation shows the recorded points."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tests.commands import python

from warpwise.lab.report import ratio_grid

SHAPES = {"square": (8, 8, 8), "row": (1, 8, 8), "unmeasured": (2, 2, 2)}


def bars(svg: str, kind: str) -> list[ElementTree.Element]:
    names = {"svg": "http://www.w3.org/2000/svg"}
    return ElementTree.fromstring(svg).findall(f".//svg:rect[@class='{kind}']", names)


def test_a_bar_for_each_point() -> None:
    points = {
        "fp32 square": {"chosen": "k11", "ratio": [1.25, 1.2, 1.3]},
        "fp32 row": {"chosen": "torch", "ratio": [0.8, 0.7, 0.9]},
        "bf16 square": {"chosen": "k17", "ratio": [0.98, 0.97, 0.99]},
        "bf16 row": {"rung": None, "note": "failed"},
        "fp8 square": {"chosen": "k05", "ratio": [24.77, 24.7, 24.8]},
    }
    svg = ratio_grid.drawn(
        points, ["fp32", "bf16", "fp8"], SHAPES, {"bf16": {"square": 1.05}}, "a GPU & a day", "cuBLAS"
    )
    assert [len(bars(svg, kind)) for kind in ("ahead", "theirs", "behind")] == [2, 1, 1]
    assert "2 × 2 × 2" not in svg and "a GPU &amp; a day" in svg
    assert ">1.250<" in svg and ">24.8<" in svg
    (ahead, past_the_end) = (float(bar.attrib["width"]) for bar in bars(svg, "ahead"))
    assert 0 < ahead < past_the_end <= ratio_grid.PIXELS


def test_the_picture_and_the_table_show_the_recorded_points() -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "matmul.py"
    done = python(script, "--show", "--check")
    assert done.returncode == 0, done.stderr
