"""Views that are marked as negated, as the imaginary part of a conjugate is, or as conjugated, on every rung."""

from __future__ import annotations

import pytest
import torch
from tests.ops.conftest import on_cpu, sampled_dtypes
from tests.sampled import FULL

import warpwise.ops
from warpwise import operation
from warpwise.arguments.values import first_tensor, tensors
from warpwise.lab.verify.problem import with_copies

SEED = 0
RUNGS = [
    pytest.param(op, rung, id=f"{op.name}-{rung.name}", marks=[FULL] if place else [])
    for op in operation.all_ops()  # of each operation a rung that gets views unchanged, if it has one
    for place, rung in enumerate(sorted((rung for rung in op.rungs if on_cpu(rung)), key=lambda rung: not rung.strided))
]


def marked(value: object) -> object:
    """The same values, negated in memory."""
    floating = isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.float16, torch.bfloat16)
    return torch._neg_view(-value) if floating and value.numel() else value


@pytest.mark.parametrize("op, rung", RUNGS)
@pytest.mark.one_in(3)
def test_a_negated_view_is_read_with_its_sign(op, rung):
    dtype = sampled_dtypes(op, rung)[0]
    for case in op.spec.cases:
        args = op.spec.arguments(case, dtype, torch.device("cpu"), SEED)
        if op.refusal(rung, *args) is None and first_tensor(args).numel():
            break
    else:
        pytest.skip("takes no case here")
    expected = op(*with_copies(op.spec, args), rung=rung.name)
    for at in range(len(args)):  # one at a time: two sign errors would cancel
        fresh = with_copies(op.spec, args)
        value = fresh[at]
        given = (*fresh[:at], marked(value), *fresh[at + 1 :])
        if given[at] is value or op.refusal(rung, *given):
            continue
        found = op(*given, rung=rung.name)
        pairs = zip(tensors(expected), tensors(found), strict=True)  # without outputs that are not present
        assert all(torch.allclose(a.double(), b.double(), rtol=1e-2, atol=1e-3) for a, b in pairs), at


@pytest.mark.parametrize("rung", [None, *(rung.name for rung in operation.get("transpose").rungs if on_cpu(rung))])
def test_a_conjugated_view_is_read_with_its_signs(rung):
    x = torch.randn(4, 6, dtype=torch.complex64)
    for value in (x, x.conj(), x):
        made = warpwise.ops.transpose(value, rung=rung)
        assert not made.is_conj() and torch.equal(made, value.t())
