"""Wrong kernels that verify must reject, each with the kind of failure that it must report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.lab import toys

from warpwise.lab import verify
from warpwise.operation import Spec

CPU = torch.device("cpu")


def off_by_one_tail(out, x):
    out[:-1] = 2 * x[:-1] + 1


def one_nan(out, x):
    out.copy_(2 * x + 1)
    out[len(out) // 2] = float("nan")


def forgets_last_row(out, x):
    out[:-1] = x[:-1].sum(1)


def mutates_input(out, x):
    out.copy_(2 * x + 1)
    x[-1] += 1


def writes_past_the_end(out, x):
    longer = out.as_strided((len(out) + 1,), (1,), out.storage_offset())
    longer.copy_(torch.cat([2 * x + 1, x[:1]]))


def writes_before_the_start(out, x):
    out.copy_(2 * x + 1)
    out.as_strided((1,), (1,), out.storage_offset() - 1).fill_(0)


def writes_a_row_too_many(out, x):
    rows, columns = x.shape
    taller = out.as_strided((rows + 1, columns), (columns, 1), out.storage_offset())
    taller[rows].fill_(1)
    out.copy_(torch.softmax(x, 1))


def adds_to_the_output(out, x):
    out.add_(2 * x + 1)


def takes_strides_for_contiguous(out, x):
    packed = x.as_strided(x.shape, (1,), x.storage_offset())
    out.copy_(2 * packed + 1)


def ignores_the_offset(out, x):
    from_the_start = x.as_strided(x.shape, (1,), 0)
    out.copy_(2 * from_the_start + 1)


def exp_without_the_maximum(out, x):
    powers = x.exp()
    out.copy_(powers / powers.sum(1, keepdim=True))


def sums_in_half(out, x):
    total = torch.zeros(x.shape[0], dtype=torch.float16)
    for column in range(x.shape[1]):
        total += x[:, column].half()
    out.copy_(total)


def sums_half_inputs_in_half(out, x):
    total = torch.zeros_like(out)
    for column in range(x.shape[1]):
        total += x[:, column]
    out.copy_(total)


def result_through_half(out, x):
    out.copy_((2 * x + 1).half().clamp(-60000, 60000))


def one_ulp_of_noise(out, x):
    exact = 2 * x + 1
    up = torch.rand(x.shape) < 0.5
    out.copy_(torch.where(up, torch.nextafter(exact, torch.full_like(exact, 1e30)), exact))


def tf32_operands(out, a, b):
    def rounded(values: torch.Tensor) -> torch.Tensor:
        return ((values.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    torch.matmul(rounded(a), rounded(b), out=out)


def only_one_block(out, x):
    index = torch.arange(len(x)) % 256
    out.copy_(2 * x[index] + 1)


def returns_the_input(out, x):
    out.copy_(x)


def writes_the_first_half(out, x):
    half = (len(x) + 1) // 2
    out[:half] = 2 * x[:half] + 1


def whole_vectors_only(out, x):
    whole = len(x) // 4 * 4
    out[:whole] = 2 * x[:whole] + 1


def misses_the_last_bin(out, x):
    out[:15] = torch.bincount(x, minlength=16)[:15]


def writes_only_what_is_not_zero(out, x):
    counts = torch.bincount(x, minlength=16).int()
    out[counts != 0] = counts[counts != 0]


def counts_the_padding(out, x):
    padded = torch.cat([x, x.new_zeros(-len(x) % 32)])
    out.copy_(torch.bincount(padded, minlength=16))


def eight_bit_counters(out, x):
    out.copy_(torch.bincount(x, minlength=16) % 64)


def the_other_axis(out, x):
    out.copy_(torch.softmax(x, 0))


def transposed_where_square(out, a, b):
    product = a @ b
    out.copy_(product.T if product.shape[0] == product.shape[1] else product)


def drops_the_last_of_k(out, a, b):
    torch.matmul(a[:, :-1], b[:-1], out=out)


def forgets_to_clear(allocate):
    """Adds to a workspace as if it were zero, which new memory often is."""

    def adds_to_new_memory(out, x):
        workspace = allocate(x)
        workspace.add_((2 * x.double() + 1).to(workspace.dtype))
        out.copy_(workspace)

    return adds_to_new_memory


def raises(out, x):
    raise KeyError("no kernel for this shape")


def first_answer_for_ever() -> Callable[..., None]:
    """A launcher whose state is keyed on the shape, not on the data."""
    known: dict[tuple[int, ...], torch.Tensor] = {}

    def keeps_the_first_answer(out: torch.Tensor, x: torch.Tensor) -> None:
        out.copy_(known.setdefault(tuple(x.shape), 2 * x.float() + 1))

    return keeps_the_first_answer


BROKEN: list[tuple[Spec, Callable[..., None], str, str, dict[str, Any]]] = [
    (toys.AFFINE, off_by_one_tail, "unwritten", "was never written", {}),
    (toys.AFFINE, one_nan, "value", "is nan, expected", {}),
    (toys.ROW_SUM, forgets_last_row, "unwritten", "output[31] was never written", {}),
    (toys.AFFINE, mutates_input, "input", "changed x, first at byte", {}),
    (toys.AFFINE, writes_past_the_end, "guard", "wrote outside output, at byte 2048 of 2048", {}),
    (toys.AFFINE, writes_before_the_start, "guard", "4 bytes before its first byte", {}),
    (toys.SOFTMAX, writes_a_row_too_many, "guard", "wrote outside output, at byte", {}),
    (toys.AFFINE, adds_to_the_output, "unwritten", "or only added to", {}),
    (toys.AFFINE, takes_strides_for_contiguous, "value", "strided", {"strided": True}),
    (toys.AFFINE, ignores_the_offset, "value", "unaligned", {}),
    (toys.SOFTMAX, exp_without_the_maximum, "value", "is nan", {}),
    (toys.ROW_SUM, sums_in_half, "value", "elements are wrong", {"dtypes": (torch.float32,)}),
    (toys.ROW_SUM, sums_half_inputs_in_half, "value", "elements are wrong", {"dtypes": (torch.float16,)}),
    (toys.AFFINE, result_through_half, "value", "elements are wrong", {"dtypes": (torch.float32,)}),
    (toys.AFFINE, one_ulp_of_noise, "nondeterministic", "two runs on the same inputs differ",
     {"dtypes": (torch.float32,)}),
    (toys.MATMUL, tf32_operands, "value", "elements are wrong", {}),
    (toys.AFFINE, only_one_block, "value", "output[256]", {}),
    (toys.AFFINE, returns_the_input, "value", "elements are wrong", {}),
    (toys.AFFINE, writes_the_first_half, "unwritten", "256 of 512 elements are wrong", {}),
    (toys.AFFINE, whole_vectors_only, "unwritten", "ragged(n=1037)", {}),
    (toys.COUNTS, misses_the_last_bin, "unwritten", "output[15] was never written", {}),
    (toys.COUNTS, writes_only_what_is_not_zero, "unwritten", "one(n=1)", {}),
    (toys.COUNTS, counts_the_padding, "value", "ragged(n=1003)", {}),
    (toys.COUNTS, eight_bit_counters, "value", "ragged(n=1003)", {}),
    (toys.SOFTMAX, the_other_axis, "value", "elements are wrong", {}),
    (toys.MATMUL, transposed_where_square, "value", "even(m=32, n=32, k=64)", {}),
    (toys.MATMUL, drops_the_last_of_k, "value", "elements are wrong", {}),
    (toys.AFFINE, raises, "exception", "KeyError: 'no kernel for this shape'", {}),
    (toys.AFFINE, first_answer_for_ever(), "value", "seed 1", {"dtypes": (torch.float32,)}),
]  # fmt: skip


@pytest.mark.parametrize("spec,launch,kind,said,options", BROKEN, ids=[entry[1].__name__ for entry in BROKEN])
def test_a_broken_kernel_is_wrong_and_says_how(spec, launch, kind, said, options):
    verdict = verify(toys.op(spec, launch, **options), launch.__name__, device=CPU)
    assert verdict.status == "wrong"
    assert not verdict.right
    assert verdict.failures[0].kind == kind
    assert said in str(verdict)


ALLOCATIONS = {
    "empty": lambda x: torch.empty(x.shape, dtype=torch.float64),
    "empty_like": torch.empty_like,
    "empty_strided": lambda x: torch.empty_strided(x.shape, (3,)),
    "new_empty": lambda x: x.new_empty(x.shape),
    "of a class": lambda x: torch.Tensor.new_empty(x, x.shape),
}


@pytest.mark.parametrize("allocate", ALLOCATIONS.values(), ids=ALLOCATIONS)
def test_memory_that_a_launch_allocates_is_poisoned(allocate):
    op = toys.op(toys.AFFINE, forgets_to_clear(allocate))
    verdict = verify(op, "adds_to_new_memory", device=CPU, dtypes=[torch.float32])
    assert "is nan, expected" in str(verdict) and "read memory of torch.empty" in str(verdict)
    honest = toys.op(toys.AFFINE, forgets_to_clear(lambda x: torch.zeros_like(x, dtype=torch.float64)))
    assert verify(honest, "adds_to_new_memory", device=CPU).right


def test_a_workspace_of_integers_differs_from_run_to_run():
    def from_new_memory(out, x):
        out.copy_(torch.bincount(x, minlength=16) + (torch.empty(1, dtype=torch.int32) > 0))

    verdict = verify(toys.op(toys.COUNTS, from_new_memory), "from_new_memory", device=CPU)
    assert verdict.status == "wrong"


def test_a_failure_is_shrunk_to_one_of_its_kind():
    """A smaller size raises an error: another failure, which does not replace the wrong values."""

    def wrong_or_raises(out, x):
        if len(x) < 300:
            raise RuntimeError("expected at least 300 elements")
        only_one_block(out, x)

    verdict = verify(toys.op(toys.AFFINE, wrong_or_raises), "wrong_or_raises", device=CPU, dtypes=[torch.float32])
    first = verdict.failures[0]
    assert (first.kind, first.smaller.kind, first.smaller.case.sizes) == ("value", "value", {"n": 300})


def test_one_case_and_one_element_are_in_the_singular():
    verdict = verify(
        toys.op(toys.AFFINE, one_nan), "one_nan", device=CPU, cases=[toys.AFFINE.cases[0]], dtypes=[torch.float32]
    )
    assert "(1 case, " in str(verdict) and "1 of 512 elements is wrong" in str(verdict)


def test_a_failure_says_index_values_tolerance_and_count():
    verdict = verify(toys.op(toys.AFFINE, only_one_block), "only_one_block", device=CPU, dtypes=[torch.float32])
    first = verdict.failures[0]
    assert first.index == (256,)
    assert first.output == 0
    assert (first.wrong, first.total) == (256, 512)
    (x,) = toys.AFFINE.arguments(first.case, torch.float32, CPU, first.seed)
    assert first.expected == pytest.approx(2 * x[256].item() + 1)
    assert first.actual == pytest.approx(2 * x[0].item() + 1)
    assert 0 < first.tolerance < 1e-4
    assert f"± {first.tolerance:.3g}" in first.message


def test_a_failure_is_shrunk_to_the_smallest_size_that_fails():
    verdict = verify(toys.op(toys.AFFINE, only_one_block), "only_one_block", device=CPU, dtypes=[torch.float32])
    smaller = verdict.failures[0].smaller
    assert smaller is not None
    assert smaller.case.sizes == {"n": 257}
    assert "smallest failing case: even(n=257)" in str(verdict)


def test_only_the_first_failure_is_shrunk_and_all_failing_cases_are_named():
    verdict = verify(toys.op(toys.SOFTMAX, the_other_axis), "the_other_axis", device=CPU)
    assert [failure.smaller is not None for failure in verdict.failures] == [True] + [False] * (
        len(verdict.failures) - 1
    )
    assert {failure.case.name for failure in verdict.failures} == {"even", "ragged", "huge", "strided", "unaligned"}
    assert "fails as well: ragged (float32)" in str(verdict)


def test_a_mutated_input_is_put_back_for_the_next_rung():
    def honest(out, x):
        out.copy_(2 * x.double() + 1)

    from warpwise.lab import Problem

    op = toys.op(toys.AFFINE, mutates_input, honest)
    problem = Problem(op, CPU)
    assert verify(op, "mutates_input", problem=problem).status == "wrong"
    assert verify(op, "honest", problem=problem).status == "right"


def test_the_message_of_an_exception_names_its_line():
    failure = verify(toys.op(toys.AFFINE, raises), "raises", device=CPU).failures[0]
    assert "test_verify_broken.py:" in failure.message


def test_limits_that_raise_are_a_failure_of_their_rung():
    def limits(x):
        return None if 100 // len(x) else "is too long"

    op = toys.op(toys.AFFINE, toys.quick, limits=limits)
    verdict = verify(op, "quick", device=CPU)
    assert [failure.case.name for failure in verdict.failures] == ["empty", "empty"]
    assert verdict.failures[0].message.startswith("ZeroDivisionError: integer division or modulo by zero (at test_ver")
