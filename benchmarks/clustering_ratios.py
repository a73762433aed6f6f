"""Ratios of spatial clustering on a GPU at numbers of points, features and domains drawn by a seeded generator.

    python benchmarks/clustering_ratios.py --count 12 --seed 0 --shape 1000,16,8 --json FILE

N is drawn from 10^4 to 10^7 and D from 2 to 128, both log-uniformly with N D at most ``--elements``, K from 2 to 100.
Each ``--shape`` is measured before them. The graph is a square grid with 8 neighbours. A row has the time of an
iteration of EM (potts_em_step with the derivatives for beta, then potts_m_step), and that of potts_em_step alone,

- over its floor, the bytes of potts_em_step with features in float32 and q in bfloat16 at the rate of a copy:
  features and graph read, q read and written, without the padding of its rows. The iteration has q and features in the
  dtypes of a fit of whitened features ("q" and "x" of a row); the floor does not depend on them. The time of the bytes
  in these dtypes is reported separately;
- over the floor with waits: the points of a colour wait for those of the colours before, and the moments for all
  points, so the time of a cooperative launch with one grid barrier for each colour, and nothing else, is added. Nothing
  that depends on q is moved in this time. It is measured in the same run, and reported separately;
- over all three floors: the larger of the bytes' and the arithmetic's time, and the waits. The arithmetic is three
  products of TF32 for each of float32, the least that keeps its accuracy on tensor cores, at the rate of a large TF32
  product in the same run. It is longer than the bytes take where both D and K are near 100 or above. A record has the
  three floors in seconds;
- over the time of an iteration of k-means of the same N, D and K: that of flash_kmeans where it can be imported, else
  kmeans_assign and kmeans_update;

and the peak memory that a fit adds, in units of X. Iterations are timed in CUDA graphs, one after another in each of
several rounds; the median is shown.

With ``--rungs k07,k09`` these rungs of potts_em_step are timed in turn with the others where they take the arguments,
and no fit is made. Their q, counts and sums after one step are compared with those of the rung that is chosen.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda, operation, ops
from warpwise.apps.clustering import Graph, SpatialMixture, grid
from warpwise.apps.clustering.emission import RIDGE
from warpwise.apps.clustering.mixture import MAX_STRENGTH
from warpwise.apps.clustering.rounding import in_bfloat16, rounded_rows, saves_time
from warpwise.operation import Cost
from warpwise.ops.potts_em_step.spec import rows_of

ROUNDS, CALLS = 7, 4  # calls in a graph
DEGREE = 8  # neighbours of a point
COPIED = 1 << 28  # floats
MOST_DIFFERENCE = 0.02  # of results of two rungs that round q to bfloat16, colour after colour
TF32_PRODUCTS = 3  # of four of the parts of two floats: the fourth is below float32's rounding


class Rates(NamedTuple):
    """Bytes per second of a copy, FLOP per second of a TF32 product, and seconds of a launch with grid barriers."""

    copy: float
    product: float
    barriers: float


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=12)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--shape", action="append", default=[], help="points of a side of the grid, features, domains")
    options.add_argument("--elements", type=int, default=200_000_000)
    options.add_argument("--seconds", type=float, default=600.0, help="seconds after which no further shape is begun")
    options.add_argument("--rungs", default="", help="rungs of potts_em_step that are timed too, separated by commas")
    options.add_argument("--json", type=Path)
    return options


def drawn(count: int, seed: int, elements: int) -> list[tuple[int, int, int]]:
    """``count`` shapes (side, features, domains) of square grids."""
    generator, found = random.Random(seed), []
    while len(found) < count:
        points, features = (math.exp(generator.uniform(*map(math.log, ends))) for ends in ((1e4, 1e7), (2, 128)))
        domains = generator.randint(2, 100)
        if points * features <= elements:
            found.append((int(points**0.5), round(features), domains))
    return found


def medians(calls: list[Callable[[], Any]]) -> list[float]:
    """The times of the calls in seconds, each in a CUDA graph."""
    graphs, times = [], [[] for _ in calls]
    for call in calls:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            call()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(CALLS):
                call()
        graphs.append(graph)
    for round_ in range(ROUNDS + 1):
        for graph, found in zip(graphs, times, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            if round_:
                found.append(begin.elapsed_time(end) / CALLS / 1e3)
    return [statistics.median(found) for found in times]


def copy_rate() -> float:
    """Bytes per second that a kernel reads and writes; a copy in a graph is no kernel, and slower."""
    source = torch.ones(COPIED, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / medians([lambda: torch.neg(source, out=target)])[0]


def product_rate() -> float:
    """FLOP per second of a product of TF32 matrices."""
    size = 8192
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
    seconds = medians([lambda: a @ b])[0]
    torch.backends.cuda.matmul.allow_tf32 = before
    return 2 * size**3 / seconds


def barrier_time(colours: int) -> float:
    """Seconds of a launch of one block per SM that waits ``colours`` times for all blocks."""
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    launch = cuda.load(Path(__file__).parent / "grid_barriers.cu")["grid_barriers"][blocks, 128]
    return medians([lambda: launch(colours)])[0]


def kmeans_iteration(X: torch.Tensor, centres: torch.Tensor) -> tuple[str, Callable[[], Any]]:
    """The name and one iteration of the k-means that EM is compared with."""
    try:
        from flash_kmeans.assign_euclid_triton import euclid_assign_triton
        from flash_kmeans.centroid_update_triton import triton_centroid_update_sorted_euclid
    except ImportError:
        return "warpwise", lambda: ops.kmeans_update(X, ops.kmeans_assign(X, centres)[0], len(centres))
    points, means, squares = X[None], centres[None], X.square().sum(1)[None]

    def iterate() -> Any:
        labels = euclid_assign_triton(points, means, squares)
        return triton_centroid_update_sorted_euclid(points, labels, means)

    return "flash_kmeans", iterate


class Iteration(NamedTuple):
    """``least``: the cost with features in float32 and q in bfloat16. ``stored``: with the dtypes that are used.
    ``dtypes``: of q and of the features. ``step``: potts_em_step of given q, and a rung or None for the chosen one.
    ``q``: that it changes. ``takes``: why a rung does not take the arguments, or None. ``run``: an iteration."""

    least: Cost
    stored: Cost
    dtypes: tuple[str, str]
    step: Callable[[torch.Tensor, str | None], Any]
    q: torch.Tensor
    takes: Callable[[str], str | None]
    run: Callable[[], Any]


def em_iteration(X: torch.Tensor, graph: Graph, centres: torch.Tensor) -> Iteration:
    """``graph`` is sorted by colour."""
    n, k = len(X), len(centres)
    q = torch.rand(n, 1, k, device="cuda").add_(0.1)
    q /= q.sum(2, keepdim=True)
    beta, external = q.new_full((1,), 0.3), q.new_zeros(1, 1, k)
    bounds = (0, *torch.tensor(graph.colour_counts).cumsum(0).tolist())
    linear, constant = centres[None].contiguous(), -centres.square().sum(1)[None] / 2
    edges = (graph.rowptr, graph.columns, graph.weights_or_none)
    rows = rounded_rows(X, graph, 1, k, rounds=True)
    features = in_bfloat16(X) if saves_time(X, graph, k, n) else X
    args = (linear, constant, *edges, beta, external, None, bounds, 1.0, True, False)
    stored = q if rows is None else rows.copy_(q)
    op, whole = operation.get("potts_em_step"), stored if rows is None else rows_of(rows)
    assert whole is not None
    costs = op.spec.cost(q.bfloat16(), X, *args), op.spec.cost(stored, features, *args)
    dtypes = tuple(str(part.dtype).removeprefix("torch.") for part in (stored, features))
    total = X.T @ X

    def step(q: torch.Tensor, rung: str | None) -> Any:
        return ops.potts_em_step(q, features, *args, rung=rung)

    def takes(rung: str) -> str | None:
        return op.unsupported(op.rung(rung), whole, features, *args)

    def iterate() -> Any:
        counts, sums, slopes, _ = step(whole, None)
        return ops.potts_m_step(counts, sums, total, centres[None], n, RIDGE, slopes, beta, MAX_STRENGTH / DEGREE)

    return Iteration(*costs, dtypes, step, whole, takes, iterate)


def differences(em: Iteration, rungs: list[str]) -> dict[str, float]:
    """The largest difference of each rung's q, counts and sums after a step from those of the chosen rung, the last two
    relative to the largest count and sum. Raises ``RuntimeError`` if one is above ``MOST_DIFFERENCE``."""

    def results(rung: str | None) -> tuple[torch.Tensor, ...]:
        q = em.q.clone()
        counts, sums, *_ = em.step(q, rung)
        return q.float(), counts, sums

    chosen, found = results(None), {}
    scales = (1.0, *(float(part.abs().max()) for part in chosen[1:]))
    for rung in rungs:
        parts = zip(results(rung), chosen, scales, strict=True)
        found[rung] = max(float((part - wanted).abs().max()) / scale for part, wanted, scale in parts)
        if not found[rung] <= MOST_DIFFERENCE:
            raise RuntimeError(f"{rung}: results differ by {found[rung]:.2g} from those of the chosen rung")
    return found


def measured(side: int, features: int, domains: int, rates: Rates, rungs: list[str]) -> dict[str, Any]:
    """A row for the grid of side x side points, which has four colours."""
    generator = torch.Generator("cuda").manual_seed(0)
    centres = torch.randn(domains, features, device="cuda", generator=generator) * 2
    X = torch.randn(side * side, features, device="cuda", generator=generator)
    X += centres[torch.arange(side * side, device="cuda") * domains // (side * side)]
    graph = grid((side, side), device=torch.device("cuda"))
    row: dict[str, Any] = {"points": side * side, "features": features, "domains": domains}
    em = em_iteration(X, graph.by_colour[1], centres)
    (row["q"], row["x"]), cost = em.dtypes, em.least
    row["kmeans"], kmeans = kmeans_iteration(X, centres)
    taking = [rung for rung in rungs if em.takes(rung) is None]
    checked = differences(em, taking) if taking else {}
    steps = [functools.partial(em.step, em.q, rung) for rung in (None, *taking)]
    calls = [em.run, kmeans, *steps]
    row["em_s"], row["kmeans_s"], row["step_s"], *others = medians(calls)
    if rungs:
        row["rungs_s"], row["differences"] = dict(zip(taking, others, strict=True)), checked
    moved, computed, waits = cost.bytes / rates.copy, TF32_PRODUCTS * cost.flops / rates.product, rates.barriers
    row["floors_s"] = {"bytes": moved, "arithmetic": computed, "waits": waits}
    row["floors_s"]["bytes_as_stored"] = em.stored.bytes / rates.copy
    row["em_over_floor"], row["em_over_kmeans"] = row["em_s"] / moved, row["em_s"] / row["kmeans_s"]
    row["step_over_floor"] = row["step_s"] / moved
    row["em_over_floor_with_waits"] = row["em_s"] / (moved + waits)
    row["em_over_all_floors"] = row["em_s"] / (max(moved, computed) + waits)
    del em, kmeans, steps, calls
    for _ in range(0 if rungs else 2):  # the first fit compiles kernels
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before, start = torch.cuda.memory_allocated(), time.perf_counter()
        SpatialMixture(domains, random_state=0).fit(X, graph=graph)
        torch.cuda.synchronize()
        row["fit_s"] = time.perf_counter() - start
        row["memory_per_x"] = (torch.cuda.max_memory_allocated() - before) / X.nbytes
    return row


def main() -> None:
    given = parser().parse_args()
    rates, rows, start = Rates(copy_rate(), product_rate(), barrier_time(4)), [], time.perf_counter()
    name = torch.cuda.get_device_name()
    print(
        f"{name}, a copy at {rates.copy / 1e12:.2f} TB/s, TF32 products at {rates.product / 1e12:.0f} TFLOP/s,"
        f" a launch with four grid barriers {rates.barriers * 1e6:.1f} µs"
    )
    chosen = [tuple(map(int, shape.split(","))) for shape in given.shape]
    rungs = [rung for rung in given.rungs.split(",") if rung]
    for shape in (*chosen, *drawn(given.count, given.seed, given.elements)):
        if time.perf_counter() - start > given.seconds:
            break
        row = {"drawn": len(rows) >= len(chosen)} | measured(*shape, rates, rungs)
        rows.append(row)
        print(
            f"N {row['points']:>9,} D {row['features']:>3} K {row['domains']:>3}, q {row['q']}, X {row['x']}:"
            f" EM {row['em_s'] * 1e6:8.1f} µs (step {row['step_s'] * 1e6:.1f}),"
            f" {row['em_over_floor']:5.2f} x its floor (step {row['step_over_floor']:.2f}),"
            f" {row['em_over_floor_with_waits']:5.2f} with waits,"
            f" {row['em_over_all_floors']:5.2f} with arithmetic too,"
            f" {row['em_over_kmeans']:5.2f} x {row['kmeans']}"
            + (f"; fit {row['fit_s'] * 1e3:8.1f} ms, {row['memory_per_x']:5.2f} X" if "fit_s" in row else "")
            + "".join(f"; {rung} {seconds * 1e6:.1f} µs" for rung, seconds in row.get("rungs_s", {}).items()),
            flush=True,
        )
        if given.json:
            record = {
                "device": name,
                "seed": given.seed,
                "copy_bytes_per_s": rates.copy,
                "product_flop_per_s": rates.product,
                "barriers_s": rates.barriers,
                "rows": rows,
            }
            given.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
