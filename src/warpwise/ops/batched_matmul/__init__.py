"""GEMM of two batches of matrices, from one thread per element to warp-specialised kernels with TMA."""

from warpwise.ops.batched_matmul.op import batched_matmul

__all__ = ["batched_matmul"]
