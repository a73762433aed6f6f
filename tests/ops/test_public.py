"""Public functions: library operators with fake kernels, gradients, torch.compile, and eager calls."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from tests.ops.conftest import EVERY_OP, OPS
from tests.sampled import thinned
from torch.autograd import forward_ad

import warpwise.nn
import warpwise.ops
from warpwise import operation
from warpwise.arguments.values import first_tensor, map_tensors, tensors
from warpwise.lab.verify.problem import with_copies
from warpwise.operation import Op, UnknownRung

NOT_DIFFERENTIABLE = {
    "connected_components",  # of integers
    "gather_images",  # of uint8
    "block_cross_entropy_gradients",  # for the last use of a loss
    "gibbs_sweep",  # changes its arguments, which are integers
    "histogram",  # of integers
    "kmeans_assign",  # its labels have no gradient
    "linear_cross_entropy_gradients",  # for the last use of a loss
    "kmeans_update",  # a step of an iteration that is not differentiated
    "layer_statistics",  # changes its arguments
    "potts_bound",  # compares fits, and is not differentiated
    "potts_em_step",  # changes its arguments
    "potts_m_step",  # a step of an iteration that is not differentiated
    "running_statistics",  # changes its arguments
    "scaled_matmul",  # of fp8, which autograd does not differentiate
    "sgd",  # changes its arguments
    "smooth_features",  # a step before a fit that is not differentiated
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: threads that wait for each other on a busy machine take longer than the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def example(op: Op, dtype: torch.dtype) -> tuple:
    """The arguments of the smallest case with normal values whose tensors, but for scalars, have several elements."""
    usual = [case for case in op.spec.cases if case.values == "normal" and case.layout == "contiguous"]
    for case in sorted(usual, key=lambda case: math.prod(case.sizes.values())):
        args = op.spec.arguments(case, dtype, torch.device("cpu"), 0)
        if all(value.numel() > 1 or not value.dim() for value in tensors(args)):
            return args
    raise AssertionError(f"{op.name} has no usual case of more than one element")


def differentiable(op: Op) -> bool:
    return op.name not in NOT_DIFFERENTIABLE


DIFFERENTIABLE = [pytest.param(op, id=op.name) for op in OPS if differentiable(op)]


@pytest.mark.parametrize("op", EVERY_OP)
def test_an_operation_has_a_gradient(op):
    assert (op.spec.gradient is not None) == differentiable(op)


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_outputs_can_be_modified_in_place(op):
    """PyTorch refuses it for a view that a ``Function`` returns, even of memory that nothing else refers to."""
    for out in tensors(op.call(*requiring_grad(example(op, op.spec.dtypes[0])))):
        if out.requires_grad:
            before = out.detach().clone()
            out.add_(1)
            torch.testing.assert_close(out.detach(), before + 1, equal_nan=True)
            assert out.grad_fn is not None


def requiring_grad(args: tuple) -> tuple:
    return tuple(
        value.detach().clone().requires_grad_()
        if isinstance(value, torch.Tensor) and value.is_floating_point()
        else value
        for value in args
    )


def operator(op: Op):
    return getattr(torch.ops.warpwise, op.name).default


def float_dtype(op: Op) -> torch.dtype:
    return torch.float32 if torch.float32 in op.spec.dtypes else op.spec.dtypes[0]


@pytest.mark.parametrize("op", EVERY_OP)
def test_opcheck(op):
    """Schema, no aliasing, autograd registration and meta kernel."""
    _opcheck(op, ["test_schema", "test_autograd_registration", "test_faketensor"])


@pytest.mark.parametrize("op", thinned(OPS, every=4, name=lambda op: op.name, first=2))
def test_dynamic_shapes(op):
    """The same under AOT dispatch with dynamic shapes."""
    _opcheck(op, ["test_aot_dispatch_dynamic"])


def _opcheck(op, checks):
    args = example(op, float_dtype(op))
    if differentiable(op):
        args = requiring_grad(args)
    first = first_tensor(args)
    if first.dtype.itemsize == 1 and first.is_floating_point():  # test_schema compares by arithmetic that fp8 lacks
        checks = [check for check in checks if check != "test_schema"]
    results = torch.library.opcheck(operator(op), args, test_utils=checks)
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_gradcheck(op):
    args = requiring_grad(example(op, torch.float64))
    assert torch.autograd.gradcheck(operator(op), args, fast_mode=True)


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_double_backward(op):
    args = requiring_grad(example(op, torch.float64))
    assert torch.autograd.gradgradcheck(operator(op), args, fast_mode=True)


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_an_eager_call_with_a_gradient(op):
    """In eager mode autograd records the plan instead of the library operator; gradients are equal, call after call."""
    args = requiring_grad(example(op, torch.float64))
    product = operator(op)(*args)
    if not hasattr(warpwise.ops, op.name) or not isinstance(product, torch.Tensor):
        pytest.skip("has no public function of just this output")
    function = getattr(warpwise.ops, op.name)
    tensors = [value for value in args if isinstance(value, torch.Tensor) and value.requires_grad]
    by_library = torch.autograd.grad(product.sum(), tensors)
    assert type(product.grad_fn).__name__.startswith("GeneratedBackwardFor_warpwise")
    for _ in range(2):
        result = function(*args)
        assert "warpwise" not in type(result.grad_fn).__name__
        torch.testing.assert_close(torch.autograd.grad(result.sum(), tensors), by_library)
    assert torch.autograd.gradcheck(lambda *values: function(*values), args, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *values: function(*values), args, fast_mode=True)


def test_the_backward_of_what_a_rung_takes_is_the_operations():
    """A call is recorded by PyTorch if PyTorch computes forward and backward, else by the operation."""
    a, b = torch.ones(2, 3, requires_grad=True), torch.ones(3, 4)
    for _ in range(2):
        assert type(warpwise.ops.matmul(a, b, rung="k04").grad_fn).__name__ == "matmulBackward"
        assert type(warpwise.ops.matmul(a, b).grad_fn).__name__ == "MmBackward0"
        assert type(warpwise.ops.matmul(a.double(), b.double()).grad_fn).__name__ == "MmBackward0"


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_gradients_under_function_transforms(op):
    """torch.func's gradient, its gradient's, and one for each value of a batch: those that autograd gives."""
    args = requiring_grad(example(op, torch.float64))
    function = getattr(warpwise.ops, op.name, operator(op))

    def total(first: torch.Tensor) -> torch.Tensor:
        return _total(function(first, *args[1:]))

    def curved(first: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda value: total(value * value))(first).sum()

    (by_autograd,) = torch.autograd.grad(total(args[0]), args[:1])
    torch.testing.assert_close(torch.func.grad(total)(args[0]), by_autograd)
    first = args[0].detach().requires_grad_()
    (once,) = torch.autograd.grad(total(first * first), first, create_graph=True)
    (twice,) = torch.autograd.grad(once.sum(), first)
    torch.testing.assert_close(torch.func.grad(curved)(args[0].detach()), twice)
    batch = torch.stack([args[0].detach()] * 2)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(total))(batch)[1], by_autograd)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_forward_mode_derivatives():
    """PyTorch's operators have them; a rung asked for by name has none, which is an error and no tangent of zeros."""
    a, b, tangent = torch.randn(2, 3), torch.randn(3, 4), torch.randn(2, 3)
    product = warpwise.ops.matmul
    product(a, b)
    for transform in (torch.func.jacfwd, torch.func.jacrev, torch.func.hessian):
        ours, theirs = (transform(lambda value, f=f: f(value, b).square()) for f in (product, torch.mm))
        torch.testing.assert_close(ours(a), theirs(a))
    for rung in (None, "k01"):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(a, tangent)
            if rung is None:
                torch.testing.assert_close(forward_ad.unpack_dual(product(dual, b)).tangent, tangent @ b)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    assert product(dual, b).dtype == torch.bfloat16
            else:
                product(a, b, rung=rung)
                with pytest.raises(NotImplementedError, match="matmul: expected no rung where a forward-mode"):
                    product(dual, b, rung=rung)
    with pytest.raises(NotImplementedError, match="got 'k01'"):
        torch.func.jvp(lambda value: product(value, b, rung="k01"), (a,), (tangent,))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_functionalize_and_trace_see_the_library_operator():
    a, b = torch.randn(2, 3), torch.randn(3, 4)
    torch.testing.assert_close(torch.func.functionalize(warpwise.ops.matmul)(a, b), a @ b)
    for value in (a, a.clone().requires_grad_()):
        traced = torch.jit.trace(lambda value: warpwise.ops.matmul(value, b), (value,))
        assert "warpwise::matmul" in str(traced.graph)


@pytest.mark.parametrize("op", thinned(OPS, every=4, name=lambda op: op.name))
def test_compiles_into_one_graph(op):
    """Forward and backward of the public function, and the same numbers as in eager mode.

    In `make test` one operation of six is traced ahead of time, here or in `test_dynamic_shapes`.
    """
    function = getattr(warpwise.ops, op.name)
    args = example(op, float_dtype(op))
    if differentiable(op):
        args = requiring_grad(args)
    torch._dynamo.reset()
    copies = with_copies(op.spec, args)
    compiled = torch.compile(lambda *values: function(*values), fullgraph=True, backend="aot_eager")(*copies)
    eager = function(*args)
    torch.testing.assert_close(compiled, eager)
    for name in op.spec.parsed.mutated:
        at = op.spec.parsed.index(name)
        torch.testing.assert_close(copies[at], args[at])
    if differentiable(op):
        tensors = [value for value in args if isinstance(value, torch.Tensor) and value.requires_grad]
        torch.testing.assert_close(
            torch.autograd.grad(_total(compiled), tensors), torch.autograd.grad(_total(function(*args)), tensors)
        )


def _total(results: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    return results.sum() if isinstance(results, torch.Tensor) else sum(result.sum() for result in results)


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.*:DeprecationWarning"
)  # Inductor itself imports what PyTorch deprecates
def test_compiles_with_inductor():
    torch._dynamo.reset()
    x = torch.randn(33)
    compiled = torch.compile(warpwise.ops.polynomial, fullgraph=True)
    torch.testing.assert_close(compiled(x), x * x + x + 1)


def test_dynamic_shapes_make_one_graph():
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(warpwise.ops.vector_add, fullgraph=True, backend=counter, dynamic=True)
    for n in (5, 17, 40):
        a = torch.randn(n)
        torch.testing.assert_close(compiled(a, a), a + a)
    assert counter.frame_count == 1


@pytest.mark.parametrize("op", EVERY_OP)
def test_the_choice_of_a_call(op):
    args = example(op, float_dtype(op))
    assert operation.chosen(op, *args).reason == "on a CPU PyTorch computes unless a rung is named"
    elsewhere = map_tensors(lambda tensor: tensor.to("meta"), args)
    assert "a meta tensor has no values" in str(operation.chosen(op, *elsewhere))
    expected = "has no tables but a rule" if op.tables is None else "no table for A GPU"
    with pytest.raises(LookupError, match=f"{op.name}: {expected}"):
        operation.chosen(op, *args, device="A GPU")


def test_the_choice_has_the_defaults_of_the_call():
    op, x, weight = operation.get("linear"), torch.ones(2, 3), torch.ones(4, 3)
    assert "PyTorch" in str(operation.chosen(op, x, weight, activation="gelu"))
    with pytest.raises(TypeError, match="weight"):
        operation.chosen(op, x)
    with pytest.raises(ValueError, match="expected activation to be one of"):
        operation.chosen(op, x, weight, activation="gul")


@pytest.mark.parametrize("op", EVERY_OP)
def test_no_result_is_a_view_of_an_argument(op):
    args = example(op, float_dtype(op))
    results = op(*args)
    owned = {value.untyped_storage().data_ptr() for value in args if isinstance(value, torch.Tensor)}
    for result in tensors(results):
        assert result.untyped_storage().data_ptr() not in owned


def test_the_transpose_of_a_transposed_view_is_a_copy():
    matrix = torch.arange(12.0).view(3, 4)
    result = warpwise.ops.transpose(matrix.t())
    assert result.is_contiguous()
    assert torch.equal(result, matrix)
    assert result.data_ptr() != matrix.data_ptr()


def test_rung_by_name_runs_it(monkeypatch):
    """On CPU tensors a kernel runs only if a rung is named."""
    launched = []
    op = operation.get("square")
    monkeypatch.setattr(
        Op, "launch", lambda self, rung, outputs, *args: (launched.append(rung.name), outputs[0].zero_())
    )
    x = torch.ones(4)
    assert torch.equal(warpwise.ops.square(x), x)
    assert launched == []
    warpwise.ops.square(x, rung="k02")
    warpwise.ops.square(x.requires_grad_(), rung="grid_stride")
    assert launched == ["k02_grid_stride", "k02_grid_stride"]
    with pytest.raises(UnknownRung, match="k01_thread_per_element"):
        op(x, rung="k99")
    with pytest.raises(TypeError, match="square: expected rung to be a name or None, got int"):
        warpwise.ops.square(x, rung=3)


def test_a_rung_by_name_has_a_gradient():
    x = torch.linspace(-1, 1, 7, requires_grad=True)
    y = warpwise.ops.polynomial(x, rung="k04_triton")
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach() + 1)


def test_fake_tensors_reach_the_fake_kernel():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        result = warpwise.ops.transpose(torch.empty(3, 5, device="cuda"))
    assert result.shape == (5, 3)
    assert result.device.type == "cuda"
    assert warpwise.ops.transpose(torch.empty(3, 5, device="meta")).shape == (5, 3)


def test_autocast_keeps_element_wise_dtypes():
    x = torch.ones(4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert warpwise.ops.square(x).dtype == torch.float32
        assert warpwise.ops.square(x.requires_grad_()).dtype == torch.float32


def test_importing_the_operations_loads_no_compiler():
    compilers = ("triton", "cuda.core", "torch._dynamo", "torch._inductor")
    code = f"import sys, warpwise.ops; print([m for m in {compilers} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_autocast_computes_in_float32_what_pytorch_does(dtype):
    """Of PyTorch's list: the cross-entropy, powers and cdist; a gradient has the dtype of its tensor."""
    logits, target = torch.randn(4, 6).to(dtype), torch.tensor([0, 5, 2, 1])
    ours, theirs = (logits.clone().requires_grad_() for _ in range(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, expected = warpwise.nn.CrossEntropyLoss()(ours, target), torch.nn.CrossEntropyLoss()(theirs, target)
        assert warpwise.ops.square(logits).dtype == torch.float32
        assert warpwise.ops.kmeans_assign(logits, logits, True)[1].dtype == torch.float32
    assert loss.dtype == expected.dtype == torch.float32
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    assert ours.grad.dtype == dtype
    torch.testing.assert_close(ours.grad, theirs.grad)
