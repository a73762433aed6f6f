"""Compiled Triton kernels executed as SASS: matmul for sm_80 (mma) and sm_90 (wgmma), against PyTorch."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import triton.language as tl

import warpwise.triton as wt
from warpwise import machine
from warpwise.machine.program import Program

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp8e4nv": torch.float8_e4m3fn, "fp32": torch.float32}
M, N, K = 128, 128, 64


@wt.jit
def matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    DOUBLE_A: tl.constexpr,
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        if TRANSPOSED:  # A and B are stored transposed
            x = tl.trans(tl.load(a + k[:, None] * M + m[None, :]))
            y = tl.trans(tl.load(b + n[:, None] * K + k[None, :]))
        else:
            x = tl.load(a + m[:, None] * K + k[None, :])
            y = tl.load(b + k[:, None] * N + n[None, :])
        if DOUBLE_A:
            x = x + x
        total = tl.dot(x, y, total)
    tl.store(c + m[:, None] * N + n[None, :], total)


def _buffer(name: str, tensor: torch.Tensor) -> SimpleNamespace:
    address = tensor.data_ptr()
    return SimpleNamespace(
        name=name,
        address=address,
        nbytes=tensor.nbytes,
        element_bytes=tensor.element_size(),
        storage=address,
        const=False,
    )


def _matmul(
    target: str, dtype: str, tile: tuple[int, int, int], transposed: bool, double_a: bool
) -> tuple[Program, np.ndarray, np.ndarray]:
    """Return the program, its output and the float64 reference."""
    signature = {"a": f"*{dtype}:16", "b": f"*{dtype}:16", "c": "*fp32:16", "M": "i32:16", "N": "i32:16", "K": "i32:16"}
    meta = dict(zip(("BM", "BN", "BK"), tile, strict=True), TRANSPOSED=transposed, DOUBLE_A=double_a)
    compiled = wt.compile(matmul, signature, meta, target=target, num_stages=2)
    program = machine.load_program(compiled.cubin, compiled.name)
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(M, K, generator=generator).to(DTYPES[dtype])
    b = torch.randn(K, N, generator=generator).to(DTYPES[dtype])
    c = torch.zeros(M, N)
    given = [a.T.contiguous(), b.T.contiguous(), c] if transposed else [a, b, c]
    arguments = [_buffer(name, tensor) for name, tensor in zip("abc", given, strict=True)]
    arguments += [
        SimpleNamespace(name=name, data=np.int32(value).tobytes()) for name, value in (("M", M), ("N", N), ("K", K))
    ]
    arguments += [SimpleNamespace(name="scratch", data=bytes(8))] * (len(program.parameters) - len(arguments))
    grid, block = (M // tile[0], N // tile[1], 1), (32 * compiled.num_warps, 1, 1)
    counts = machine.run(program, grid, block, compiled.shared, arguments)
    exact = (2 if double_a else 1) * a.double() @ b.double()
    return program, counts.outputs["c"].view(np.float32).reshape(M, N), exact.numpy()


@pytest.mark.parametrize(
    "target, dtype, tile, transposed, double_a, opcode",
    [
        ("sm_80", "fp16", (64, 64, 32), False, False, "HMMA"),
        ("sm_80", "bf16", (32, 64, 32), True, False, "HMMA"),
        ("sm_90", "fp16", (64, 64, 64), False, False, "HGMMA"),
        ("sm_90", "fp16", (64, 128, 32), True, False, "HGMMA"),
        ("sm_90", "bf16", (64, 32, 16), True, True, "HGMMA"),
        ("sm_90", "fp8e4nv", (64, 32, 64), False, False, "QGMMA"),
    ],
)
def test_matmul(
    target: str, dtype: str, tile: tuple[int, int, int], transposed: bool, double_a: bool, opcode: str
) -> None:
    program, made, exact = _matmul(target, dtype, tile, transposed, double_a)
    assert machine.unsupported(program) == []
    assert any(each.opcode == opcode for each in program.instructions)
    np.testing.assert_allclose(made, exact, rtol=0, atol=2e-4)


def test_tf32_matmul_has_tf32_precision() -> None:
    program, made, exact = _matmul("sm_90", "fp32", (64, 64, 32), False, False)
    assert any("TF32" in each.modifiers for each in program.instructions)
    np.testing.assert_allclose(made, exact, rtol=0, atol=0.05)
    assert np.abs(made - exact).max() > 1e-4
