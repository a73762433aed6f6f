"""The specification of potts_bound: the entropy of q and its expected prior on a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_shapes, check_tensor
from warpwise.ops._graphs import check_graph
from warpwise.ops.potts_em_step.reference import support
from warpwise.ops.potts_em_step.spec import inputs as step_inputs
from warpwise.ops.potts_em_step.spec import neighbour_sum, padded, rounds

DTYPES = (torch.float32,)
OP = "potts_bound"
Tensor = torch.Tensor
Optional = torch.Tensor | None


def check(
    q: Tensor, rowptr: Tensor, columns: Tensor, weights: Optional, beta: Tensor, external: Tensor,
    interaction: Optional, points: int,
) -> None:  # fmt: skip
    check_tensor(OP, "q", q, FLOATS, dims=(3,))
    n, restarts, domains = q.shape
    check_graph(OP, rowptr, columns, "q", q)
    check_tensor(OP, "external", external, dims=(3,))
    given, like = ("external", external) if rounds(q, external) else ("q", q)
    wanted: dict[str, tuple[Optional, tuple[int, ...]]] = {
        "weights": (weights, tuple(columns.shape)),
        "beta": (beta, (restarts,)),
        "interaction": (interaction, (domains, domains)),
        "external": (external, (n if len(external) != 1 else 1, restarts if external.shape[1] != 1 else 1, domains)),
    }
    check_shapes(OP, given, like, wanted)
    if not 0 <= points <= n:
        raise ValueError(f"{OP}: expected points from 0 to {n}, got {points}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """The graph and the optional arguments of potts_em_step; one probability of the first point is 1."""
    given = step_inputs(case, dtype, device, seed)
    q = given["q"]
    if device.type != "meta":
        q[:1] = torch.eye(q.shape[2], dtype=dtype, device=device)[0]
    names = ("rowptr", "columns", "weights", "beta", "external", "interaction")
    return {"q": q, **{name: given[name] for name in names}, "points": case.attributes.get("points", len(q))}


def _terms(q: Tensor, near: Tensor, beta: Tensor, external: Tensor) -> Tensor:
    """(N, R, K)."""
    return torch.special.entr(q) + q * (external + beta[:, None] / 2 * near)


def reference(
    q: Tensor, rowptr: Tensor, columns: Tensor, weights: Optional, beta: Tensor, external: Tensor,
    interaction: Optional, points: int,
) -> Tensor:  # fmt: skip
    q, beta, external = q.double(), beta.double(), external.double()
    weights, interaction = (None if part is None else part.double() for part in (weights, interaction))
    near = support(q, rowptr, columns, weights, interaction)
    return _terms(q, near, beta, external)[:points].sum((0, 2))


def eager(
    q: Tensor, rowptr: Tensor, columns: Tensor, weights: Optional, beta: Tensor, external: Tensor,
    interaction: Optional, points: int,
) -> Tensor:  # fmt: skip
    q, beta, external = q.double(), beta.double(), external.double()
    weights, interaction = (None if part is None else part.double() for part in (weights, interaction))
    near = neighbour_sum(rowptr, columns, weights, q.flatten(1), 0, points).view(-1, *q.shape[1:])
    near = near if interaction is None else near @ interaction
    return _terms(q[:points], near, beta, external if len(external) == 1 else external[:points]).sum((0, 2))


def agrees(results: Mapping[str, Tensor], references: Mapping[str, Tensor], given: Mapping[str, Any]) -> str | None:
    """The checker of the bound, all of which is computed in float64: the number of terms of a sum in any order."""
    signed = ("weights", "beta", "external", "interaction")
    absolute = {name: value.abs() if name in signed and value is not None else value for name, value in given.items()}
    rowptr, q = given["rowptr"], given["q"]
    terms = 16 + (int(rowptr.diff().max()) if len(q) else 0) + 2 * q.shape[2] + len(q)
    allowed = terms * torch.finfo(torch.float64).eps * reference(*absolute.values())
    error = (results["output"] - references["output"]).abs()
    if bool((error <= allowed).all()):
        return None
    return f"differs by {error.tolist()}, expected at most {allowed.tolist()}"


def cost(q: Tensor, rowptr: Tensor, columns: Tensor, weights: Optional, *rest: Any) -> Cost:
    """q and the graph read; two FLOPs a domain of an edge."""
    graph = rowptr.nbytes + columns.nbytes + (0 if weights is None else weights.nbytes)
    return Cost(bytes=q.nbytes + graph, flops=2 * len(columns) * q[:1].numel())


SPEC = Spec(
    schema="potts_bound(Tensor q, Tensor rowptr, Tensor columns, Tensor? weights, Tensor beta, Tensor external,"
    " Tensor? interaction, int points) -> Tensor",
    summary="the entropy of domain probabilities and their expected Potts prior on a graph",
    outputs={
        "output": Output(shape=lambda q, *rest: q.shape[1:2], dtype=torch.float64, check=agrees)
    },
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("plain", {"n": 300, "domains": 8, "width": 1, "restarts": 2}),
        Case("ragged", {"n": 77, "domains": 7, "width": 1, "restarts": 3},
             {"weighted": True, "field": True, "interaction": True}),
        Case("many_domains", {"n": 50, "domains": 100, "width": 1, "restarts": 1}, {"interaction": True}),
        Case("some_points", {"n": 40, "domains": 4, "width": 1, "restarts": 1}, {"points": 25, "field": True}),
        Case("one_element", {"n": 1, "domains": 1, "width": 1, "restarts": 1}),
        Case("empty", {"n": 0, "domains": 3, "width": 1, "restarts": 2}),
        Case("strided", {"n": 40, "domains": 4, "width": 1, "restarts": 2}, {"weighted": True}, layout="strided"),
        Case("unaligned", {"n": 40, "domains": 4, "width": 1, "restarts": 1}, layout="unaligned"),
        Case("bfloat16", {"n": 90, "domains": 8, "width": 1, "restarts": 2}, {"bfloat16": True}),
        Case("bfloat16_padded", {"n": 77, "domains": 7, "width": 1, "restarts": 3},
             {"bfloat16": True, "weighted": True, "field": True, "interaction": True}, layouts={"q": "padded"}),
        Case("bfloat16_field", {"n": 77, "domains": 21, "width": 1, "restarts": 2},
             {"bfloat16": True, "weighted": True, "field": True}, layouts={"q": "padded"}),
        Case("bfloat16_full", {"n": 90, "domains": 100, "width": 1, "restarts": 1},
             {"bfloat16": True, "points": 61, "degree": 8}, layouts={"q": "padded"}),
        Case("bfloat16_more_edges", {"n": 60, "domains": 8, "width": 1, "restarts": 2},
             {"bfloat16": True, "degree": 11}, layouts={"q": "padded"}),
        Case("bfloat16_few", {"n": 300, "domains": 3, "width": 1, "restarts": 1}, {"bfloat16": True},
             layouts={"q": "padded"}),
    ),
    sizes=(
        Case("spatial", {"n": 1_000_000, "domains": 8, "width": 1, "restarts": 1}),
        Case("restarts", {"n": 10_000, "domains": 8, "width": 1, "restarts": 16}),
        Case("large", {"n": 10_000_000, "domains": 8, "width": 1, "restarts": 1}),
    ),
    dtypes=DTYPES,
    dtype_from="beta",
    layouts={"padded": padded},
    exempt={"huge": "q are probabilities"},
)  # fmt: skip
