"""What the tests of potts_em_step share: arguments of random sizes, and what a rung's results must agree with."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

from warpwise import operation, ops
from warpwise.operation import Case
from warpwise.ops.potts_em_step import spec
from warpwise.ops.potts_em_step.reference import reference

WEIGHTED = {"weighted": True, "field": True}
OP = operation.get("potts_em_step")


def arguments(n: int = 40, domains: int = 4, width: int = 3, restarts: int = 2, **attributes: Any) -> dict[str, Any]:
    sizes = {"n": n, "domains": domains, "width": width, "restarts": restarts}
    return OP.spec.named(OP.spec.arguments(Case("drawn", sizes, attributes), torch.float32, torch.device("cpu"), 1))


def agrees_with_pytorch(given_: dict[str, Any], rung: str) -> None:
    expected_q, actual_q = given_["q"].clone(), given_["q"].clone()
    expected = ops.potts_em_step(**{**given_, "q": expected_q})
    actual = ops.potts_em_step(**{**given_, "q": actual_q}, rung=rung)
    torch.testing.assert_close(actual_q, expected_q)
    for found, wanted in zip(actual, expected, strict=True):
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * max(1.0, float(wanted.abs().max())))


def rounds_each_colour_once(rung: str | None, padded: bool, given_: dict[str, Any], of_scores: float = 0.0) -> None:
    """Given the stored probabilities of the colours before, those of a colour are the reference's, rounded once.

    ``of_scores``: the relative error of q by rounded coefficients, in units of 2^-7.
    """
    given_ |= {"return_derivatives": True, "return_near": True}
    if padded:
        given_["q"] = spec.padded(given_["q"])
        if given_["features"].dtype == torch.bfloat16:
            given_["features"] = spec.padded(given_["features"])
    before, bounds = given_["q"].clone(), given_["bounds"]
    near = ops.potts_em_step(**given_, rung=rung)[3]
    assert near is not None
    seen, whole = before.double(), {**given_, "return_derivatives": False}
    for begin, end in pairwise(bounds):
        found = reference(*{**whole, "q": seen, "bounds": (begin, end)}.values())
        rtol = (0.502 + of_scores) * 2**-7
        torch.testing.assert_close(given_["q"][begin:end].double(), found[4][begin:end], rtol=rtol, atol=1e-30)
        torch.testing.assert_close(near[begin - bounds[0] : end - bounds[0]].double(), found[3], rtol=1e-5, atol=1e-6)
        seen[begin:end] = given_["q"][begin:end].double()


def rounds_features_too(rung: str, given_: dict[str, Any]) -> None:
    """Each colour is rounded once, and the moments are those of the stored probabilities and features."""
    rounds_each_colour_once(rung, True, given_, 4e-3)
    counts, sums = ops.potts_em_step(**given_, rung=rung)[:2]
    stored, features = given_["q"].double(), given_["features"].double()
    torch.testing.assert_close(counts, stored.sum(0).float(), rtol=1e-5, atol=0)
    torch.testing.assert_close(sums, torch.einsum("nrk,nd->rkd", stored, features).float(), rtol=1e-4, atol=1e-4)
