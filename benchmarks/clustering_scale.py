"""Time whole fits of spatial clustering by number of points, on a CPU or a GPU.

    python benchmarks/clustering_scale.py --device cuda --points 10000 1000000 --json FILE

Data are layers on a square grid (``generators.layered``). The time of a fit includes its starts, but not the graph and
its order by colours, whose time is reported separately. A first fit, which compiles the kernels, is not timed; of the
others the median is shown. Memory is the peak of the fit on the GPU in units of X. scikit-learn's KMeans on the CPU is
shown up to ``--peers`` points. `warpwise climb potts_em_step` times an iteration alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from warpwise.apps.clustering import Graph, SmoothedKMeans, SpatialMixture, generators, grid

PATIENCE_S = 120.0  # a method that takes longer is fitted once, and not at more points


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--points", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options.add_argument("--features", type=int, default=16)
    options.add_argument("--domains", type=int, default=8)
    options.add_argument("--device", default="cpu")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--peers", type=int, default=1_000_000)
    options.add_argument("--json", type=Path)
    return options


def timed(fit: Callable[[], Any], device: torch.device, repeats: int) -> tuple[Any, float, float]:
    """What ``fit`` returns, its median time in seconds, and the peak memory that it adds in bytes, on a GPU."""
    times, memory, result = [], 0.0, None
    for repeat in range(repeats + 1):
        result = None  # frees the results of the fit before
        if device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() if device.type == "cuda" else 0
        start = time.perf_counter()
        result = fit()
        if device.type == "cuda":
            torch.cuda.synchronize()
            memory = torch.cuda.max_memory_allocated() - before
        times.append(time.perf_counter() - start)
        if repeat == 0 and times[0] > PATIENCE_S:
            break
    return result, statistics.median(times[1:] or times), float(memory)


def sorted_grid(shape: tuple[int, ...], device: torch.device) -> Graph:
    """The graph of a grid and its order by colours, which fits use."""
    graph = grid(shape, device=device)
    _ = graph.by_colour
    return graph


def measured(points: int, given: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each method at the largest square grid of at most ``points`` points."""
    side, device = int(points**0.5), torch.device(given.device)
    data = generators.layered(0.8, (side, side), n_features=given.features, n_domains=given.domains)
    graph, seconds, _ = timed(lambda: sorted_grid(data.shape, device), device, given.repeats)
    rows: list[dict[str, Any]] = [{"method": "graph", "points": side * side, "seconds": seconds}]
    X = torch.from_numpy(data.X).to(device)
    k = given.domains
    methods: dict[str, Callable[[], Any]] = {
        "SpatialMixture": lambda: SpatialMixture(k, random_state=0).fit(X, graph=graph),
        "SmoothedKMeans": lambda: SmoothedKMeans(k, random_state=0).fit(X, graph=graph),
    }
    if points <= given.peers:
        methods["sklearn KMeans"] = lambda: KMeans(k, n_init=4, random_state=0).fit(data.X)
    for name, fit in methods.items():
        model, seconds, memory = timed(fit, device, given.repeats)
        labels = torch.as_tensor(model.labels_).cpu().numpy()
        row: dict[str, Any] = {"method": name, "points": side * side, "seconds": seconds}
        row |= {"ari": adjusted_rand_score(data.labels, labels), "iterations": getattr(model, "n_iter_", None)}
        if device.type == "cuda" and not name.startswith("sklearn"):
            row["memory_per_x"] = memory / X.nbytes
        rows.append(row)
    return rows


def main() -> None:
    given = parser().parse_args()
    device = torch.device(given.device)
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{where}, D = {given.features}, K = {given.domains}")
    rows = []
    for points in given.points:
        for row in measured(points, given):
            rows.append(row)
            extra = "".join(f"  {key} {row[key]:.3g}" for key in ("ari", "memory_per_x") if key in row)
            print(f"{row['points']:>10,} points  {row['method']:16} {row['seconds'] * 1e3:10.1f} ms{extra}", flush=True)
    if given.json:
        record = {"device": where, "features": given.features, "domains": given.domains}
        given.json.write_text(json.dumps({**record, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
