"""scaled_matmul beyond its cases: exact on small integers in any layout, scales, dtypes, what is refused."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.conftest import on_cpu
from tests.sampled import examples

from warpwise import operation, ops
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.persistent import wide_columns
from warpwise.gemm.time_model import Product
from warpwise.ops.scaled_matmul import _shared, k03_skinny, spec
from warpwise.ops.scaled_matmul.k02_two_k_tile_promotion import NARROW, WIDE
from warpwise.ops.scaled_matmul.rungs import RUNGS

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
FEW = settings(max_examples=examples(10), deadline=None)
ON_CPU = [rung.name for rung in RUNGS if on_cpu(rung)]
SCALED = operation.get("scaled_matmul")
ONE = torch.ones(())


def integers(rows: int, columns: int, seed: int = 0, dtype: torch.dtype = E4M3) -> torch.Tensor:
    """Small integers, exact in fp8: every partial sum is exact, so results must be equal up to one rounding."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, (rows, columns), generator=generator).float().to(dtype)


def exact(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor = ONE, scale_b: torch.Tensor = ONE) -> torch.Tensor:
    return ((a.double() * scale_a.double()) @ (b.double() * scale_b.double())).bfloat16()


@FEW
@given(m=st.integers(1, 140), n=st.integers(1, 140), k=st.integers(1, 150))
def test_any_shape(m, n, k):
    a, b = integers(m, k), integers(n, k, seed=1).t()
    assert torch.equal(ops.scaled_matmul(a, b, ONE, ONE, rung="k01"), exact(a, b))


@pytest.mark.parametrize("rung", ON_CPU)
@pytest.mark.parametrize("by_column", [False, True])
def test_any_layout(rung, by_column):
    """Row-major b, transposed a and gaps are copied, not misread."""
    a, b = integers(32, 24).t(), integers(32, 48, seed=1)[:, ::2]
    b = b.t().contiguous().t() if by_column else b
    assert torch.equal(ops.scaled_matmul(a, b, ONE, ONE, rung=rung), exact(a, b))


@pytest.mark.parametrize("rung", ON_CPU)
def test_scales_by_row(rung):
    a, b = integers(9, 32), integers(24, 32, seed=1).t()
    scale_a = torch.tensor([2.0**i for i in range(9)])[:, None]
    scale_b = torch.tensor([-(2.0**-i) for i in range(24)])[None, :]
    assert torch.equal(ops.scaled_matmul(a, b, scale_a, scale_b, rung=rung), exact(a, b, scale_a, scale_b))
    strided = scale_a.expand(9, 2)[:, :1]
    assert torch.equal(ops.scaled_matmul(a, b, strided, scale_b, rung=rung), exact(a, b, scale_a, scale_b))


@pytest.mark.parametrize("rung", ON_CPU)
@pytest.mark.parametrize("of_a,of_b", [(E4M3, E4M3), (E5M2, E4M3), (E4M3, E5M2)])
def test_both_formats(rung, of_a, of_b):
    a, b = integers(16, 32, dtype=of_a), integers(16, 32, seed=1, dtype=of_b).t()
    if reason := operation.get("scaled_matmul").refusal(operation.get("scaled_matmul").rung(rung), a, b, ONE, ONE):
        pytest.skip(reason)
    assert torch.equal(ops.scaled_matmul(a, b, ONE, ONE, rung=rung), exact(a, b))


@pytest.mark.parametrize("rung", [None, *ON_CPU])
def test_an_empty_sum_is_zero(rung):
    empty = torch.empty(16, 0).to(E4M3)
    if rung is not None and (reason := SCALED.refusal(SCALED.rung(rung), empty, empty.t(), ONE, ONE)):
        pytest.skip(reason)
    assert torch.equal(ops.scaled_matmul(empty, empty.t(), ONE, ONE, rung=rung), torch.zeros(16, 16).bfloat16())
    assert ops.scaled_matmul(empty.t(), empty, ONE, ONE, rung=rung).shape == (0, 0)


@pytest.mark.parametrize("rung", [None, *ON_CPU])
def test_nan_spreads_along_its_row_only(rung):
    a, b = torch.ones(8, 32).to(E4M3), torch.ones(16, 32).to(E4M3).t()
    a[2, 5] = float("nan")
    product = ops.scaled_matmul(a, b, ONE, ONE, rung=rung)
    assert product[2].isnan().all()
    assert product[[0, 1, 3, 7]].tolist() == [[32.0] * 16] * 4


@FEW
@given(
    m=st.integers(1, 40), n=st.integers(1, 40), k=st.integers(0, 300), shift=st.integers(0, 3), transposed=st.booleans()
)
def test_operands_become_k_major_in_aligned_rows(m, n, k, shift, transposed):
    """The same bytes for any offset and layout of the matrices."""
    flat = torch.randint(0, 256, (shift + (m + n) * k,), dtype=torch.uint8)[shift:]
    a, b = (rows.view(E4M3) for rows in flat.split([m * k, n * k]))
    a, b = (a.view(k, m).t(), b.view(k, n)) if transposed else (a.view(m, k), b.view(n, k).t())
    for operand, made in zip((a, b.t()), _shared.k_major(a, b), strict=True):
        assert torch.equal(made.view(torch.uint8), operand.contiguous().view(torch.uint8))
        assert k == 0 or (made.data_ptr() % 16 == made.stride(0) % 16 == 0 and made.stride(1) == 1)


def test_the_tolerance_rejects_long_sums_never_added_in_float32():
    """A long sum that is truncated to 13 bits after its point every 32 products is rejected, as that of cuBLAS with
    ``use_fast_accum``; added in float32 in groups of 128 or 256 it passes."""
    from warpwise.lab.verify.tolerance import compare

    case = spec.Case("long", {"m": 32, "n": 32, "k": 16384})
    args = spec.SPEC.arguments(case, E4M3, torch.device("cpu"), 0)
    unscaled = (*args[:2], ONE, ONE)
    truth, size = spec.reference(*unscaled), spec.magnitude(*unscaled)

    def right(every: int) -> bool:
        made = _cut_sums(args[0], args[1], every).bfloat16()
        return compare(made, truth, size, 16384, torch.float32).right

    assert right(128)
    assert right(256)
    assert not right(16384)


def _cut_sums(a: torch.Tensor, b: torch.Tensor, every: int) -> torch.Tensor:
    """A model of the tensor cores: 32 products and the running sum, cut at 2^-13 of the largest's power of two."""
    a, b = a.double(), b.double()
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
    for first in range(0, a.shape[1], every):
        group = torch.zeros_like(total)
        for step in range(first, min(first + every, a.shape[1]), 32):
            products = a[:, step : step + 32, None] * b[None, step : step + 32]
            terms = torch.cat((products, group[:, None]), 1)
            unit = torch.exp2(terms.abs().amax(1, keepdim=True).log2().floor() - 13)
            group = ((terms / unit).trunc() * unit).sum(1)
        total += group
    return total


SCALE, SCALES_A, SCALES_B = torch.ones(1), torch.ones(4, 1), torch.ones(1, 8)
A, B = torch.zeros(4, 16).to(E4M3), torch.zeros(8, 16).to(E4M3).t()


@pytest.mark.parametrize(
    "args,error,message",
    [
        ((A.float(), B, SCALE, SCALE), TypeError, "a of dtype torch.float8_e4m3fn, .*, got torch.float32"),
        ((A, B.half(), SCALE, SCALE), TypeError, "expected b of dtype .* got torch.float16"),
        ((A.to(E5M2), B.to(E5M2), SCALE, SCALE), TypeError, "got torch.float8_e5m2 twice"),
        ((A[0], B, SCALE, SCALE), ValueError, r"expected a with 2 dimensions, got shape \(16,\)"),
        ((A, B.t(), SCALE, SCALE), ValueError, r"as many rows as a has columns.* got \(4, 16\) and \(8, 16\)"),
        ((A, B, 1.0, SCALE), TypeError, "expected scale_a to be a torch.Tensor, got float"),
        ((A, B, SCALE, SCALE.double()), TypeError, "expected scale_b of dtype torch.float32, got torch.float64"),
        ((A, B, SCALES_A, SCALE), ValueError, r"scale_a \(4, 1\) and scale_b \(1, 8\), got \(4, 1\) and \(1,\)"),
        ((A, B, SCALES_B, SCALES_A), ValueError, r"got \(1, 8\) and \(4, 1\)"),
        ((A, B, torch.ones(4), torch.ones(8)), ValueError, r"got \(4,\) and \(8,\)"),
        ((A, B, SCALE, SCALE.to("meta")), ValueError, "expected scale_b on a's device cpu, got meta"),
        ((A, B.to("meta"), SCALE, SCALE), ValueError, "expected b on a's device cpu, got meta"),
    ],
)  # fmt: skip
def test_wrong_arguments(args, error, message):
    with pytest.raises(error, match=f"scaled_matmul: .*{message}"):
        ops.scaled_matmul(*args)


@pytest.mark.parametrize(
    "m,n,first",
    [
        (4096, 4096, WIDE),
        (8192, 8192, WIDE),
        (1024, 1024, NARROW),
        (1, 8, NARROW),
        (2048, 6144, WIDE),
    ],
)
def test_the_tile_with_fewer_idle_sms(m, n, first):
    a, b = torch.empty(1, 16).to(E4M3).expand(m, 16), torch.empty(1, 16).to(E4M3).expand(n, 16).t()
    with operation.assume_sm_count(132):
        names = operation.get("scaled_matmul").rung("k02").configs(a, b, ONE, ONE)
    assert names[0] == first.name
    assert {WIDE.name, NARROW.name} <= set(names)
    assert (WIDE._replace(tile_rows=33).name in names) == (n == 8192)


@pytest.mark.parametrize("n", [1, 8, 248, 496, 500, 504, 8184, 8192, 14336])
def test_variable_tiles_cover_the_columns(n):
    """Tiles of 256 columns come first, and the last tile is not empty."""
    for tile_columns in range(1, n // 248 + 2):
        config = WIDE._replace(tile_rows=tile_columns)
        if 256 * tile_columns < n:
            with pytest.raises(ValueError, match=f"expected one for {n} columns, got {config.name}"):
                wide_columns(config, n)
            continue
        wide = wide_columns(config, n)
        assert 248 * tile_columns + 8 * wide >= n
        assert wide == 0 or 248 * tile_columns + 8 * (wide - 1) < n


@pytest.mark.parametrize("m,n,k", [(0, 8, 8), (8, 0, 8), (1, 1, 1), (300, 5000, 70), (16, 4096, 4096), (9000, 64, 64)])
def test_skinny_configurations_of_any_size(m, n, k):
    """Each fits in shared memory, covers whole swizzled units and is found by its name."""
    found = list(k03_skinny.candidates(Product(m, n, k, 1, 2)))
    assert found
    for tiles in found:
        assert k03_skinny.shared_bytes(tiles) <= k03_skinny.ROOM
        assert tiles.stages >= min(2, -(-k // (tiles.k * tiles.cluster_splits * tiles.splits)))
        assert tiles.m % 8 == tiles.n % 8 == 0
        assert GemmConfig.parse(tiles.name) == tiles
    with pytest.raises(ValueError, match="expected a configuration of the form"):
        GemmConfig.parse("quick")


@pytest.mark.parametrize(
    "m,n,k,first",
    [
        (16, 4096, 4096, "k03_skinny 32x16x256_w1_s8"),
        (64, 14336, 4096, "k03_skinny 112x64x256_w1_s3"),
        (128, 4096, 14336, "k03_skinny 64x128x256_w2_s4_k2"),
        (256, 256, 256, "k03_skinny 64x16x256_w1_s1"),
        (1024, 1024, 1024, "k03_skinny 64x128x256_w2_s4"),
        (512, 4096, 4096, "k03_skinny 128x128x256_w1_s3"),
        (64, 4096, 4096, "k03_skinny 32x64x256_w1_s6"),
        (2048, 2048, 2048, "k03_skinny 128x256x256_w1_s2"),
        (256, 8192, 8192, f"k02_two_k_tile_promotion {NARROW.name}"),
        (4095, 4095, 4095, f"k02_two_k_tile_promotion {WIDE.name}"),
    ],
)
def test_what_a_hopper_gpu_runs_by_shape(m, n, k, first):
    """The fastest configuration of the rung that was fastest of ours is among its first three."""
    rung = operation.get("scaled_matmul").rung(first.partition(" ")[0])
    args = torch.empty(1, 1).to(E4M3).expand(m, k), torch.empty(1, 1).to(E4M3).expand(n, k).t(), ONE, ONE
    with operation.assume_sm_count(132):
        names = rung.configs(*args)[:3]
    assert first in [f"{rung.name} {config}" for config in names]


@pytest.mark.parametrize(
    "m,n,k,rung",
    [
        (16, 4096, 4096, "k03_skinny"),
        (1024, 1024, 1024, "k03_skinny"),
        (4095, 4095, 4095, "k02_two_k_tile_promotion"),
        (4096, 4096, 0, "k01_triton_tiled"),
    ],
)
def test_the_default_on_132_sms(m, n, k, rung):
    a, b = (torch.empty(rows, k, dtype=E4M3, device="meta") for rows in (m, n))
    with operation.assume_sm_count(132):
        assert operation.get("scaled_matmul").default(a, b.t(), ONE, ONE) == rung


def test_both_operands_are_evicted_first_unless_the_result_is_larger():
    assert _shared.evict_first(256, 8192, 8192) and _shared.evict_first(8192, 8192, 8192)
    assert not _shared.evict_first(4096, 4096, 512)


SKINNY = (
    "32x16x512_s8_k1_o1_w1", "112x64x128_s9_k1_o1_w1", "144x128x128_s3_k2_o1_w1", "40x32x256_s3_k2_o3_w1",
    "128x256x128_s4_k1_o2_w1", "64x256x128_s3_k2_o1_w2", "256x128x128_s4_k1_o5_w1", "16x8x512_s2_k2_o1_w1",
    "64x128x256_s4_k1_o1_w2", "64x64x256_s2_k1_o1_w2", "64x16x256_s1_k1_o1_w1", "128x256x256_s2_k1_o1_w1",
)  # fmt: skip


def test_what_is_tested_fits_an_sm():
    assert all(k03_skinny.shared_bytes(GemmConfig.parse(config)) <= k03_skinny.ROOM for config in SKINNY)


@pytest.mark.gpu
@pytest.mark.parametrize("config", SKINNY)
@pytest.mark.parametrize("by_row", [False, True])
def test_skinny_tiles_are_exact_on_small_integers(config, by_row):
    """Ragged in every direction, twice: the next launch uses the semaphores that a launch resets."""
    for m, n, k in ((1, 8, 16), (5, 200, 144), (130, 264, 1040), (300, 523, 777), (256, 1024, 2048)):
        a, b = integers(m, k), integers(n, k, seed=1).t()
        scale_a, scale_b = torch.full((), 0.5), torch.full((), 4.0)
        if by_row:
            scale_a = torch.exp2(torch.arange(m) % 5.0)[:, None]
            scale_b = torch.exp2(-(torch.arange(n) % 7.0))[None, :]
        expected = exact(a, b, scale_a, scale_b)
        args = [value.cuda() for value in (a, b, scale_a, scale_b)]
        for _ in range(2):
            c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
            k03_skinny.launch(c, *args, config=config)
            assert torch.equal(c.cpu(), expected), (m, n, k)


@pytest.mark.gpu
@pytest.mark.parametrize("of_a,of_b", [(E5M2, E4M3), (E4M3, E5M2)])
def test_skinny_tiles_take_both_formats(of_a, of_b):
    a, b = integers(40, 320, dtype=of_a), integers(136, 320, seed=1, dtype=of_b).t()
    made = ops.scaled_matmul(a.cuda(), b.cuda(), ONE.cuda(), ONE.cuda(), rung="k03")
    assert torch.equal(made.cpu(), exact(a, b))


@pytest.mark.gpu
@pytest.mark.parametrize("config", [SKINNY[2], SKINNY[3], SKINNY[6]])
def test_sums_of_parts_are_the_same_in_each_run(config):
    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.randn(shape, generator=generator, device="cuda").to(E4M3) for shape in ((48, 8192), (640, 8192)))
    made = [torch.empty(48, 640, device="cuda", dtype=torch.bfloat16) for _ in range(20)]
    for c in made:
        k03_skinny.launch(c, a, b.t(), ONE.cuda(), ONE.cuda(), config=config)
    assert all(torch.equal(c, made[0]) for c in made)


@pytest.mark.gpu
@pytest.mark.parametrize("rung", [f"k02@{tiling.name}" for tiling in (WIDE, NARROW)])
@pytest.mark.parametrize(
    "m,n,k",
    [
        (256, 256, 128),
        (300, 520, 272),
        (1, 8, 16),
        (640, 1000, 2064),
        (640, 1000, 2048),
        (2100, 4000, 640),
        (301, 523, 777),
        (7, 3, 5),
    ],
)
@pytest.mark.parametrize("by_row", [False, True])
def test_warpgroups_are_exact_on_small_integers(rung, m, n, k, by_row):
    """Scales are powers of two, so that results must be equal, at odd and even numbers of k-tiles and ragged tiles."""
    a, b = integers(m, k), integers(n, k, seed=1).t()
    scale_a, scale_b = torch.full((), 0.5), torch.full((), 4.0)
    if by_row:
        scale_a = torch.exp2(torch.arange(m) % 5.0)[:, None]
        scale_b = torch.exp2(-(torch.arange(n) % 7.0))[None, :]
    args = [value.cuda() for value in (a, b, scale_a, scale_b)]
    variable_tiles = [name for name in SCALED.rung("k02").configs(*args) if GemmConfig.parse(name).tile_rows]
    for each in (rung, *(f"k02@{name}" for name in variable_tiles if rung.endswith(WIDE.name))):
        assert torch.equal(ops.scaled_matmul(*args, rung=each).cpu(), exact(a, b, scale_a, scale_b)), each
