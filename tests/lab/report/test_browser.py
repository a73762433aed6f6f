"""The pages in a headless Chromium: an empty console, and every plot drawn, wide, narrow, light, dark and printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.report.browser import Page, find_chromium
from tests.lab.report.reading import README, explained
from tests.lab.report.samples import CPU, full, source, toy, verdict

from warpwise.lab import report

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium: `apt-get install chromium` as root, or name one in WARPWISE_CHROMIUM"
    ),
]
# What of a chart can be seen: its marks that have figures and an area on the screen.
DRAWN = """(() => [...document.querySelectorAll('svg.chart')]
  .filter(chart => chart.getBoundingClientRect().width > 0)
  .map(chart => [...chart.querySelectorAll('path[aria-label]')].filter(mark => {
    const box = mark.getBoundingClientRect();
    return box.width > 0.5 && box.height > 0.5;
  }).length))()"""
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """affine.html with times, emulated.html without any, and their index."""
    import dataclasses

    folder, other = tmp_path_factory.mktemp("op"), tmp_path_factory.mktemp("other")
    op = toy(other, schema="emulated(Tensor x) -> Tensor")
    run = dataclasses.replace(source().run, op="emulated", device=CPU)
    emulated = report.collect(op, [report.RecordedRun(run, tuple(verdict(rung.name) for rung in op.rungs))])
    out = tmp_path_factory.mktemp("out")
    report.write([full(toy(folder, README)), emulated], out, [("affine", explained()), ("emulated", explained())])
    return out


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    assert CHROMIUM is not None
    with Page(tmp_path_factory.mktemp("profile"), CHROMIUM) as page:
        yield page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 820, 390])
def test_every_plot_is_drawn_and_fits(browser: Page, pages: Path, width: int, dark: bool) -> None:
    for name, marks in (("affine", [5, 5, 10, 10]), ("emulated", [1]), ("index", [2])):
        browser.problems.clear()
        browser.open(pages / f"{name}.html", width=width, dark=dark)
        assert browser.ask(DRAWN) == marks, name
        assert browser.ask(FITS), f"{name} is wider than {width} pixels"
        assert browser.problems == []


def test_light_and_dark_differ_and_can_be_chosen(browser: Page, pages: Path) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    bar = (
        "getComputedStyle(document.querySelector('.panel:not([hidden]) svg.wide path[aria-roledescription=bar]')).fill"
    )
    seen: dict[str, Any] = {}
    for dark in (False, True):
        browser.open(pages / "affine.html", dark=dark)
        seen[f"auto {dark}"] = (browser.ask(paper), browser.ask(bar))
    assert seen["auto False"][0] != seen["auto True"][0]
    assert seen["auto False"][1] != seen["auto True"][1], "the charts follow"
    browser.ask("document.getElementById('theme').click()")
    assert browser.ask("document.getElementById('theme').textContent") == "theme: light"
    assert (browser.ask(paper), browser.ask(bar)) == seen["auto False"]
    browser.ask("document.getElementById('theme').click(); document.getElementById('theme').click()")
    assert browser.ask("document.getElementById('theme').textContent") == "theme: auto"


def _middle(browser: Page, selector: str) -> tuple[float, float]:
    x, y = browser.ask(
        f"(() => {{ const mark = document.querySelector({selector!r}); mark.scrollIntoView({{block: 'center'}});"
        " const box = mark.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; })()"
    )
    return x, y


def test_figures_appear_under_the_pointer(browser: Page, pages: Path) -> None:
    browser.open(pages / "affine.html")
    x, y = _middle(browser, '.panel:not([hidden]) svg.wide a[href="#k02_wide"] path')
    browser.ask("new Promise(done => setTimeout(done, 100))")  # the scrolling hides it once
    browser.mouse(x, y)
    assert not browser.ask("document.getElementById('tip').hidden")
    assert browser.ask("document.getElementById('tip').textContent").startswith("k02_wide: 10 µs (95 % interval")
    assert browser.ask("[...document.querySelectorAll('svg.small a.on')].length") > 0, (
        "it stands out in the other charts"
    )
    browser.mouse(2, 2)
    assert browser.ask("document.getElementById('tip').hidden")
    assert browser.ask("document.querySelectorAll('svg.dim').length") == 0


def test_figures_appear_under_a_finger_that_comes_near(browser: Page, pages: Path) -> None:
    browser.open(pages / "affine.html", width=390, height=844)
    x, y = _middle(browser, 'figure:not([hidden]) svg.small a[href="#k01_naive"] path')
    browser.ask("new Promise(done => setTimeout(done, 100))")
    browser.tap(x + 9, y + 9)
    browser.ask("new Promise(done => setTimeout(done, 400))")
    tip = browser.ask(
        "(() => { const tip = document.getElementById('tip'), box = tip.getBoundingClientRect();"
        " return [tip.hidden, tip.textContent, box.left >= 0 && box.right <= innerWidth]; })()"
    )
    assert tip[0] is False and "k01_naive" in tip[1] and tip[2], tip
    assert browser.ask("location.hash") == "", "a second touch follows the link, not the first"


def test_the_keyboard_reaches_the_figures(browser: Page, pages: Path) -> None:
    browser.open(pages / "affine.html")
    browser.ask("document.querySelector('.panel:not([hidden]) svg.wide a[href=\"#k03_triton\"]').focus()")
    assert browser.ask("document.getElementById('tip').textContent").startswith("k03_triton: ")


def test_another_size_changes_everything_that_belongs_to_it(browser: Page, pages: Path) -> None:
    browser.open(pages / "affine.html")
    big = "[...document.querySelectorAll('.figure b')].filter(b => b.offsetParent).map(b => b.textContent)[0]"
    brief = (
        "[...document.querySelectorAll('#k02_wide .brief')].filter(b => b.offsetParent).map(b => b.textContent).join()"
    )
    assert (browser.ask(big), browser.ask(brief)) == ("10 µs", "10 µs · 40 % · ×4.00")
    browser.ask(
        "(() => { const select = document.getElementById('point'); select.value = 'large float32 8192';"
        " select.dispatchEvent(new Event('change')); })()"
    )
    assert (browser.ask(big), browser.ask(brief)) == ("40 µs", "40 µs · 40 % · ×4.00")
    assert browser.ask(DRAWN) == [5, 5, 10, 10]
    shown = (
        "[...document.querySelectorAll('[data-dtype]')].filter(part => part.offsetParent)"
        ".map(part => part.dataset.dtype).join()"
    )
    assert browser.ask(shown) == "float32"


def test_a_link_opens_its_rung(browser: Page, pages: Path) -> None:
    browser.open(pages / "affine.html", "#k01_naive")
    assert browser.ask("document.getElementById('k01_naive').open")
    assert browser.ask("document.querySelector('#k01_naive table.source').getBoundingClientRect().height") > 50
    browser.ask("document.getElementById('all').click()")
    assert browser.ask("[...document.querySelectorAll('details.rung')].every(rung => rung.open)")


def test_it_prints_with_everything_unfolded(browser: Page, pages: Path) -> None:
    browser.problems.clear()
    browser.open(pages / "affine.html", width=740, dark=True, media="print")
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 253)", "paper is light"
    assert browser.ask("document.querySelector('#k01_naive table.source').getBoundingClientRect().height") > 50
    assert browser.ask("getComputedStyle(document.querySelector('nav select')).display") == "none"
    assert browser.ask("document.querySelector('.panel:not([hidden]) svg.wide').getBoundingClientRect().width") > 300
    printed = browser.pdf()
    assert printed.startswith(b"%PDF") and len(printed) > 20_000
    assert browser.problems == []
