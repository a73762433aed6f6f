"""GEMM of float32 operands on TF32 tensor cores, by mma.sync and by wgmma with an operand in registers."""

from warpwise.ops.matmul_tf32.op import matmul_tf32

__all__ = ["matmul_tf32"]
