"""Correct kernels that verify must accept, and rungs that it must leave untested."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lab import toys
from tests.sampled import examples

from warpwise.lab import IncompleteCases, ProblemError, verify
from warpwise.operation import Case, UnknownRung

CPU = torch.device("cpu")


def affine(out, x):
    out.copy_((2 * x.float() + 1).to(out.dtype))


def row_sum_in_order(out, x):
    total = torch.zeros(x.shape[0])
    for column in range(x.shape[1]):
        total += x[:, column].float()
    out.copy_(total)


def row_sum_by_halves(out, x):
    left = x.float()
    while left.shape[1] > 1:
        half = (left.shape[1] + 1) // 2
        folded = left[:, :half].clone()
        folded[:, : left.shape[1] - half] += left[:, half:]
        left = folded
    out.copy_(left[:, 0])


def online_softmax(out, x):
    top, total = torch.full((x.shape[0],), -torch.inf), torch.zeros(x.shape[0])
    for column in range(x.shape[1]):
        higher = torch.maximum(top, x[:, column])
        total = total * (top - higher).exp() + (x[:, column] - higher).exp()
        top = higher
    out.copy_((x - top[:, None]).exp() / total[:, None])


def product_in_order(out, a, b):
    out.zero_()
    for k in range(a.shape[1]):
        out += a[:, k, None] * b[k]


def bincount(out, x):
    out.copy_(torch.bincount(x, minlength=16))


def any_order(out, x):
    """Like atomics: the order of the sum differs from run to run."""
    order = torch.randperm(x.shape[1])
    total = torch.zeros(x.shape[0])
    for column in order:
        total += x[:, column].float()
    out.copy_(total)


HONEST = [
    (toys.AFFINE, affine),
    (toys.ROW_SUM, row_sum_in_order),
    (toys.ROW_SUM, row_sum_by_halves),
    (toys.SOFTMAX, online_softmax),
    (toys.MATMUL, product_in_order),
    (toys.COUNTS, bincount),
]


@pytest.mark.parametrize("spec,launch", HONEST, ids=[launch.__name__ for _, launch in HONEST])
def test_an_honest_kernel_is_right(spec, launch):
    verdict = verify(toys.op(spec, launch), launch.__name__, device=CPU)
    assert verdict.right, str(verdict)
    assert verdict.place.startswith("cpu: ")
    assert verdict.worst <= 1
    assert len(verdict.cases) == len(spec.cases) * len(spec.dtypes)
    assert str(verdict).startswith(f"{spec.name} {launch.__name__} on cpu")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_floating_dtypes_have_their_own_tolerance(dtype):
    spec = replace(toys.ROW_SUM, dtypes=(dtype,))

    def summed(out, x):
        out.copy_(x.sum(1, dtype=torch.float64 if dtype == torch.float64 else torch.float32))

    def through_float32(out, x):
        out.copy_(x.float().sum(1))

    op = toys.op(spec, summed, through_float32)
    assert verify(op, "summed", device=CPU).right
    assert verify(op, "through_float32", device=CPU).right == (dtype != torch.float64)


def test_varying_order_is_excused_where_the_rung_says_so():
    torch.manual_seed(0)
    assert verify(
        toys.op(toys.ROW_SUM, any_order, deterministic=False), "any_order", device=CPU, dtypes=[torch.float32]
    ).right
    strict = verify(toys.op(toys.ROW_SUM, any_order), "any_order", device=CPU, dtypes=[torch.float32])
    assert strict.failures[0].kind == "nondeterministic"


def test_a_strided_rung_gets_the_strides_and_others_do_not():
    seen = []

    def looks(out, x):
        seen.append(x.is_contiguous())
        affine(out, x)

    verify(toys.op(toys.AFFINE, looks), "looks", device=CPU)
    assert all(seen)
    seen.clear()
    verify(toys.op(toys.AFFINE, looks, strided=True), "looks", device=CPU)
    assert not all(seen)


def test_a_rung_with_limits_is_tested_within_them():
    def short(out, x):
        affine(out, x)

    def limits(x):
        return "takes at most 600 elements" if x.numel() > 600 else None

    verdict = verify(toys.op(toys.AFFINE, short, limits=limits), "short", device=CPU)
    assert verdict.right
    skipped = [result for result in verdict.cases if result.status == "untested"]
    assert {result.reason for result in skipped} == {"takes at most 600 elements"}
    assert {result.case.name for result in skipped} == {"ragged", "huge", "strided", "unaligned"}


def test_a_rung_that_takes_nothing_is_untested_not_right():
    op = toys.op(toys.AFFINE, affine, limits=lambda x: "needs a machine with wings" if x.numel() else None)
    verdict = verify(op, "affine", device=CPU)
    assert verdict.status == "untested"
    assert "needs a machine with wings" in str(verdict)
    assert not verdict.right


def test_a_rung_for_another_device_is_untested():
    verdict = verify(toys.op(toys.AFFINE, affine, devices=("cuda",)), "affine", device=CPU)
    assert verdict.status == "untested"
    assert "runs on cuda, not on cpu" in str(verdict)


def test_a_rung_for_one_dtype_is_right_in_it():
    verdict = verify(toys.op(toys.AFFINE, affine, dtypes=(torch.float16,)), "affine", device=CPU)
    assert verdict.right
    assert {result.status for result in verdict.cases if result.dtype == torch.float32} == {"untested"}


@pytest.mark.parametrize("missing", ["ragged", "one", "empty", "huge", "strided", "unaligned"])
def test_a_specification_without_one_kind_of_case_is_refused(missing):
    kept = tuple(case for case in toys.AFFINE.cases if case.name != missing)
    if missing == "ragged":
        kept = tuple(replace(case, sizes={"n": 512 if case.sizes["n"] > 1 else case.sizes["n"]}) for case in kept)
    spec = replace(toys.AFFINE, cases=kept)
    with pytest.raises(IncompleteCases, match=f"the cases lack {missing}"):
        verify(toys.op(spec, affine), "affine", device=CPU)


def test_a_missing_kind_is_excused_where_the_specification_says_why():
    cases = tuple(case for case in toys.AFFINE.cases if case.layout != "strided")
    spec = replace(toys.AFFINE, cases=cases, exempt={"strided": "inputs are always packed"})
    assert verify(toys.op(spec, affine), "affine", device=CPU).right


def test_integers_need_no_huge_case():
    spec = replace(toys.COUNTS, cases=tuple(case for case in toys.COUNTS.cases if case.name != "huge"))
    assert verify(toys.op(spec, bincount), "bincount", device=CPU).right


def test_a_reference_in_float32_is_refused():
    spec = replace(toys.AFFINE, reference=lambda x: 2 * x + 1)
    with pytest.raises(ProblemError, match="must be computed in float64"):
        verify(toys.op(spec, affine), "affine", device=CPU)


def test_a_reference_of_another_shape_is_refused():
    spec = replace(toys.AFFINE, reference=lambda x: (2 * x.double() + 1)[None])
    with pytest.raises(ProblemError, match=r"has shape \(1, 512\), expected \(512,\)"):
        verify(toys.op(spec, affine), "affine", device=CPU)


def test_a_magnitude_expands_to_the_shape_of_the_output_or_is_refused():
    one = toys.judged(
        toys.AFFINE, magnitude=lambda x: 2 * x.double().abs().amax() + 1 if x.numel() else x.double().sum()
    )
    assert verify(toys.op(one, affine), "affine", device=CPU).right
    column = toys.judged(toys.AFFINE, magnitude=lambda x: (2 * x.double().abs() + 1)[:, None])
    with pytest.raises(ProblemError, match=r"output: expected the magnitude to have shape \(512,\), got \(512, 1\)"):
        verify(toys.op(column, affine), "affine", device=CPU)


def test_an_unknown_rung_and_no_seed_are_refused():
    op = toys.op(toys.AFFINE, affine)
    with pytest.raises(UnknownRung, match="there are affine"):
        verify(op, "fast", device=CPU)
    with pytest.raises(ValueError, match="at least one seed"):
        verify(op, "affine", device=CPU, seeds=())


@pytest.mark.parametrize("language,single", [("python", True), ("cuda", True), ("c", False)])
def test_emulation_uses_one_thread_of_torch_and_gives_the_others_back(language, single):
    seen, before = set(), torch.get_num_threads()

    def looks(out, x):
        seen.add(torch.get_num_threads())
        affine(out, x)

    torch.set_num_threads(2)
    try:
        assert verify(toys.op(toys.AFFINE, looks, language=language), "looks", device=CPU).right
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == ({1} if single else {2})


def test_progress_names_every_case_and_ends_with_the_verdict():
    steps = []
    verdict = verify(toys.op(toys.AFFINE, affine), "affine", device=CPU, progress=steps.append)
    details = [step.detail for step in steps if step.stage == "verify" and step.result is None]
    assert details[0] == "even(n=512), float32"
    assert len(details) == 14
    assert steps[-1].result is verdict


@settings(max_examples=examples(25), deadline=None)
@given(rows=st.integers(1, 40), columns=st.integers(1, 400), seed=st.integers(0, 1000))
def test_a_float32_sum_in_any_order_is_never_refused(rows, columns, seed):
    case = Case("drawn", {"rows": rows, "columns": columns})
    op = toys.op(toys.ROW_SUM, any_order, deterministic=False)
    cases = (*toys.ROW_SUM.cases[:2], case)
    assert verify(
        op, "any_order", device=CPU, cases=cases[-1:] + cases[:1], seeds=(seed,), dtypes=[torch.float32]
    ).right
