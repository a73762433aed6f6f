"""Domains of real tissue with known layers: the adjusted Rand index of SpatialMixture, one setting for all slices.

    python benchmarks/tissue.py dlpfc151510.rda starmap_mpfc.RData [--seeds 3] [--json FILE]
    python benchmarks/tissue.py dlpfc15167*.rda --layers barcode_level_layer_map.tsv
    python benchmarks/tissue.py osmFISH_prep_expression.txt

The files are public, on GitHub; the package rdata reads those of R. DLPFC slice 151510 (4,634 spots) is
data/dlpfc151510.rda of cran/DR.SC; STARmap of mouse prefrontal cortex, slices BZ5, BZ9 and BZ14, is
data/starmap_mpfc.RData of zhengli09/BASS-Analysis. The default was not chosen on the others: DLPFC slices 151673 to
151676 (about 3,600 spots, 5,000 or 7,319 genes) are in data/ of early commits of prabhakarlab/Banksy, their layers in
10X/barcode_level_layer_map.tsv of LieberInstitute/HumanPilot; osmFISH of mouse somatosensory cortex (5,328 cells, 33
genes, 11 regions) is in three text files in folders of data/2018_osmFISH_SScortex of drieslab/spatial-datasets, here
in one folder. ``count_features`` and ``spatial_components`` make the features. The number of domains is known; the
labels are used for the index alone. Seconds and CPU seconds include the features.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
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


def osmfish(path: Path) -> Slice:
    """The cells of the matrix of genes in ``path``, with the coordinates and regions of the files beside it."""
    genes = pandas.read_csv(path, sep="\t")
    places = pandas.read_csv(path.with_name("osmFISH_prep_cell_coordinates.txt"), sep="\t", index_col="ID")
    about = pandas.read_csv(path.with_name("osmFISH_prep_cell_metadata.txt"), sep="\t", index_col="CellID")
    regions = about["Region"].astype(str).replace("Excluded", "nan")
    return Slice(
        "osmFISH",
        genes.to_numpy(float).T,
        places.loc[genes.columns, ["X", "Y"]].to_numpy(float),
        regions.loc[genes.columns].to_numpy(str),
    )


def slices(path: Path, layers: dict[tuple[str, str], str]) -> Iterator[Slice]:
    """The slices of a file; ``layers`` are the domains by sample and barcode where the file has none."""
    if path.suffix == ".txt":
        yield osmfish(path)
        return
    content = rdata.read_rda(path)
    for name, counts in content.get("starmap_cnts", {}).items():
        about = content["starmap_info"][name]
        yield Slice(
            str(name).split("_")[1], counts.values.T, about[["x", "y"]].to_numpy(float), about["z"].to_numpy(str)
        )
    for name, found in content.items():
        if isinstance(found, dict) and "expression" in found:
            counts, places = found["expression"].values.T, found["locations"]
            smallest = np.where(counts > 0, counts, np.inf).min(1, keepdims=True)  # one molecule, if normalised
            sample = name.removeprefix("dlpfc")
            domains = np.array([layers.get((sample, barcode), "nan") for barcode in places.index])
            yield Slice(name, np.rint(counts / smallest), places.to_numpy(float), domains)
        if hasattr(found, "assays"):
            matrix, about = found.assays["RNA"].counts, getattr(found, "meta.data")
            parts = (np.asarray(part) for part in (matrix.x, matrix.i, matrix.p))
            counts = scipy.sparse.csc_matrix(tuple(parts), shape=tuple(np.asarray(matrix.Dim))).T.toarray()
            coords = about[["row", "col"]].to_numpy(float) * (3**0.5, 1.0)  # a hexagonal lattice
            yield Slice(name, counts, coords, about["annotation"].to_numpy().astype(str))


def k_means(X: np.ndarray, coords: np.ndarray, k: int, seed: int) -> np.ndarray:
    return KMeans(k, n_init=4, random_state=seed).fit_predict(X)


def smoothed_k_means(X: np.ndarray, coords: np.ndarray, k: int, seed: int) -> np.ndarray:
    return SmoothedKMeans(k, hops=0, whiten=False, random_state=seed).fit(X, coords=coords).labels_


def mixture(X: np.ndarray, coords: np.ndarray, k: int, seed: int) -> np.ndarray:
    model = SpatialMixture(k, n_neighbours=12, n_init=64, whiten=False, random_state=seed)
    return model.fit(X, coords=coords).labels_


METHODS = {"KMeans": k_means, "SmoothedKMeans": smoothed_k_means, "SpatialMixture": mixture}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--layers", type=Path, help="barcode, sample and layer of each spot, tab-separated")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    table = [line.split("\t") for line in options.layers.read_text().splitlines()] if options.layers else []
    layers = {(sample, barcode): layer for barcode, sample, layer in table}
    for data in (data for path in options.files for data in slices(path, layers)):
        known = data.domains != "nan"
        k = len(set(data.domains[known]))
        rows: dict[str, Any] = {method: {"ari": [], "seconds": [], "cpu_seconds": []} for method in METHODS}
        for seed in range(options.seeds):
            start = time.perf_counter(), time.process_time()
            counts = count_features(data.counts)
            X = spatial_components(counts, coords=data.coords, min_components=k - 1, random_state=seed)
            features = time.perf_counter() - start[0], time.process_time() - start[1]
            for method, row in rows.items():
                start = time.perf_counter(), time.process_time()
                labels = METHODS[method](X, data.coords, k, seed)
                row["seconds"].append(features[0] + time.perf_counter() - start[0])
                row["cpu_seconds"].append(features[1] + time.process_time() - start[1])
                row["ari"].append(float(adjusted_rand_score(data.domains[known], labels[known])))
                row["components"] = X.shape[1]
        for method, row in rows.items():
            each = " ".join(f"{index:.3f}" for index in row["ari"])
            seconds = np.median(row["cpu_seconds"])
            print(f"{data.name}, {X.shape[1]} components, {method}: {each}; {seconds:.1f} s CPU", flush=True)
        found[data.name] = rows
    for method in METHODS:
        print(f"{method}: mean {np.mean([np.mean(rows[method]['ari']) for rows in found.values()]):.3f}")
    if options.json:
        atomic_write(options.json, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
