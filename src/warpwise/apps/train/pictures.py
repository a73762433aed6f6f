"""The results of a run as pictures and an HTML page: curves, misclassified images, the first layer's filters."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from pathlib import Path

import torch

from warpwise import cache
from warpwise.apps.train.trainer import Trainer

SHOWN = 56  # misclassified images, at most
ACROSS = 8  # images in a row
SIDE = 84  # pixels of the side of an image
CELL = (152, 126)  # width and height in pixels of an image with its two lines of text
LINE = 15  # height in pixels of a line of text
FILTER_SCALE, SCALE = 16, 3  # enlargement of a convolution's filters, and of a linear layer's
WIDTH, HEIGHT, MARGIN = 460, 240, 40  # pixels of a curve: it fits a page of 500 pixels unscaled
LEFT = 56  # the left margin, for the labels of the vertical axis


def png(pixels: torch.Tensor) -> bytes:
    """A grayscale PNG of ``pixels``: uint8 (H, W)."""
    height, width = pixels.shape
    rows = b"".join(b"\0" + bytes(row.tolist()) for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def sheet(images: torch.Tensor, across: int, scale: int, gap: int = 2) -> torch.Tensor:
    """uint8 images (N, H, W), enlarged, side by side in rows of ``across``, on white."""
    large = images.repeat_interleave(scale, 1).repeat_interleave(scale, 2)
    count, height, width = large.shape
    rows = -(-count // across)
    made = torch.full((rows * (height + gap), across * (width + gap)), 255, dtype=torch.uint8)
    for number, image in enumerate(large):
        top, left = number // across * (height + gap), number % across * (width + gap)
        made[top : top + height, left : left + width] = image
    return made


def filters(trainer: Trainer) -> torch.Tensor:
    """The first layer's weights as images (K, R, S) from 0 to 255: those of its first channel, or of each pixel."""
    weight = next(trainer.model.parameters()).detach().float().cpu()
    size = trainer.data.train.pixels.shape[-2:]
    images = weight[:, 0] if weight.dim() == 4 else weight.view(len(weight), -1, *size)[:, 0]
    low, high = images.amin((1, 2), keepdim=True), images.amax((1, 2), keepdim=True)
    return ((images - low) / (high - low).clamp_min(1e-12) * 255).round().to(torch.uint8)


def curve(values: list[float], title: str, unit: str) -> str:
    """An SVG line through ``values``, or a dot for one, whose axes are labelled with their ends."""
    low, high = min(values), max(values)
    spread = high - low or 1.0
    inner = (WIDTH - LEFT - MARGIN, HEIGHT - 2 * MARGIN)
    points = " ".join(
        f"{LEFT + inner[0] * number / max(1, len(values) - 1):.1f},"
        f"{HEIGHT - MARGIN - inner[1] * (value - low) / spread:.1f}"
        for number, value in enumerate(values)
    )
    dot = "" if len(values) > 1 else f'<circle cx="{LEFT}" cy="{HEIGHT - MARGIN}" r="3" fill="#0b6"/>'
    labels = [
        (LEFT, MARGIN - 12, "start", title), (LEFT - 6, MARGIN + 4, "end", f"{high:.3g}"),
        (LEFT - 6, HEIGHT - MARGIN + 4, "end", f"{low:.3g}"), (LEFT, HEIGHT - MARGIN + 18, "start", "1"),
        (WIDTH - MARGIN, HEIGHT - MARGIN + 18, "end", _counted(len(values), unit)),
    ]  # fmt: skip
    texts = "".join(f'<text x="{x}" y="{y}" text-anchor="{at}">{html.escape(text)}</text>' for x, y, at, text in labels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'font-family="sans-serif" font-size="14"><path d="M{LEFT} {MARGIN}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}" '
        f'fill="none" stroke="#888"/><polyline points="{points}" fill="none" stroke="#0b6" stroke-width="1.5"/>'
        f"{dot}{texts}</svg>"
    )


def captioned(trainer: Trainer, probabilities: torch.Tensor, chosen: list[int]) -> list[tuple[str, list[str]]]:
    """The test images ``chosen``, as data URLs, each with two lines: its largest class and its label, in per cent."""
    pixels = trainer.data.test.pixels
    images = pixels if pixels.dim() == 3 else pixels[:, 0]
    made = []
    for at in chosen:
        guess, label = int(probabilities[at].argmax()), int(trainer.test.labels[at])
        lines = [_named(trainer, guess, probabilities[at]), f"label {_named(trainer, label, probabilities[at])}"]
        made.append((_embedded(png(images[at])), lines))
    return made


def misclassified(images: list[tuple[str, list[str]]]) -> str:
    """An SVG sheet of ``images``, each above its lines."""
    parts = []
    for number, (image, lines) in enumerate(images):
        x, y = number % ACROSS * CELL[0], number // ACROSS * CELL[1]
        parts.append(
            f'<image x="{x}" y="{y}" width="{SIDE}" height="{SIDE}" style="image-rendering:pixelated" href="{image}"/>'
            + "".join(f'<text x="{x}" y="{y + SIDE + LINE * row}">{text}</text>' for row, text in enumerate(lines, 1))
        )
    width, height = ACROSS * CELL[0], -(-len(images) // ACROSS) * CELL[1]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif" font-size="12">{"".join(parts)}</svg>'
    )


def figures(images: list[tuple[str, list[str]]]) -> str:
    """``images`` for the page, as many in a row as fit; each above its lines, which are never scaled."""
    parts = (
        f'<figure><img alt="" width="{SIDE}" height="{SIDE}" src="{image}"><figcaption>{"<br>".join(lines)}'
        "</figcaption></figure>"
        for image, lines in images
    )
    return f'<div class="sheet">{"".join(parts)}</div>'


def write(trainer: Trainer, folder: Path) -> list[Path]:
    """Write loss.svg, accuracy.svg, misclassified.svg, filters.png and index.html, which shows them; return the paths.

    Raises ``ValueError`` if no epoch is finished.
    """
    if not trainer.history:
        raise ValueError("expected a finished epoch to draw, got none")
    losses = [loss for epoch in trainer.history for loss in epoch.losses]
    curves = {
        "loss.svg": curve(losses, "loss of each step", "step"),
        "accuracy.svg": curve([100 * epoch.accuracy for epoch in trainer.history], "test accuracy, %", "epoch"),
    }
    probabilities = trainer.probabilities().cpu()
    labels, guesses = trainer.test.labels.cpu(), probabilities.argmax(1)
    wrong = (guesses != labels).nonzero().flatten()
    wrong = wrong[probabilities[wrong, guesses[wrong]].argsort(descending=True, stable=True)]
    images = captioned(trainer, probabilities, wrong[:SHOWN].tolist())
    drawn = png(sheet(filters(trainer)[:64], 8, FILTER_SCALE if _small(trainer) else SCALE))
    files: dict[str, str | bytes] = {
        **curves, "filters.png": drawn, **({"misclassified.svg": misclassified(images)} if len(wrong) else {}),
        "index.html": _page(trainer, curves, _embedded(drawn), figures(images), len(wrong)),
    }  # fmt: skip
    for name, content in files.items():
        cache.atomic_write(folder / name, content)
    return [folder / name for name in files]


def _small(trainer: Trainer) -> bool:
    """True if the first layer is a convolution, whose filters are a few pixels wide."""
    return next(trainer.model.parameters()).dim() == 4


def _named(trainer: Trainer, label: int, probabilities: torch.Tensor) -> str:
    return f"{html.escape(trainer.data.classes[label])}: {100 * float(probabilities[label]):.1f} %"


def _embedded(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _count(wrong: int) -> str:
    return f"The first {SHOWN} of {wrong}." if wrong > SHOWN else "" if wrong else "There are none."


def _page(trainer: Trainer, curves: dict[str, str], filters: str, shown: str, wrong: int) -> str:
    settings, last = trainer.settings, trainer.history[-1]
    title = f"{settings.model} on {settings.dataset}"
    return f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>
<style>body{{font-family:sans-serif;max-width:1160px;margin:2em auto;padding:0 1em}}
img{{image-rendering:pixelated}}img,svg{{max-width:100%;height:auto}}figure{{margin:0}}figcaption{{font-size:13px}}
.sheet{{display:grid;grid-template-columns:repeat(auto-fill,minmax({CELL[0]}px,1fr));gap:12px}}</style>
<h1>{html.escape(title)}</h1>
<p>{_counted(last.number, "epoch")}, batch {settings.batch}, learning rate {settings.lr}, seed {settings.seed},
{settings.dtype}, engine {settings.engine}. Test accuracy {100 * last.accuracy:.2f} %: {wrong} of {len(trainer.test)}
images are wrong.</p>
{"".join(curves.values())}
<h2>Filters of the first layer</h2><p><img alt="filters" src="{filters}"></p>
<h2>Misclassified images, the most confident first</h2><p>{_count(wrong)} Below an image: the class with the largest
probability, and the label with its own.</p>{shown}</html>
"""
