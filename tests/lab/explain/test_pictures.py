"""The pictures: what they show of counters made by hand, in text, rich, HTML and SVG."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console
from tests.lab.explain.handmade import FILE, load, made, row, sample

from warpwise.device import Profile
from warpwise.lab.explain.execution import MachineRun, assembled
from warpwise.lab.explain.model import source_lines
from warpwise.lab.explain.model.explanation import Agreement, Explanation, Resources
from warpwise.lab.explain.model.hardware import hardware
from warpwise.lab.explain.options import Options
from warpwise.lab.explain.render import format as fmt
from warpwise.lab.explain.render import html, lanes, terminal
from warpwise.lab.explain.words import listed
from warpwise.machine.counts import Buffer, Counts, Sample

SOURCE = """__global__ void kernel(const float* x, float* y) {
  __shared__ float tile[32][32];
  float a = x[threadIdx.x * 256];  // <&>
  tile[threadIdx.x][0] = a;
  y[threadIdx.x] = a;

}"""


def counted() -> Counts:
    """A strided load on line 3, a 32-way bank conflict on line 4, a dense store on line 5, a line that never ran."""
    samples = {
        0: (replace(sample(0, 1024, start=4096), sectors=32),),
        1: (replace(sample(1, 128), sectors=0, wavefronts=32),),
        2: (replace(sample(2, 4, start=2**20), sectors=4),),
    }
    shared = {"requests": 100, "wavefronts": 3200, "ideal_wavefronts": 100, "conflicts": 3100}
    return made(
        load("LDG.E", 3, 100, sectors=32, ideal=4, tags=32, stall_cycles=9000),
        row("STS", 4, 100, **shared),
        load("STG.E", 5, 100, sectors=4, ideal=4, tags=1, stall_cycles=1000),
        row("FADD", 7, 0),
        samples=samples,
        buffers=(Buffer("x", 4096, 2**16, 4), Buffer("y", 2**20, 2**16, 4)),
    )


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    run = MachineRun(
        counted(), agrees=Agreement("yes", "1,024 elements of 'y' equal those of the checked run up to rounding")
    )
    return assembled(
        "kernel",
        Profile.of("sm_90"),
        (1056, 1, 1),
        (256, 1, 1),
        Resources(32, 4096, instructions=4),
        run.counts.program,
        run,
        FILE,
        SOURCE,
        Options(),
        {},
    )  # type: ignore[union-attr]


@pytest.mark.parametrize("width", [60, 80, 100, 160, 240])
def test_text_keeps_to_the_width_and_says_what_there_is(explanation: Explanation, width: int) -> None:
    text = explanation.text(width)
    assert max(map(len, text.splitlines())) <= width
    for wanted in (
        "kernel",
        "H200",
        "limited by",
        "32 registers",
        "agree: 1,024",
        "kernel.cu",
        "Limits of these counters",
    ):
        assert wanted in text
    assert re.search(r"\b4▶.*tile\[threadIdx", text), "the line that wastes most is pointed at"


def test_text_columns(explanation: Explanation) -> None:
    rows = {line.split()[0].rstrip("▶█▓▒░"): line for line in explanation.text(160).splitlines() if line.strip()}
    assert "90 %" in rows["3"] and "3.2 k" in rows["3"] and "8×" in rows["3"]
    assert "32×" in rows["4"] and "100" in rows["4"]
    assert rows["5"].rstrip().endswith("400    1×")
    assert "0" not in rows["7"].partition("}")[2]


def test_narrow_text_keeps_the_memory_columns(explanation: Explanation) -> None:
    assert [column.key for column in source_lines.shown_columns(explanation.lines)] == [
        "stall_cycles",
        "executed",
        "sectors",
        "wavefronts",
    ]
    narrow = explanation.text(84)
    assert "sectors (×ideal)" in narrow and "instr" not in narrow.partition("── kernel.cu")[2].splitlines()[1]


@pytest.mark.parametrize(
    "unit, shown", [("latency", "waits"), ("issue slots", "instr"), ("DRAM", "sectors"), ("L1 data stage", "shared")]
)
def test_narrow_text_keeps_the_column_of_the_limiting_unit(explanation: Explanation, unit: str, shown: str) -> None:
    assert explanation.prediction is not None
    prediction = replace(explanation.prediction, units={**explanation.prediction.units, unit: 1.0})
    text = replace(explanation, prediction=prediction).text(62)
    titles = text.partition("── kernel.cu")[2].splitlines()[1]
    (dropped,) = [line for line in text.splitlines() if "62 columns have no room for" in line]
    assert shown in titles and shown not in dropped
    everything = explanation.text(140)
    assert "columns have no room" not in everything and "waits" in everything and "instr" in everything


def test_a_legend_explains_the_marks_and_the_columns(explanation: Explanation) -> None:
    text = " ".join(explanation.text(120).split())
    assert "░▒▓█ at least 3 %, 10 %, 25 % and 50 % of a column's total · ▶ the line drawn below" in text
    assert "sectors: 32-byte sectors of global memory, and factor over the ideal" in text


def test_rich_prints_the_same_text_in_colour_and_without(explanation: Explanation) -> None:
    plain, coloured = io.StringIO(), io.StringIO()
    Console(file=plain, width=120, color_system=None).print(explanation)
    Console(file=coloured, width=120, color_system="truecolor", force_terminal=True).print(explanation)
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured.getvalue())
    lines = [
        [line.rstrip() for line in text.splitlines()] for text in (plain.getvalue(), stripped, explanation.text(120))
    ]
    assert lines[0] == lines[1] == lines[2]
    assert "\x1b[" in coloured.getvalue()
    assert "x[threadIdx.x * 256]" in plain.getvalue(), "square brackets are no markup"


def test_one_line_can_be_chosen(explanation: Explanation) -> None:
    text = explanation.text(120, line=5)
    assert "kernel.cu:5, one warp's store: global memory" in text and "which is ideal" in text
    with pytest.raises(LookupError, match="no machine code for line 6"):
        explanation.text(120, line=6)
    assert " 1   __global__" not in explanation.text(120) and "1   __global__" in explanation.text(120, all_lines=True)


def test_a_strided_load_fills_a_sector_a_lane(explanation: Explanation) -> None:
    one = lanes.requests(explanation, explanation.line(3))[0]
    assert (one.kind, one.action, one.cost, one.ideal, one.counted, one.active) == ("global", "load", 32, 4, 32, 32)
    assert [row.label for row in one.rows[:3]] == ["x[0]", "x[256]", "x[512]"] and len(one.rows) == 32
    assert one.rows[5].cells[0] == (5,) and one.rows[5].sectors == (True, False, False, False)
    assert one.pattern == "each lane is 256 elements from the previous lane"
    text = [terminal.plain(each) for each in terminal.lane_rows(one, 120)]
    assert text[0].strip() == "32 lanes, 4 bytes each: 32 sectors where 4 would be ideal (8×)"
    assert (
        any(line.split()[:3] == ["x[1,280]", "5", "··"] for line in text) and "20 more lines of 128 bytes" in text[-1]
    )


def test_a_column_of_a_tile_meets_one_bank(explanation: Explanation) -> None:
    one = lanes.requests(explanation, explanation.line(4))[0]
    assert (one.kind, one.cost, one.ideal, one.counted) == ("shared", 32, 1, 32)
    assert all(row.cells[0] == (number,) and not any(row.cells[1:]) for number, row in enumerate(one.rows))


def test_a_dense_store_fills_one_line(explanation: Explanation) -> None:
    one = lanes.requests(explanation, explanation.line(5))[0]
    assert one.cost == one.ideal == 4 and one.where == "y"
    assert [row.cells for row in one.rows] == [tuple((lane,) for lane in range(32))]


@pytest.mark.parametrize(
    "bytes, step, rows, first",
    [
        (16, 16, 4, (0, 0, 0, 0, 1, 1, 1, 1)),  # quarter warps, eight lanes of four banks each
        (8, 8, 2, (0, 0, 1, 1, 2, 2, 3, 3)),  # half warps
        (4, 4, 1, (0, 1, 2, 3, 4, 5, 6, 7)),
        (4, 0, 1, (0, None, None, None, None, None, None, None)),  # a broadcast
        (16, 0, 2, (0, 0, 0, 0, None, None, None, None)),  # two quarters together
        (4, 8, 2, (0, None, 1, None, 2, None, 3, None)),  # two-way conflict
    ],
)
def test_wavefronts_of_shared_accesses(bytes: int, step: int, rows: int, first: tuple[int | None, ...]) -> None:
    counts = made(row("LDS", 1, 1, requests=1, wavefronts=rows, ideal_wavefronts=1))
    one = lanes.shared_request(counts, replace(sample(0, step, bytes=bytes), wavefronts=rows))
    assert len(one.rows) == rows
    assert tuple(cell[0] if cell else None for cell in one.rows[0].cells[:8]) == first
    assert {lane for each in one.rows for cell in each.cells for lane in cell} == set(range(32))


@pytest.mark.parametrize(
    "addresses, pattern",
    [
        ([64] * 32, "all lanes access one address"),
        (
            [4 * (lane % 8) for lane in range(32)],
            "lanes repeat after 8: neighbouring lanes access neighbouring addresses",
        ),
        ([4 * (lane // 8) for lane in range(32)], "groups of lanes share an address, 1 element apart"),
        (
            [4 * (lane % 16) + 4096 * (lane // 16) for lane in range(32)],
            "lanes step by 1 element, with jumps of 1,009 elements between groups",
        ),
        ([lane * lane * 4 for lane in range(32)], "lanes access addresses without a common stride"),
    ],
)
def test_patterns_in_words(addresses: list[int], pattern: str) -> None:
    counts = made(row("LDG", 1, 1, requests=1), buffers=(Buffer("x", 0, 2**20, 4),))
    one = lanes.global_request(counts, Sample(0, (0, 0, 0), 0, 0xFFFFFFFF, 4, tuple(addresses), 1, 1))
    assert one.pattern == pattern


def test_local_memory_lies_interleaved() -> None:
    counts = made(row("LDL", 1, 1, requests=1))
    one = lanes.global_request(counts, Sample(0, (0, 0, 0), 0, 0xFFFFFFFF, 4, (16,) * 32, 4, 1))
    assert one.kind == "local" and one.rows[0].cells == tuple((lane,) for lane in range(32))


def test_a_wide_access_of_local_memory_takes_a_line_for_each_of_its_words() -> None:
    counts = made(row("STL", 1, 1, requests=1))
    one = lanes.global_request(counts, Sample(0, (0, 0, 0), 0, 0xFFFFFFFF, 16, (32,) * 32, 16, 1))
    assert [r.cells for r in one.rows] == [tuple((lane,) for lane in range(32))] * 4
    assert (one.counted, one.ideal, one.factor) == (16, 16, 1.0) and "neighbouring" in one.pattern
    assert [r.label for r in one.rows] == [f"local word {word}" for word in (8, 9, 10, 11)]


def test_lanes_that_are_off_touch_nothing() -> None:
    counts = made(row("LDG", 1, 1, requests=1), buffers=(Buffer("x", 0, 2**20, 4),))
    one = lanes.global_request(counts, Sample(0, (0, 0, 0), 0, 0b101, 4, tuple(range(0, 128, 4)), 1, 1))
    assert one.active == 2 and [lane for lane, _ in one.lanes] == [0, 2]
    assert [word for word, cell in enumerate(one.rows[0].cells) if cell] == [0, 2]


def parsed(fragment: str) -> ElementTree.Element:
    """The fragment as XML: its tags are closed and its text escaped."""
    fragment = re.sub(r"<style>.*?</style>", "", fragment, flags=re.DOTALL)
    return ElementTree.fromstring(f"<div>{fragment}</div>")


def test_html_is_well_formed_and_complete(explanation: Explanation) -> None:
    tree = parsed(explanation._repr_html_())
    text = "".join(tree.itertext())
    for wanted in (
        "limited by",
        "x[threadIdx.x * 256];  // <&>",
        "Outputs agree",
        "Limits of these counters",
        "8×",
        "90 %",
    ):
        assert wanted in text
    opened = [each.get("id", "") for each in tree.iter("details") if each.get("open") is not None]
    assert len(opened) == 1 and opened[0].endswith("-4"), "the worst line's lanes are to be seen at once"
    hrefs = {link.get("href", "")[1:] for link in tree.iter("a")}
    ids = {each.get("id") for each in tree.iter() if each.get("id")}
    assert hrefs and hrefs <= ids, "links lead somewhere"


def test_svg_names_every_lane_for_readers_without_eyes(explanation: Explanation) -> None:
    tree = parsed(explanation.html(line=3))
    picture = next(tree.iter("svg"))
    assert picture.get("role") == "img" and picture.get("viewBox")
    titles = [each.text or "" for each in picture.iter("title")]
    width = float(picture.get("viewBox", "").split()[2])
    for note in picture.iter("text"):
        if note.get("text-anchor") is None and (note.text or "").endswith(" B"):
            longest = len("128 of 128 B")
            assert float(note.get("x", "")) + 6.5 * longest < width, "11 px text is about 6.5 px a character"
    assert titles[0] == "32 lanes, 4 bytes each: 32 sectors, at best 4"
    assert "lane 7: x[1,792]" in titles and "x[1,792] + 0 bytes: lane 7 (x[1,792])" in titles
    assert "lane 31: x[7,936]" in next(picture.iter("desc")).text  # type: ignore[operator]
    assert len(list(picture.iter("path"))) == 32


def test_a_page_stands_alone(explanation: Explanation) -> None:
    page = html.page([explanation, replace(explanation, kernel="other<&>")])
    assert page.startswith("<!DOCTYPE html>") and page.count('<article class="ww-explain"') == 2
    assert "prefers-color-scheme:dark" in page and "width=device-width" in page
    assert page.count("<style>") == 1 and "<script" not in page and "http" not in page.replace("http://www.w3.org", "")
    assert "other&lt;&amp;&gt;" in page and len(set(re.findall(r'<article class="ww-explain" id="([^"]+)"', page))) == 2


def test_without_counters_there_are_resources_and_occupancy() -> None:
    program = counted().program
    run = MachineRun(None, "the interpreter does not know HGMMA")
    made = assembled(
        "kernel", Profile.of("sm_90"), (1, 1, 1), (128, 1, 1), Resources(32), program, run, FILE, SOURCE, Options(), {}
    )
    assert "not possible: the interpreter does not know HGMMA" in made.text(100) and "32 registers" in made.text(100)
    assert "HGMMA" in "".join(parsed(made.html()).itertext())
    assert lanes.requests(made, made.line(3)) == []


@pytest.mark.parametrize(
    "got, wanted",
    [
        (fmt.count(0), "0"), (fmt.count(999), "999"), (fmt.count(1234), "1.23 k"), (fmt.count(16_777_216), "16.8 M"),
        (fmt.count(999_999), "1 M"), (fmt.seconds(1.39e-4), "139 µs"), (fmt.seconds(2e-6), "2 µs"),
        (fmt.seconds(9.9999e-4), "1 ms"), (fmt.size(49152), "48 KiB"), (fmt.percent(0.004), "< 1 %"),
        (fmt.times(8.01), "8×"), (fmt.times(1.5), "1.5×"), (fmt.dimensions((8, 1, 1)), "8"),
        (fmt.dimensions((8, 1, 2)), "8 × 1 × 2"), (fmt.bar(0.5, 4), "██  "), (fmt.bar(2, 2), "██"),
        (listed(["a", "b", "c"]), "a, b and c"), (listed([]), ""),
        (source_lines.ranges([3, 7, 8, 9]), "3, 7-9"),
    ],
)  # fmt: skip
def test_figures(got: str, wanted: str) -> None:
    assert got == wanted


def test_lane_colours_are_distinct_and_light_enough_for_dark_text() -> None:
    assert len(set(fmt.LANE_COLOURS)) == 32
    for colour in fmt.LANE_COLOURS:
        red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        assert 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.25


def test_hints_name_lines_of_the_source(explanation: Explanation) -> None:
    assert hardware("sm_90").name in explanation.text(100)
    found = [hint for hint in explanation.hints if hint.line]
    assert found and all(hint.file == FILE for hint in found)
