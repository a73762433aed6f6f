"""The specification of gibbs_sweep: labels drawn from their conditional distributions, colour by colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_shapes, check_tensor, draw
from warpwise.ops._graphs import check_bounds, check_graph
from warpwise.ops.potts_em_step.spec import inputs as step_inputs

DTYPES = (torch.float32,)
OP = "gibbs_sweep"
Tensor = torch.Tensor
Optional = torch.Tensor | None
Bounds = Sequence[int]


def check(
    scores: Tensor, draws: Tensor, labels: Tensor, visits: Optional, rowptr: Tensor, columns: Tensor,
    weights: Optional, beta: Tensor, interaction: Optional, bounds: Bounds,
) -> None:  # fmt: skip
    check_tensor(OP, "scores", scores, FLOATS, dims=(2,))
    n, domains = scores.shape
    check_graph(OP, rowptr, columns, "scores", scores)
    integers: dict[str, tuple[Optional, tuple[int, ...]]] = {"labels": (labels, (n,)), "visits": (visits, (n, domains))}
    for name, (tensor, shape) in integers.items():
        if tensor is None:
            continue
        check_tensor(OP, name, tensor, (torch.int32,))
        if tuple(tensor.shape) != shape or tensor.device != scores.device:
            raise ValueError(f"{OP}: expected {name} {shape} on {scores.device}, got {tuple(tensor.shape)}")
    wanted: dict[str, tuple[Optional, tuple[int, ...]]] = {
        "draws": (draws, (n,)),
        "weights": (weights, tuple(columns.shape)),
        "beta": (beta, ()),
        "interaction": (interaction, (domains, domains)),
    }
    check_shapes(OP, "scores", scores, wanted)
    check_bounds(OP, bounds, n)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """The graph and V of potts_em_step; beta times the degree is 2, so that neighbours matter."""
    given = step_inputs(case, dtype, device, seed)
    n, domains = case.sizes["n"], case.sizes["domains"]
    labels = torch.arange(n, dtype=torch.int32, device=device) * 7 % domains
    visits = torch.ones(n, domains, dtype=torch.int32, device=device) if case.attributes.get("visits") else None
    scores = draw((n, domains), dtype, device, 2 * seed)
    return {
        "scores": scores * 2.0**40 if case.values == "huge" else scores,
        "draws": torch.sigmoid(draw((n,), dtype, device, 2 * seed + 1)),
        "labels": labels,
        "visits": visits,
        "rowptr": given["rowptr"],
        "columns": given["columns"],
        "weights": given["weights"],
        "beta": given["beta"][0] * 4,
        "interaction": given["interaction"],
        "bounds": given["bounds"],
    }


def logits_of(
    labels: Tensor, scores: Tensor, rowptr: Tensor, columns: Tensor, weights: Optional, beta: Tensor,
    interaction: Optional, begin: int, end: int,
) -> Tensor:  # fmt: skip
    """(end - begin, K) in the dtype of ``scores``: those of the conditional distributions of points begin to end."""
    domains = scores.shape[1]
    counts = rowptr[begin : end + 1].long().diff()
    rows = torch.repeat_interleave(torch.arange(end - begin, device=scores.device), counts)
    edges = slice(int(rowptr[begin]), int(rowptr[end]))
    places = rows * domains + labels.long()[columns[edges].long()]
    given = torch.ones(len(rows), dtype=scores.dtype, device=scores.device) if weights is None else weights[edges]
    near = torch.bincount(places, given, minlength=(end - begin) * domains).view(-1, domains).to(scores.dtype)
    return scores[begin:end] + beta * (near if interaction is None else near @ interaction)


def _sweep(
    scores: Tensor, draws: Tensor, labels: Tensor, visits: Optional, rowptr: Tensor, columns: Tensor,
    weights: Optional, beta: Tensor, interaction: Optional, bounds: Bounds,
) -> None:  # fmt: skip
    domains = scores.shape[1]
    for begin, end in pairwise(bounds):
        if begin == end:
            continue
        logits = logits_of(labels, scores, rowptr, columns, weights, beta, interaction, begin, end)
        ends = torch.softmax(logits, 1).cumsum_(1)
        targets = draws[begin:end, None] * ends[:, -1:]
        labels[begin:end] = (ends <= targets).sum(1).clamp_(max=domains - 1).int()
    if visits is not None:
        part = slice(bounds[0], bounds[-1])
        visits[part].scatter_add_(1, labels[part, None].long(), torch.ones_like(labels[part, None]))


def reference(scores: Tensor, draws: Tensor, labels: Tensor, visits: Optional, *rest: Any) -> Any:
    labels, visits = labels.clone(), None if visits is None else visits.clone()
    wide: list[Any] = [
        part.double() if isinstance(part, Tensor) and part.is_floating_point() else part for part in rest
    ]
    _sweep(scores.double(), draws.double(), labels, visits, *wide)
    return labels, visits


def drawn(results: Mapping[str, Tensor], references: Mapping[str, Tensor], given: Mapping[str, Any]) -> str | None:
    """The checker of the labels: each draw falls in the interval of the label's probability, up to rounding errors,
    given the labels that its neighbours had then: new ones of the colours before, old ones of those after."""
    now, new = given["labels"].clone(), results["labels"]
    scores = given["scores"].double()
    weights, interaction = (
        None if given[name] is None else given[name].double() for name in ("weights", "interaction")
    )
    beta = given["beta"].double()
    bounds, domains = given["bounds"], scores.shape[1]
    outside = torch.ones(len(now), dtype=torch.bool, device=now.device)
    outside[bounds[0] : bounds[-1]] = False
    if not torch.equal(new[outside], now[outside]):
        return "changes labels outside the bounds"
    for begin, end in pairwise(bounds):
        if begin == end:
            continue
        part = new[begin:end].long()
        if not bool(((part >= 0) & (part < domains)).all()):
            return "has labels outside [0, K)"
        graph = (given["rowptr"], given["columns"], weights)
        logits = logits_of(now, scores, *graph, beta, interaction, begin, end)
        shares = torch.softmax(logits, 1)
        ends = shares.cumsum(1).gather(1, part[:, None])[:, 0]
        begins, place = ends - shares.gather(1, part[:, None])[:, 0], given["draws"][begin:end].double()
        # An error e of a logit is a relative error e of a probability; there are K additions.
        size = scores[begin:end].abs().amax(1) + (logits - scores[begin:end]).abs().amax(1)
        degree = given["rowptr"][begin : end + 1].diff()
        allowed = torch.finfo(given["scores"].dtype).eps * (2 * domains + 16 + 4 * size * (4 + degree))
        wrong = (place < begins - allowed) | (place > ends + allowed)
        if bool(wrong.any()):
            at = int(wrong.nonzero()[0])
            return f"[{begin + at}] is {int(part[at])}, but the draw {float(place[at])} is outside its interval"
        now[begin:end] = new[begin:end]
    return None


def counted(results: Mapping[str, Tensor], references: Mapping[str, Tensor], given: Mapping[str, Any]) -> str | None:
    """The checker of the visits: those given, and one of the new label of each point within the bounds."""
    part = slice(given["bounds"][0], given["bounds"][-1])
    expected, labels = given["visits"].clone(), results["labels"][part, None].long()
    expected[part].scatter_add_(1, labels, torch.ones_like(labels, dtype=torch.int32))
    return None if torch.equal(results["visits"], expected) else "differs from the visits of the labels"


def cost(scores: Tensor, draws: Tensor, labels: Tensor, visits: Optional, *graph: Any) -> Cost:
    """Scores, draws, graph and labels read, labels written, an element of the visits of each point read and written."""
    edges = sum(part.nbytes for part in graph[:3] if part is not None)
    written = labels.nbytes + (0 if visits is None else 2 * labels.nbytes)
    return Cost(bytes=scores.nbytes + draws.nbytes + edges + labels.nbytes + written, flops=8 * scores.numel())


SPEC = Spec(
    schema="gibbs_sweep(Tensor scores, Tensor draws, Tensor(a!) labels, Tensor(b!)? visits, Tensor rowptr,"
    " Tensor columns, Tensor? weights, Tensor beta, Tensor? interaction, int[] bounds) -> ()",
    summary="a sweep of Gibbs sampling of labels with a Potts prior on a graph, in place",
    outputs={"labels": Output(check=drawn), "visits": Output(check=counted)},
    inputs=inputs,
    check=check,
    reference=reference,
    eager=_sweep,
    cost=cost,
    cases=(
        Case("plain", {"n": 300, "domains": 8, "width": 1, "restarts": 1}, {"visits": True}),
        Case("ragged", {"n": 77, "domains": 7, "width": 1, "restarts": 1},
             {"visits": True, "weighted": True, "interaction": True}),
        Case("many_domains", {"n": 120, "domains": 100, "width": 1, "restarts": 1}, {"interaction": True}),
        Case("two_domains", {"n": 90, "domains": 2, "width": 1, "restarts": 1}, {"weighted": True}),
        Case("some_points", {"n": 30, "domains": 3, "width": 1, "restarts": 1},
             {"bounds": (5, 15, 15, 22), "visits": True}),
        Case("one_element", {"n": 1, "domains": 1, "width": 1, "restarts": 1}, {"visits": True}),
        Case("empty", {"n": 0, "domains": 3, "width": 1, "restarts": 1}, {"visits": True}),
        Case("huge", {"n": 40, "domains": 4, "width": 1, "restarts": 1}, values="huge"),
        Case("strided", {"n": 40, "domains": 4, "width": 1, "restarts": 1}, {"weighted": True}, layout="strided"),
        Case("unaligned", {"n": 40, "domains": 4, "width": 1, "restarts": 1}, {"visits": True}, layout="unaligned"),
    ),
    sizes=(
        Case("spatial", {"n": 1_000_000, "domains": 8, "width": 1, "restarts": 1}, {"visits": True}),
        Case("many_domains", {"n": 1_000_000, "domains": 32, "width": 1, "restarts": 1}, {"visits": True}),
        Case("large", {"n": 10_000_000, "domains": 8, "width": 1, "restarts": 1}, {"visits": True}),
    ),
    dtypes=DTYPES,
)  # fmt: skip
