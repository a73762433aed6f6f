"""Compare spatial clustering with scikit-learn: adjusted Rand index, normalised mutual information and seconds.

    python benchmarks/clustering.py [--seeds 5] [--kinds layered potts composed] [--json FILE]

Each seed makes new data of each kind (20,000 points, 15 features, 7 domains); the estimators have one seed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.feature_extraction.image import grid_to_graph
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.mixture import GaussianMixture

from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture, generators

K = 7
METHODS: dict[str, Callable[[generators.Sample], Any]] = {
    "KMeans": lambda data: KMeans(K, n_init=4, random_state=0).fit_predict(data.X),
    "GaussianMixture": lambda data: GaussianMixture(K, random_state=0).fit_predict(data.X),
    "Ward, connectivity": lambda data: AgglomerativeClustering(K, connectivity=grid_to_graph(*data.shape)).fit_predict(
        data.X
    ),
    "SmoothedKMeans": lambda data: SmoothedKMeans(K, random_state=0).fit(data.X, shape=data.shape).labels_,
    "SpatialMixture": lambda data: SpatialMixture(K, random_state=0).fit(data.X, shape=data.shape).labels_,
    "SpatialMixture, 20 types": lambda data: (
        SpatialMixture(K, n_types=20, random_state=0).fit(data.X, shape=data.shape).labels_
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", default=["layered", "potts", "composed"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for kind in options.kinds:
        for name in options.methods:
            figures = []
            for seed in range(options.seeds):
                data = getattr(generators, kind)(n_domains=K, random_state=seed)
                start = time.perf_counter()
                labels = METHODS[name](data)
                seconds = time.perf_counter() - start
                scores = (score(data.labels, labels) for score in (adjusted_rand_score, normalized_mutual_info_score))
                figures.append((*scores, seconds))
            ari, nmi, seconds = np.transpose(figures)
            row = {"kind": kind, "method": name, "ari": ari.tolist(), "nmi": nmi.tolist(), "seconds": seconds.tolist()}
            rows.append(row)
            print(
                f"{kind:9} {name:25} ARI {ari.mean():.3f} (min {ari.min():.3f})  NMI {nmi.mean():.3f}  "
                f"{np.median(seconds):.2f} s",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
