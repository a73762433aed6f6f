"""GEMMs of few rows or few tiles: every split of K, layouts read in place, what Hopper's kernels compile to."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.test_matmul import integers
from tests.sampled import FULL, examples

from warpwise import operation, ops
from warpwise.cuda.gpu import semaphores
from warpwise.device.limits import HOPPER_SHARED
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import addressable, flags, tma_operand
from warpwise.gemm.time_model import Product
from warpwise.ops.matmul import _triton, k16_skinny, k20_few_rows
from warpwise.ops.matmul.rungs import FAMILIES
from warpwise.ops.matmul_tf32 import k03_skinny as tf32_skinny
from warpwise.ops.scaled_matmul import k03_skinny as fp8_skinny

FEW = settings(max_examples=examples(10), deadline=None)
HALF = (torch.float16, torch.bfloat16)


@FEW
@given(
    m=st.integers(1, 70),
    n=st.integers(1, 140),
    k=st.integers(1, 200),
    parts=st.integers(1, 9),
    dtype=st.sampled_from([torch.float32, *HALF]),
    transposed=st.booleans(),
)
def test_split_k_with_any_number_of_parts(m, n, k, parts, dtype, transposed):
    a, b = integers(m, k, dtype=dtype), integers(k, n, seed=1, dtype=dtype)
    if transposed:
        a, b = a.t().contiguous().t(), b.t().contiguous().t()
    config = f"16x64x32_w4_s4_p{parts}"
    c = torch.empty(m, n, dtype=dtype)
    operation.get("matmul").rung("k15").launch(c, a, b, config=config)
    assert torch.equal(c, (a.double() @ b.double()).to(dtype))


def test_split_k_fills_the_gpu(monkeypatch):
    monkeypatch.setattr(_triton, "sm_count", lambda tensor: 132)
    a, b = torch.empty(16, 4096, dtype=torch.half), torch.empty(4096, 4096, dtype=torch.half)
    assert _triton.split_k_configs(a, b)[0] == "16x64x128_w4_s4_p5"
    assert _triton.split_k_configs(a[:, :32], b[:32])[0] == "16x64x128_w4_s4"


@FEW
@given(
    m=st.integers(1, 40),
    n=st.integers(1, 300),
    k=st.integers(1, 900),
    parts=st.integers(1, 5),
    shift=st.integers(0, 4),
    rows=st.sampled_from([1, 4, 8, 16]),
    dtype=st.sampled_from([torch.float32, *HALF]),
    transposed=st.booleans(),
)
def test_few_rows_with_any_number_of_parts(m, n, k, parts, shift, rows, dtype, transposed):
    a = integers(1, m * k + shift, dtype=dtype)[0, shift:].view(m, k)
    flat = integers(1, n * k + shift, seed=1, dtype=dtype)[0, shift:]
    b = flat.view(n, k).t() if transposed else flat.view(k, n)
    c = torch.empty(m, n, dtype=dtype)
    k20_few_rows.launch(c, a, b, config=f"r{rows}_p{parts}")
    assert torch.equal(c, (a.double() @ b.double()).to(dtype))


def test_one_column_is_one_row_transposed():
    a, b = integers(600, 90), integers(90, 1, seed=1)
    assert torch.equal(ops.matmul(a, b, rung="k20"), a @ b)
    assert torch.equal(ops.matmul(a.t().contiguous().t(), b, rung="k20"), a @ b)
    with pytest.raises(ValueError, match="k20_few_rows takes up to 256 rows of a, or one column of b, not 600 and 2"):
        ops.matmul(a, b.expand(90, 2), rung="k20")


def test_what_tma_can_address_is_not_copied():
    weight = torch.empty(48, 64, dtype=torch.half)
    read, by_columns = tma_operand(weight.t())
    assert by_columns
    assert read.data_ptr() == weight.data_ptr()
    read, by_columns = tma_operand(weight[:, :33])
    assert not by_columns
    assert read.stride() == (64, 1)
    assert addressable(weight[:, 1:]) is None, "rows that do not begin on 16 bytes"
    assert addressable(weight[:1].expand(48, 64)) is None, "rows on top of each other"
    assert addressable(torch.empty(1, 7, dtype=torch.half)).stride() == (8, 1), "one row has no distance to the next"
    for hard in (weight[:, ::2], torch.empty(40 * 24 + 1, dtype=torch.half)[1:].view(40, 24)):
        copied, by_columns = tma_operand(hard)
        assert not by_columns
        assert copied.is_contiguous()
        assert copied.data_ptr() % 16 == 0


def test_what_hopper_rungs_refuse():
    op = operation.get("matmul")
    a, b = torch.empty(3, 40, dtype=torch.half), torch.empty(40, 24, dtype=torch.half)
    for rung in (op.rung("k16"),):
        assert op.refusal(rung, a, b) is None
        assert rung.limits(a, b) is None
        assert rung.limits(a, b[:, :23]) is None, "rows of a wider matrix"
        assert "takes a whose rows or columns begin at multiples of 16 bytes" in rung.limits(
            torch.empty(3, 39, dtype=torch.half), b[:39]
        )
        assert "takes b whose rows or columns begin at multiples of 16 bytes" in rung.limits(
            a, torch.empty(40, 23, dtype=torch.half)
        )
        with pytest.raises(ValueError, match="expected a configuration of the form"):
            rung.launch(torch.empty(3, 24), a, b, config="quick")


@pytest.mark.parametrize("rung", ["k15", "k16", "k20"])
def test_configurations_of_any_size(rung):
    """Also for empty operands: at least one configuration, each name once."""
    found = operation.get("matmul").rung(rung)
    for m, n, k in ((0, 8, 8), (8, 0, 8), (8, 8, 0), (1, 1, 1), (300, 5000, 70)):
        names = found.configs(torch.empty(m, k, dtype=torch.half), torch.empty(k, n, dtype=torch.half))
        assert names
        assert len(set(names)) == len(names)


def test_semaphores_on_a_cpu_are_new_zeros():
    first = semaphores.semaphores(torch.empty(1), 5)
    assert first.tolist() == [0] * 5
    first.add_(1)
    assert semaphores.semaphores(torch.empty(1), 5).tolist() == [0] * 5


def test_each_capture_has_zeros_of_its_own(monkeypatch):
    """Those that a call before the capture allocated; others, allocated beside it, when none are left."""
    capture, made = [0], []
    stream = SimpleNamespace(synchronize=lambda: None)
    driver = SimpleNamespace(cuStreamGetCaptureInfo=lambda stream: (0, 1, capture[0]))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capture[0] > 0)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: stream)
    numbers = {"_SPARE": 32, "_FEWEST": 8, "_MIN_COUNT": 8}
    for name, value in {"_raw_stream": lambda index: 7, "driver": lambda: driver, **numbers}.items():
        monkeypatch.setattr(semaphores, name, value)
    for name in ("_kept", "_spare", "_taken"):
        monkeypatch.setattr(semaphores, name, {})

    def zeros(where: str, count: int) -> torch.Tensor:
        made.append((where, count))
        return torch.zeros(count, dtype=torch.int32)

    monkeypatch.setattr(semaphores, "_zeros", lambda count, device: zeros("before", count))
    monkeypatch.setattr(semaphores, "_beside_capture", lambda index, count: zeros("beside", count))
    eager = semaphores.on_device(0, 5)
    assert semaphores.on_device(0, 3) is eager
    of_captures = []
    for capture[0] in (1, 2):
        of_captures.append(semaphores.on_device(0, 8))
        assert semaphores.on_device(0, 2) is of_captures[-1]
        assert semaphores.includes(of_captures[-1])
    of_captures.append(semaphores.on_device(0, 9))
    assert made == [("before", 8), ("before", 32)]
    assert len(of_captures[-1]) == 16
    capture[0] = 3
    of_captures.append(semaphores.on_device(0, 5))
    assert made[2:] == [("beside", 32)]
    assert len({tensor.data_ptr() for tensor in (eager, *of_captures)}) == 5
    assert all(semaphores.includes(tensor) for tensor in of_captures)


@pytest.mark.gpu
def test_many_captures_have_zeros_that_no_node_fills():
    device = torch.cuda.current_device()
    for _ in range(2 * semaphores._SPARE // 8192 + 2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            row = semaphores.on_device(device, 8192)
            row.add_(1)
        assert semaphores.includes(row)
        assert row.sum() == 0, "the graph has not run"
        graph.replay()
        graph.replay()
        assert row.sum() == 2 * len(row), "no node sets them to zero"


@given(m=st.integers(0, 600), n=st.integers(0, 20000), k=st.integers(0, 20000), processors=st.integers(1, 200))
@settings(max_examples=examples(100), deadline=None)
def test_what_k19_considers_fits_a_block(m, n, k, processors):
    found = k16_skinny.candidates(Product(m, n, k, 2, 2, sms=processors))
    assert found
    for tiles in found:
        assert GemmConfig.parse(tiles.name) == tiles
        assert k16_skinny.shared_bytes(tiles) + 1024 <= HOPPER_SHARED
        assert k16_skinny.fits(tiles), "the epilogue reuses the stages' memory"


def kernels(sizes: tuple[int, int, int]) -> set[str]:
    """Name expressions of what k16 launches for its configurations at these sizes, in all layouts."""
    m, n, k = sizes
    rows = torch.empty(m, k, dtype=torch.bfloat16, device="meta")
    columns = torch.empty(k, m, dtype=torch.bfloat16, device="meta").t()
    b = torch.empty(k, n, dtype=torch.bfloat16, device="meta")
    found = set()
    for a in (rows, columns) if m % 8 == 0 else (rows,):
        with operation.assume_sm_count(132):
            names = k16_skinny.configs(a, b)[:4]
        for b_k_major in (False, True):
            layouts = flags(a is rows, b_k_major)
            found |= {k16_skinny.kernel_name(a, GemmConfig.parse(name), layouts) for name in names}
    return found


def configurations() -> list:
    return [
        *(
            ("k16", name)
            for name in (
                "64x8x64_s8_k1_o1",
                "64x16x128_s6_k4_o1",
                "64x32x64_s3_k2_o1",
                "128x64x64_s4_k2_o5",
                "128x128x64_s3_k1_o1",
                "128x256x64_s4_k1_o3",
                "64x256x64_s5_k2_o1",
                "128x8x64_s4_k2_o1",
                "128x128x64_s5_k8_o3",
                "128x256x64_s4_k4_o2",
                "192x192x64_s4_k2_o1",
                "192x128x64_s5_k1_o1_c2x1",
                "64x96x64_s6_k4_o2",
                "128x128x64_s5_k4_o7_c1x2",
                "64x256x64_s5_k2_o3_c2x1",
                "128x64x128_s4_k1_o1_c1x2",
            )
        ),
    ]


def test_a_column_major_a_has_tiles_of_64_rows():
    """Its boxes are 64 x 64. A tile of fewer rows copies it, by an operator of PyTorch."""
    a, b = torch.empty(712, 24, dtype=torch.half).t(), torch.empty(712, 136, dtype=torch.half)
    first, *_, last = k16_skinny.configs(a, b)
    assert GemmConfig.parse(first).n == 64 and GemmConfig.parse(k16_skinny.configs(a.contiguous(), b)[0]).n < 64
    assert GemmConfig.parse(last).n < 64
    assert FAMILIES["k16_skinny"].replayed(first, "tn") and not FAMILIES["k16_skinny"].replayed(last, "tn")


@pytest.mark.parametrize("config", ["64x64x64_s4_k2", pytest.param("64x128x128_s3_c1x2_k2", marks=FULL),
                                    pytest.param("128x64x64_s4_c2x1", marks=FULL), "64x32x64_s4"])  # fmt: skip
def test_a_column_major_a_on_a_cpu(config):
    m, n, k = 136, 136, 264
    a, b = integers(k, m).to(torch.half).t(), integers(k, n, seed=1).to(torch.half)
    c = torch.full((m, n), float("nan"), dtype=torch.half)
    k16_skinny.launch(c, a, b, config=config)
    assert torch.equal(c, (a.double() @ b.double()).to(c.dtype))


@pytest.mark.parametrize("transposed", [pytest.param(False, marks=FULL), True])
@pytest.mark.parametrize(
    "rung,dtype,config",
    [
        (k16_skinny, torch.half, "64x16x64_s8_k4_p2"),
        pytest.param(k16_skinny, torch.bfloat16, "64x64x128_s3_c1x2", marks=FULL),
        pytest.param(k16_skinny, torch.bfloat16, "64x16x64_s8_k2_c2x1", marks=FULL),
        (tf32_skinny, torch.float32, "64x16x32_s3_k2_p2"),
        pytest.param(tf32_skinny, torch.float32, "64x64x32_s4_k4", marks=FULL),
        pytest.param(fp8_skinny, torch.float8_e4m3fn, "128x16x256_w1_s2_k2_p2", marks=FULL),
        pytest.param(fp8_skinny, torch.float8_e4m3fn, "64x64x128_w2_s2", marks=FULL),
    ],
)
def test_splits_and_pairs_on_a_cpu(rung, dtype, config, transposed):
    """The kernel of all three rungs, checked: splits in a cluster and beyond, operands that two blocks share."""
    m, n, k = 40, 136, 712
    a, b = integers(m, k).to(dtype), integers(k, n, seed=1).to(dtype)
    b = b.t().contiguous().t() if transposed else b
    c = torch.full((m, n), float("nan"), dtype=torch.bfloat16 if rung is fp8_skinny else dtype)
    rung.launch(c, a, b, *([torch.ones(())] * 2 if rung is fp8_skinny else []), config=config)
    assert torch.equal(c, (a.double() @ b.double()).to(c.dtype))


@pytest.mark.gpu
@pytest.mark.parametrize("rung,config", configurations())
@pytest.mark.parametrize("dtype", HALF)
def test_hopper_rungs_are_exact(rung, config, dtype):
    """Ragged in every direction, in both layouts of b, twice: a launch resets its semaphores for the next one."""
    launch = operation.get("matmul").rung(rung).launch
    for m, n, k in ((1, 64, 8), (5, 200, 136), (16, 136, 1000), (130, 264, 328), (300, 520, 776), (256, 2048, 512)):
        a = integers(m, k, dtype=dtype).cuda()
        b = integers(k, n, seed=1, dtype=dtype).cuda()
        expected = (a.double() @ b.double()).to(dtype)
        for left, right in itertools.product((a, a.t().contiguous().t()), (b, b.t().contiguous().t())):
            for _ in range(2):
                c = torch.full((m, n), float("nan"), device="cuda", dtype=dtype)
                launch(c, left, right, config=config)
                assert torch.equal(c, expected), (m, n, k, left.stride(), right.stride())


@pytest.mark.gpu
@pytest.mark.parametrize("rung", ["k15", "k16", "k20"])
def test_a_captured_graph_computes_again(rung):
    a, b = (integers(64, 4096, dtype=torch.half).cuda(), integers(4096, 512, seed=1, dtype=torch.half).cuda())
    ops.matmul(a, b, rung=rung)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = ops.matmul(a, b, rung=rung)
    for _ in range(3):
        a.neg_()
        graph.replay()
        assert torch.equal(c, (a.double() @ b.double()).half())
    assert torch.equal(ops.matmul(a, b, rung=rung), c), "launches beside the graph have their own semaphores"


@pytest.mark.gpu
@pytest.mark.parametrize("rung", ["k15", "k16", "k20"])
def test_the_same_in_each_run(rung):
    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (
        torch.randn(shape, generator=generator, device="cuda", dtype=torch.half) for shape in ((48, 8192), (8192, 640))
    )
    first = ops.matmul(a, b, rung=rung)
    for _ in range(20):
        assert torch.equal(ops.matmul(a, b, rung=rung), first)
