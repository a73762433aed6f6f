"""Clustering of points in space into domains that are coherent, layered, connected or of known size.

``SpatialMixture`` and ``SmoothedKMeans`` are scikit-learn estimators; they need the extra ``clustering``.
"""

from warpwise.apps.clustering import generators
from warpwise.apps.clustering.annotated import fit_anndata
from warpwise.apps.clustering.components import connected_components
from warpwise.apps.clustering.graph import Graph, from_edges, from_sparse
from warpwise.apps.clustering.lattices import grid, hexagonal
from warpwise.apps.clustering.mixture import SpatialMixture
from warpwise.apps.clustering.segmentation import segment
from warpwise.apps.clustering.smoothed_kmeans import SmoothedKMeans
from warpwise.apps.clustering.spatial_components import count_features, spatial_components
from warpwise.apps.clustering.spatial_hash import knn, radius

__all__ = [
    "Graph",
    "SmoothedKMeans",
    "SpatialMixture",
    "connected_components",
    "count_features",
    "fit_anndata",
    "from_edges",
    "from_sparse",
    "generators",
    "grid",
    "hexagonal",
    "knn",
    "radius",
    "segment",
    "spatial_components",
]
