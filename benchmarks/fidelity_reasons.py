"""Why a figure misses, for those misses whose reason was looked into."""

from __future__ import annotations

ONE_BLOCK = "One block: no unit is used above 1 %"
ALIKE = "Both are used alike, as predicted: which comes first is a matter of a few percent"
WAITING = "No unit is used much: warps wait for memory, which is the predicted limiter too (latency)"
WRITTEN_BACK = (
    "Issue slots, L2 and DRAM are used nearly alike. ncu empties L2 before the launch and ends with some 20 MB of results "
    "still in it; the model lets every written sector cross DRAM, as in launch after launch"
)
LITTLE = "No unit is used above 40 %: warps wait for memory, and which unit comes first is a matter of a few percent"
ZEROS = (
    "Lanes of a cp.async that fill their place with zeros are modelled as if they met others in the banks less often"
)
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
"""By the kind of the miss and how its place begins."""


def why(kind: str, where: str) -> str:
    """The reason of a miss, or nothing."""
    return next((text for (of, start), text in WHY.items() if of == kind and where.startswith(start)), "")
