"""``tl.dot_scaled`` on the CPU against float64 products of the decoded operands."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda.errors import UninitializedRead

M, K, COLUMNS = 32, 64, 16
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
FLOAT8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


@wt.jit
def product(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, rows,
    M: tl.constexpr, N: tl.constexpr, KS: tl.constexpr, AM: tl.constexpr, AK: tl.constexpr, BK: tl.constexpr,
    BN: tl.constexpr, A: tl.constexpr, B: tl.constexpr, A_PACK: tl.constexpr, B_PACK: tl.constexpr,
):  # fmt: skip
    m, n, s = tl.arange(0, M), tl.arange(0, N), tl.arange(0, KS)
    am = tl.arange(0, AM)[:, None]
    a = tl.load(a_ptr + am * AK + tl.arange(0, AK)[None, :], mask=am < rows)
    b = tl.load(b_ptr + tl.arange(0, BK)[:, None] * BN + tl.arange(0, BN)[None, :])
    a_scale = tl.load(a_scale_ptr + m[:, None] * KS + s[None, :])
    b_scale = tl.load(b_scale_ptr + n[:, None] * KS + s[None, :]) if b_scale_ptr is not None else None
    c = tl.dot_scaled(a, a_scale, A, b, b_scale, B, lhs_k_pack=A_PACK, rhs_k_pack=B_PACK)
    tl.store(c_ptr + m[:, None] * N + n[None, :], c)


def operand(kind: str, shape: tuple[int, int], axis: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """An operand as it is stored, and its values; ``axis``: along which e2m1 are packed."""
    generator = torch.Generator().manual_seed(seed)
    if kind == "e2m1":
        codes = torch.randint(0, 16, shape, generator=generator)
        first, second = (codes[::2], codes[1::2]) if axis == 0 else (codes[:, ::2], codes[:, 1::2])
        return (first | second << 4).to(torch.uint8).contiguous(), E2M1[codes]
    values = torch.randn(shape, generator=generator)
    if kind in FLOAT8:
        stored = values.to(FLOAT8[kind])
        return stored.view(torch.uint8), stored.double()
    stored = values.to(torch.bfloat16 if kind == "bf16" else torch.float16)
    return stored, stored.double()


def scales(rows: int, factor: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    if factor == 16:
        stored = (torch.rand((rows, K // 16), generator=generator) + 0.5).to(torch.float8_e4m3fn)
        return stored, stored.double().repeat_interleave(16, 1)
    stored = torch.randint(120, 134, (rows, K // 32), generator=generator).to(torch.uint8)
    return stored, torch.exp2(stored.double() - 127).repeat_interleave(32, 1)


def run(a_kind: str, b_kind: str, a_pack: bool, b_pack: bool, factor: int, with_b: bool, rows: int = 1 << 20) -> None:
    a, left = operand(a_kind, (M, K), 1 if a_pack else 0, 0)
    b, right = operand(b_kind, (K, COLUMNS), 0 if b_pack else 1, 1)
    a_scale, a_factors = scales(M, factor, 2)
    b_scale, b_factors = scales(COLUMNS, factor, 3)
    c = torch.empty(M, COLUMNS)
    product[1](
        a, a_scale, b, b_scale if with_b else None, wt.out(c), rows, M=M, N=COLUMNS, KS=K // factor, AM=a.shape[0],
        AK=a.shape[1], BK=b.shape[0], BN=b.shape[1], A=a_kind, B=b_kind, A_PACK=a_pack, B_PACK=b_pack,
    )  # fmt: skip
    wanted = (left * a_factors) @ (right * b_factors.T if with_b else right)
    magnitude = (left * a_factors).abs() @ (right * b_factors.T if with_b else right).abs()
    assert ((c - wanted).abs() <= K * 2.0**-24 * magnitude).all()


@pytest.mark.parametrize("a_kind", ["e2m1", "e4m3", "e5m2"])
@pytest.mark.parametrize("b_kind", ["e2m1", "e4m3", "e5m2"])
def test_scaled_operands(a_kind: str, b_kind: str) -> None:
    run(a_kind, b_kind, True, True, 32, True)


@pytest.mark.parametrize("b_kind", ["bf16", "fp16"])
def test_the_right_operand_without_scales(b_kind: str) -> None:
    run("e2m1", b_kind, True, True, 32, False)


def test_packed_along_rows_and_columns() -> None:
    run("e2m1", "e2m1", False, False, 32, True)


def test_scales_of_sixteen_elements() -> None:
    run("e2m1", "e2m1", True, True, 16, True)


@pytest.mark.parametrize("a_pack", [True, False])
def test_undefined_rows(a_pack: bool) -> None:
    with pytest.raises(UninitializedRead, match="write of an undefined value to c_ptr"):
        run("e2m1", "e4m3", a_pack, True, 32, True, rows=7)
