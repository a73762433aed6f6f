"""``in_processes``: a function in a process group of torch.distributed (gloo), forked from a process with torch."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from tests.commands import PRELOAD


def in_processes(function: Callable[[int, Path], None], folder: Path, count: int = 2) -> None:
    """Run ``function(rank, folder)`` in ``count`` processes. Each must end without an exception."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    processes = [context.Process(target=_in_group, args=(function, rank, count, folder)) for rank in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(250)
        process.kill()  # one that waits for the other, which failed
        process.join()
    assert [process.exitcode for process in processes] == [0] * count


def _in_group(function: Callable[[int, Path], None], rank: int, count: int, folder: Path) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/{function.__name__}", rank=rank, world_size=count)
    try:
        function(rank, folder)
    finally:
        dist.destroy_process_group()
