"""Recorded launches on a GPU: replayed for other tensors of the same key, in graphs and streams, keeping no tensor."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from warpwise import operation, ops, tuned
from warpwise.cuda.gpu import recording
from warpwise.operation import Op, dispatch

pytestmark = pytest.mark.gpu


def fresh(name: str) -> Op:
    """The operation with an empty cache of plans."""
    tuned.reload()
    return operation.get(name)


@pytest.fixture(params=["C++", "Python"], autouse=True)
def launches(request, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a plan was launched by its launcher: one entry a launch. Other calls are replays, in this language."""
    made: list[int] = []
    call = dispatch.KernelPlan.__call__
    monkeypatch.setattr(dispatch.KernelPlan, "__call__", lambda self, *args: (made.append(1), call(self, *args))[-1])
    if request.param == "Python":
        monkeypatch.setattr(recording, "native_library", lambda: None)
    else:
        assert recording.native_library() is not None
    return made


@pytest.mark.parametrize("rung", [None, "k08", "k10", "k12", "k09"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_repeated_products_are_right(rung, dtype):
    """The same plan for other addresses, in a captured graph, on another stream, and for operands that share memory."""
    op = fresh("matmul")
    if rung and dtype not in op.rung(rung).dtypes:
        pytest.skip("another dtype")
    for m, n, k in ((256, 512, 128), (77, 65, 33)):
        generator = torch.Generator("cuda").manual_seed(0)
        draw = [
            [torch.randint(-3, 4, shape, generator=generator, device="cuda").to(dtype) for shape in ((m, k), (k, n))]
            for _ in range(4)
        ]
        if rung and op.refusal(op.rung(rung), *draw[0]):
            continue
        for a, b in draw:
            assert torch.equal(ops.matmul(a, b, rung=rung), a @ b)
        a, b = draw[0]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            product = ops.matmul(a, b, rung=rung)
        a.copy_(draw[1][0])
        graph.replay()
        assert torch.equal(product, a @ b)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            product = ops.matmul(*draw[2], rung=rung)
        torch.cuda.current_stream().wait_stream(stream)
        assert torch.equal(product, draw[2][0] @ draw[2][1])
    square = draw[0][0].new_ones(64, 64)
    for _ in range(2):
        assert torch.equal(ops.matmul(square, square, rung=rung), square @ square)


@pytest.mark.parametrize("rung", ["k08_warp_tile", "k09_triton_tiled", "k10_async_copies", "k12_overlapped_epilogue"])
def test_launches_are_replayed(rung, launches):
    """A product of contiguous operands is one recorded launch, in whatever language its rung is written."""
    fresh("matmul")
    dtype = torch.bfloat16 if rung == "k12_overlapped_epilogue" else torch.float32
    a, b = torch.randn(128, 128, device="cuda").to(dtype), torch.randn(128, 128, device="cuda").to(dtype)
    for _ in range(3):
        ops.matmul(a, b, rung=rung)
    assert len(launches) == 1


@pytest.mark.parametrize("rung", ["k20_few_rows", "k14_cluster_split_k"])
def test_launches_that_divide_k_are_replayed(rung, launches):
    """Semaphores belong to a stream: a replay takes those of the current one, a captured graph its own."""
    op = fresh("matmul")
    draw = [[torch.randint(-3, 4, shape, device="cuda").float() for shape in ((16, 8192), (8192, 64))] for _ in "1234"]
    assert any(tag in op.rung(rung).configs(*draw[0])[0] for tag in ("_p", "_k"))
    for a, b in draw:
        assert torch.equal(ops.matmul(a, b, rung=rung), a @ b)
    assert len(launches) == 1
    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            products = [ops.matmul(a, b, rung=rung) for a, b in draw]
        torch.cuda.current_stream().wait_stream(stream)
        assert all(torch.equal(product, a @ b) for product, (a, b) in zip(products, draw, strict=True))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product = ops.matmul(*draw[0], rung=rung)
    for _ in range(3):
        graph.replay()
        assert torch.equal(product, draw[0][0] @ draw[0][1])
    assert len(launches) == 1


def test_an_absent_output_is_no_obstacle(launches):
    """linear's second output is None unless the preactivation is asked for."""
    op = fresh("linear")
    for seed in range(3):
        generator = torch.Generator("cuda").manual_seed(seed)
        x, w, bias = (torch.randn(128, 128, device="cuda", generator=generator).bfloat16() for _ in range(3))
        args = (x, w, bias[0], "gelu", None, None, False)
        result, none = op.call(*args, rung="k03")
        expected, _ = op.spec.reference(*args)
        torch.testing.assert_close(result.double(), expected, rtol=2**-7, atol=1e-3)
        assert none is None
    assert len(launches) == 1


@pytest.mark.parametrize("rung", [None, "k09", "k10", "k12"])
def test_plans_keep_no_tensor_alive(rung):
    op = fresh("matmul")
    dtype = torch.float32 if rung == "k10" else torch.bfloat16
    a, b = torch.ones(256, 256, device="cuda", dtype=dtype), torch.ones(256, 256, device="cuda", dtype=dtype)
    if rung and op.refusal(op.rung(rung), a, b):
        pytest.skip("refused")
    alive = [weakref.ref(tensor) for tensor in (a, b, op.call(a, b, rung=rung), op.call(a, b, rung=rung))]
    del a, b
    gc.collect()
    assert [tensor() for tensor in alive] == [None] * 4


def test_varying_scalars_of_a_replay(launches):
    """One recording serves every learning rate and seed, in CUDA C++ and in Triton."""
    from tests.operation.nine.dropout import OP as DROPOUT
    from tests.operation.test_dispatch import scale

    op, x = scale(), torch.randn(1000, device="cuda")
    for number in range(5):
        assert torch.equal(op(x, 0.5 * number, number, rung="k01"), 0.5 * number * x)
    assert len(launches) == 1
    launches.clear()
    tuned.reload()  # DROPOUT's plans were recorded in the other language
    masks = [DROPOUT(x.abs() + 1, 0.25, seed, rung="k01") == 0 for seed in (1, 2, 3, 2)]
    assert torch.equal(masks[1], masks[3]) and not torch.equal(masks[0], masks[1])
    for mask, seed in zip(masks, (1, 2, 3, 2), strict=True):
        assert torch.equal(mask, DROPOUT(x.abs() + 1, 0.25, seed) == 0)
    assert len(launches) == 1


def test_a_launcher_that_computes_with_a_varying_scalar_is_not_replayed(launches):
    import dataclasses

    from tests.operation.test_dispatch import launch, scale

    op = scale()
    doubled = dataclasses.replace(op.rungs[0], launch=lambda out, x, alpha, *rest: launch(out, x, 2 * alpha, *rest))
    op, x = dataclasses.replace(op, rungs=(doubled,)), torch.randn(1000, device="cuda")
    for number in range(3):
        assert torch.equal(op(x, float(number), rung="k01"), 2.0 * number * x)
    assert len(launches) == 3


def test_a_negated_view_is_not_replayed(launches):
    from tests.operation.test_dispatch import scale

    op, x = scale(), torch.randn(1000, device="cuda")
    for value in (x, x, x._neg_view(), x):
        assert torch.equal(op(value, 3.0, rung="k01"), 3.0 * value.resolve_neg())
    assert len(launches) == 2


@pytest.mark.parametrize("name", ["linear", "addmm"])
def test_a_gradient_through_a_replay(name):
    a, b, row = (torch.randn(size, device="cuda") for size in ((40, 72), (72, 56), (56,)))
    given = (a.requires_grad_(), b.t()) if name == "linear" else (row, a.requires_grad_(), b, 0.5, 2.0)
    (expected,) = torch.autograd.grad((a @ b).sum() * (1 if name == "linear" else 2), a)
    for _ in range(3):
        (grad,) = torch.autograd.grad(getattr(ops, name)(*given, rung="k03").sum(), a)
        torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-4)


def test_operands_that_share_memory_are_recorded(launches):
    """The recording uses copies of them: an address in memory that two tensors share could belong to either."""
    op, pair = fresh("matmul"), torch.randn(2, 96, 96, device="cuda")
    for _ in range(3):
        pair.normal_()
        torch.testing.assert_close(op.call(pair[0], pair[1], rung="k08"), pair[0] @ pair[1])
    assert len(launches) == 1
    for _ in range(2):
        rows, more = (torch.randn(96, 96, device="cuda") for _ in "ab")
        torch.testing.assert_close(op.call(rows, more, rung="k08"), rows @ more)
    assert len(launches) == 1 + (not same_alignment(pair[1], more))


def same_alignment(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.data_ptr() & recording.ALIGNMENT == other.data_ptr() & recording.ALIGNMENT


def test_contiguous_copies_are_replayed(launches):
    """A rung that is not strided reads copies of transposed operands, which each replay makes again."""
    op = fresh("conv_block_backward")
    args = [*op.spec.arguments(op.spec.cases[0], torch.float32, torch.device("cuda"), 0)]
    rung = "k03_direct_tiles"
    for _ in range(3):
        args[0] = torch.randn_like(args[0])
        expected = op.call(*args, rung=rung)
        given = args[0].contiguous(memory_format=torch.channels_last)
        assert not given.is_contiguous()
        for one, other in zip(op.call(given, *args[1:], rung=rung), expected, strict=True):
            assert torch.equal(one, other)
    assert len(launches) == 2
