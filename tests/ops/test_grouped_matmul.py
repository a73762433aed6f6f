"""grouped_matmul beyond its cases: any sizes of groups, infinities in other groups, wrong offsets, gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.conftest import on_cpu
from tests.sampled import examples

from warpwise import operation, ops
from warpwise.cuda.errors import DataRace, KernelError, UnwrittenOutput
from warpwise.ops.grouped_matmul import spec
from warpwise.ops.grouped_matmul.backward import rungs as backward_rungs
from warpwise.ops.grouped_matmul.forward import _triton, k02_overlapped_epilogue, k03_warp_specialised, rungs

FEW = settings(max_examples=examples(10), deadline=None)
RUNGS, BACKWARD_RUNGS = rungs.RUNGS[:2], [rung for rung in backward_rungs.RUNGS if on_cpu(rung)]
NAMES = [rung.name for rung in RUNGS]
DTYPES = {rung.name: torch.float16 if torch.float16 in (rung.dtypes or ()) else torch.float32 for rung in RUNGS}
BACKWARD_NAMES = [rung.name for rung in BACKWARD_RUNGS]
OP, BACKWARD_OP = operation.get("grouped_matmul"), operation.get("grouped_matmul_backward")


def integers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """Small integers: every partial sum is exact in float32 and every result in float16, so results must be equal."""
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def ends(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def exact(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return spec.reference(a, b, offsets).to(a.dtype)


def exact_backward(a: torch.Tensor, grad: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return spec.reference_backward(a, grad, offsets).to(a.dtype)


@FEW
@given(
    counts=st.lists(st.integers(0, 150), min_size=1, max_size=6),
    past=st.integers(0, 140),
    rung=st.sampled_from(NAMES),
    config=st.sampled_from(["", "@64x64x64_s8", "@128x128x64_s6"]),
)
def test_any_division_into_groups(counts, past, rung, config):
    offsets = torch.tensor(counts).cumsum(0).int()
    rows = int(offsets[-1]) + past
    a, b = (integers(*shape, dtype=DTYPES[rung]) for shape in ((rows, 24), (len(counts), 24, 72)))
    held = rung + config if rung.startswith("k02") else rung
    assert torch.equal(ops.grouped_matmul(a, b, offsets, rung=held), exact(a, b, offsets))


@FEW
@given(
    counts=st.lists(st.integers(0, 150), min_size=1, max_size=6),
    past=st.integers(0, 140),
    rung=st.sampled_from(BACKWARD_NAMES),
)
def test_any_division_into_groups_backward(counts, past, rung):
    offsets = torch.tensor(counts).cumsum(0).int()
    rows = int(offsets[-1]) + past
    a, grad = integers(rows, 24), integers(rows, 72, seed=1)
    expected = exact_backward(a, grad, offsets)
    assert torch.equal(ops.grouped_matmul_backward(a, grad, offsets, rung=rung), expected)


@pytest.mark.parametrize("config", [tile.name for tile in k02_overlapped_epilogue.CONFIGS])
@pytest.mark.one_in(3)
def test_every_configuration(config):
    a, b, offsets = integers(300, 72), integers(3, 72, 264, seed=1), ends(130, 130, 290)
    assert torch.equal(ops.grouped_matmul(a, b, offsets, rung=f"k02@{config}"), exact(a, b, offsets))


@pytest.mark.parametrize("config", [config.name for config in k03_warp_specialised.CONFIGS])
@pytest.mark.one_in(3)
def test_every_configuration_of_float32(config):
    a, b = integers(300, 20, dtype=torch.float32), integers(3, 20, 132, seed=1, dtype=torch.float32)
    for matrices in (b, b.mT.contiguous().mT):
        product = ops.grouped_matmul(a, matrices, ends(130, 130, 290), rung=f"k03@{config}")
        assert torch.equal(product, exact(a, b, ends(130, 130, 290)))


@pytest.mark.parametrize("config", ["32x64x32_w4_s3", "32x64x32_w4_s3_p4", "64x64x16_w4_s4"])
def test_configurations_and_splits_of_k01(config):
    a, b = integers(150, 160, dtype=torch.float32), integers(3, 160, 70, seed=1, dtype=torch.float32)
    offsets = ends(70, 70, 140)
    assert torch.equal(ops.grouped_matmul(a, b, offsets, rung=f"k01@{config}"), exact(a, b, offsets))


@pytest.mark.parametrize("config", ["128x256x64_s4", "256x128x64_s4"])
def test_the_largest_tiles_of_k02_stay_in_registers(config):
    a, b = (torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in ((300, 72), (3, 72, 264)))
    offsets = torch.empty(3, dtype=torch.int32, device="meta")
    (launch,) = OP.kernels(OP.rung(f"k02@{config}"), a, b, offsets)
    compiled = launch.compile("sm_90")
    assert compiled.spill_stores == compiled.spill_loads == 0


@pytest.mark.parametrize("n,k", [(80, 1736), (248, 880)])
def test_k01_copies_lines_that_begin_on_16_bytes_as_vectors(n, k):
    """Of multiples of 8 elements Triton knows nothing by itself, only of multiples of 16."""
    a, b = (torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in ((1000, k), (3, k, n)))
    (launch,) = OP.kernels(OP.rung("k01"), a, b, torch.empty(3, dtype=torch.int32, device="meta"))
    ptx = launch.compile("sm_90").ptx
    assert ptx.count("cp.async.cg.shared.global") >= 24
    assert ptx.count("ld.global") <= 2, "the ends of the groups"


@pytest.mark.parametrize("rung", NAMES)
def test_a_group_is_independent_of_its_neighbours(rung):
    """A tile may reach into the next group, or past the last end: neither the rows nor the infinities there change a
    result."""
    a, b = integers(100, 24, dtype=DTYPES[rung]), integers(3, 24, 16, seed=1, dtype=DTYPES[rung])
    offsets = ends(33, 60, 90)
    expected = exact(a, b, offsets)
    a[33:60] = float("inf")
    b[2] = float("nan")
    a[90:] = float("nan")
    product = ops.grouped_matmul(a, b, offsets, rung=rung)
    assert torch.equal(product[:33], expected[:33])
    assert product[60:90].isnan().all()
    assert (product[90:] == 0).all()


@pytest.mark.parametrize("rung", BACKWARD_NAMES)
def test_a_matrix_does_not_see_its_neighbours(rung):
    a, grad = integers(100, 24), integers(100, 16, seed=1)
    offsets = ends(33, 60, 60, 90)
    expected = exact_backward(a, grad, offsets)
    a[33:60], grad[40], a[90:], grad[90:] = float("inf"), float("nan"), float("nan"), float("inf")
    result = ops.grouped_matmul_backward(a, grad, offsets, rung=rung)
    assert torch.equal(result[[0, 2, 3]], expected[[0, 2, 3]])
    assert (result[2] == 0).all()


@pytest.mark.parametrize("rung", NAMES)
def test_views_are_read_in_place(rung, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, *args: pytest.fail("copied"))
    a, offsets = integers(70, 48, dtype=DTYPES[rung])[:, 8:32], ends(20, 64)
    transposed = integers(2, 40, 24, seed=1, dtype=DTYPES[rung]).mT
    assert torch.equal(ops.grouped_matmul(a, transposed, offsets, rung=rung), exact(a, transposed, offsets))
    columns = integers(24, 72, dtype=DTYPES[rung]).t()[:70]
    if not rung.startswith("k02"):
        assert torch.equal(
            ops.grouped_matmul(columns, transposed, offsets, rung=rung), exact(columns, transposed, offsets)
        )


@pytest.mark.parametrize("wrong", [[50, 20, 70], [30, 200, 300], [-5, 10, 40], [-9, -8, -7], [90, 0, 80]])
def test_wrong_ends_cause_no_access_out_of_bounds(wrong):
    """On a GPU the offsets are not checked, which would synchronise. The emulator raises at any access outside of a
    tensor."""
    a, b, grad = integers(80, 24), integers(3, 24, 16, seed=1), integers(80, 16, seed=2)
    found = set()
    for rung in RUNGS:
        dtype = DTYPES[rung.name]
        try:
            OP.launch(rung, (torch.empty(80, 16, dtype=dtype),), a.to(dtype), b.to(dtype), ends(*wrong))
        except KernelError as error:
            found.add(type(error))
    assert found <= {DataRace, UnwrittenOutput}, "rows may be written twice or never"
    for rung in BACKWARD_RUNGS:
        result = torch.empty(3, 24, 16, dtype=torch.float16)
        BACKWARD_OP.launch(rung, (result,), a, grad, ends(*wrong))


def test_no_launcher_reads_the_offsets_on_the_host(monkeypatch):
    for name in ("item", "tolist", "cpu", "__bool__", "__int__"):
        monkeypatch.setattr(torch.Tensor, name, lambda self, *args: pytest.fail("waited for the GPU"))
    monkeypatch.setattr("warpwise.triton.kernel.BoundKernel.__call__", lambda self, *args, **meta: None)
    monkeypatch.setattr("warpwise.cuda.Launcher.__call__", lambda self, *args, **options: None)
    a, b, grad, offsets = integers(40, 24), integers(2, 24, 16), integers(40, 16), ends(9, 30)
    for rung in RUNGS:
        given = a.to(DTYPES[rung.name]), b.to(DTYPES[rung.name])
        assert rung.limits(*given, offsets) is None
        OP.launch(rung, (torch.empty(40, 16, dtype=given[0].dtype),), *given, offsets)
    for rung in BACKWARD_RUNGS:
        given = (a, grad) if rung.dtypes is None or a.dtype in rung.dtypes else (a.half(), grad.half())
        assert rung.limits(*given, offsets) is None
        BACKWARD_OP.launch(rung, (torch.empty(2, 24, 16, dtype=given[0].dtype),), *given, offsets)


def test_gradients():
    offsets = ends(2, 2, 5)
    a = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    b = torch.randn(3, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: ops.grouped_matmul(a, b, offsets), (a, b))
    assert torch.autograd.gradgradcheck(lambda a, b: ops.grouped_matmul(a, b, offsets), (a, b))
    grad = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, d: ops.grouped_matmul_backward(a, d, offsets), (a, grad))


def test_half_precision_is_accumulated_in_float32():
    a, b, offsets = torch.ones(1, 4096).half(), torch.ones(1, 8, 4096).half().mT, ends(1)
    for rung in (name for name, dtype in DTYPES.items() if dtype is torch.float16):
        assert ops.grouped_matmul(a, b, offsets, rung=rung).tolist() == [[4096.0] * 8]


def test_autocast_takes_low_precision():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.grouped_matmul(torch.ones(2, 3), torch.ones(1, 3, 2), ends(2)).dtype == torch.bfloat16


def test_cost_counts_what_is_taken():
    a, b, offsets = torch.empty(10, 3), torch.empty(4, 3, 5), ends(2, 2, 8, 8)
    cost = spec.cost(a, b, offsets)
    assert cost.bytes == 4 * (8 * 3 + 2 * 3 * 5 + 10 * 5) + 16
    assert cost.flops == 2 * 8 * 3 * 5
    backward = spec.cost_backward(a, torch.empty(10, 5), offsets)
    assert backward.bytes == 4 * (8 * (3 + 5) + 4 * 3 * 5) + 16
    assert backward.flops == cost.flops


def test_what_a_rung_cannot_take_is_refused():
    a, b, offsets = integers(8, 16), integers(2, 16, 8), ends(3, 8)
    boxes, backward = OP.rung("k02"), BACKWARD_OP.rung("k02")
    assert OP.refusal(boxes, a, b, offsets) is None
    assert "takes n in multiples of 8" in boxes.limits(a, b[:, :, :7], offsets)
    assert "begin at multiples of 8 elements" in boxes.limits(integers(8, 15), b[:, :15], offsets)
    assert "takes a with contiguous rows, not strides (1, 16)" in boxes.limits(integers(16, 16).t(), b, offsets)
    grad = integers(8, 8)
    assert BACKWARD_OP.refusal(backward, a, grad, offsets) is None
    assert "takes grad_output with contiguous rows" in backward.limits(a, integers(8, 8).t(), offsets)
    assert "takes columns of a in multiples of 8, not 15" in backward.limits(integers(8, 16)[:, :15], grad, offsets)
    many = _triton.MAX_GROUPS + 1
    with pytest.raises(ValueError, match="k01_triton_tiled takes up to 4095 groups, not 4096"):
        ops.grouped_matmul(a, torch.empty(1).half().expand(many, 16, 8), torch.zeros(many).int(), rung="k01")


def test_defaults():
    a, b, grad, offsets = integers(8, 16), integers(2, 16, 8), integers(8, 8), ends(3, 8)
    ragged = a[:, :15], b[:, :15, :7]
    for op, first, second in (
        *((OP, *pair) for pair in ((a, b), (a.float(), b.float()), ragged)),
        *((BACKWARD_OP, *pair) for pair in ((a, grad), (a.float(), grad.float()))),
    ):
        name = op.default(first, second, offsets)
        assert op.unsupported(op.rung(name), first, second, offsets) is None
    assert OP.default(a.double(), b.double(), offsets) is None
    assert BACKWARD_OP.default(a.double(), grad.double(), offsets) is None


@pytest.mark.parametrize(
    "a,b,offsets,error,message",
    [
        (
            torch.ones(4),
            torch.ones(1, 2, 2),
            ends(4),
            ValueError,
            r"grouped_matmul: expected a with 2 dimensions, got shape \(4,\)",
        ),
        (
            torch.ones(4, 3),
            torch.ones(1, 2, 2),
            ends(4),
            ValueError,
            r"as many rows as a has columns.* got \(4, 3\) and \(1, 2, 2\)",
        ),
        (
            torch.ones(4, 2),
            torch.ones(1, 2, 2),
            ends(1, 4),
            ValueError,
            "an end in offsets for each of b's 1 matrices, got 2",
        ),
        (
            torch.ones(4, 2),
            torch.ones(1, 2, 2),
            ends(4).long(),
            TypeError,
            "expected offsets of dtype torch.int32, got torch.int64",
        ),
        (
            torch.ones(4, 2),
            torch.ones(2, 2, 2),
            ends(3, 1),
            ValueError,
            r"offsets that rise from 0 up to a's 4 rows, got \[3, 1\]",
        ),
        (
            torch.ones(4, 2),
            torch.ones(2, 2, 2),
            ends(1, 5),
            ValueError,
            r"offsets that rise from 0 up to a's 4 rows, got \[1, 5\]",
        ),
        (
            torch.ones(4, 2),
            torch.ones(1, 2, 2).half(),
            ends(4),
            TypeError,
            "expected b of a's dtype torch.float32, got torch.float16",
        ),
    ],
)
def test_wrong_arguments(a, b, offsets, error, message):
    with pytest.raises(error, match=message):
        ops.grouped_matmul(a, b, offsets)


def test_offsets_are_looked_at_in_every_call():
    a, b = torch.ones(4, 2), torch.ones(2, 2, 2)
    ops.grouped_matmul(a, b, ends(1, 3))
    with pytest.raises(ValueError, match=r"offsets that rise from 0 up to a's 4 rows, got \[3, 1\]"):
        ops.grouped_matmul(a, b, ends(3, 1))


def test_wrong_arguments_backward():
    with pytest.raises(ValueError, match=r"expected grad_output with a's 4 rows, got shape \(3, 2\)"):
        ops.grouped_matmul_backward(torch.ones(4, 2), torch.ones(3, 2), ends(4))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_against_pytorch_on_the_gpu(dtype):
    """Sizes of many tiles and groups, forward and backward, whose boxes TMA clips."""
    offsets = torch.tensor([0, 513, 513, 1700, 4000], dtype=torch.int32, device="cuda")
    a = torch.randn(4096, 264, device="cuda", dtype=dtype, requires_grad=True)
    b = torch.randn(5, 264, 520, device="cuda", dtype=dtype, requires_grad=True)
    product = ops.grouped_matmul(a, b, offsets)
    grad = torch.randn_like(product)
    product.backward(grad)
    for made, truth in (
        (product, spec.reference(a, b, offsets)),
        (a.grad, spec.reference(grad, b.mT, offsets)),
        (b.grad, spec.reference_backward(a, grad, offsets)),
    ):
        torch.testing.assert_close(made.double(), truth, rtol=1e-2, atol=1e-2 * truth.abs().max().item())


@pytest.mark.parametrize(
    "rows,groups,n,k,dtype,chosen",
    [
        (16384, 8, 14336, 4096, torch.bfloat16, "k02_overlapped_epilogue@128x256x64_s4"),
        (117, 6, 864, 2192, torch.bfloat16, "k02_overlapped_epilogue@64x64x64_s8"),
        (117, 6, 862, 2192, torch.bfloat16, "k01_triton_tiled@64x64x64_w4_s4"),
        (15841, 18, 12, 440, torch.bfloat16, "k01_triton_tiled@128x64x64_w4_s4"),
        (8193, 6, 1024, 1024, torch.float32, "k03_warp_specialised@64x128x16_s8"),
        (219, 12, 960, 2144, torch.float32, "k03_warp_specialised@64x64x32_s5"),
        (543, 40, 64, 1936, torch.float32, "k01_triton_tiled@32x64x32_w4_s3_p4"),
    ],
)
def test_the_choice_follows_from_tiles_and_k(rows, groups, n, k, dtype, chosen):
    a, b = (torch.empty(shape, dtype=dtype, device="meta") for shape in ((rows, k), (groups, k, n)))
    offsets = torch.empty(groups, dtype=torch.int32, device="meta")
    with operation.assume_sm_count(132):
        name = OP.default(a, b, offsets)
        assert f"{name}@{OP.rung(name).configs(a, b, offsets)[0]}" == chosen


def test_references_take_tensors_that_require_gradients():
    a, b, grad = torch.randn(9, 4, requires_grad=True), torch.randn(2, 4, 3, requires_grad=True), torch.randn(9, 3)
    truth = spec.reference(a, b, ends(3, 8))
    torch.testing.assert_close(truth[3:8], a[3:8].double() @ b[1].double())
    assert not truth.requires_grad and not truth[8:].any()
    torch.testing.assert_close(spec.reference_backward(a, grad, ends(3, 8))[0], a[:3].T.double() @ grad[:3].double())
