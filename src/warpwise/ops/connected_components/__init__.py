"""Connected regions of equal labels on a graph."""

from warpwise.ops.connected_components.op import connected_components

__all__ = ["connected_components"]
