"""The reasons of those differences between predicted and measured figures that were investigated."""

from __future__ import annotations

ONE_BLOCK = "One block: no unit is above 1 %"
ALIKE = "Both units have almost equal utilisation, as predicted; a few percent decide which is higher"
WAITING = "No unit has a high utilisation: warps wait for memory latency, which is also the predicted limiter"
WRITTEN_BACK = (
    "Issue slots, L2 and DRAM have almost equal utilisation. ncu flushes L2 before the launch, and about 20 MB of "
    "results are still in L2 at its end; the model counts every written sector as DRAM traffic, as for repeated "
    "launches"
)
LITTLE = "No unit is above 40 %: warps wait for memory, and a few percent decide which unit is highest"
ZEROS = "The model counts too few bank conflicts for the lanes of a cp.async that are filled with zeros"
WHY: dict[tuple[str, str], str] = {
    ("counters", "matmul k15_mma_sync"): ZEROS,
    ("limiter", "matmul k07_block_tile_2d"): ALIKE,
    ("limiter", "matmul k15_mma_sync float16 few_rows"): LITTLE,
    ("limiter", "matmul k24_few_rows"): LITTLE,
    ("limiter", "transpose k04_padded_tile"): ALIKE,
    ("limiter", "reduce_sum k06_two_passes float32 square launch 1"): ONE_BLOCK,
    ("limiter", "reduce_sum k06_two_passes float32 ragged launch 1"): ONE_BLOCK,
    ("limiter", "rgb_to_grayscale k02_planar_packs uint8 ragged"): WAITING,
    ("limiter", "softmax k02_block_per_row float32 ragged"): WRITTEN_BACK,
    ("limiter", "softmax k03_warp_shuffle float32 ragged"): WRITTEN_BACK,
}
"""Reasons keyed by the kind of the difference and a prefix of its place."""


def why(kind: str, where: str) -> str:
    """The reason of a difference, or an empty string."""
    return next((text for (of, start), text in WHY.items() if of == kind and where.startswith(start)), "")
