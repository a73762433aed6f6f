"""The limit that power sets for a GEMM: cuBLAS, matmul's k12, and the same wgmma on operands that stay in shared
memory.

    python benchmarks/products_alone.py [--json FILE]

A bfloat16 GEMM on an H200 reaches the board's power limit, and the clock is lowered: its time is proportional to its
energy. ``alone`` (products_alone.cu) issues the same wgmma on operands that stay in shared memory, on as many SMs as
k12 uses or on all of them, and neither loads nor stores. No kernel with these instructions can be faster, so cuBLAS's
time divided by that of ``alone`` bounds the speedup over cuBLAS. All run in turn, in random order (``lab.time``).
benchmarks/matmul.py checks cuBLAS and our rungs.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import torch

from warpwise import cuda, lab, ops
from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place
from warpwise.lab.timing.timing import duration, ratio

RESULTS = Path(__file__).parent / "results" / "h200" / "products_alone.json"
SHARED = 1024 + 4 * (128 + 256) * 64 * 2  # bytes: alignment, then 4 stages of A and B
SOME = 128  # SMs that k12 uses at these sizes


def alone(blocks: int, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply as often as a (m, k) times b (k, n) requires, bfloat16, in tiles of 128 x 256, on ``blocks`` SMs.

    A remainder of k-tiles that cannot be distributed evenly is left out (``share``).
    """
    sums = torch.empty(blocks * 256, device=a.device)
    tiles, k_tiles = dealt(blocks, a, b)
    MODULE["products_alone<__nv_bfloat16>"][blocks, 256, SHARED](a, b, cuda.out(sums), tiles, k_tiles)
    return sums


def dealt(blocks: int, a: torch.Tensor, b: torch.Tensor) -> tuple[int, int]:
    """The tiles of each block and the k-tiles of 64 of each tile: together at most those of a times b."""
    tiles = a.size(0) * b.size(1) // (128 * 256)
    each = -(-tiles // blocks)
    return each, tiles * (a.size(1) // 64) // (blocks * each)


def share(blocks: int, a: torch.Tensor, b: torch.Tensor) -> float:
    """The fraction of the multiplications that ``alone`` does: 1 if they can be distributed evenly."""
    each, k_tiles = dealt(blocks, a, b)
    return blocks * each * k_tiles * 128 * 256 * 64 / (a.size(0) * a.size(1) * b.size(1))


MODULE = cuda.load(Path(__file__).with_suffix(".cu"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=3.0, help="seconds to time a size")
    parser.add_argument("--json", type=Path, default=RESULTS, help="file for the result")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device: wgmma needs Hopper")
    device = torch.device("cuda", torch.cuda.current_device())
    points: dict[str, Any] = {}
    for side in (4096, 8192):
        a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
        every = torch.cuda.get_device_properties(device).multi_processor_count
        blocks = {f"alone on {count} SMs": count for count in (SOME, every)}
        contestants = {
            "cuBLAS": torch.mm,
            "k12": lambda a, b: ops.matmul(a, b, rung="k12_overlapped_epilogue"),
            "k22": lambda a, b: ops.matmul(a, b, rung="k22_variable_m_tiles"),
            **{name: functools.partial(alone, count) for name, count in blocks.items()},
        }
        timings = lab.time(contestants, a, b, device=device, budget_s=options.budget, precision=0.002)
        done = {name: share(blocks[name], a, b) if name in blocks else 1.0 for name in contestants}
        faster = {name: ratio(timings["cuBLAS"], timings[name]) for name in contestants if name != "cuBLAS"}
        points[str(side)] = {
            "times": {name: timing.to_json() for name, timing in timings.items()},
            "share_of_products": done,
            "ratios": {
                name: [done[name] * end for end in (value.median, value.low, value.high)]
                for name, value in faster.items()
            },
        }
        times = ", ".join(f"{name} {duration(timing.median)}" for name, timing in timings.items())
        ratios = ", ".join(
            f"{name} {median:.3f} ({low:.3f}-{high:.3f})"
            for name, (median, low, high) in points[str(side)]["ratios"].items()
        )
        print(f"{side}: {times}; x cuBLAS: {ratios}", flush=True)
    kept = {"place": place(device), "environment": environment(device), "points": points}
    atomic_write(options.json, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
