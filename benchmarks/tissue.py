"""Domains of real tissue with known layers: the adjusted Rand index of SpatialMixture, one setting for all slices.

    python benchmarks/tissue.py dlpfc151510.rda starmap_mpfc.RData [--seeds 3] [--json FILE]

The files are public and read by the package rdata: DLPFC slice 151510 (4,634 spots, data/dlpfc151510.rda of cran/DR.SC
on GitHub) and STARmap of mouse prefrontal cortex, slices BZ5, BZ9 and BZ14 (starmap_mpfc.RData of
zhengli09/BASS-Analysis). ``count_features`` and ``spatial_components`` make the features. The number of domains is
known; the labels are used for the index alone. Seconds and CPU seconds include the features.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rdata
import scipy.sparse
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture, count_features, spatial_components
from warpwise.cache import atomic_write


class Slice(NamedTuple):
    """counts (points, genes), coords (points, 2), the names of the known domains, "nan" where there is none."""

    name: str
    counts: Any
    coords: np.ndarray
    domains: np.ndarray


def slices(path: Path) -> Iterator[Slice]:
    content = rdata.read_rda(path)
    for name, counts in content.get("starmap_cnts", {}).items():
        about = content["starmap_info"][name]
        yield Slice(
            str(name).split("_")[1], counts.values.T, about[["x", "y"]].to_numpy(float), about["z"].to_numpy(str)
        )
    for name, found in content.items():
        if hasattr(found, "assays"):
            matrix, about = found.assays["RNA"].counts, getattr(found, "meta.data")
            parts = (np.asarray(part) for part in (matrix.x, matrix.i, matrix.p))
            counts = scipy.sparse.csc_matrix(tuple(parts), shape=tuple(np.asarray(matrix.Dim))).T.toarray()
            coords = about[["row", "col"]].to_numpy(float) * (3**0.5, 1.0)  # a hexagonal lattice
            yield Slice(name, counts, coords, about["annotation"].to_numpy().astype(str))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for data in (data for path in options.files for data in slices(path)):
        known = data.domains != "nan"
        k, rows = len(set(data.domains[known])), {}
        for method in ("KMeans", "SmoothedKMeans", "SpatialMixture"):
            indices, seconds, cpu = [], [], []
            for seed in range(options.seeds):
                start, cpu_start = time.perf_counter(), time.process_time()
                X = spatial_components(count_features(data.counts), coords=data.coords, random_state=seed)
                if method == "KMeans":
                    labels = KMeans(k, n_init=4, random_state=seed).fit_predict(X)
                elif method == "SmoothedKMeans":
                    labels = SmoothedKMeans(k, hops=0, random_state=seed).fit(X, coords=data.coords).labels_
                else:
                    model = SpatialMixture(k, n_neighbours=12, n_init=64, random_state=seed)
                    labels = model.fit(X, coords=data.coords).labels_
                seconds.append(time.perf_counter() - start)
                cpu.append(time.process_time() - cpu_start)
                indices.append(float(adjusted_rand_score(data.domains[known], labels[known])))
            rows[method] = {"ari": indices, "seconds": seconds, "cpu_seconds": cpu, "components": X.shape[1]}
            each = " ".join(f"{index:.3f}" for index in indices)
            print(f"{data.name}, {X.shape[1]} components, {method}: {each}; {np.median(cpu):.1f} s CPU", flush=True)
        found[data.name] = rows
    for method in next(iter(found.values()), {}):
        print(f"{method}: mean {np.mean([np.mean(rows[method]['ari']) for rows in found.values()]):.3f}")
    if options.json:
        atomic_write(options.json, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
