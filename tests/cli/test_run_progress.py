"""The notices of ``warpwise run`` about launches that take long."""

from __future__ import annotations

import time

import pytest

from warpwise.cuda.program.progress import Progress, text


@pytest.mark.parametrize(
    "counts, expected",
    [
        ((10.0, 250, 1000, 1, 10.0), "scale: 250 of 1,000 blocks after 10 s, about 30 s left"),
        ((10.0, 1, 1000, 1, 10.0), "scale: 1 of 1,000 blocks after 10 s, about 3 h left"),
        ((10.0, 0, 4, 1, 10.0), "scale: 0 of 4 blocks after 10 s"),
        ((0.2, 3, 4, 1500, 10.4), "scale: 3 of 4 blocks after 0 s; 1,500 launches in 10 s"),
    ],
)
def test_texts(counts: tuple[float, int, int, int, float], expected: str) -> None:
    assert text("scale", *counts) == expected


def test_only_a_launch_that_takes_long_is_described_with_advice_once() -> None:
    notices: list[str] = []
    progress = Progress(notices.append, first=0.1, tick=0.01)
    progress.began("short")
    progress.ended()
    progress.began("long")
    until = time.monotonic() + 60
    while len(notices) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    progress.ended()
    assert [notice.startswith("long: ") for notice in notices[:2]] == [True, True]
    assert "A smaller problem ends sooner" in notices[0]
    assert "\n" not in notices[1]
