"""What to try in a Triton kernel: its source has tiles, masks and launch options, and no threads."""

from __future__ import annotations

from dataclasses import replace

from warpwise.lab.explain.hints.hint import Hint

_ORDER = (
    "Let the last dimension of the tile be the contiguous one of the tensor: check the order of the offsets (their "
    "strides), or load the transposed tile and use tl.trans."
)
_MULTIPLES = (
    "Tell the compiler what is a multiple of 16 bytes (tl.multiple_of, tl.max_contiguous, strides that are "
    "tl.constexpr), or use larger tiles, so that it accesses 16 bytes at a time."
)
_SMALLER = "Use a smaller tile, or more warps per program (num_warps)."
IDEAS = {
    "uncoalesced loads": _ORDER,
    "uncoalesced stores": _ORDER,
    "uncoalesced atomics": _ORDER,
    "repeated loads of the same data": "Use larger tiles, or order the programs so that neighbours share tiles in L2.",
    "narrow accesses": _MULTIPLES,
    "adjacent loads": f"For offsets such as 2 * i and 2 * i + 1, load 2 * n elements and use tl.split. {_MULTIPLES}",
    "adjacent stores": f"For offsets such as 2 * i and 2 * i + 1, use tl.join and one tl.store. {_MULTIPLES}",
    "spilled registers": _SMALLER,
    "stack": "Remove tl.device_print and calls that are not inlined.",
    "local memory": _SMALLER,
    "contended atomics": "Reduce the tile first (tl.sum), then use one tl.atomic_add per program.",
    "contended atomics in shared memory": "Use tl.histogram or tl.sum instead of atomics within a tile.",
    "bank conflicts": "Try another tile shape or num_warps: the compiler chooses the layout of shared memory.",
    "little reuse of values from shared memory": "Use larger tiles in tl.dot, so that loaded values are reused.",
    "low occupancy": "Use a smaller tile, fewer num_stages, or another num_warps.",
    "divergent warps": "Use tiles that fill num_warps * 32 lanes: a smaller num_warps for small tiles.",
    "waiting for memory": (
        "Use more num_stages in loops over tl.load, larger tiles, or several loads before the first use."
    ),
    "late loads": "Place this tl.load before the first use of the other one.",
    "waiting": "Use more num_warps, or larger tiles.",
    "integer division": "Make the divisor a tl.constexpr, or map the quotient to a dimension of the grid.",
    "unintended double precision": "Convert to tl.float32: check for float64 tensors and scalars.",
    "redundant barrier": "Try another num_warps or num_stages: the compiler places the barriers.",
}
"""Ideas by the title of a hint; the ideas of other hints hold for Triton too."""


def in_triton(hint: Hint) -> Hint:
    """``hint`` with the idea for a Triton kernel."""
    return replace(hint, idea=IDEAS.get(hint.title, hint.idea))
