"""``tl.inline_asm_elementwise`` on the CPU: results derived from PyTorch, packed elements, and what is refused."""

from __future__ import annotations

import re

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda.errors import CompileError, KernelError, UninitializedRead, UnsupportedFeature

N = 64


@wt.jit
def unary(x_ptr, y_ptr, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr, PACK: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    y = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [x], dtype=y_ptr.dtype.element_ty, is_pure=True, pack=PACK)
    tl.store(y_ptr + at, y)


@wt.jit
def binary(x_ptr, y_ptr, z_ptr, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr, PACK: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    z = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [x, y], dtype=z_ptr.dtype.element_ty, is_pure=True, pack=PACK)
    tl.store(z_ptr + at, z)


def run_unary(x: torch.Tensor, dtype: torch.dtype, asm: str, constraints: str, pack: int = 1) -> torch.Tensor:
    y = torch.empty(x.numel(), dtype=dtype)
    unary[1](x, wt.out(y), ASM=asm, CONSTRAINTS=constraints, PACK=pack, N=x.numel())
    return y


def run_binary(x: torch.Tensor, y: torch.Tensor, asm: str, constraints: str, pack: int = 1) -> torch.Tensor:
    z = torch.empty_like(x)
    binary[1](x, y, wt.out(z), ASM=asm, CONSTRAINTS=constraints, PACK=pack, N=x.numel())
    return z


def normal(dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return (3 * torch.randn(N, generator=torch.Generator().manual_seed(seed))).to(dtype)


@pytest.mark.parametrize("instruction, function", [("tanh.approx.f32", torch.tanh), ("ex2.approx.ftz.f32", torch.exp2)])
def test_approximate_functions(instruction: str, function) -> None:
    x = normal()
    torch.testing.assert_close(run_unary(x, torch.float32, f"{instruction} $0, $1;", "=f, f"), function(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("pack, size", [(2, N), (4, N), (2, 1)])
def test_packed_pairs(dtype: torch.dtype, pack: int, size: int) -> None:
    kind = "bf16x2" if dtype == torch.bfloat16 else "f16x2"
    x, y = normal(dtype)[:size], normal(dtype, 1)[:size]
    pairs = pack // 2
    asm = "\n".join(f"max.{kind} ${i}, ${pairs + i}, ${2 * pairs + i};" for i in range(pairs))
    constraints = ",".join(["=r"] * pairs + ["r"] * 2 * pairs)
    assert torch.equal(run_binary(x, y, asm, constraints, pack), torch.maximum(x, y))


def test_registers_labels_scopes_and_comments() -> None:
    x = torch.randint(-9, 9, (N,), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    asm = """{ .reg .pred %p; .reg .b32 t;  // the absolute value of $1
    mov.b32 t, $1;
    setp.ge.s32 %p, t, 0;
    @%p bra DONE;
    neg.s32 t, t;
    DONE: mov.b32 $0, t; }"""
    assert torch.equal(run_unary(x, torch.int32, asm, "=&r,r"), x.abs())


def test_an_input_in_the_register_of_an_output() -> None:
    x, y = torch.arange(N), torch.arange(N) * 7 - 100
    x, y = x.int(), y.int()
    assert torch.equal(run_binary(x, y, "mad.lo.s32 $0, $1, 3, $2;", "=r,0,r"), 3 * x + y)


def test_lop3_and_prmt() -> None:
    x = torch.randint(-(2**31), 2**31, (N,), generator=torch.Generator().manual_seed(0)).int()
    y = torch.randint(-(2**31), 2**31, (N,), generator=torch.Generator().manual_seed(1)).int()
    assert torch.equal(run_binary(x, y, "lop3.b32 $0, $1, $2, $2, 0xf8;", "=r,r,r"), x | y)  # 0xf8: a | (b & c)
    halves = "{ .reg .b16 st, red; mov.b32 {st, red}, $1; mov.b32 $0, {red, st}; }"  # registers with names of opcodes
    assert torch.equal(
        run_unary(x, torch.int32, halves, "=r,r").view(torch.int16), x.view(torch.int16).view(-1, 2).flip(1).reshape(-1)
    )
    swapped = x.view(torch.uint8).view(-1, 4).flip(1).contiguous().view(torch.int32).view(-1)
    assert torch.equal(run_unary(x, torch.int32, "prmt.b32 $0, $1, 0, 0x0123;", "=r,r"), swapped)


@wt.jit
def split(x_ptr, low_ptr, sum_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    low, total = tl.inline_asm_elementwise(
        "{ .reg .b8 a, b, c, d; mov.b32 {a, b, c, d}, $8; cvt.u32.u8 $0, a; cvt.u32.u8 $1, b; cvt.u32.u8 $2, c; "
        "cvt.u32.u8 $3, d; cvt.rn.f32.u32 $4, $0; cvt.rn.f32.u32 $5, $1; cvt.rn.f32.u32 $6, $2; "
        "cvt.rn.f32.u32 $7, $3; }",
        "=r,=r,=r,=r,=f,=f,=f,=f,r",
        [tl.load(x_ptr + at)],
        dtype=(tl.int32, tl.float32),
        is_pure=True,
        pack=4,
    )
    tl.store(low_ptr + at, low)
    tl.store(sum_ptr + at, total)


@pytest.mark.parametrize("size", [4, 32])
def test_two_outputs_of_four_packed_bytes(size: int) -> None:
    x = torch.randint(0, 256, (size,), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    low, total = torch.empty(size, dtype=torch.int32), torch.empty(size)
    split[1](x, wt.out(low), wt.out(total), N=size)
    assert torch.equal(low, x.int())
    assert torch.equal(total, x.float())


@pytest.mark.parametrize("kind, dtype", [("e4m3x2", torch.float8_e4m3fn), ("e5m2x2", torch.float8_e5m2)])
def test_float8(kind: str, dtype: torch.dtype) -> None:
    x = torch.cat([normal(), torch.tensor([0.0, -0.0, 1e-3, -2e-3, 3e-7, 300.0, 1e30, -1e30])]).repeat(2)[:N]
    x[:8] = torch.tensor([0.0, -0.0, 1e-3, -2e-3, 3e-7, 300.0, 1e30, -1e30])
    y = run_unary(x, dtype, f"cvt.rn.satfinite.{kind}.f32 $0, $2, $1;", "=h,f,f", 2)
    largest = torch.finfo(dtype).max
    assert torch.equal(y.view(torch.uint8), x.clamp(-largest, largest).to(dtype).view(torch.uint8))
    every = torch.arange(256).to(torch.uint8).view(dtype)
    half = run_unary(every, torch.float16, f"cvt.rn.f16x2.{kind} $0, $1;", "=r,h", 2)
    torch.testing.assert_close(half, every.to(torch.float16), rtol=0, atol=0, equal_nan=True)


def test_float4() -> None:
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    asm = "{ .reg .b8 b; cvt.rn.satfinite.e2m1x2.f32 b, $2, $1; cvt.rn.f16x2.e2m1x2 $0, b; }"
    assert torch.equal(run_unary(table, torch.float16, asm, "=r,f,f", 2), table.half())
    # Ties go to the even fraction, and numbers beyond 6 to 6.
    x = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0, -0.2, -0.3, 100.0, -100.0, 2.6, 3.4, 5.1, 4.9])
    wanted = torch.tensor([0, 1, 1, 2, 2, 4, 4, 6, -0.0, -0.5, 6, -6, 3, 3, 6, 4]).half()
    assert torch.equal(run_unary(x, torch.float16, asm, "=r,f,f", 2), wanted)


@pytest.mark.parametrize("kind, fraction, bias", [("e2m3x2", 3, 1), ("e3m2x2", 2, 3)])
def test_float6(kind: str, fraction: int, bias: int) -> None:
    codes = torch.arange(64)
    exponent, rest = (codes & 31) >> fraction, codes & (2**fraction - 1)
    significand = rest + torch.where(exponent > 0, 2**fraction, 0)
    values = torch.ldexp(significand.float(), exponent.clamp(min=1) - bias - fraction) * (1 - 2 * (codes >> 5))
    values[32] = -0.0
    decoded = run_unary(codes.to(torch.uint8), torch.float16, f"cvt.rn.f16x2.{kind} $0, $1;", "=r,h", 2)
    assert torch.equal(decoded.view(torch.int16), values.half().view(torch.int16))
    encode = f"cvt.rn.satfinite.{kind}.f32 $0, $2, $1;"
    assert torch.equal(run_unary(values, torch.uint8, encode, "=h,f,f", 2), codes.to(torch.uint8))
    # A number halfway between two values rounds to the even code; larger numbers and NaN give the largest value.
    middles = torch.cat([(values[:31] + values[1:32]) / 2, torch.tensor([1e30])])
    assert run_unary(middles, torch.uint8, encode, "=h,f,f", 2).tolist() == [(k + 1) // 2 * 2 for k in range(31)] + [31]
    assert run_unary(torch.tensor([float("nan")] * 2), torch.uint8, encode, "=h,f,f", 2).tolist() == [31, 31]


@pytest.mark.parametrize("rounding, step", [("rz", 0), ("rp", 1)])
def test_scales(rounding: str, step: int) -> None:
    x = torch.tensor([1.0, 1.5, 2.0, 3.0, 0.0, 2.0**-127, 1.5 * 2.0**-127, 2.0**127, -4.0, -5.0, 0.75, 448.0, 6.0, 1e-3,
                      1e30, float("nan")])  # fmt: skip
    y = run_unary(x, torch.uint8, f"cvt.{rounding}.satfinite.ue8m0x2.f32 $0, $2, $1;", "=h,f,f", 2)
    fraction, exponent = torch.frexp(x.abs().double())
    wanted = exponent - 1 + (step if step else 0) * (fraction > 0.5) + 127
    wanted[4], wanted[-1] = 0, 255
    assert torch.equal(y, wanted.to(torch.uint8))
    back = run_unary(y, torch.bfloat16, "cvt.rn.bf16x2.ue8m0x2 $0, $1;", "=r,h", 2)
    scales = torch.exp2(y.float() - 127)
    scales[-1] = float("nan")
    torch.testing.assert_close(back, scales.bfloat16(), rtol=0, atol=0, equal_nan=True)


def test_pairs_of_float32() -> None:
    x, y = normal(), normal(seed=1)
    asm = """{ .reg .b64 a, b, c;
    mov.b64 a, {$2, $3}; mov.b64 b, {$4, $5}; fma.rn.f32x2 c, a, b, a; mov.b64 {$0, $1}, c; }"""
    wanted = (x.double() * y.double() + x.double()).float()
    assert torch.equal(run_binary(x, y, asm, "=f,=f,f,f,f,f", 2), wanted)


@wt.jit
def without_operands(y_ptr):
    tl.store(y_ptr, tl.inline_asm_elementwise("mov.u32 $0, 7;", "=r", [], dtype=tl.int32, is_pure=True, pack=1))


def test_no_operands() -> None:
    y = torch.zeros(1, dtype=torch.int32)
    without_operands[1](y)
    assert y.item() == 7


@pytest.mark.parametrize(
    "asm, kind, message",
    [
        ("tanhx.approx.f32 $0, $1;", UnsupportedFeature, "tanhx.approx.f32 is not emulated, in: tanhx"),
        ("add.f33x2 $0, $1, $1;", UnsupportedFeature, "add.f33x2"),
        ("{ ld.global.b32 $0, [$1]; }", UnsupportedFeature, "ld.global.b32 accesses memory or other threads"),
        ("{ HERE: { @p red.global.add.u32 [$1], 1; } }", UnsupportedFeature, "red.global.add.u32 accesses memory"),
        ("@p bar.sync 0;", UnsupportedFeature, "bar.sync accesses memory or other threads"),
        ("mov.u32 $0, %laneid;", UnsupportedFeature, "%laneid depends on the thread"),
        ("mov.u32 $0, $4;", CompileError, "$4: the constraints name 2 registers"),
    ],
)
def test_what_is_refused(asm: str, kind: type[KernelError], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)) as caught:
        run_unary(normal(), torch.float32, asm, "=f,f")
    assert caught.value.finding.access.file == __file__


@pytest.mark.parametrize("constraints", ["=f", "=f,f,f", "f,f"])
def test_wrong_constraints(constraints: str) -> None:
    with pytest.raises(CompileError, match="expected 1 outputs and 1 inputs"):
        run_unary(normal(), torch.float32, "tanh.approx.f32 $0, $1;", constraints)


@wt.jit
def of_undefined(x_ptr, y_ptr, n, bound, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.inline_asm_elementwise("ex2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + at, y, mask=at < bound)


def test_undefined_lanes_stay_undefined() -> None:
    x, y = torch.ones(N), torch.zeros(N)
    of_undefined[1](x, y, 40, 40, N=N)
    assert y.sum() == 80
    with pytest.raises(UninitializedRead, match="write of an undefined value to y_ptr"):
        of_undefined[1](x, y, 40, 41, N=N)


@wt.jit
def blend(x_ptr, out_ptr, MASK: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    low, high = tl.inline_asm_elementwise(
        "{ .reg .b32 t; lop3.b32 t, $2, $3, $4, $5; mov.b32 {$0, $1}, t; }",
        "=h,=h,r,n,n,n",
        [tl.load(x_ptr + at), MASK, 0x64006400, 0xEA],
        dtype=(tl.int16, tl.int16),
        is_pure=True,
        pack=1,
    )
    tl.store(out_ptr + 2 * at, low)
    tl.store(out_ptr + 2 * at + 1, high)


def test_constants() -> None:
    x, out = torch.tensor([0x0012FFFF, 7], dtype=torch.int32), torch.empty(4, dtype=torch.int16)
    assert blend[1].check(x, wt.out(out), 0x000F000F, 2) == []
    assert out.tolist() == [0x640F, 0x6402, 0x6407, 0x6400]


@wt.jit
def not_a_constant(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.inline_asm_elementwise("add.s32 $0, $1, $2;", "=r,r,n", [at, at], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out_ptr + at, x)


def test_a_constant_of_several_values() -> None:
    with pytest.raises(CompileError, match="the constraint 'n' needs a constant"):
        not_a_constant[1](torch.zeros(2), torch.zeros(2, dtype=torch.int32), 2)
