"""The short way of a call: a plan for arguments of one description gives what the operation itself gives, always."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import weakref

import pytest
import torch

import warpwise.ops
from warpwise import registry, tuned
from warpwise.ops._plans import Plans
from warpwise.registry import Op


def plans(name: str = "square", **changes: object) -> Plans:
    return Plans(dataclasses.replace(registry.get(name), **changes))


def test_arguments_alike_share_a_plan_and_others_do_not():
    made, x = plans(), torch.ones(1024)
    for value in (1.0, 3.0):
        x.fill_(value)
        assert torch.equal(made((x,), None), x * x)
    assert len(made._plans) == 1
    for other in (x[:512], x[::2], x[1:513], x.double(), x.view(32, 32), x._neg_view()):
        assert torch.equal(made((other,), None), other * other)
    assert len(made._plans) == 7


def test_an_argument_that_compares_equal_is_another_one():
    """True == 1 == 1.0: the dimension of a softmax may not be a float because an integer was right before."""
    made = plans("softmax")
    x = torch.randn(3, 4)
    assert torch.equal(made((x, 1), None), torch.softmax(x, 1))
    with pytest.raises(TypeError):
        made((x, 1.0), None)


def test_what_is_wrong_is_told_each_time():
    made = plans("matmul")
    for _ in range(2):
        with pytest.raises(ValueError, match="as many rows as a has columns"):
            made((torch.ones(2, 3), torch.ones(2, 3)), None)
        with pytest.raises(ValueError, match="k01_python_loops takes up to"):
            made((torch.ones(64, 64), torch.ones(64, 64)), "k01")
        with pytest.raises(TypeError, match="expected a to be dense"):
            made((torch.ones(2, 2).to_sparse(), torch.ones(2, 2)), None)
    assert not made._plans


def test_plans_end_where_tables_change(monkeypatch):
    asked = []
    chosen = Op.chosen
    monkeypatch.setattr(
        Op, "chosen", lambda self, *args, **options: asked.append(args) or chosen(self, *args, **options)
    )
    made = plans()
    x = torch.ones(4)
    for _ in range(2):
        made((x,), None)
    assert len(asked) == 1
    tuned.forget()
    made((x,), None)
    assert len(asked) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("rung", [None, "k09", "k11", "k12", "k10"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_repeated_products_are_right(rung, dtype):
    """The same plan for other addresses, a captured graph, another stream, and operands that share memory."""
    op = registry.get("matmul")
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
            assert torch.equal(warpwise.ops.matmul(a, b, rung=rung), a @ b)
        a, b = draw[0]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            product = warpwise.ops.matmul(a, b, rung=rung)
        a.copy_(draw[1][0])
        graph.replay()
        assert torch.equal(product, a @ b)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            product = warpwise.ops.matmul(*draw[2], rung=rung)
        torch.cuda.current_stream().wait_stream(stream)
        assert torch.equal(product, draw[2][0] @ draw[2][1])
    square = draw[0][0].new_ones(64, 64)
    for _ in range(2):
        assert torch.equal(warpwise.ops.matmul(square, square, rung=rung), square @ square)


@pytest.mark.gpu
@pytest.mark.parametrize("rung", ["k09_warp_tile", "k10_triton_tiled", "k11_async_copies", "k12_warpgroups"])
def test_launches_are_repeated(rung):
    """The rungs that are chosen for contiguous factors cost a recorded launch, whatever they are written in."""
    made = plans("matmul")
    dtype = torch.bfloat16 if rung == "k12_warpgroups" else torch.float32
    a, b = torch.randn(128, 128, device="cuda").to(dtype), torch.randn(128, 128, device="cuda").to(dtype)
    made((a, b), rung)
    (plan,) = made._plans.values()
    assert plan._repeated is not None


@pytest.mark.gpu
def test_an_output_without_elements_is_no_obstacle():
    """linear's second one has none unless what the activation was applied to is kept."""
    made = plans("linear")
    for seed in range(3):
        generator = torch.Generator("cuda").manual_seed(seed)
        x, w, bias = (torch.randn(128, 128, device="cuda", generator=generator).bfloat16() for _ in range(3))
        args = (x, w, bias[0], "gelu", None, None, False)
        result, none = made(args, None)
        expected, _ = made.op.spec.reference(*args)
        torch.testing.assert_close(result.double(), expected, rtol=2**-7, atol=1e-3)
        assert none.shape == (0,)
    (plan,) = made._plans.values()
    assert plan._repeated is not None


@pytest.mark.gpu
@pytest.mark.parametrize("rung", [None, "k10", "k11", "k12", "k16"])
def test_plans_keep_no_tensor_alive(rung):
    made, op = plans("matmul"), registry.get("matmul")
    dtype = torch.float32 if rung == "k11" else torch.bfloat16
    a, b = torch.ones(256, 256, device="cuda", dtype=dtype), torch.ones(256, 256, device="cuda", dtype=dtype)
    if rung and op.refusal(op.rung(rung), a, b):
        pytest.skip("refused")
    alive = [weakref.ref(tensor) for tensor in (a, b, made((a, b), rung), made((a, b), rung))]
    del a, b
    gc.collect()
    assert [tensor() for tensor in alive] == [None] * 4


@pytest.mark.parametrize("name", ["linear", "addmm"])
def test_a_product_inside_of_a_launcher_is_chosen_once(name, monkeypatch):
    """Of factors alike, as matmul's own is: asking its table at every launch costs the host 100 µs."""
    asked, chosen = [], Op.chosen
    monkeypatch.setattr(
        Op, "chosen", lambda op, *args, rung=None: (asked.append(op.name), chosen(op, *args, rung=rung))[-1]
    )
    a, b, row = torch.randn(5, 7), torch.randn(7, 6), torch.randn(6)
    given = (a, b.t(), row, "gelu") if name == "linear" else (row, a, b, 0.5, 2.0)
    function = getattr(warpwise.ops, name)
    expected = function(*given)
    for _ in range(3):
        torch.testing.assert_close(function(*given, rung="k02"), expected)
    assert asked.count("matmul") <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["linear", "addmm"])
def test_a_pass_over_pytorchs_product_is_repeated(name, monkeypatch):
    """No recording repeats PyTorch's operators, but one repeats what follows them."""
    launches = importlib.import_module(f"warpwise.ops.{name}._launch")
    monkeypatch.setattr(launches, "PRODUCT", lambda factors, rung: torch.mm(*factors))
    monkeypatch.setattr(launches.PASS, "_recordings", {})
    for seed in range(4):
        generator = torch.Generator("cuda").manual_seed(seed)
        a, b, row = (torch.randn(size, device="cuda", generator=generator) for size in ((40, 72), (72, 56), (56,)))
        given = (a, b.t(), row, "gelu") if name == "linear" else (row, a, b, 0.5, 2.0)
        result = getattr(warpwise.ops, name)(*given, rung="k02")
        product = a.double() @ b.double()
        plain = torch.nn.functional.gelu(product + row) if name == "linear" else 0.5 * row + 2 * product
        torch.testing.assert_close(result.double(), plain.double(), rtol=1e-4, atol=1e-4)
    assert [recording is not None for recording in launches.PASS._recordings.values()] == [True]
