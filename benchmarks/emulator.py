"""The cost of emulation: compilation, launches, checks, memory. Run it on an idle machine.

    python benchmarks/emulator.py [--json FILE]

Times are the minimum of several runs, in ms. Memory is the growth of the process's peak, relative to the bytes of the
kernel's arrays, which it includes.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from warpwise import cuda
from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place

SOURCE = r"""
__global__ void sgemm_naive(int m, int n, int k, const float* A, const float* B, float* C) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; i++) sum += A[row * k + i] * B[i * n + column];
  C[row * n + column] = sum;
}
__global__ void sgemm_tiled(int m, int n, int k, const float* A, const float* B, float* C) {
  __shared__ float a[32][32], b[32][32];
  int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < k; t += 32) {
    a[threadIdx.y][threadIdx.x] = A[row * k + t + threadIdx.x];
    b[threadIdx.y][threadIdx.x] = B[(t + threadIdx.y) * n + column];
    __syncthreads();
    for (int i = 0; i < 32; i++) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
    __syncthreads();
  }
  C[row * n + column] = sum;
}
__global__ void warp_sums(const float* x, float* sums) {
  float v = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int o = 16; o; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
  if (threadIdx.x % 32 == 0) sums[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = v;
}
__global__ void fill(float* x) { x[threadIdx.x] = threadIdx.x; }
template <class T>
__global__ void copy(const T* from, T* to, size_t n) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) to[i] = from[i];
}
"""


def least(run: Callable[[], object], repeats: int = 5) -> float:
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def compile_times() -> dict[str, float]:
    """Seconds to compile. The first kernel also builds the runtime and precompiles the device headers."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "WARPWISE_CACHE": folder}
        program = (
            "import time, sys; from warpwise import cuda; sys.path.insert(0, sys.argv[1]); import emulator; "
            "module = cuda.load(emulator.SOURCE)\n"
            "for name in sys.argv[2:]:\n"
            "    start = time.perf_counter(); module[name].build(); print(time.perf_counter() - start)"
        )
        names = ["fill", "sgemm_naive", "sgemm_tiled", "warp_sums"]
        command = [sys.executable, "-c", program, str(Path(__file__).parent), *names]
        runs = (subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2))
        cold, warm = ([float(line) for line in run.stdout.split()] for run in runs)
    return {"first": cold[0], "next": min(cold[1:]), "cached": min(warm[1:])}


def sgemm_times(size: int = 256) -> dict[str, float]:
    module = cuda.load(SOURCE)
    a, b = (np.random.default_rng(seed).standard_normal((size, size)).astype("f4") for seed in (0, 1))
    c = np.zeros((size, size), "f4")
    times = {}
    for name in ("sgemm_naive", "sgemm_tiled"):
        kernel = module[name][(size // 32, size // 32), (32, 32)]
        for checks in ("all", "bounds", "none"):
            run = functools.partial(kernel, size, size, size, a, b, cuda.out(c), checks=checks)
            times[f"{name} {checks}"] = least(run)
        np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-4)
    return times


def launch_times() -> dict[str, float]:
    module = cuda.load(SOURCE)
    x, wide, sums = np.zeros(256, "f4"), np.zeros(1 << 16, "f4"), np.zeros(1 << 11, "f4")
    return {
        "one block of 256, all": least(lambda: module["fill"][1, 256](x), 200),
        "one block of 256, none": least(lambda: module["fill"][1, 256](x, checks="none"), 200),
        "65,536 threads, 5 shuffles each": least(lambda: module["warp_sums"][256, 256](wide, cuda.out(sums)), 20),
    }


def memory_ratio(kind: str, dtype: str, checks: str) -> float:
    """Peak memory of a launch, in a process of its own, because the peak cannot be reset."""
    program = (
        "import resource, sys; import numpy as np; from warpwise import cuda\n"
        "sys.path.insert(0, sys.argv[1]); import emulator\n"
        "kind, dtype, checks = sys.argv[2:]\n"
        "kernel = cuda.load(emulator.SOURCE)[f'copy<{kind}>'][64, 256]\n"
        "small = np.zeros(64, dtype); kernel(small, cuda.out(np.zeros(64, dtype)), 64, checks=checks)\n"
        "before = int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize()\n"
        "n = (32 << 20) // np.dtype(dtype).itemsize; x = np.ones(n, dtype); y = np.ones(n, dtype)\n"
        "kernel(x, cuda.out(y), n, checks=checks); assert (x == y).all()\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / (x.nbytes + y.nbytes))"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parent), kind, dtype, checks]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    goals = {
        "compile next": 0.5, "compile cached": 0.02, "sgemm_naive all": 0.4, "sgemm_naive none": 0.05,
        "launch one block of 256, all": 100e-6, "launch one block of 256, none": 100e-6,
    }  # fmt: skip
    figures = {f"compile {name}": value for name, value in compile_times().items()}
    figures |= sgemm_times()
    figures |= {f"launch {name}": value for name, value in launch_times().items()}
    print(f"cpu: {platform.processor() or platform.machine()}, {os.cpu_count()} cores")
    for name, value in figures.items():
        print(f"{name:<45} {value * 1e3:10.3f} ms" + (f"   goal {goals[name] * 1e3:g} ms" if name in goals else ""))
    for kind, dtype in (("float", "f4"), ("short", "i2"), ("unsigned char", "u1"), ("double", "f8")):
        for checks, goal in (("all", 8.0), ("bounds", 2.5), ("none", 2.5)):
            name = f"memory {kind} {checks}"
            figures[name] = memory_ratio(kind, dtype, checks)
            print(f"{name:<45} {figures[name]:10.2f} x    goal {goal:g} x")
    if options.json:
        kept = {
            "environment": environment(torch.device("cpu")),
            "place": place(torch.device("cpu")),
            "figures": figures,
        }
        atomic_write(options.json, json.dumps(kept, indent=1) + "\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{'peak of this process':<45} {peak:10d} MiB")


if __name__ == "__main__":
    main()
