"""What power leaves to a kernel: cuBLAS, matmul's k20, and the same products on operands that never move.

    python benchmarks/products_alone.py [--json FILE]

A bfloat16 product on an H200 draws more power than the board may, and the clock falls until it does not: time is energy.
``alone`` (products_alone.cu) multiplies what lies in shared memory, on as many SMs and as often as k20 does, and loads,
waits for and stores nothing. No kernel that feeds the same instructions can be faster, so that cuBLAS's time over its own
is the most that can be gained. The three run in turn, in random order (``lab.time``), k20 and cuBLAS checked by
benchmarks/matmul.py.
"""

from __future__ import annotations

import argparse
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
SHARED = 1024 + 4 * (128 + 256) * 64 * 2  # bytes: to align, the ring
BLOCKS = 128  # that k20 takes at these sizes: 64 clusters of two


def alone(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The products of a (m, k) times b (k, n), bfloat16, sizes in whole rounds of tiles of 128 x 256 on 128 SMs."""
    m, k, n = a.size(0), a.size(1), b.size(1)
    sums = torch.empty(BLOCKS * 256, device=a.device)
    kernel = MODULE["products_alone<__nv_bfloat16>"]
    kernel[BLOCKS, 256, SHARED](a, b, cuda.out(sums), m * n // (128 * 256 * BLOCKS), k // 64)
    return sums


MODULE = cuda.load(Path(__file__).with_suffix(".cu"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=3.0, help="seconds to time a size for")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the result is kept")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device: the products are Hopper's")
    device = torch.device("cuda", torch.cuda.current_device())
    points: dict[str, Any] = {}
    for side in (4096, 8192):
        a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
        contestants = {
            "cuBLAS": torch.mm,
            "k20": lambda a, b: ops.matmul(a, b, rung="k20_deferred_stores"),
            "alone": alone,
        }
        timings = lab.time(contestants, a, b, device=device, budget_s=options.budget, precision=0.002)
        faster = {name: ratio(timings["cuBLAS"], timings[name]) for name in ("k20", "alone")}
        points[str(side)] = {
            "times": {name: timing.to_json() for name, timing in timings.items()},
            "ratios": {name: [value.median, value.low, value.high] for name, value in faster.items()},
        }
        told = ", ".join(f"{name} {duration(timing.median)}" for name, timing in timings.items())
        ratios = ", ".join(
            f"{name} {value.median:.3f} ({value.low:.3f}-{value.high:.3f})" for name, value in faster.items()
        )
        print(f"{side}: {told}; x cuBLAS: {ratios}", flush=True)
    kept = {"place": place(device), "environment": environment(device), "points": points}
    atomic_write(options.json, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
