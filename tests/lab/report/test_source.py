"""Sources on the pages: what changed since the rung before, colours, and the heat of lines."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.lab.report.reading import Read
from tests.lab.report.samples import full, toy

from warpwise.lab.explain.model.explanation import Line
from warpwise.lab.report.page import page
from warpwise.lab.report.source import before, coloured, difference, heated


def test_the_difference_marks_the_words_that_changed() -> None:
    old, new = ["int a = 1;", "same", "gone"], ["int b = 1;", "same", "come <x>"]
    rows = Read(difference(old, new, Path("a.cu"))).rows
    assert [row for row in rows if row[1] == "same"] == [["2", "same", "2", "same"]]
    text = difference(old, new, Path("a.cu"))
    assert "<del>a</del>" in text and "<ins>b</ins>" in text
    assert "come &lt;x&gt;" in text


def test_a_rung_is_compared_with_the_one_before_it_in_its_language(tmp_path: Path) -> None:
    op = toy(tmp_path)
    first, second, third = op.rungs
    assert before(op, first) is None and before(op, third) is None
    assert before(op, second) is first
    read = Read(page(full(op)))
    assert "what changed since k01_naive" in read.text
    assert any(len(row) == 4 and "twice(x[i])" in row[3] for row in read.rows)


SOURCE = st.text(st.characters(codec="utf-8", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=60)


@given(st.lists(SOURCE.filter(lambda text: "\n" not in text), max_size=12))
def test_colouring_changes_no_line(lines: list[str]) -> None:
    for name in ("a.cu", "a.py", "a.c"):
        made = coloured(lines, Path(name))
        assert len(made) == len(lines)
        assert ["".join(text for _, text in line) for line in made] == lines
        rows = Read(str(heated(lines, Path(name), {}, {}))).rows[1:]
        assert [row[-1] for row in rows] == [line or " " for line in lines]


def test_heat_follows_the_share_of_waiting() -> None:
    counters = {
        1: Line("a.cu", 1, "", counters={"stall_cycles": 90}),
        2: Line("a.cu", 2, "", counters={"stall_cycles": 10}),
    }
    read = Read(heated(["hot", "warm", "cold"], Path("a.cu"), counters, {"stall_cycles": 100.0}))
    assert [attributes.get("data-heat") for tag, attributes in read.elements if tag == "tr"] == [None, "4", "2", None]
