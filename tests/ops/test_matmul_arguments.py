"""Wrong and unusual arguments of matmul: every rung computes the right result or refuses the arguments."""

from __future__ import annotations

import functools

import pytest
import torch
from tests.ops.conftest import on_cpu, sampled_dtypes
from tests.sampled import FULL

from warpwise import operation, ops
from warpwise.operation import Rung

OP = operation.get("matmul")
DTYPES = OP.spec.dtypes
BEYOND = 2**31 + 2**17  # elements: more than 32 bits count
LARGE = {"c": (65540, 32776, 16), "a": (131080, 16, 16400), "b": (16, 131080, 16400)}  # m, n, k with BEYOND elements


def integers(rows: int, columns: int, dtype: torch.dtype, seed: int, device: str = "cpu") -> torch.Tensor:
    """From -3 to 3: sums of fewer than 2^20 products are exact in float32, so that results must be equal."""
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randint(-3, 4, (rows, columns), generator=generator, device=device, dtype=torch.int8).to(dtype)


def shifted(matrix: torch.Tensor) -> torch.Tensor:
    """The same matrix, one element past where an allocation begins."""
    return (
        torch.empty(matrix.numel() + 1, dtype=matrix.dtype, device=matrix.device)[1:].view(matrix.shape).copy_(matrix)
    )


def exact(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    dtype = torch.int32 if a.dtype == torch.int8 else a.dtype
    return (a.double() @ b.double()).to(dtype)


def rungs(device: str) -> list:
    return [
        pytest.param(
            rung,
            dtype,
            id=f"{rung.name}-{str(dtype).removeprefix('torch.')}",
            marks=[] if device == "cuda" or dtype in sampled_dtypes(OP, rung) else [FULL],
        )
        for rung in OP.rungs
        for dtype in rung.dtypes or DTYPES
        if (on_cpu(rung) if device == "cpu" else device in rung.devices)
    ]


@pytest.mark.parametrize(
    "a, b, error, message",
    [
        ((2,), (2, 2), ValueError, r"expected a with 2 dimensions, got shape \(2,\); ops.matvec multiplies"),
        (
            (2, 2),
            (2, 2, 2),
            ValueError,
            r"expected b with 2 dimensions, got shape \(2, 2, 2\); ops.batched_matmul multiplies",
        ),
        ((2, 3), (2, 3), ValueError, r"as many rows as a has columns.* got \(2, 3\) and \(2, 3\)"),
        ((0, 3), (2, 0), ValueError, r"as many rows as a has columns.* got \(0, 3\) and \(2, 0\)"),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rung", [None, "k03"])
def test_shapes_that_do_not_fit(a, b, error, message, dtype, rung):
    with pytest.raises(error, match=f"matmul: .*{message}"):
        ops.matmul(torch.ones(a, dtype=dtype), torch.ones(b, dtype=dtype), rung=rung)


@pytest.mark.parametrize("first", [*DTYPES, torch.float64])
@pytest.mark.parametrize("second", [*DTYPES, torch.float64])
def test_dtypes_that_differ(first, second):
    if first == second:
        pytest.skip("the same")
    with pytest.raises(TypeError, match=f"matmul: expected b of a's dtype {first}, got {second}"):
        ops.matmul(torch.ones(2, 2, dtype=first), torch.ones(2, 2, dtype=second))


@pytest.mark.parametrize(
    "value, message",
    [
        ([[1.0]], "expected a to be a torch.Tensor, got list"),
        (None, "expected a to be a torch.Tensor, got NoneType"),
        (torch.ones(2, 2).to_sparse(), r"expected a to be dense, got torch.sparse_coo; call .to_dense\(\) first"),
        (torch.ones(2, 2, dtype=torch.int32), "expected a of dtype .* got torch.int32"),
        (torch.ones(2, 2, dtype=torch.complex64), "expected a of dtype .* got torch.complex64"),
        (torch.ones(2, 2).to(torch.float8_e5m2), "got torch.float8_e5m2; ops.scaled_matmul multiplies fp8"),
    ],
)
def test_what_is_no_matrix_of_numbers(value, message):
    with pytest.raises((TypeError, RuntimeError), match=message):
        ops.matmul(value, torch.ones(2, 2))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_tensor_is_no_matrix(layout):
    nested = torch.nested.nested_tensor([torch.ones(2, 2)], layout=layout)
    with pytest.raises(
        TypeError, match=r"expected a to be dense, got a nested tensor; call .to_padded_tensor\(0.0\) first"
    ):
        ops.matmul(nested, torch.ones(2, 2))


def test_errors_say_what_to_do():
    with pytest.raises(TypeError, match=r"got torch.float16; convert one of them: b.to\(torch.float32\)"):
        ops.matmul(torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float16))
    with pytest.raises(ValueError, match=r"got meta; move one of them: b.to\('cpu'\)"):
        ops.matmul(torch.ones(2, 2), torch.ones(2, 2, device="meta"))


def test_devices_that_differ():
    with pytest.raises(ValueError, match="matmul: expected b on a's device cpu, got meta"):
        ops.matmul(torch.ones(2, 2), torch.ones(2, 2, device="meta"))
    with pytest.raises(ValueError, match="matmul: expected b on a's device meta, got cpu"):
        ops.matmul(torch.ones(2, 2, device="meta"), torch.ones(2, 2))


@pytest.mark.gpu
def test_devices_that_differ_on_a_gpu():
    with pytest.raises(ValueError, match="matmul: expected b on a's device cuda:0, got cpu"):
        ops.matmul(torch.ones(2, 2, device="cuda"), torch.ones(2, 2))


@pytest.mark.parametrize("rung, dtype", rungs("cpu"))
def test_an_empty_sum_is_zero(rung, dtype):
    a, b = torch.empty(3, 0, dtype=dtype), torch.empty(0, 16, dtype=dtype)
    if reason := OP.refusal(rung, a, b):
        pytest.skip(reason)
    product = ops.matmul(a, b, rung=rung.name)
    assert torch.equal(product, torch.zeros(3, 16, dtype=product.dtype))
    assert ops.matmul(a[:0], b, rung=rung.name).shape == (0, 16)


@pytest.mark.gpu
@pytest.mark.parametrize("rung, dtype", [*rungs("cuda"), *((None, dtype) for dtype in (*DTYPES, torch.float64))])
def test_an_empty_sum_is_zero_on_the_gpu(rung, dtype):
    a, b = (torch.empty(shape, dtype=dtype, device="cuda") for shape in ((3, 0), (0, 16)))
    if rung is not None and OP.refusal(rung, a, b):
        pytest.skip("refused")
    product = ops.matmul(a, b, rung=rung and rung.name)
    assert torch.equal(product, torch.zeros_like(product))


def misaligned(rung: Rung, dtype: torch.dtype, device: str) -> None:
    """Each operand, and both, begin at an odd element; a rung that takes them must be right."""
    a, b = integers(48, 64, dtype, 0, device), integers(64, 80, dtype, 1, device)
    truth = exact(a, b)
    for first, second in ((shifted(a), b), (a, shifted(b)), (shifted(a), shifted(b))):
        if reason := OP.refusal(rung, first, second):
            with pytest.raises(ValueError, match="takes"):
                ops.matmul(first, second, rung=rung.name)
            assert reason.startswith("takes")
        else:
            assert torch.equal(ops.matmul(first, second, rung=rung.name), truth)


@pytest.mark.parametrize("rung, dtype", rungs("cpu"))
def test_storage_offsets_of_one_element(rung, dtype):
    if rung.name == "k01_python_loops":
        pytest.skip("a quarter of a million steps in Python; addresses are PyTorch's there")
    misaligned(rung, dtype, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("rung, dtype", rungs("cuda"))
def test_storage_offsets_of_one_element_on_the_gpu(rung, dtype):
    misaligned(rung, dtype, "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_the_choice_takes_any_offset_and_layout(dtype):
    """Whatever is chosen for one address is right for another, aligned or not, strided or not."""
    a, b = integers(256, 512, dtype, 0, "cuda"), integers(512, 384, dtype, 1, "cuda")
    truth = exact(a, b)
    transposed = [matrix.t().contiguous().t() for matrix in (a, b)]
    wide = [torch.stack([matrix, matrix], 2)[:, :, 0] for matrix in (a, b)]
    for first in (a, shifted(a), transposed[0], wide[0]):
        for second in (b, shifted(b), transposed[1], wide[1]):
            assert torch.equal(ops.matmul(first, second), truth), (
                f"{first.stride()} {second.stride()} {operation.chosen(operation.get('matmul'), first, second)}"
            )


@pytest.mark.parametrize("rung, dtype", rungs("cuda"))
def test_sizes_beyond_32_bits_are_refused(rung, dtype):
    """Without memory: a row repeated 2^31 times. Kernels with 32-bit indices must be refused before the launch."""
    one = torch.ones(1, 1, dtype=dtype)
    for a, b in (
        (one.expand(2**31, 1), one),
        (one, one.expand(1, 2**31)),
        (one.expand(1, 2**31), one.expand(2**31, 1)),
    ):
        assert rung.limits(a, b) is not None
        if dtype != torch.int8:  # whose sums would not fit: the operation itself refuses
            assert OP.default(a, b) is None, "PyTorch is left with it"


# One dtype a rung: offsets are counted in elements, whatever their size.
FIRST = [pytest.param(rung, (rung.dtypes or DTYPES)[0], id=rung.name) for rung in OP.rungs if "cuda" in rung.devices]
CHOSEN = [pytest.param(None, dtype, id=f"chosen-{dtype}") for dtype in DTYPES]


@pytest.fixture(scope="module", autouse=True)
def let_go_of_large():
    yield
    large.cache_clear()


@functools.lru_cache(maxsize=1)
def large(which: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    m, n, k = LARGE[which]
    return integers(m, k, dtype, 0, "cuda"), integers(k, n, dtype, 1, "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("rung, dtype", sorted([*FIRST, *CHOSEN], key=lambda case: str(case.values[1])))
@pytest.mark.parametrize("which", LARGE)
def test_more_than_two_billion_elements(rung, dtype, which):
    """Offsets past 2^31, in one matrix after another: right to the last row, or refused."""
    if torch.cuda.get_device_properties(0).total_memory < 60 * 2**30:
        pytest.skip("needs a GPU of 60 GiB")
    a, b = large(which, dtype)
    (m, k), n = a.shape, b.shape[1]
    assert max(m * n, m * k, k * n) > 2**31
    if rung is not None and (reason := OP.refusal(rung, a, b)):
        pytest.skip(reason)
    product = ops.matmul(a, b, rung=rung and rung.name)
    for rows in (slice(0, 64), slice(m // 2, m // 2 + 64), slice(max(0, m - 64), m)):
        assert torch.equal(product[rows], exact(a[rows], b))
