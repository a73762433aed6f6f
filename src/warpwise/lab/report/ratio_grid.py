"""An SVG grid of speed ratios: one row a shape, one column a dtype, one bar a point, which starts at a ratio of 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

NAMES, CELL = 170, 112  # widths of the column of shapes and of a cell, in pixels
ROW, TOP = 21, 70  # heights of a row and of the heading, in pixels
LOW, HIGH = 0.7, 1.5  # ratios at the ends of a cell's scale
PIXELS = 66  # the length of the scale
STYLE = """
text{font:12px system-ui,sans-serif;fill:#1f2328}.dim{fill:#59636e}.head{font-weight:600}.right{text-anchor:end}
.ahead{fill:#1a7f37}.behind{fill:#bc4c00}.theirs{fill:none;stroke:#59636e}.one{stroke:#59636e}.goal{stroke:#1f2328;stroke-width:2}
.band{fill:#818b981a}rect.ground{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.dim{fill:#9198a1}.ahead{fill:#3fb950}.behind{fill:#db6d28}
.theirs,.one{stroke:#9198a1}.goal{stroke:#f0f6fc}rect.ground{fill:#0d1117}}
"""


def drawn(
    points: Mapping[str, Mapping[str, Any]],
    kinds: Sequence[str],
    shapes: Mapping[str, tuple[int, ...]],
    goals: Mapping[str, Mapping[str, float]],
    title: str,
    baseline: str,
) -> str:
    """An SVG of the points named "KIND SHAPE", light or dark by the system's colour scheme.

    A point holds ``ratio``, the speed relative to ``baseline`` with its confidence interval, and ``chosen``, the
    implementation that the operation chooses there ("torch" for PyTorch's). Points without a ratio are left empty.
    """
    shown = {shape: sizes for shape, sizes in shapes.items() if any(f"{kind} {shape}" in points for kind in kinds)}
    width, height = NAMES + CELL * len(kinds) + 10, TOP + ROW * len(shown) + 34
    legend = f"bars start at 1, the speed of {baseline}; outlined: PyTorch is chosen; thick line: goal"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
        f'<text class="head" x="8" y="22">{escape(title)}</text>',
        f'<text class="dim" x="8" y="40">{escape(legend)}</text>',
        f'<text class="dim" x="8" y="{TOP - 8}">M × N × K</text>',
    ]
    for column, kind in enumerate(kinds):
        parts.append(f'<text class="head" x="{NAMES + column * CELL + at(1.0):.0f}" y="{TOP - 8}">{kind}</text>')
    for row, (shape, sizes) in enumerate(shown.items()):
        y = TOP + row * ROW
        if row % 2 == 0:
            parts.append(f'<rect class="band" x="0" y="{y}" width="{width}" height="{ROW}"/>')
        parts.append(f'<text x="8" y="{y + 15}">{" × ".join(map(str, sizes))}</text>')
        for column, kind in enumerate(kinds):
            point, goal = points.get(f"{kind} {shape}", {}), goals.get(kind, {}).get(shape)
            parts += cell(NAMES + column * CELL, y, point, goal)
    return "\n".join([*parts, *lines(len(kinds), TOP + ROW * len(shown)), "</svg>"]) + "\n"


def at(ratio: float) -> float:
    """The position of a ratio on a cell's scale, in pixels, clamped to the scale."""
    return PIXELS * (min(max(ratio, LOW), HIGH) - LOW) / (HIGH - LOW)


def cell(x: int, y: int, point: Mapping[str, Any], goal: float | None) -> list[str]:
    """A bar from 1 to the ratio and the ratio as text; an arrow if the ratio is off the scale."""
    if "ratio" not in point:
        return []
    ratio = point["ratio"][0]
    kind = "theirs" if point["chosen"] == "torch" else "ahead" if ratio >= 1 else "behind"
    left, right = sorted((at(1.0), at(ratio)))
    bar = f'<rect class="{kind}" x="{x + left:.1f}" y="{y + 6}" width="{max(right - left, 1):.1f}" height="9"/>'
    text = f"{ratio:.3f}" if ratio < HIGH else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"
    parts = [bar, f'<text class="right dim" x="{x + CELL - 8}" y="{y + 15}">{text}</text>']
    if ratio > HIGH:
        end = x + PIXELS
        parts.append(f'<path class="{kind}" d="M{end} {y + 4}l6 6.5l-6 6.5z"/>')
    if goal is not None:
        mark = x + at(goal)
        parts.append(f'<line class="goal" x1="{mark:.1f}" x2="{mark:.1f}" y1="{y + 3}" y2="{y + 18}"/>')
    return parts


def lines(kinds: int, bottom: int) -> list[str]:
    """The line at 1 in each column, and the labels of its scale."""
    parts = []
    for column in range(kinds):
        x = NAMES + column * CELL
        parts.append(f'<line class="one" x1="{x + at(1):.1f}" x2="{x + at(1):.1f}" y1="{TOP}" y2="{bottom}"/>')
        parts += [
            f'<text class="dim" text-anchor="middle" x="{x + at(ratio):.1f}" y="{bottom + 16}">{ratio:g}</text>'
            for ratio in (LOW, 1.0, HIGH)
        ]
    return parts
