"""Boxes of the batch by TMA, one persistent program per SM, and one fused loop over matrices, tiles and k-tiles.

Attention has short sums: for K = 128 a tile of 128 x 128 has two k-tiles. A pipeline that fills and drains for each
tile would mostly wait. The kernel is ``gemm/triton_descriptors.py``.
"""

from warpwise.gemm.triton_descriptors import launch

__all__ = ["launch"]
