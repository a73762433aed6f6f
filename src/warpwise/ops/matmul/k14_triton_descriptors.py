"""Persistent programs in Triton: boxes by TMA, one program per SM, and prefetching across tiles.

The kernel is ``gemm/triton_descriptors.py``.
"""

from warpwise.gemm.triton_descriptors import launch

__all__ = ["launch"]
