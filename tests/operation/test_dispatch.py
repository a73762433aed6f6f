"""Dispatch: calls with the same key share a plan, and nothing that a call depends on is outside of the key."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import weakref
from pathlib import Path

import pytest
import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from warpwise import cuda, operation, ops, tuned  # noqa: F401 - importing ops registers them
from warpwise.operation import Choice, Cost, Gradient, Op, Output, Rung, Spec, UnknownRung, dispatch
from warpwise.operation import op as op_module
from warpwise.operation.choice import GPU_TIME, by_gpu_time, wanted

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*torch.jit.*:DeprecationWarning", "ignore:There is a performance drop:UserWarning"
)
MODULE = cuda.load("""
template <typename T> __global__ void scale(const T* x, T* y, float alpha, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = static_cast<T>(alpha * static_cast<float>(x[i]));
}
""")
NUMBER = itertools.count()


@pytest.fixture(params=["C++", "Python"], autouse=True)
def language(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of a call: fastcall's, and the one without it."""
    if request.param == "Python":
        monkeypatch.setattr(dispatch, "native_library", lambda: None)


def launch(out: torch.Tensor, x: torch.Tensor, alpha: float, *rest: object) -> None:
    MODULE[f"scale<{cuda.ctype(x.dtype)}>"][-(-x.numel() // 128), 128](x, cuda.out(out), alpha, x.numel())


def scale(**changes: object) -> Op:
    """alpha * x, with a name of its own: two library operators may not share one."""
    spec = Spec(
        schema=f"tests::scale{next(NUMBER)}(Tensor input, float alpha=2.0, int seed=0, int[2] pair=1) -> Tensor",
        outputs={"output": Output(like="input")},
        reference=lambda x, alpha, *rest: alpha * x.double(),
        inputs=lambda case, dtype, device, seed: {"input": torch.ones(4, dtype=dtype, device=device)},
        eager=lambda x, alpha, *rest: alpha * x,
        cost=lambda x, *rest: Cost(2 * x.nbytes),
        varying=("alpha", "seed"),
        gradient=Gradient(lambda saved, grad: {"input": saved.alpha * grad}, saves=("alpha",)),
    )
    return Op(
        dataclasses.replace(spec, **changes),
        (Rung("k01_scale", "one thread an element", "cuda", launch, Path(__file__)),),
    )


class Planned:
    """An operation, and how many plans it made: each asks ``check`` once."""

    def __init__(self, **changes: object) -> None:
        self.made = 0
        self.op = scale(check=self._check, **changes)

    def _check(self, *args: object) -> None:
        self.made += 1

    def __call__(self, *args: object, **named: object) -> bool:
        """Call the operation and return whether that made a new plan."""
        before = self.made
        self.op(*args, **named)
        return self.made > before


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Own(torch.Tensor):
    pass


def at(offset: int, *shape: int) -> torch.Tensor:
    """A tensor that begins ``offset`` bytes after a multiple of 256."""
    room = torch.empty(4 * 2048)
    first = (offset - room.data_ptr()) % 256 // 4
    return room[first : first + torch.Size(shape).numel()].view(shape).fill_(1.0)


def test_calls_alike_share_a_plan_and_others_do_not():
    planned = Planned()
    assert planned(at(0, 4, 6))
    assert not planned(at(0, 4, 6))
    for name, other in {
        "offset": at(4, 4, 6),
        "shape": at(0, 6, 4),
        "size": at(0, 4, 5),
        "stride": at(0, 6, 4).t(),
        "dtype": at(0, 4, 6).double(),
        "gradient": at(0, 4, 6).requires_grad_(),
        "parameter": torch.nn.Parameter(at(0, 4, 6), requires_grad=False),
    }.items():
        assert planned(other), name
        assert not planned(other), name
    assert planned(at(0, 4, 6), rung="k01")
    assert planned(at(0, 4, 6), pair=(1, 2))
    assert not planned(at(0, 4, 6), pair=[1, 2])


@pytest.mark.parametrize("rung", [None, "k01"])
def test_a_negated_view_keeps_its_sign(rung):
    """It may share the plan of a tensor that is not negated."""
    op, x = scale(), at(0, 4, 6)
    for value in (x, x._neg_view(), x):
        assert torch.equal(op(value, rung=rung), 2 * value)


def test_a_thousand_learning_rates_make_one_plan():
    planned, x = Planned(), at(0, 8)
    for rung in (None, "k01"):
        assert planned(x, 0.5, 1, rung=rung)
        for number in range(1000 if rung is None else 20):
            assert not planned(x, 0.25 * number, number, rung=rung)
            assert torch.equal(planned.op(x, 0.25 * number, number, rung=rung), 0.25 * number * x)


def test_a_seed_of_64_bits_has_a_plan_of_its_own():
    planned, x = Planned(), at(0, 8)
    assert planned(x, 1.0, 2**31 - 1)
    assert planned(x, 1.0, 2**31)
    assert not planned(x, 1.0, 2**62)


def test_a_wrong_argument_raises_at_each_call():
    def check(x: torch.Tensor, *rest: object) -> None:
        if x.dim() != 1:
            raise ValueError("scale: expected input with 1 dimension")

    op = scale(check=check)
    for _ in range(2):
        with pytest.raises(ValueError, match="expected input with 1 dimension") as caught:
            op(torch.ones(2, 2))
        assert caught.value.__context__ is None  # no KeyError of a cache above the message
        for told in (op, scale()):  # of the wrong kind, which the schema states, before it is checked
            with pytest.raises(TypeError, match="expected input to be a torch.Tensor, got str"):
                told("text")
        op(torch.ones(2), pair=(1, 1))
        for wrong in ((1.0, 1), (True, 1)):  # equal to (1, 1), of which there is a plan
            with pytest.raises(TypeError, match="expected pair to be two integers, got"):
                op(torch.ones(2), pair=wrong)
        with pytest.raises(UnknownRung, match="no rung 'k09'; there are k01_scale"):
            op(torch.ones(2), rung="k09")
        with pytest.raises(TypeError, match="expected rung to be a name or None, got int"):
            op(torch.ones(2), rung=3)


def test_what_traces_or_transforms_is_seen():
    planned, x = Planned(), at(0, 4, 6)
    planned(x)
    cached = lambda value: not planned(value)
    assert cached(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not cached(x)
    with Watching():
        assert not cached(x)
    with torch.device("cpu"):
        assert cached(x)
    with torch.no_grad():
        planned(x)
        assert cached(x)
    assert type(planned.op(Own(x))) is not None


def test_gradients_in_every_mode():
    op, x = scale(), torch.randn(5, dtype=torch.float64, requires_grad=True)
    function = lambda value: op(value, 3.0)
    (by_autograd,) = torch.autograd.grad(function(x).sum(), x)
    assert torch.equal(by_autograd, torch.full((5,), 3.0, dtype=torch.float64))
    assert torch.autograd.gradcheck(function, (x,), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (x,), fast_mode=True)
    plain = x.detach()
    assert torch.equal(torch.func.grad(lambda value: function(value).sum())(plain), by_autograd)
    assert torch.equal(torch.func.vmap(torch.func.grad(function))(plain), by_autograd)
    assert torch.equal(torch.func.functionalize(function)(plain), 3 * plain)
    assert torch.equal(torch.func.jvp(function, (plain,), (plain,))[1], 3 * plain)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(plain, plain)
        assert torch.equal(forward_ad.unpack_dual(function(dual)).tangent, 3 * plain)
        with pytest.raises(NotImplementedError, match="expected no rung where a forward-mode"):
            op(forward_ad.make_dual(plain.float(), plain.float()), rung="k01")
    op(plain)
    with forward_ad.dual_level():  # a plan is there already
        assert torch.equal(forward_ad.unpack_dual(op(forward_ad.make_dual(plain, plain))).tangent, 2 * plain)


def test_compile_and_trace_see_the_library_operator():
    op, x = scale(), torch.randn(5)
    op(x)  # builds the dispatcher, as register does
    compiled = torch.compile(lambda value: op.call(value, 3.0, 0, (1, 1)), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), 3 * x)
    traced = torch.jit.trace(lambda value: op(value), (x,))
    assert op.name in str(traced.graph)
    assert op(torch.empty(3, device="meta")).shape == (3,)


@pytest.mark.parametrize("rule", ["keep", "low_precision", "float32"])
@pytest.mark.parametrize("needs_grad", [False, True])
def test_autocast_rules(rule, needs_grad):
    """As torch.autocast does: a matmul goes to low precision, a softmax to float32, and neither touches float64."""
    expected = {"keep": torch.float16, "low_precision": torch.bfloat16, "float32": torch.float32}[rule]
    op, x = scale(autocast=rule), torch.ones(4, dtype=torch.float16, requires_grad=needs_grad)
    assert op(x).dtype == torch.float16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert op(x).dtype == expected
        assert op(x.double()).dtype == torch.float64


def test_plans_end_where_tables_change_and_keep_nothing_alive():
    planned, x = Planned(), at(0, 4)
    planned(x)
    assert not planned(x)
    tuned.reload()
    assert planned(x)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


def test_only_so_many_plans_are_kept(monkeypatch):
    from warpwise.operation import dispatch

    monkeypatch.setattr(dispatch, "MAX_PLANS", 4)
    planned = Planned()
    for size in range(1, 7):
        planned(at(0, size))
    assert planned(at(0, 1)), "dropped with the others at the fifth"
    assert not planned(at(0, 6))


def test_a_mutated_argument_has_a_new_version():
    """A tensor that autograd saved may not be changed without its noticing."""
    op = scale(
        schema=f"tests::scale_{next(NUMBER)}(Tensor(a!) input, float alpha=2.0, int seed=0, int[2] pair=1) -> ()",
        outputs={},
        gradient=None,
        eager=lambda x, alpha, *rest: x.mul_(alpha) and None,
    )
    x, weight = torch.ones(3), torch.ones(3, requires_grad=True)
    product = weight * x
    rung = Rung("k01", "", "python", lambda outputs, x, alpha, *rest: x.data.mul_(alpha), Path(__file__))
    Op(op.spec, (rung,))(x, rung="k01")
    assert torch.equal(x, torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def in_place(**changes):
    def add(x, y, seed):
        x.add_(y)

    return scale(
        schema=f"tests::add_{next(NUMBER)}(Tensor(a!) input, Tensor other, int seed=0) -> ()",
        outputs={},
        gradient=None,
        eager=add,
        varying=("seed",),
        **changes,
    )


@pytest.mark.parametrize("name", ["input", "other"])
def test_a_call_that_writes_to_its_arguments_does_not_drop_a_gradient(name):
    op, given = in_place(), {"input": torch.ones(3), "other": torch.ones(3)}
    given[name].requires_grad_()
    message = f"writes to input and records no gradient, but {name} requires one: call it under torch.no_grad"
    for call in (op, torch.compile(op.call, backend="eager")):
        with pytest.raises(RuntimeError, match=message):
            call(given["input"], given["other"], 0)
    with torch.no_grad():
        op(**given)
    assert torch.equal(given["input"].detach(), torch.full((3,), 2.0))


def test_torch_compile_does_not_compile_for_each_value_of_a_varying_integer():
    op, graphs = operation.register(in_place()), []
    compiled = torch.compile(op.call, fullgraph=True, backend=lambda graph, _: graphs.append(graph) or graph)
    x = torch.zeros(3)
    for seed in range(2, 7):
        compiled(x, torch.ones(3), seed)
    operation.unregister(op.name)
    assert torch.equal(x, torch.full((3,), 5.0))
    assert len(graphs) <= 2


def test_results_that_share_memory_are_copied_for_the_library():
    op = operation.register(
        scale(
            schema=f"tests::same{next(NUMBER)}(Tensor input) -> (Tensor one, Tensor two, Tensor three)",
            outputs={name: Output(like="input") for name in ("one", "two", "three")},
            eager=lambda x: (x, x[:], x + 1),
            reference=lambda x: (x.double(), x.double(), x.double() + 1),
            varying=(),
            gradient=None,
        )
    )
    x = torch.ones(3)
    made = torch.compile(op.call, fullgraph=True, backend="eager")(x)
    operation.unregister(op.name)
    assert len({tensor.data_ptr() for tensor in (x, *made)}) == 4
    for tensor, value in zip(made, (1.0, 1.0, 2.0), strict=True):
        assert torch.equal(tensor, torch.full((3,), value))


def test_a_cache_is_cleared_on_reload_as_long_as_it_lives():
    gc.collect()  # operations of other tests
    before = len(tuned._caches)
    cache = tuned.Cache()
    cache["key"] = "plan"
    tuned.reload()
    assert not cache and len(tuned._caches) == before + 1
    del cache
    gc.collect()
    assert len(tuned._caches) == before


def test_an_op_that_is_not_registered_says_so_under_torch_compile():
    op = scale()
    compiled = torch.compile(lambda value: op.call(value, 3.0, 0, (1, 1)), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="an Op that is not registered; pass it to warpwise.operation.register"):
        compiled(torch.ones(4))
    assert op.call(torch.ones(4), 3.0, 0, (1, 1)).tolist() == [3.0] * 4


def test_a_copy_of_a_registered_operation_leaves_its_operator_alone():
    """torch.library destroys an operator whose name is defined again."""
    square = operation.get("square")
    before, x = torch.ops.warpwise.square.default, torch.full((2, 3), 3.0)
    copy = dataclasses.replace(square, rungs=square.rungs[:1])
    with torch.autocast("cpu", dtype=torch.bfloat16):  # by the library's operator
        assert torch.equal(copy(x), x * x)
        assert torch.equal(square(x, rung="k02"), x * x)
        with pytest.raises(UnknownRung, match="no rung 'k02'"):
            copy(x, rung="k02")
    assert torch.ops.warpwise.square.default is before
    assert torch.equal(before(x, rung=None), x * x)


def test_a_captured_step_has_plans_of_its_own(monkeypatch):
    """What the GPU's time alone decides is not what a call outside of a graph runs."""
    seen: list[str | None] = []
    monkeypatch.setattr(op_module, "choose", lambda *args, **named: (seen.append(wanted[0]), Choice(None))[-1])
    op, x = scale(), torch.ones(4, requires_grad=True)
    for _ in range(2):
        assert op(x, 3.0).sum() == 12
        with by_gpu_time():
            assert op(x, 3.0).sum() == 12
            assert op.planned(x, 3.0, 0, [1, 1]) is None
            assert op(x, 3.0, rung="k01").sum() == 12
            with torch.autograd.forward_ad.dual_level():
                assert op(torch.autograd.forward_ad.make_dual(x, x), 3.0).sum() == 12
    assert seen == [None, GPU_TIME, GPU_TIME]
