"""matmul beyond its cases: any shape and layout exactly, both tile sizes, the C compiler, TF32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.conftest import on_cpu
from tests.sampled import examples

from warpwise import operation, ops
from warpwise.ops import _c
from warpwise.ops.matmul import rungs, spec

FEW = settings(max_examples=examples(12), deadline=None)
RUNGS = [rung.name for rung in rungs.RUNGS if on_cpu(rung) and torch.float32 in (rung.dtypes or ())]


def integers(rows: int, columns: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small integers: every partial sum is exact, so results must be equal and not merely close."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, (rows, columns), generator=generator).to(dtype)


@FEW
@given(
    m=st.integers(1, 150),
    n=st.integers(1, 150),
    k=st.integers(1, 40),
    shift=st.integers(0, 5),
    rung=st.sampled_from(["k06_block_tile_2d", "k07_vectorised", "k08_warp_tile", "k10_async_copies"]),
)
def test_tiles_at_any_size_and_alignment(m, n, k, shift, rung):
    a = integers(1, m * k + shift)[0, shift:].view(m, k)
    b = integers(1, k * n + shift, seed=1)[0, shift:].view(k, n)
    assert torch.equal(ops.matmul(a, b, rung=rung), a @ b)


@pytest.mark.parametrize("rung", RUNGS)
def test_transposed_and_broadcast_operands(rung):
    a, b = integers(9, 20), integers(12, 9, seed=1)
    assert torch.equal(ops.matmul(a.t(), b.t(), rung=rung), a.t() @ b.t())
    rows, columns = a[:1].expand(9, 20), b[:1].expand(20, 9)
    assert torch.equal(ops.matmul(rows, columns, rung=rung), rows @ columns)


@pytest.mark.parametrize("rung", [name for name in RUNGS if name != "k10_async_copies"])  # which loads a k-tile ahead
def test_an_empty_sum_is_zero(rung):
    product = ops.matmul(torch.empty(3, 0), torch.empty(0, 5), rung=rung)
    assert torch.equal(product, torch.zeros(3, 5))


@pytest.mark.parametrize("rung", [name for name in RUNGS if name != "k17_bf16x3"])  # infinity has no parts
def test_infinity_and_nan_spread_along_their_row_only(rung):
    """Zeros that pad a tile must not be multiplied by an infinity: 0 * inf is NaN."""
    a, b = torch.ones(5, 7), torch.ones(7, 6)
    a[1, 6], a[2, 0] = float("inf"), float("nan")
    product = ops.matmul(a, b, rung=rung)
    assert product[1].tolist() == [float("inf")] * 6
    assert product[2].isnan().all()
    assert product[[0, 3, 4]].tolist() == [[7.0] * 6] * 3


@pytest.mark.parametrize("sm_count", [1, 1000])
def test_both_sizes_of_the_warp_tile(sm_count, monkeypatch):
    monkeypatch.setattr(rungs, "sm_count", lambda tensor: sm_count)
    for m, n, k in ((129, 132, 36), (70, 131, 17)):
        a, b = integers(m, k), integers(k, n, seed=1)
        assert torch.equal(ops.matmul(a, b, rung="k08"), a @ b)


@pytest.mark.parametrize("room", [0, 227 * 1024])
def test_both_sizes_of_the_triton_tile(room, monkeypatch):
    from warpwise.ops.matmul import k09_triton_tiled

    monkeypatch.setattr(k09_triton_tiled, "shared_bytes", lambda tensor: room)
    a, b = integers(130, 70, dtype=torch.bfloat16), integers(70, 257, seed=1, dtype=torch.bfloat16)
    torch.testing.assert_close(ops.matmul(a, b, rung="k09"), a @ b, rtol=0, atol=0)


def test_half_precision_is_accumulated_in_float32():
    """A float16 accumulator stops at 2048, where adding 1 no longer changes it."""
    a, b = torch.ones(1, 4096, dtype=torch.float16), torch.ones(4096, 1, dtype=torch.float16)
    for rung in ("k03", "k08", "k09"):
        assert ops.matmul(a, b, rung=rung).item() == 4096.0


def test_what_a_rung_cannot_take_is_refused():
    with pytest.raises(
        ValueError, match="k01_python_loops takes up to 131072 multiply-adds, not 64 x 64 x 64 = 262144"
    ):
        ops.matmul(torch.ones(64, 64), torch.ones(64, 64), rung="k01")
    with pytest.raises(ValueError, match="k02_c_blocked takes torch.float32, not torch.float16"):
        ops.matmul(torch.ones(2, 2).half(), torch.ones(2, 2).half(), rung="k02")
    tall = torch.empty(1, 1).expand(2**23, 1)
    with pytest.raises(ValueError, match="k04_coalesced takes up to 2097120 rows of a"):
        ops.matmul(tall, torch.ones(1, 1), rung="k04")
    wide = torch.empty(1, 1).expand(1, 2**23)
    with pytest.raises(ValueError, match="k03_naive takes up to 2097120 columns of b"):
        ops.matmul(torch.ones(1, 1), wide, rung="k03")


def test_defaults():
    default = operation.get("matmul").default
    square = torch.empty(2, 2)
    assert default(square.double(), square.double()) is None
    tall = torch.empty(1, 2).expand(2**31, 2)
    assert default(tall, square) is None


def test_gradients_are_products():
    a, b = integers(4, 3).requires_grad_(), integers(3, 5, seed=1).requires_grad_()
    weight = integers(4, 5, seed=2)
    (ops.matmul(a, b) * weight).sum().backward()
    assert torch.equal(a.grad, weight @ b.detach().t())
    assert torch.equal(b.grad, a.detach().t() @ weight)


def test_autocast_takes_low_precision():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.matmul(torch.ones(2, 3), torch.ones(3, 2)).dtype == torch.bfloat16


def test_without_a_c_compiler(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(RuntimeError, match="no C compiler: looked for no-such-compiler on PATH; install gcc or clang"):
        _c.compiler()


def test_c_that_does_not_compile(tmp_path):
    source = tmp_path / "broken.c"
    source.write_text("int broken(void) { return missing; }\n")
    with pytest.raises(RuntimeError, match=r"cannot build broken\.c:\n[\s\S]*missing"):
        _c.library(source)


def test_c_refuses_tensors_that_are_not_on_the_cpu():
    with pytest.raises(ValueError, match=r"expected tensors on the CPU, got one on meta; move it with \.cpu\(\)"):
        _c.function(Path("any.c"), "any", "p")(torch.empty(3, device="meta"))


@pytest.mark.gpu
def test_eager_is_exact_whatever_tf32_says():
    """The opponent under TF32 would have an error of 2^-11 per operand, hundreds of times more than float32."""
    a, b = (torch.randn(512, 512, device="cuda", generator=torch.Generator("cuda").manual_seed(s)) for s in (0, 1))
    settings_before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        error = (spec.eager(a, b).double() - a.double() @ b.double()).abs().max().item()
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    finally:
        torch.backends.cuda.matmul.fp32_precision = settings_before
    assert error < 1e-3


@pytest.mark.parametrize(
    "a,b,error,message",
    [
        (torch.ones(2), torch.ones(2, 2), ValueError, r"matmul: expected a with 2 dimensions, got shape \(2,\)"),
        (torch.ones(2, 3), torch.ones(2, 3), ValueError, r"as many rows as a has columns.* got \(2, 3\) and \(2, 3\)"),
        (
            torch.ones(2, 2),
            torch.ones(2, 2).half(),
            TypeError,
            "matmul: expected b of a's dtype torch.float32, got torch.float16",
        ),
        (
            torch.ones(2, 2),
            torch.ones(2, 2, device="meta"),
            ValueError,
            "matmul: expected b on a's device cpu, got meta",
        ),
        (torch.ones(2, 2).int(), torch.ones(2, 2).int(), TypeError, "matmul: expected a of dtype"),
    ],
)
def test_wrong_arguments(a, b, error, message):
    with pytest.raises(error, match=message):
        ops.matmul(a, b)
