"""Compare a fit of spatial clustering by several GPUs with the same fit by one.

    python benchmarks/clustering_gpus.py --points 50000000 --json FILE
    python benchmarks/clustering_gpus.py --backend gloo --device cpu --processes 2 --points 40000

One process for each GPU, in a process group of torch.distributed. Data are curved layers on a square grid with 8
neighbours, X on every GPU. The output has the time to make the graph and its order by colours, the time to make the
block of a process, and the median time of fits, by process 0 alone while the others wait, then by all. Later fits reuse
the order and the block. A first fit, which compiles the kernels, is not timed. Memory is the peak that PyTorch adds
during a fit, in units of X. Labels of both fits are compared point by point.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from warpwise.apps.clustering import Graph, SpatialMixture, grid
from warpwise.apps.clustering.ranks import block_of


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--points", type=int, default=50_000_000)
    options.add_argument("--features", type=int, default=16)
    options.add_argument("--domains", type=int, default=8)
    options.add_argument("--processes", type=int, help="default: one for each GPU")
    options.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    options.add_argument("--backend", default="nccl", choices=["nccl", "gloo"], help="gloo: all processes use one GPU")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--json", type=Path)
    return options


def layers(side: int, features: int, domains: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """X (side * side, features) with unit variance within domains, and the domains (side * side,)."""
    generator = torch.Generator(device).manual_seed(0)
    steps = torch.linspace(0, 1, side, device=device)
    depth = steps[:, None] + 0.08 * torch.sin(6.2832 * steps)
    labels = ((depth + 0.08) / 1.16 * domains).long().clamp(0, domains - 1).flatten()
    means = torch.randn(domains, features, device=device, generator=generator) * 0.8 * (3 / features) ** 0.5
    X = torch.randn(side * side, features, device=device, generator=generator)
    for rows, parts in zip(X.split(1 << 22), labels.split(1 << 22), strict=True):
        rows += means[parts]
    return X, labels


def rand_index(first: torch.Tensor, second: torch.Tensor) -> float:
    """The adjusted Rand index of two labelings (N,)."""
    k = int(torch.maximum(first.max(), second.max())) + 1
    table = torch.bincount(first * k + second, minlength=k * k).view(k, k).double()

    def pairs(counts: torch.Tensor) -> float:
        return float((counts * (counts - 1) / 2).sum())

    rows, columns, n = pairs(table.sum(1)), pairs(table.sum(0)), float(table.sum())
    expected = rows * columns / (n * (n - 1) / 2)
    return (pairs(table) - expected) / ((rows + columns) / 2 - expected)


class Clock:
    """Times on ``device``, and the peak of the memory that PyTorch adds there."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.seconds, self.bytes = 0.0, 0

    def run(self, call: Callable[[], Any]) -> Any:
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        before, start = torch.cuda.memory_allocated() if self.cuda else 0, time.perf_counter()
        found = call()
        if self.cuda:
            torch.cuda.synchronize()
            self.bytes = torch.cuda.max_memory_allocated() - before
        self.seconds = time.perf_counter() - start
        return found


def fits(X: torch.Tensor, graph: Graph, given: argparse.Namespace, group: Any) -> dict[str, Any]:
    """Labels, times and memory of the fits of this process."""
    clock, times = Clock(X.device), []
    model = SpatialMixture(given.domains, random_state=0)
    for _ in range(given.repeats + 1):
        if group is not None:
            dist.barrier()
        clock.run(lambda: model.fit(X, graph=graph, group=group))
        times.append(clock.seconds)
    found = {"labels": model.labels_, "iterations": model.n_iter_, "beta": model.beta_, "all_seconds": times}
    return found | {"seconds": statistics.median(times[1:]), "memory_per_x": clock.bytes / X.nbytes}


def work(rank: int, count: int, given: argparse.Namespace, folder: str) -> None:
    """Process ``rank`` of ``count``."""
    device, options = torch.device(given.device), dict[str, Any]()
    if given.device == "cuda":
        device = torch.device("cuda", rank if given.backend == "nccl" else 0)
        torch.cuda.set_device(device)
    if given.backend == "nccl":
        options["device_id"] = device
    dist.init_process_group(given.backend, init_method=f"file://{folder}/group", rank=rank, world_size=count, **options)
    side, clock = int(given.points**0.5), Clock(device)
    X, labels = layers(side, given.features, given.domains, device)
    row: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "processes": count, "backend": given.backend, "points": side * side, "features": given.features,
        "domains": given.domains,
    }  # fmt: skip
    for _ in range(2):
        graph = clock.run(lambda: grid((side, side), device=device))
        row["graph_s"] = clock.seconds
        clock.run(functools.partial(getattr, graph, "order"))
        row["order_s"] = clock.seconds
    for _ in range(2):
        graph.blocks.clear()
        block = clock.run(lambda: block_of(graph, rank, count))
        row["block_s"] = clock.seconds
    row["halo"] = len(block.ids) - block.own
    alone = None
    if rank == 0:
        _ = clock.run(lambda: graph.by_colour)
        row["by_colour_s"] = clock.seconds
        alone = fits(X, graph, given, None)
        graph.__dict__.pop("by_colour")
        print(f"one: {alone['seconds']:.4f} s {alone['all_seconds']}", flush=True)
    dist.barrier()
    together = fits(X, graph, given, dist.group.WORLD)
    memory = torch.tensor(together["memory_per_x"], dtype=torch.float64, device=device)
    dist.all_reduce(memory, dist.ReduceOp.MAX)
    if alone is not None:
        ours, theirs = alone.pop("labels"), together.pop("labels")
        row |= {"labels_that_differ": int((ours != theirs).sum()), "ari": rand_index(theirs, labels)}
        together["memory_per_x"] = float(memory)
        row |= {"one": alone, "all": together, "speedup": alone["seconds"] / together["seconds"]}
        print(
            f"{row['device']}, {side * side:,} points: one {alone['seconds']:.4f} s, {count} processes"
            f" {together['seconds']:.4f} s, {row['speedup']:.2f} x; labels that differ {row['labels_that_differ']};"
            f" iterations {alone['iterations']} and {together['iterations']}; ARI {row['ari']:.4f};"
            f" memory {alone['memory_per_x']:.2f} X, {float(memory):.2f} X a process;"
            f" graph {row['graph_s']:.3f} s, order {row['order_s']:.3f} s, by colour {row['by_colour_s']:.3f} s,"
            f" block {row['block_s']:.3f} s, halo {row['halo']:,}",
            flush=True,
        )
        if given.json:
            given.json.write_text(json.dumps(row, indent=1) + "\n")
    dist.destroy_process_group()


def main() -> None:
    given = parser().parse_args()
    count = given.processes or torch.cuda.device_count()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (count, given, folder), nprocs=count)


if __name__ == "__main__":
    main()
