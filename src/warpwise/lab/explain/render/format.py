"""Format numbers for the renderings; colours of lanes and heat."""

from __future__ import annotations

import math

LANES = 32
LIMITS = (0.03, 0.1, 0.25, 0.5)  # shares of the whole at which the colour changes
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def count(value: float) -> str:
    """``4.19 M``: three digits and a prefix."""
    for size, prefix in _PREFIXES:
        if abs(value) >= size * 0.9995:
            return f"{_three(value / size)} {prefix}"
    return f"{value:.0f}" if float(value).is_integer() else _three(value)


def seconds(value: float) -> str:
    """``81.4 µs``."""
    for size, unit in _TIMES:
        if value >= size * 0.9995:
            return f"{_three(value / size)} {unit}"
    return f"{_three(value / 1e-9)} ns" if value else "0 s"


def size(value: int) -> str:
    """Bytes: ``48 KiB``."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= unit:
            return f"{_three(value / unit)} {name}"
    return f"{value} B"


def percent(share: float) -> str:
    """``61 %``; a share that would round to 0 is ``< 1 %``."""
    if 0 < share < 0.005:
        return "< 1 %"
    return f"{100 * share:.0f} %"


def times(factor: float) -> str:
    """``8×``, ``1.5×``."""
    return f"{factor:.0f}×" if factor >= 9.95 or abs(factor - round(factor)) < 0.05 else f"{factor:.1f}×"


def dimensions(sizes: tuple[int, int, int]) -> str:
    """``8 × 8`` for (8, 8, 1): trailing ones are omitted."""
    last = max((axis for axis, size in enumerate(sizes) if size != 1), default=0)
    return " × ".join(f"{size:,}" for size in sizes[: last + 1])


def _three(value: float) -> str:
    """Three significant digits without an exponent or trailing zeros."""
    if not value:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def bar(share: float, width: int) -> str:
    """A bar of ``share`` of ``width`` columns, to an eighth of one."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def heat(share: float) -> int:
    """The colour step of a share of the whole, 0 (cold) to 4 (hot)."""
    return sum(share >= limit for limit in LIMITS)


def _srgb(lightness: float, chroma: float, hue: float) -> str:
    """OKLCH to a hexadecimal sRGB colour (Björn Ottosson, "A perceptual color space for image processing", 2020)."""
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )

    def encoded(value: float) -> int:
        value = min(max(value, 0.0), 1.0)
        return round(255 * (12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055))

    return "#" + "".join(f"{encoded(value):02x}" for value in linear)


LANE_COLOURS = tuple(
    _srgb(0.74 + 0.10 * lane / (LANES - 1), 0.125, 285 - 225 * lane / (LANES - 1)) for lane in range(LANES)
)
"""Lane 0 violet to lane 31 amber, light enough for dark text; neighbouring lanes have similar colours."""
