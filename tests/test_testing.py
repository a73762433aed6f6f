"""``warpwise.testing.check``: correct kernels pass, and each wrong one fails with a message that names the place."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpwise import cuda
from warpwise import triton as wt
from warpwise.lab import ProblemError, VacuousProblem
from warpwise.testing import check

KERNELS = Path(__file__).parent / "lab" / "kernels.cu"
MODULE = cuda.load(KERNELS)


def truth(x):
    return 2 * x + 1


def draw(*shape, dtype=torch.float32):
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return lambda seed: torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=wide).to(dtype)


def launcher(name, per_thread=1, timeout=60.0):
    def launch(out, x):
        MODULE[name][-(-len(x) // (256 * per_thread)), 256](x, cuda.out(out), len(x), timeout=timeout)

    launch.__name__ = name
    return launch


def row_sums(name):
    def launch(out, x):
        MODULE[name][x.shape[0], 64](x, cuda.out(out), x.shape[1])

    launch.__name__ = name
    return launch


SCALE = {"outputs": torch.empty_like, "magnitude": lambda x: 2 * x.abs() + 1}
SUM = {
    "outputs": lambda x: x.new_empty(x.shape[0]),
    "terms": lambda x: x.shape[1],
    "magnitude": lambda x: x.abs().sum(1),
}


def test_honest_launchers_pass_and_say_how_far_off_they_were():
    cases = {"even": draw(512), "ragged": draw(1037), "one": draw(1), "given": torch.linspace(-3, 3, 100)}
    assert 0 <= check(launcher("affine"), truth, cases, **SCALE) <= 1
    assert 0 < check(row_sums("row_sum"), lambda x: x.sum(1), draw(7, 301), **SUM) <= 1


def test_honest_functions_pass_in_every_layout_and_dtype():
    cases = {"half": draw(33, 5, dtype=torch.float16), "exact": draw(6, dtype=torch.float64), "empty": draw(0)}
    magnitude = SCALE["magnitude"]
    check(lambda x: x * 2 + 1, truth, cases, magnitude=magnitude, layouts=("contiguous", "strided", "unaligned"))
    integers = torch.arange(-50, 50)
    check(lambda x: (x * 3, -x), lambda x: (x * 3, -x), integers)
    check(lambda x: x.argmax(1), lambda x: x.argmax(1), draw(9, 30))
    check(lambda x, n: x.float() ** n, lambda x, n: x**n, (draw(40)(0).half(), 2), dtype=torch.float32)


def test_triton_kernels_are_checked_too():
    import triton.language as tl

    @wt.jit
    def twice(x_ptr, out_ptr, n, BLOCK: tl.constexpr, GUARD: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = at < n if GUARD else at < n + BLOCK
        tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=mask), mask=mask)

    def launch(out, x, guard=True):
        twice[(wt.cdiv(len(x), 64),)](x, out, len(x), BLOCK=64, GUARD=guard)

    check(launch, lambda x: 2 * x, draw(100), outputs=torch.empty_like)
    with pytest.raises(AssertionError, match=r"OutOfBounds: twice: .*read of x_ptr(.|\n)*test_testing.py:\d+"):
        check(lambda out, x: launch(out, x, False), lambda x: 2 * x, draw(100), outputs=torch.empty_like)


BROKEN = [
    (launcher("no_guard"), r"OutOfBounds: no_guard: read of x\[1037\](.|\n)*kernels.cu:\d+:"),
    (launcher("guard_off_by_one"), "OutOfBounds"), (launcher("tail_forgotten"), "UnwrittenOutput"),
    (launcher("writes_its_input"), "ReadOnlyWrite"), (launcher("adds_to_its_output"), "UninitializedRead"),
    (launcher("barrier_in_a_branch"), "BarrierDivergence"), (launcher("never_ends", timeout=0.5), "KernelTimeout"),
    (launcher("local_array_too_short"), "UndefinedBehaviour"),
    (launcher("does_not_compile"), "CompileError|identifier|not declared"),
    (launcher("wrong_offset"),
     r"output\[0\] is .*, expected .* ± (.|\n)*1,037 of 1,037 elements are wrong(.|\n)*times the tolerance"),
]  # fmt: skip


@pytest.mark.parametrize("launch,said", BROKEN, ids=[launch.__name__ for launch, _ in BROKEN])
def test_a_broken_kernel_is_an_assertion_error_that_says_where(launch, said):
    with pytest.raises(AssertionError, match=said) as raised:
        check(launch, truth, {"ragged": draw(1037)}, **SCALE)
    assert f"{launch.__name__} is wrong (ragged, float32, seed" in str(raised.value)


@pytest.mark.parametrize("name,said", [("missing_barrier", "DataRace"), ("shared_memory_unset", "UninitializedRead")])
def test_a_race_and_unset_memory_are_found(name, said):
    with pytest.raises(AssertionError, match=said):
        check(row_sums(name), lambda x: x.sum(1), draw(3, 40), **SUM)


def test_an_unaligned_input_is_tried_when_asked_for():
    launch = launcher("unaligned_vectors", per_thread=4)
    check(launch, truth, draw(1024), **SCALE)
    with pytest.raises(AssertionError, match=r"(?s)inputs, unaligned, float32.*MisalignedAccess"):
        check(launch, truth, draw(1024), layouts=("contiguous", "unaligned"), **SCALE)


def past_its_end(out, x):
    out.copy_(truth(x))
    out.as_strided((len(out) + 1,), (1,)).fill_(0)
    out.copy_(truth(x))


def changes_its_input(x):
    return x.mul_(2).add_(1).clone()


STATE = {"calls": 0}


def never_twice_the_same(x):
    STATE["calls"] += 1
    return truth(x) + (STATE["calls"] % 2) * 1e-7


def a_nan(x):
    result = truth(x)
    result[5] = float("nan")
    return result


PLAIN = [
    (past_its_end, "wrote outside output, at byte 400 of 400", {"outputs": torch.empty_like}),
    (
        changes_its_input,
        r"changed x, first at byte \d+ of its storage: an input must not change; .* return the copy",
        {},
    ),
    (never_twice_the_same, "two runs on the same inputs differ: .*, pass deterministic=False", {}),
    (a_nan, r"output\[5\] is nan", {}),
    (lambda x: truth(x)[:-1], r"returned torch.float32 of shape \(99,\), expected .* \(100,\)", {}),
    (lambda x: truth(x).double(), "returned torch.float64 .*pass dtype=", {}),
    (lambda x: None, "got NoneType; does it fill an output", {}),
    (lambda x: (x, x), "returned 2 outputs, but the reference returned 1", {}),
    (lambda x: x.missing, "AttributeError: .*test_testing.py", {}),
]


@pytest.mark.parametrize("fn,said,options", PLAIN, ids=[said[:20] for _, said, _ in PLAIN])
def test_what_else_can_be_wrong(fn, said, options):
    given = draw(100)(1)
    before = given.clone()
    with pytest.raises(AssertionError, match=said):
        check(fn, truth, given, magnitude=SCALE["magnitude"], **options)
    assert torch.equal(given, before)


def test_a_kernel_may_say_that_it_is_not_deterministic():
    check(never_twice_the_same, truth, draw(100), magnitude=SCALE["magnitude"], deterministic=False)


@pytest.mark.parametrize(
    "reference,inputs,said",
    [
        (lambda x: 0 * x, draw(50), "zeros"),
        (lambda x: x, draw(50), "an input returned"),
        (lambda x: x * 0 + 7, torch.randn(50), "a constant would pass"),
        (lambda x: 2 * x, torch.ones(64).cumsum(0), "rounded to float16 would pass"),
        (lambda x: 2 * x, lambda seed: torch.linspace(0, 1, 33), "another seed's output"),
    ],
)
def test_inputs_that_could_not_tell_are_refused(reference, inputs, said):
    with pytest.raises(VacuousProblem, match=said):
        check(lambda x: reference(x), reference, inputs)
    check(lambda x: reference(x), reference, inputs, impostors=False)


def test_a_reference_that_rounds_is_refused():
    with pytest.raises(ProblemError, match="expected torch.float64"):
        check(truth, lambda x: truth(x.float()), draw(10))


def test_bad_arguments_say_what_was_expected():
    with pytest.raises(TypeError, match="expected a tensor among the inputs, got int, float"):
        check(truth, truth, (1, 2.0))
    with pytest.raises(ValueError, match="at least one case"):
        check(truth, truth, {})
    with pytest.raises(ValueError, match="at least one seed"):
        check(truth, truth, draw(3), seeds=())
    with pytest.raises(ValueError, match="no layout 'odd'; there are contiguous"):
        check(truth, truth, draw(3), layouts=("odd",))


def test_what_the_cpu_cannot_stand_in_for_is_no_pass():
    module = cuda.load(
        "__global__ void f(const float* x, float* y) {\n"
        '  asm volatile("tcgen05.fence::before_thread_sync;");\n  y[0] = x[0];\n}'
    )

    def launch(out, x):
        module["f"][1, 1](x, cuda.out(out))

    with pytest.raises(cuda.UnsupportedFeature, match="launch cannot be checked here"):
        check(launch, lambda x: x + 1, draw(1), outputs=torch.empty_like)
