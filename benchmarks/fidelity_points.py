"""The sizes that `benchmarks/fidelity.py` records of each operation, and the known reasons for differing counters."""

from __future__ import annotations

from warpwise.lab.fidelity import Reason
from warpwise.operation import Case


def _elementwise(ragged: tuple[int, int]) -> tuple[Case, ...]:
    return Case("exact", {"rows": 256, "cols": 512}), Case("exact_ragged", {"rows": ragged[0], "cols": ragged[1]})


_ROWS = Case("exact", {"rows": 96, "columns": 1024}), Case("exact_ragged", {"rows": 37, "columns": 4099})
_IMAGE = {"n": 1, "channels": 1, "height": 300, "width": 512, "kernel": 9}
_BLUR = (
    Case("exact", _IMAGE),
    Case("exact_ragged", {**_IMAGE, "channels": 2, "height": 131, "width": 203, "kernel": 5, "kernel_y": 9}),
)

EXACT: dict[str, tuple[Case, ...]] = {
    "gaussian_blur": _BLUR,
    "gaussian_blur_backward": _BLUR,
    "histogram": (
        Case("exact", {"n": 2**17, "bins": 256}),
        Case("exact_ragged", {"n": 100_003, "bins": 250}),
        Case("one_value_exact", {"n": 2**16, "bins": 256}, {"pattern": "one_value"}),
    ),
    "matmul": (
        Case("exact", {"m": 256, "n": 256, "k": 256}),
        Case("exact_ragged", {"m": 200, "n": 130, "k": 72}),
    ),
    "matrix_add": _elementwise((253, 389)),
    "polynomial": _elementwise((301, 333)),
    "polynomial_backward": _elementwise((301, 333)),
    "reduce_sum": (
        Case("exact", {"n": 2**17}),
        Case("exact_ragged", {"rows": 37, "columns": 2777}),
        Case("exact_short_rows", {"rows": 1024, "columns": 100}),
    ),
    "rgb_to_grayscale": (
        Case("exact", {"n": 1, "height": 300, "width": 512}),
        Case("exact_ragged", {"n": 2, "height": 131, "width": 203}),
        Case("exact_interleaved", {"n": 1, "height": 300, "width": 512}, layout="channels_last"),
        Case("exact_ragged_interleaved", {"n": 2, "height": 131, "width": 203}, layout="channels_last"),
    ),
    "softmax": _ROWS,
    "softmax_backward": _ROWS,
    "square": _elementwise((301, 333)),
    "transpose": _elementwise((237, 395)),
    "vector_add": (Case("exact", {"n": 2**17}), Case("exact_ragged", {"n": 100_003})),
}
"""Exact points: small sizes of whole tiles, and ragged ones."""

# Large points are an operation's first size, its ragged one, and these, for the rungs that accept neither.
MORE_LARGE = {"matmul": ("few_rows",), "rgb_to_grayscale": ("batch_interleaved",)}

ONE_BLOCK = "One block: no unit is used above 1 %"
EQUAL = "Both are used equally, as predicted: a difference of a few percent decides their order"
WAITING = "Utilisation is low everywhere: warps wait for memory, and latency is the predicted limiter too"
WRITTEN_BACK = (
    "Issue slots, L2 and DRAM are used almost equally. ncu flushes L2 before the launch, and about 20 MB of results "
    "are still in L2 at its end; the model writes every sector back to DRAM, as in repeated launches"
)
LOW = (
    "No unit is used above 40 %: warps wait for memory, and a difference of a few percent decides the order of the "
    "units"
)
ZEROS = "The model counts too few bank conflicts for lanes of a cp.async that write zeros"
REASONS = (
    Reason("counters", "matmul k11_mma_sync", ZEROS),
    Reason("limiter", "matmul k06_block_tile_2d", EQUAL),
    Reason("limiter", "matmul k11_mma_sync float16 few_rows", LOW),
    Reason("limiter", "matmul k20_few_rows", LOW),
    Reason("limiter", "transpose k04_padded_tile", EQUAL),
    Reason("limiter", "reduce_sum k06_two_passes float32 square launch 1", ONE_BLOCK),
    Reason("limiter", "reduce_sum k06_two_passes float32 ragged launch 1", ONE_BLOCK),
    Reason("limiter", "rgb_to_grayscale k02_planar_packs uint8 ragged", WAITING),
    Reason("limiter", "softmax k02_block_per_row float32 ragged", WRITTEN_BACK),
    Reason("limiter", "softmax k03_warp_shuffle float32 ragged", WRITTEN_BACK),
)
