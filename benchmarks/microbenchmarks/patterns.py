"""Access patterns of a warp by name: the byte offset of each lane, and masks of active lanes."""

from __future__ import annotations

import random

LANES = range(32)
FAR = 4096  # bytes: the same bank, another line
ALL = 0xFFFFFFFF

MASKS = {
    "none": 0,
    "lane_31": 1 << 31,
    "first_8": 0xFF,
    "first_16": 0xFFFF,
    "odd": 0xAAAAAAAA,
    "every_fourth": 0x11111111,
}


def patterns(width: int) -> dict[str, list[int]]:
    """Byte offsets of the 32 lanes for accesses of ``width`` bytes, all below 32 KiB."""
    found = {
        "same": [0 for _ in LANES],
        "same_but_one": [0 if lane != 13 else 5 * width for lane in LANES],
        "consecutive": [lane * width for lane in LANES],
        "reversed": [(31 - lane) * width for lane in LANES],
        "shuffled": [lane * width for lane in random.Random(1).sample(LANES, 32)],
        "shifted_1": [(lane + 1) * width for lane in LANES],
        "shifted_3": [(lane + 3) * width for lane in LANES],
        "shifted_13": [(lane + 13) * width for lane in LANES],
        "pairs_share": [lane // 2 * width for lane in LANES],
        "fours_share": [lane // 4 * width for lane in LANES],
        "eights_share": [lane // 8 * width for lane in LANES],
        "halves_share": [lane // 16 * width for lane in LANES],
        "every_16th_shares": [lane % 16 * width for lane in LANES],
        "every_8th_shares": [lane % 8 * width for lane in LANES],
        "every_4th_shares": [lane % 4 * width for lane in LANES],
        "every_2nd_shares": [lane % 2 * width for lane in LANES],
        "two_in_a_bank": [lane % 2 * FAR for lane in LANES],
        "four_in_a_bank": [lane % 4 * FAR for lane in LANES],
        "halves_on_the_same_banks": [lane % 16 * width + lane // 16 * FAR for lane in LANES],
        "quarters_on_the_same_banks": [lane % 8 * width + lane // 8 * FAR for lane in LANES],
        "pairs_on_the_same_banks": [lane // 2 * width + lane % 2 * FAR for lane in LANES],
        "fours_on_the_same_banks": [lane // 4 * width + lane % 4 * FAR for lane in LANES],
    }
    for stride in (2, 3, 4, 8, 16, 32, 33):
        found[f"stride_{stride}"] = [lane * stride * width for lane in LANES]
    for extent in (32, 128, 2000):
        for seed in range(2):
            draw = random.Random(1000 * extent + seed)
            found[f"random_{extent}_{seed}"] = [draw.randrange(extent) * width for _ in LANES]
    return found


FEW = (
    "same", "consecutive", "reversed", "shifted_1", "stride_2", "stride_4", "stride_32", "two_in_a_bank", "pairs_share",
    "random_128_0", "random_2000_0",
)  # fmt: skip
MORE = (
    *FEW,
    "stride_3",
    "stride_8",
    "shifted_13",
    "halves_on_the_same_banks",
    "quarters_on_the_same_banks",
    "random_32_0",
    "random_128_1",
)


def some(width: int, *names: str) -> dict[str, list[int]]:
    """The patterns with these names."""
    return {name: offsets for name, offsets in patterns(width).items() if name in names}


def four_rows(width: int) -> dict[str, list[int]]:
    """Lane (g, t) reads vector g of row t, or vector g ^ 2 t ("exchanged"); rows are so many bytes apart."""
    found = {}
    for distance in (64, 80, 96, 128, 144, 160, 176, 192, 208):
        if distance >= 8 * width:
            places = [(distance * (lane % 4), lane // 4, lane % 4) for lane in LANES]
            found[f"rows_{distance}"] = [row + width * g for row, g, _ in places]
            found[f"rows_{distance}_exchanged"] = [row + width * (g ^ 2 * t) for row, g, t in places]
    return found


def matrix_rows(matrices: int) -> dict[str, list[int]]:
    """Addresses of the 16-byte rows of 8 x 8 matrices for ldmatrix: lanes 8 i to 8 i + 7 give those of matrix i."""
    found = {"consecutive": [16 * lane for lane in LANES]}
    for pitch in (32, 48, 64, 80, 128, 144, 256):
        found[f"pitch_{pitch}"] = [pitch * (lane % 8) + 16 * (lane // 8) for lane in LANES]
    found["same"] = [0 for _ in LANES]
    found["swizzled"] = [128 * (lane % 8) + 16 * ((lane // 8) ^ (lane % 8)) for lane in LANES]
    for seed in range(3):
        draw = random.Random(seed)
        found[f"random_{seed}"] = [16 * draw.randrange(512) for _ in LANES]
    return (
        found
        if matrices == 4
        else {name: found[name] for name in ("consecutive", "pitch_64", "pitch_144", "same", "random_0")}
    )
