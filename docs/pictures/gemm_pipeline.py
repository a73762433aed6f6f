"""Draw docs/pictures/gemm_pipeline.svg: who waits for whom in the pipeline of a warp-specialised kernel."""

from pathlib import Path

STAGES, K_TILES, LOAD, MULTIPLY = 4, 9, 3, 2  # stages; k-tiles; the time of a load and of the wgmma of a k-tile
UNIT, ROW, LEFT, TOP = 34, 30, 150, 56
COLOURS = ("#8ecae6", "#ffb703", "#90be6d", "#f28482")


def schedule() -> list[tuple[int, int, int]]:
    """(k-tile, begin of its load, begin of its multiply-adds): a load waits for its stage, wgmma for the load."""
    found: list[tuple[int, int, int]] = []
    for tile in range(K_TILES):
        free = found[tile - STAGES][2] + MULTIPLY if tile >= STAGES else 0
        issued = max(free, found[tile - 1][1] + 1 if tile else 0)
        multiplied = max(issued + LOAD, found[tile - 1][2] + MULTIPLY if tile else 0)
        found.append((tile, issued, multiplied))
    return found


def box(x: float, y: float, width: float, colour: str, text: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{ROW - 6}" rx="3" fill="{colour}" stroke="#444"/>'
        f'<text x="{x + width / 2}" y="{y + 16}" text-anchor="middle">{text}</text>'
    )


def main() -> None:
    parts, times = [], schedule()
    end = times[-1][2] + MULTIPLY
    rows = [f"stage {stage}: TMA load" for stage in range(STAGES)] + ["consumers: wgmma", "epilogue"]
    for row, name in enumerate(rows):
        parts.append(f'<text x="{LEFT - 10}" y="{TOP + row * ROW + 16}" text-anchor="end">{name}</text>')
        parts.append(f'<path d="M{LEFT} {TOP + row * ROW + ROW - 3}H{LEFT + (end + 4) * UNIT}" stroke="#ddd"/>')
    for tile, issued, multiplied in times:
        stage = tile % STAGES
        y, consumer = TOP + stage * ROW, TOP + STAGES * ROW
        parts.append(box(LEFT + issued * UNIT, y, LOAD * UNIT, COLOURS[stage], f"k-tile {tile}"))
        parts.append(box(LEFT + multiplied * UNIT, consumer, MULTIPLY * UNIT, COLOURS[stage], str(tile)))
        if tile >= STAGES:
            before = times[tile - STAGES][2] + MULTIPLY
            x = LEFT + before * UNIT
            parts.append(f'<path d="M{x} {consumer}V{y + ROW - 6}" stroke="#d00000" marker-end="url(#arrow)"/>')
    parts.append(box(LEFT + end * UNIT, TOP + (STAGES + 1) * ROW, 3 * UNIT, "#cdb4db", "store C"))
    width, height = LEFT + (end + 5) * UNIT, TOP + len(rows) * ROW + 44
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="13"><defs><marker id="arrow" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#d00000"/></marker></defs>'
        f'<rect width="{width}" height="{height}" fill="white"/>'
        '<text x="20" y="26" font-size="15">The pipeline of a block: four stages of shared memory, time from left to '
        "right</text>"
    )
    note = (
        f'<text x="20" y="{height - 16}">A red arrow is an “empty” mbarrier: the consumers release a stage, and the '
        "producer loads the next k-tile into it. wgmma of a k-tile waits for the “full” mbarrier of its "
        "stage.</text>"
    )
    Path(__file__).with_suffix(".svg").write_text(head + "".join(parts) + note + "</svg>\n")


if __name__ == "__main__":
    main()
