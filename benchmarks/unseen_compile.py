"""Compiles PyTorch's functions of unseen_shapes.py by torch.compile in several processes, into its caches on disk.

A process compiles a case within seconds and calls it once; the process that measures then reads the code from the
cache. Inductor's choice among the configurations of a kernel is not kept: these processes share the GPU, so it is made
again while nothing else runs.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from benchmarks.unseen_cases import GEMMS, Drawn, arguments, drawn
from benchmarks.unseen_opponents import PYTORCH, SAVED, precision

import warpwise.ops  # noqa: F401 - registers the operations
from warpwise import operation

PROGRESS_S = 10.0  # between two lines of progress


def prepare() -> None:
    """Settings of Inductor that all processes share: they are part of the cache's key."""
    import torch._inductor.config as inductor

    inductor.autotune_local_cache = False
    inductor.compile_threads = 1


def compile_all(names: Sequence[str], seed: int, count: int, limit: float, jobs: int | None = None) -> None:
    """Compile the first ``count`` cases of each operation, case by case, for at most ``limit`` seconds."""
    names = [name for name in names if name not in GEMMS]
    tasks = [(name, each) for cases in zip(*(drawn(name, seed, count) for name in names), strict=True)
             for name, each in zip(names, cases, strict=True)]  # fmt: skip
    in_processes(compile_case, tasks, limit, jobs)


def in_processes(
    work: Callable[..., str], tasks: Sequence[tuple[Any, ...]], limit: float, jobs: int | None = None
) -> None:
    """``work(*task)`` of each task for at most ``limit`` seconds; it returns an error or nothing."""
    jobs = min(jobs or os.cpu_count() or 1, len(tasks))
    started, printed, done, failed = time.monotonic(), time.monotonic(), 0, list[str]()
    pool = concurrent.futures.ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    futures = [pool.submit(work, *task) for task in tasks]
    try:
        for future in concurrent.futures.as_completed(futures, timeout=limit):
            done += 1
            failed += [future.result()] if future.result() else []
            if time.monotonic() - printed > PROGRESS_S:
                printed = time.monotonic()
                print(f"torch.compile: {done} of {len(tasks)} cases, {printed - started:.0f} s", flush=True)
    except TimeoutError:
        print(f"torch.compile: stopped after {limit:.0f} s; the other cases are compiled when they are timed")
        workers = list(pool._processes.values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
    pool.shutdown(cancel_futures=True)
    print(*failed, sep="\n", end="\n" if failed else "")
    print(f"torch.compile: {done} of {len(tasks)} cases in {time.monotonic() - started:.0f} s by {jobs} processes")


def compile_case(name: str, each: Drawn) -> str:
    """Compile and call PyTorch's function of one case; return its error, if any."""
    prepare()
    warnings.simplefilter("ignore")
    op = operation.get(name)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        with precision(each.case.attributes.get("tf32", False)):
            args = arguments(op, op.spec.arguments(each.case, each.dtype, device, 0), each.arrangement)
            extras = SAVED[name](*args) if name in SAVED else ()
            torch.compiler.reset()
            torch.compile(PYTORCH.get(name, op.spec.eager), dynamic=False)(*args, *extras)
    except Exception as error:  # noqa: BLE001 - the measuring process reports it too
        return f"{each.case.name}: {type(error).__name__}: {error}".splitlines()[0]
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return ""
