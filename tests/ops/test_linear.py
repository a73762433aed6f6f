"""linear beyond its cases: layouts, activations at their ends, what the backward keeps, gradients, wrong arguments."""

from __future__ import annotations

import pytest
import torch
from tests.ops.conftest import on_cpu
from torch.nn import functional

from warpwise import operation, ops, tuned
from warpwise.gemm import cluster_split_k
from warpwise.ops.linear import tables
from warpwise.ops.linear.backward import spec as backward_spec
from warpwise.ops.linear.forward import rungs
from warpwise.ops.linear_backward import rungs as linear_backward_rungs

LINEAR = operation.get("linear")
RUNGS = [rung.name for rung in rungs.RUNGS if on_cpu(rung)]
ACTIVATIONS = ["relu", "gelu", "gelu_tanh"]


def integers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small integers: every partial sum is exact, so results must be equal and not merely close."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).to(dtype)


def dtype_of(rung: str) -> torch.dtype:
    """float32 where the rung takes it, else bfloat16, in which sums of these few small integers are exact too."""
    taken = LINEAR.rung(rung).dtypes
    return torch.float32 if taken is None or torch.float32 in taken else torch.bfloat16


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("x_transposed", [False, True])
@pytest.mark.parametrize("w_transposed", [False, True])
def test_transposed_operands_are_read_in_place(rung, x_transposed, w_transposed):
    dtype = dtype_of(rung)
    x = integers(24, 40, dtype=dtype).t() if x_transposed else integers(40, 24, dtype=dtype)
    w = integers(24, 16, seed=1, dtype=dtype).t() if w_transposed else integers(16, 24, seed=1, dtype=dtype)
    bias = integers(16, seed=2, dtype=dtype)
    assert torch.equal(ops.linear(x, w, bias, rung=rung), functional.linear(x, w, bias))


@pytest.mark.parametrize("rung", RUNGS)
def test_the_order_of_what_follows_the_product(rung):
    dtype = dtype_of(rung)
    x, w, bias = integers(9, 16, dtype=dtype), integers(8, 16, seed=1, dtype=dtype), integers(8, seed=2, dtype=dtype)
    residual, scale = integers(9, 8, seed=3, dtype=dtype), integers(9, seed=4, dtype=dtype)
    output, before = ops.linear(x, w, bias, "relu", residual, scale, True, rung=rung)
    expected = scale[:, None].double() * (x.double() @ w.double().t()) + bias.double()
    assert torch.equal(before.double(), expected.to(dtype).double())
    assert torch.equal(output, (expected.relu() + residual.double()).to(dtype))


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_at_their_ends(rung, activation):
    """Zero, far out on both sides where a power overflows, and NaN, which must stay NaN."""
    dtype = dtype_of(rung)
    values = torch.tensor([0.0, 1e-3, 5.0, -5.0, 30.0, -30.0, 1e18, -1e18, float("nan")], dtype=dtype)
    x = torch.zeros(9, 8, dtype=dtype)
    x[:, 0] = values
    y = ops.linear(x, torch.eye(8, dtype=dtype), activation=activation, rung=rung)[:, 0]
    approximate = "tanh" if activation == "gelu_tanh" else "none"
    expected = (
        values.double().relu() if activation == "relu" else functional.gelu(values.double(), approximate=approximate)
    )
    torch.testing.assert_close(
        y, expected.to(dtype), rtol=1.6e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-6, equal_nan=True
    )


@pytest.mark.parametrize("rung", ["k01", "k02"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_slopes_at_their_ends(rung, activation):
    values = torch.tensor([0.0, 0.7, 5.0, -5.0, 30.0, -30.0, 1e18, -1e18, float("nan")])[:, None]
    before, sums = ops.activation_backward(torch.ones(9, 1), values, activation, rung=rung)
    expected = backward_spec.reference(torch.ones(9, 1), values, activation)[0].float()
    torch.testing.assert_close(before, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert sums.isnan().item() == expected.sum().isnan().item()


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("extras", [(), ("residual",), ("row_scale",), ("residual", "row_scale")])
def test_gradients(activation, extras):
    """Against finite differences in float64, also if the values before the activation are returned and have a
    gradient."""
    torch.manual_seed(3)
    x, w, bias = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3, 5), (4, 5), (4,)))
    residual = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True) if "residual" in extras else None
    scale = torch.randn(2, 3, dtype=torch.float64, requires_grad=True) if "row_scale" in extras else None
    for keep in (False, True):

        def layer(*args, keep=keep):
            return ops.linear(*args, return_preactivation=keep)

        args = (x, w, bias, activation, residual, scale)
        assert torch.autograd.gradcheck(layer, args, fast_mode=True)
        assert torch.autograd.gradgradcheck(layer, args, fast_mode=True)


def test_the_operator_alone_computes_again_what_was_not_kept():
    x, w = torch.randn(3, 5, requires_grad=True), torch.randn(4, 5)
    output, kept = torch.ops.warpwise.linear(x, w, None, "gelu", None, None, False)
    assert kept.numel() == 0
    (gradient,) = torch.autograd.grad(output.sum(), x)
    (expected,) = torch.autograd.grad(functional.gelu(functional.linear(x, w)).sum(), x)
    torch.testing.assert_close(gradient, expected)


def saved_shapes(*args) -> list[tuple[int, ...]]:
    """Shapes of the tensors that the backward of a layer keeps, beside its arguments."""
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        ops.linear(*args)
    own = {value.data_ptr() for value in args if isinstance(value, torch.Tensor)}
    return [tuple(tensor.shape) for tensor in kept if tensor.data_ptr() not in own]


def test_the_backward_keeps_what_it_needs_alone():
    x, w, residual = torch.randn(3, 5, requires_grad=True), torch.randn(4, 5), torch.randn(3, 4)
    assert saved_shapes(x, w) == []
    assert saved_shapes(x, w, None, "relu") == [(3, 4)]
    assert saved_shapes(x, w, None, "gelu") == [(3, 4)]
    assert saved_shapes(x, w, None, "relu", residual) == [(3, 4)]


def test_the_preactivation_is_written_for_a_gradient_alone(monkeypatch):
    allocated = []
    allocate = type(LINEAR).allocate
    monkeypatch.setattr(type(LINEAR), "allocate", lambda op, *args: allocated.append(args[-1]) or allocate(op, *args))
    x, w = torch.randn(3, 8, requires_grad=True), torch.randn(8, 8)
    with torch.no_grad():
        ops.linear(x, w, None, "gelu", rung="k03")
    ops.linear(x, w, None, "gelu", rung="k03")
    assert allocated == [False, True]


@pytest.mark.parametrize("shape", [(5,), (2, 3, 5), (0, 5), (2, 0, 5)])
def test_any_leading_dimensions(shape):
    x, w, bias = torch.randn(*shape, requires_grad=True), torch.randn(4, 5, requires_grad=True), torch.randn(4)
    bias.requires_grad_()
    mine, other = ops.linear(x, w, bias, "gelu"), functional.gelu(functional.linear(x, w, bias))
    torch.testing.assert_close(mine, other)
    gradients = torch.autograd.grad(mine.sum(), [x, w, bias])
    torch.testing.assert_close(gradients, torch.autograd.grad(other.sum(), [x, w, bias]))


@pytest.mark.parametrize("rung", RUNGS)
def test_the_epilogue_of_an_empty_sum(rung):
    dtype = dtype_of(rung)
    bias, residual = integers(8, dtype=dtype), integers(3, 8, seed=1, dtype=dtype)
    x, w = torch.empty(3, 0, dtype=dtype), torch.empty(8, 0, dtype=dtype)
    if reason := LINEAR.refusal(LINEAR.rung(rung), x, w, bias, "relu", residual, None, False):
        pytest.skip(reason)
    y = ops.linear(x, w, bias, "relu", residual, rung=rung)
    assert torch.equal(y, bias.relu() + residual)


def test_an_empty_sum_has_gradients():
    x, w = torch.empty(3, 0, requires_grad=True), torch.empty(4, 0, requires_grad=True)
    bias = torch.randn(4, requires_grad=True)
    ops.linear(x, w, bias, "relu").sum().backward()
    assert x.grad.shape == (3, 0)
    assert torch.equal(bias.grad, 3.0 * (bias > 0))


def test_autocast_takes_low_precision():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4)).dtype == torch.bfloat16


def test_a_product_without_epilogue_is_written_to_y_itself(monkeypatch):
    """As on a GPU where matmul has a rung of its own: here one that a CPU runs."""
    matmul = operation.get("matmul")
    monkeypatch.setattr(type(matmul), "chosen", lambda op, *args, rung=None: op.rung(rung or "k02_c_blocked"))
    from warpwise.gemm.fused import k01_triton_pass

    monkeypatch.setattr(k01_triton_pass, "launch_pass", None)
    x, w = integers(24, 40), integers(56, 40, seed=1)
    assert torch.equal(ops.linear(x, w, rung="k01"), x @ w.t())
    tuned.reload()  # drops the choice that is cached


def test_defaults():
    x, w = torch.empty(16, 16), torch.empty(16, 16)
    gelu, plain = (None, "gelu", None, None, False), (x[0], None, None, None, False)
    for dtype in (torch.float32, torch.float16):
        args = (x.to(dtype), w.to(dtype), *gelu)
        assert LINEAR.unsupported(LINEAR.rung(LINEAR.default(*args)), *args) is None
    assert LINEAR.default(x.double(), w.double(), *gelu) is None
    assert LINEAR.default(x, w, *plain) == "k01_triton_pass"


def test_kinds_of_arguments_that_tables_distinguish():
    x, w = torch.empty(2, 3, 16), torch.empty(24, 16)
    kinds = set()
    for name, arrangement in tables.ARRANGEMENTS.items():
        args = arrangement(x.view(6, 16), w, None, None, None, None, False)
        LINEAR.spec.check(*args)
        kind, sizes = tables.describe(*args)
        assert kind == f"nt {name}"
        assert sizes == {"m": 6, "n": 24, "k": 16}
        kinds.add(kind)
    assert len(kinds) == len(tables.ARRANGEMENTS)
    assert tables.describe(x, w, None, None, None, torch.empty(2, 3), False) == (
        "nt row_scale",
        {"m": 6, "n": 24, "k": 16},
    )


def test_boxes_say_what_they_take():
    rung = LINEAR.rung("k02")
    x, w = torch.empty(8, 16, dtype=torch.half), torch.empty(16, 16, dtype=torch.half)
    rest = (None, None, None, None, False)
    assert rung.limits(x, w, *rest) is None
    assert "out_features in multiples of 8" in rung.limits(x, w[:9], *rest)
    assert "input" in rung.limits(torch.empty(8, 17, dtype=torch.half)[:, 1:], w, *rest)
    transposed = torch.empty(16, 8, dtype=torch.half).t()
    assert rung.limits(x, w, None, None, transposed, None, False) == "takes residual with contiguous rows"


X, W = torch.ones(2, 3), torch.ones(4, 3)


@pytest.mark.parametrize(
    "args,error,message",
    [
        ((X, torch.ones(4, 2)), ValueError, r"expected weight with as many columns .* got \(2, 3\) and \(4, 2\)"),
        ((torch.ones(()), W), ValueError, r"linear: expected weight with as many columns"),
        ((X, torch.ones(3)), ValueError, r"linear: expected weight with 2 dimensions, got shape \(3,\)"),
        ((X, W.half()), TypeError, "linear: expected weight of input's dtype torch.float32, got torch.float16"),
        ((X, W, torch.ones(3)), ValueError, r"linear: expected bias of shape \(4,\), got \(3,\)"),
        ((X, W, 1.0), TypeError, "linear: expected bias to be a torch.Tensor, got float"),
        ((X, W, None, "tanh"), ValueError, "activation to be one of 'relu', 'gelu', 'gelu_tanh', None, got 'tanh'"),
        ((X, W, None, None, torch.ones(4)), ValueError, r"linear: expected residual of shape \(2, 4\), got \(4,\)"),
        ((X, W, None, None, None, torch.ones(3)), ValueError, r"expected row_scale of shape \(2,\), got \(3,\)"),
        ((X, W, torch.ones(4, device="meta")), ValueError, "linear: expected bias on input's device cpu, got meta"),
        ((X.int(), W.int()), TypeError, "linear: expected input of dtype"),
    ],
)  # fmt: skip
def test_wrong_arguments(args, error, message):
    with pytest.raises(error, match=message):
        ops.linear(*args)


def test_wrong_arguments_of_the_backward():
    with pytest.raises(ValueError, match="activation_backward: expected preactivation of grad_output's shape"):
        ops.activation_backward(torch.ones(2, 3), torch.ones(2, 4), "relu")
    with pytest.raises(
        ValueError, match="activation_backward: expected activation to be one of 'relu', 'gelu', 'gelu_tanh', got None"
    ):
        ops.activation_backward(torch.ones(2, 3), torch.ones(2, 3), None)


@pytest.mark.parametrize("config", [config.name for config in cluster_split_k.K_GROUPS])
def test_warps_that_divide_k(config):
    """Tiles with edges, and three chunks of K, the last one ragged; only for K-major operands aligned to 16 bytes."""
    x, w, bias = torch.randn(70, 268), torch.randn(33, 268), torch.randn(33)
    y = ops.linear(x, w, bias, "relu", rung=f"k03@{config}")
    error = (y - torch.relu(x.double() @ w.double().t() + bias)).abs()
    assert (error <= 270 * 2**-24 * (x.abs() @ w.abs().t() + bias.abs())).all()
    for a, b in ((x[:, 1:], w[:, 1:].t()), (x, w.t().contiguous())):
        assert config not in cluster_split_k.configs(a, b)


@pytest.mark.parametrize("shape,relu", [((300, 70, 136), True), ((140, 37, 131), False)])
def test_large_tiles_of_the_backward_on_tensor_cores(monkeypatch, shape, relu):
    monkeypatch.setattr(linear_backward_rungs, "MMA_TILES", ((64, 128), (64, 128)))
    m, n, k = shape
    dy, x, w = integers(m, n), integers(m, k, seed=1), integers(n, k, seed=2)
    output = torch.relu(integers(m, n, seed=3)) if relu else None
    masked = dy if output is None else dy * (output > 0)
    found = ops.linear_backward(dy, x, w, output, rung="k04_tensor_cores")
    for one, expected in zip(found, (masked @ w, masked.t() @ x, masked.sum(0)), strict=True):
        assert torch.equal(one, expected)


@pytest.mark.parametrize("value", [torch.inf, torch.nan, 3.4e38])
def test_products_of_three_keep_infinity_nan_and_huge_values(value):
    x, w = integers(33, 40), integers(20, 40, seed=1)
    x[3, 5] = value
    found = ops.linear(x, w, rung=f"k03_cluster_split_k@{cluster_split_k.THREE_TF32[-1].name}")
    torch.testing.assert_close(found, (x.double() @ w.double().t()).float(), equal_nan=True)
