"""Compile the kernels that a benchmark will use in several processes, into the cache. No GPU is needed.

    python benchmarks/precompile.py --operation NAME ... [--seed N] [--count N] [--candidates] [--jobs N]

The shapes are those of benchmarks/unseen_shapes.py and benchmarks/gemm_times.py. By default the kernels of the chosen
rung are compiled; ``--candidates`` compiles all configurations of the rungs of the operation's model.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import torch
from benchmarks.unseen_cases import CASES, arguments, drawn

import warpwise.ops  # noqa: F401 - registers the operations
from warpwise import operation
from warpwise.operation import Op, Rung


def rungs(op: Op, args: tuple[Any, ...], device: str, candidates: bool) -> Iterator[Rung]:
    if not candidates:
        name = op.default(*args) if op.tables is None else operation.chosen(op, *args, device=device).name
        if name is not None:
            yield op.rung(name)
        return
    for name in op.tables.model.families if op.tables is not None else ():
        rung = op.rung(name)
        if op.unsupported(rung, *args) is None:
            for config in rung.configs(*args):
                yield op.rung(f"{name}@{config}")


def compiled(name: str, seed: int, number: int, options: argparse.Namespace) -> str:
    """Compile the CUDA kernels of one shape; return what could not be compiled."""
    op, each = operation.get(name), list(drawn(name, seed, number + 1))[number]
    if min(each.case.sizes.get("m", 0), each.case.sizes.get("n", 0)) > options.few:
        return ""
    try:
        args = arguments(op, op.spec.arguments(each.case, each.dtype, torch.device("meta"), 0), each.arrangement)
        with operation.assume_sm_count(options.sms):
            for rung in rungs(op, args, options.device, options.candidates):
                if rung.language == "cuda":
                    for launch in op.kernels(rung, *args):
                        launch.compile(options.target)
    except Exception as error:  # noqa: BLE001 - the benchmark reports it
        return f"{name} {number}: {type(error).__name__}: {error}".splitlines()[0]
    return ""


def main(options: argparse.Namespace) -> int:
    started = time.monotonic()
    tasks = [(name, options.seed, number, options) for name in options.operation for number in range(options.count)]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        failed = [line for line in pool.map(compiled, *zip(*tasks, strict=True)) if line]
    print(*failed, sep="\n", end="\n" if failed else "")
    print(f"{len(tasks)} shapes, {len(failed)} failed, {time.monotonic() - started:.0f} s")
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--operation", action="append", choices=tuple(CASES), required=True)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--count", type=int, default=40)
    made.add_argument("--candidates", action="store_true")
    made.add_argument("--few", type=int, default=1 << 30, help="the same option as of benchmarks/gemm_times.py")
    made.add_argument("--jobs", type=int, default=os.cpu_count())
    made.add_argument("--device", default="NVIDIA H200", help="device whose tables and model choose the rung")
    made.add_argument("--sms", type=int, default=132, help="number of SMs of the device")
    made.add_argument("--target", default="sm_90")
    return made


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
