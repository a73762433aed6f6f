"""The product of two float32 matrices on TF32 tensor cores: from CUDA's fragments to swizzled slices."""

from warpwise.ops.matmul_tf32.op import matmul_tf32

__all__ = ["matmul_tf32"]
