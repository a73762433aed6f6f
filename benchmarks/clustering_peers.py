"""Compare spatial clustering with other packages as the number of points grows, on a CPU or a GPU.

    python benchmarks/clustering_peers.py [--points 10000 100000 1000000] [--limit 300] [--json FILE]
    python benchmarks/clustering_peers.py --device cuda [--points 10000 10000000] [--json FILE]
    python benchmarks/clustering_peers.py --show FILE [FILE] [--picture FILE.svg]

Data are curved layers on a square grid (``generators.layered``, 15 features, 7 domains). Every fit runs in a process of
its own with one thread. The output has the adjusted Rand index, normalised mutual information, CPU seconds of the fit,
on which other processes of the machine have less influence than on wall-clock time, and the memory that the fit adds,
in units of X. A method that takes longer than ``--limit`` seconds is stopped, and not run at more points. Peers that
are not installed (PyMaxflow, scikit-image, pybanksy with anndata) are left out.

With ``--device cuda`` SmoothedKMeans, SpatialMixture and flash-kmeans (25 iterations from one random start) fit data
that are in the memory of the GPU. A first fit compiles the kernels. The output has the median time of the next three,
in seconds including the graph, and the peak of the memory that PyTorch allocates for the fit.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src")]

import numpy as np

from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture, generators
from warpwise.cache import atomic_write

K, FEATURES = 7, 15
Sample = generators.Sample


def k_means(data: Sample) -> np.ndarray:
    from sklearn.cluster import KMeans

    return KMeans(K, n_init=4, random_state=0).fit_predict(data.X)


def gaussian_mixture(data: Sample) -> np.ndarray:
    from sklearn.mixture import GaussianMixture

    return GaussianMixture(K, random_state=0).fit_predict(data.X)


def ward(data: Sample) -> np.ndarray:
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.feature_extraction.image import grid_to_graph

    return AgglomerativeClustering(K, connectivity=grid_to_graph(*data.shape)).fit_predict(data.X)


def slic_k_means(data: Sample) -> np.ndarray:
    """k-means on the means of superpixels of about 25 points."""
    from skimage.segmentation import slic
    from sklearn.cluster import KMeans

    image = data.X.reshape(*data.shape, -1)
    parts = slic(image, n_segments=len(data.X) // 25, compactness=1, channel_axis=-1, start_label=0).ravel()
    sums = np.stack([np.bincount(parts, weights=data.X[:, f]) for f in range(data.X.shape[1])], 1)
    means = sums / np.maximum(np.bincount(parts), 1)[:, None]
    return KMeans(K, n_init=4, random_state=0).fit_predict(means)[parts]


def alpha_expansion(data: Sample, beta: float = 1.5) -> np.ndarray:
    """EM with a Potts prior on 4 neighbours whose E step is alpha expansion, from k-means on smoothed features."""
    from maxflow.fastmin import aexpansion_grid

    labels = SmoothedKMeans(K, random_state=0).fit(data.X, shape=data.shape).labels_
    potts = beta * (1 - np.eye(K))
    for _ in range(8):
        means = np.stack([data.X[labels == k].mean(0) if (labels == k).any() else data.X.mean(0) for k in range(K)])
        variance = (data.X - means[labels]).var(0)
        cost = ((data.X[:, None] - means) ** 2 / (2 * variance)).sum(2, dtype=np.float64)
        new = aexpansion_grid(cost.reshape(*data.shape, K), potts, labels=labels.reshape(data.shape)).ravel()
        if (new == labels).mean() > 0.9998:
            return new
        labels = new
    return labels


def banksy(data: Sample) -> np.ndarray:
    """The features of BANKSY (lambda 0.8, one azimuthal term) and a Gaussian mixture on 20 principal components."""
    import anndata
    from banksy.embed_banksy import generate_banksy_matrix
    from banksy.initialize_banksy import initialize_banksy
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    adata = anndata.AnnData(data.X)
    adata.obs["x"], adata.obs["y"] = data.coords.T
    adata.obsm["xy"] = data.coords
    off = {f"plt_{name}": False for name in ("edge_hist", "nbr_weights", "agf_angles", "theta")}
    found = initialize_banksy(adata, ("x", "y", "xy"), 15, nbr_weight_decay="scaled_gaussian", max_m=1, **off)
    _, matrix = generate_banksy_matrix(adata, found, [0.8], max_m=1)
    components = PCA(20, random_state=0).fit_transform(np.asarray(matrix.X))
    return GaussianMixture(K, random_state=0).fit_predict(components)


METHODS: dict[str, Callable[[Sample], Any]] = {
    "KMeans": k_means,
    "GaussianMixture": gaussian_mixture,
    "Ward, connectivity": ward,
    "SLIC + KMeans": slic_k_means,
    "PyMaxflow EM": alpha_expansion,
    "BANKSY + GMM": banksy,
    "SmoothedKMeans": lambda data: SmoothedKMeans(K, random_state=0).fit(data.X, shape=data.shape).labels_,
    "SpatialMixture": lambda data: SpatialMixture(K, random_state=0).fit(data.X, shape=data.shape).labels_,
}


def one(name: str, points: int) -> dict[str, Any]:
    """A fit in this process."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    warnings.simplefilter("ignore")
    side = int(points**0.5)
    small = generators.layered(0.8, (32, 32), n_domains=K, n_features=FEATURES)
    METHODS[name](small)  # imports, and raises ImportError
    data = generators.layered(0.8, (side, side), n_domains=K, n_features=FEATURES)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    start, cpu = time.perf_counter(), time.process_time()
    labels = METHODS[name](data)
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - start
    added = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    return {
        "method": name,
        "points": side * side,
        "ari": adjusted_rand_score(data.labels, labels),
        "nmi": normalized_mutual_info_score(data.labels, labels),
        "cpu_seconds": cpu,
        "seconds": seconds,
        "memory_per_x": max(added, 0) / data.X.nbytes,
    }


def _flash(X: Any, shape: tuple[int, int]) -> Any:
    from flash_kmeans import FlashKMeans

    return FlashKMeans(X.shape[1], K).fit(X).cluster_ids_b[0]


ON_GPU: dict[str, Callable[[Any, tuple[int, int]], Any]] = {
    "flash-kmeans": _flash,
    "SmoothedKMeans": lambda X, shape: SmoothedKMeans(K, random_state=0).fit(X, shape=shape).labels_,
    "SpatialMixture": lambda X, shape: SpatialMixture(K, random_state=0).fit(X, shape=shape).labels_,
}


def on_gpu(points: int) -> list[dict[str, Any]]:
    """The fits of ``ON_GPU``."""
    import torch
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    side, rows = int(points**0.5), []
    data = generators.layered(0.8, (side, side), n_domains=K, n_features=FEATURES)
    X = torch.from_numpy(data.X).cuda()
    for name, fit in ON_GPU.items():
        times: list[float] = []
        try:
            for _ in range(4):
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
                before, start = torch.cuda.memory_allocated(), time.perf_counter()
                labels = fit(X, data.shape)
                torch.cuda.synchronize()
                times.append(time.perf_counter() - start)
                memory = torch.cuda.max_memory_allocated() - before
        except (ImportError, RuntimeError, ValueError) as error:
            print(f"{points:>9,}  {name:20} {str(error)[:100]}", flush=True)
            continue
        found = labels.cpu().numpy()
        row = {"method": name, "points": side * side, "machine": torch.cuda.get_device_name()}
        row |= {"ari": adjusted_rand_score(data.labels, found), "nmi": normalized_mutual_info_score(data.labels, found)}
        rows.append(row | {"seconds": statistics.median(times[1:]), "memory_per_x": memory / X.nbytes})
        print(shown(rows[-1]), flush=True)
    return rows


def measured(name: str, points: int, limit: float) -> dict[str, Any] | str:
    """``one`` in a process of its own, or why there is no result."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    command = [sys.executable, __file__, "--one", name, "--points", str(points)]
    try:
        environment = {**os.environ, **dict.fromkeys(threads, "1")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"stopped after {limit:.0f} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed"])[-1][:100]
    return json.loads(done.stdout.strip().splitlines()[-1])


def picture(rows: list[dict[str, Any]]) -> str:
    """An SVG of CPU seconds, or seconds on a GPU, by number of points, with a line for each method."""
    import vl_convert

    values = []
    for row in rows:
        gpu = row.get("machine", "").removeprefix("NVIDIA ")
        method, seconds = (f"{row['method']}, {gpu}", row["seconds"]) if gpu else (row["method"], row["cpu_seconds"])
        point = {"points": row["points"], "seconds": seconds, "method": method, "where": "GPU" if gpu else "CPU"}
        values.append(point)
    order = [row["method"] for row in sorted(values, key=lambda row: (-row["points"], -row["seconds"]))]
    encoding = {
        "x": {"field": "points", "type": "quantitative", "scale": {"type": "log"}, "title": "points",
              "axis": {"format": "~s", "grid": False, "tickCount": 4}},
        "y": {"field": "seconds", "type": "quantitative", "scale": {"type": "log"},
              "title": "seconds of one CPU core, or of a GPU", "axis": {"tickCount": 6}},
        "color": {"field": "method", "type": "nominal", "title": None, "sort": list(dict.fromkeys(order)),
                  "scale": {"scheme": "tableau20"}},
        "strokeDash": {"field": "where", "type": "nominal", "title": None},
    }  # fmt: skip
    return vl_convert.vegalite_to_svg({
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json", "background": "white",
        "data": {"values": values}, "width": 640, "height": 400,
        "mark": {"type": "line", "point": True}, "encoding": encoding,
    })  # fmt: skip


def shown(row: dict[str, Any]) -> str:
    time_ = f"{row['seconds']:8.4f} s, {row['machine']}" if "machine" in row else f"{row['cpu_seconds']:8.1f} s CPU"
    return (
        f"{row['points']:>9,}  {row['method']:20} ARI {row['ari']:.3f}  NMI {row['nmi']:.3f}  "
        f"{row['memory_per_x']:5.1f} x X  {time_}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--show", type=Path, nargs="+", default=[])
    parser.add_argument("--one", choices=list(METHODS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.points[0])))
        return
    rows: list[dict[str, Any]] = [row for file in options.show for row in json.loads(file.read_text())]
    for row in rows:
        print(shown(row))
    if options.device == "cuda":
        for points in options.points:
            rows += on_gpu(points)
            if options.json:
                atomic_write(options.json, json.dumps(rows, indent=1) + "\n")
    left = [] if options.show or options.device == "cuda" else list(options.methods)
    for points in options.points:
        for name in tuple(left):
            found = measured(name, points, options.limit)
            if isinstance(found, str):
                left.remove(name)
                print(f"{points:>9,}  {name:20} {found}", flush=True)
                continue
            rows.append(found)
            print(shown(found), flush=True)
            if options.json:
                atomic_write(options.json, json.dumps(rows, indent=1) + "\n")
    if options.picture:
        atomic_write(options.picture, picture(rows))


if __name__ == "__main__":
    main()
