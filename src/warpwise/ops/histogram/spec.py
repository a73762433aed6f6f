"""The specification of histogram: the number of elements with each of the values 0 to bins - 1."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.arguments.checks import check_integer
from warpwise.operation import Case, Cost, Output, Spec, check_tensor

DTYPES = (torch.uint8, torch.int32)


def check(input: torch.Tensor, bins: int) -> None:
    check_tensor("histogram", "input", input, DTYPES)
    check_integer("histogram", "bins", bins)
    if not 1 <= bins < 2**31:
        raise ValueError(f"histogram: expected bins between 1 and 2**31 - 1, got {bins}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """Uniform values, some outside of the bins; with a ``pattern`` "one_value" all equal, with "runs" runs of 50."""
    n, bins, pattern = case.sizes["n"], case.sizes["bins"], case.attributes.get("pattern")
    limits = torch.iinfo(dtype)
    low, high = max(limits.min, -2), min(limits.max, bins + 2)
    if pattern == "one_value":
        values = torch.full((n,), (37 * seed + 11) % bins % (limits.max + 1), dtype=dtype, device=device)
    else:
        generator = torch.Generator(device).manual_seed(seed)
        values = torch.randint(low, high + 1, (n,), generator=generator, dtype=dtype, device=device)
    if pattern == "runs":
        values = values[: -(-n // 50)].repeat_interleave(50)[:n]
    return {"input": values, "bins": bins}


def reference(input: torch.Tensor, bins: int) -> torch.Tensor:
    values = input.reshape(-1).long()
    counted = ((values >= 0) & (values < bins)).long()
    return torch.zeros(bins, dtype=torch.int64, device=input.device).scatter_add_(0, values.clamp(0, bins - 1), counted)


def eager(input: torch.Tensor, bins: int) -> torch.Tensor:
    """torch.bincount; int32 is filtered first, since the result of bincount is as long as the largest value."""
    values = input.reshape(-1)
    if input.dtype != torch.uint8:
        values = values[(values >= 0) & (values < bins)]
    return torch.bincount(values, minlength=bins)[:bins].clone()


def cost(input: torch.Tensor, bins: int) -> Cost:
    return Cost(bytes=input.numel() * input.element_size() + bins * 8)


SPEC = Spec(
    schema="histogram(Tensor input, int bins=256) -> Tensor",
    summary="how often each of the values 0 to bins - 1 occurs; other values are not counted",
    inputs=inputs,
    check=check,
    outputs={"output": Output(shape=lambda input, bins: (bins,), dtype=torch.int64)},
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("bytes", {"n": 4096, "bins": 256}),
        Case("ragged", {"n": 10007, "bins": 256}),
        Case("below_a_vector", {"n": 5, "bins": 256}),
        Case("few_bins", {"n": 3001, "bins": 10}),
        Case("one_element", {"n": 1, "bins": 1}),
        Case("empty", {"n": 0, "bins": 256}),
        Case("one_value", {"n": 5003, "bins": 256}, {"pattern": "one_value"}),
        Case("runs", {"n": 5003, "bins": 256}, {"pattern": "runs"}),
        Case("strided", {"n": 777, "bins": 256}, layout="strided"),
        Case("unaligned", {"n": 2050, "bins": 256}, layout="unaligned"),
        Case("many_bins", {"n": 1000, "bins": 1500}),
    ),
    sizes=(
        Case("random", {"n": 2**26, "bins": 256}),
        Case("one_value", {"n": 2**26, "bins": 256}, {"pattern": "one_value"}),
        Case("ragged", {"n": 2**26 - 1, "bins": 256}),
    ),
    dtypes=DTYPES,
)
