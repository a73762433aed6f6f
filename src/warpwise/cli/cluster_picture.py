"""The pictures of ``warpwise cluster``: points in colours, with axes, a title and a legend. Needs Pillow."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from warpwise.cache import replacing

SIDE = 800  # pixels of the longer side of the area of the points
OUTSIDE = 255  # white, where a picture has no point
CERTAIN = 215  # grey of a point of uncertainty 0; 1 is black
TAIL, MARGIN = 0.002, 0.05  # of the positions, on each side, and of their extent: points beyond are drawn at the edge
NEAR = 1e-9  # of the largest position: the least extent of a picture
LARGEST = 12  # pixels: radius of a point
TEXT = 15  # pixels: height of the letters
LEFT, TOP, BOTTOM = 84, 40, 60  # pixels around the points: for the axes and the title
TICK, TICKS = 5, 6  # pixels, and about as many on the longer axis
# Okabe and Ito's colours, which people with colour blindness can tell apart.
FEW = ("E69F00", "56B4E9", "009E73", "F0E442", "0072B2", "D55E00", "CC79A7", "999999")
LEVELS = ((0.65, 0.9), (0.9, 0.6), (0.35, 0.95))  # saturation and value of one hue after another, for more colours
BLACK = (0, 0, 0)


class Area(NamedTuple):
    """The points: ``pixels`` (N, 2), row and column of each in a canvas of ``shape``, and its ``radius`` there. A pixel
    is 1 / ``scale`` units wide, and pixel (0, 0) is at ``origin``, in units of the axes; ``axes`` are their names."""

    pixels: np.ndarray
    shape: tuple[int, int]
    radius: float
    scale: float
    origin: tuple[float, float]
    axes: tuple[str, str]


def area_of_grid(places: np.ndarray, axes: tuple[str, str]) -> Area:
    """Of integer positions (N, 2), row and column: one square for each, enlarged to about SIDE pixels."""
    low = places.min(0)
    shape = places.max(0) - low + 1
    scale = max(1, SIDE // int(shape.max()))
    rows, columns = (int(size) * scale for size in shape)
    return Area((places - low) * scale, (rows, columns), 0, scale, (float(low[0]), float(low[1])), axes)


def area_of_points(places: np.ndarray, axes: tuple[str, str]) -> Area:
    """Of any positions (N, 2), row and column: discs that cover about half of the rectangle around them."""
    low, high = np.quantile(places, (TAIL, 1 - TAIL), axis=0)
    margin = MARGIN * (high - low).max()
    low, high = np.maximum(low - margin, places.min(0)), np.minimum(high + margin, places.max(0))
    longer = max(float((high - low).max()), NEAR * float(np.abs(high).max()), 1e-100)
    scale = (SIDE - 1) / longer
    sides = np.maximum(np.round((high - low) * scale), 0)
    radius = min(math.sqrt((sides + 1).prod() / len(places)) / 2, LARGEST)
    edge = math.ceil(radius) + 2
    rows, columns = (int(side) + 1 + 2 * edge for side in sides)
    pixels = np.round((np.clip(places, low, high) - low) * scale).astype(int) + edge
    origin = low - edge / scale
    return Area(pixels, (rows, columns), radius, scale, (float(origin[0]), float(origin[1])), axes)


def palette(count: int) -> np.ndarray:
    """(count, 3) uint8: a colour for each domain."""
    if count <= len(FEW):
        return np.array([list(bytes.fromhex(colour)) for colour in FEW[:count]], np.uint8)
    hue = np.arange(count) * 255 // count
    levels = np.array([LEVELS[number % len(LEVELS)] for number in range(count)]) * 255
    wheel = np.concatenate([hue[:, None], levels], 1).astype(np.uint8)
    return np.asarray(Image.fromarray(wheel[None], "HSV").convert("RGB"))[0]


def grey(uncertainty: Any) -> np.ndarray:
    """(N, 3) uint8: the colours of points of ``uncertainty`` (N,)."""
    return np.repeat(np.round(CERTAIN * (1 - np.atleast_1d(uncertainty)))[:, None], 3, 1).astype(np.uint8)


def save(
    path: Path, area: Area, colours: np.ndarray, title: str, heading: str, legend: Sequence[tuple[str, Any]]
) -> None:
    """Write the points in their ``colours`` (N, 3), with the ``title`` above, and on the right the ``legend``, texts
    and colours below a ``heading``."""
    picture = _canvas(area, colours)
    font = _font()
    texts = max(_length(text, font) for text in (heading, *(text for text, _ in legend)))
    width = LEFT + max(picture.width + 4 * TEXT + texts, _length(title, font) + TEXT)
    height = TOP + max(picture.height, round(1.5 * TEXT * (len(legend) + 1)), _length(area.axes[0], font)) + BOTTOM
    whole = Image.new("RGB", (width, height), (OUTSIDE,) * 3)
    whole.paste(picture, (LEFT, TOP))
    pen = ImageDraw.Draw(whole)
    pen.rectangle((LEFT - 1, TOP - 1, LEFT + picture.width, TOP + picture.height), outline=BLACK)
    pen.text((LEFT, TOP / 2), title, BLACK, font, anchor="lm")
    _axes(pen, area, font)
    whole.paste(_upwards(area.axes[0], font), (4, TOP + max(0, (picture.height - _length(area.axes[0], font)) // 2)))
    pen.text((LEFT + picture.width + TEXT, TOP), heading, BLACK, font, anchor="la")
    for number, (text, colour) in enumerate(legend, 1):
        left, top = LEFT + picture.width + TEXT, TOP + round(1.5 * TEXT * number)
        pen.rectangle((left, top, left + TEXT, top + TEXT), fill=tuple(map(int, colour)), outline=BLACK)
        pen.text((left + 1.6 * TEXT, top + TEXT / 2), text, BLACK, font, anchor="lm")
    with replacing(path, ".png") as temporary:
        whole.save(temporary)


def _canvas(area: Area, colours: np.ndarray) -> Image.Image:
    canvas = np.full((*area.shape, 3), OUTSIDE, np.uint8)
    rows, columns = area.pixels.T
    if not area.radius:
        size = int(area.scale)
        small = np.full((area.shape[0] // size, area.shape[1] // size, 3), OUTSIDE, np.uint8)
        small[rows // size, columns // size] = colours
        return Image.fromarray(small.repeat(size, 0).repeat(size, 1))
    reach = math.floor(area.radius)
    for down in range(-reach, reach + 1):
        for right in range(-reach, reach + 1):
            if down * down + right * right <= area.radius**2:
                canvas[rows + down, columns + right] = colours
    return Image.fromarray(canvas)


def _axes(pen: ImageDraw.ImageDraw, area: Area, font: Any) -> None:
    """Ticks with their values, and the names of the axes."""
    rows, columns = area.shape
    step = _step(max(rows, columns) / area.scale / TICKS, least=0 if area.radius else 1)
    inside = 0.0 if area.radius else area.scale / 2  # a tick of a grid is at the middle of its square
    bottom = TOP + rows
    for value in _multiples(step, area.origin[1], columns / area.scale):
        x = LEFT + (value - area.origin[1]) * area.scale + inside
        pen.line((x, bottom, x, bottom + TICK), BLACK)
        pen.text((x, bottom + TICK + 2), _number(value, step), BLACK, font, anchor="mt")
    for value in _multiples(step, area.origin[0], rows / area.scale):
        y = TOP + (value - area.origin[0]) * area.scale + inside
        pen.line((LEFT - 1 - TICK, y, LEFT - 1, y), BLACK)
        pen.text((LEFT - TICK - 3, y), _number(value, step), BLACK, font, anchor="rm")
    pen.text((LEFT + columns / 2, bottom + BOTTOM - 6), area.axes[1], BLACK, font, anchor="ms")


def _upwards(text: str, font: Any) -> Image.Image:
    """A picture of ``text`` that is read from below."""
    made = Image.new("RGB", (_length(text, font), 2 * TEXT), (OUTSIDE,) * 3)
    ImageDraw.Draw(made).text((0, TEXT), text, BLACK, font, anchor="lm")
    return made.transpose(Image.Transpose.ROTATE_90)


def _length(text: str, font: Any) -> int:
    return max(1, math.ceil(font.getlength(text)))


def _step(length: float, least: float) -> float:
    """The number 1, 2 or 5 times a power of ten that is nearest above ``length``, and at least ``least``."""
    power = 10.0 ** math.floor(math.log10(max(length, 1e-300)))
    return max(next(power * factor for factor in (1, 2, 5, 10) if power * factor >= length), least)


def _multiples(step: float, begin: float, length: float) -> list[float]:
    first, last = math.ceil(begin / step), math.ceil((begin + length) / step)
    return [number * step for number in range(first, min(last, first + 4 * TICKS))]


def _number(value: float, step: float) -> str:
    digits = max(0, -math.floor(math.log10(step)))
    return f"{value:.{digits}f}" if abs(value) < 1e10 and digits < 6 else f"{value:.4g}"


@functools.cache
def _font() -> Any:
    return ImageFont.load_default(TEXT)
