"""The specification of smooth_features: averages over neighbours, several hops."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_shapes, check_tensor, draw
from warpwise.ops._graphs import check_graph

DTYPES = (torch.float32,)
OP = "smooth_features"
Tensor = torch.Tensor
Optional = torch.Tensor | None


def check(values: Tensor, rowptr: Tensor, columns: Tensor, weights: Optional, scale: Tensor, hops: int) -> None:
    check_tensor(OP, "values", values, FLOATS, dims=(2,))
    check_graph(OP, rowptr, columns, "values", values)
    wanted: dict[str, tuple[Optional, tuple[int, ...]]] = {
        "weights": (weights, (len(columns),)), "scale": (scale, (len(values),)),
    }  # fmt: skip
    check_shapes(OP, "values", values, wanted)
    if isinstance(hops, bool) or not isinstance(hops, int) or hops < 1:
        raise ValueError(f"{OP}: expected hops as an int of at least 1, got {hops!r}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """Point i has i mod (degree + 1) neighbours, the next ones, or in large cases all have ``degree``."""
    n, width, degree = (case.sizes[name] for name in ("n", "width", "degree"))
    counts = torch.full((n,), degree) if n > 10_000 else torch.arange(n) % (degree + 1)
    rowptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    rows = torch.repeat_interleave(torch.arange(n), counts)
    columns = (rows + 1 + torch.arange(len(rows)) - rowptr[rows]) % max(n, 1)
    weights = draw((len(columns),), dtype, device, 2 * seed + 1).abs_() if case.attributes.get("weighted") else None
    return {
        "values": draw((n, width), dtype, device, 2 * seed, case.values) / (64 if case.values == "huge" else 1),
        "rowptr": rowptr.int().to(device),
        "columns": columns.int().to(device),
        "weights": weights,
        "scale": (1 / (1 + counts)).to(device, dtype),
    }


def eager(values: Tensor, rowptr: Tensor, columns: Tensor, weights: Optional, scale: Tensor, hops: int) -> Tensor:
    """Sums over the neighbours by embedding_bag, which copies neither rows nor indices."""
    for _ in range(hops):
        near = torch.zeros_like(values)
        if columns.numel():
            near = torch.nn.functional.embedding_bag(
                columns, values, rowptr, mode="sum", per_sample_weights=weights, include_last_offset=True
            )
        values = (values + near) * scale[:, None]
    return values


def reference(values: Tensor, rowptr: Tensor, columns: Tensor, weights: Optional, scale: Tensor, hops: int) -> Tensor:
    values, rows = values.double(), torch.repeat_interleave(rowptr.long().diff())
    edges = torch.ones(len(columns), 1, device=values.device) if weights is None else weights.double()[:, None]
    for _ in range(hops):
        values = values.index_add(0, rows, edges.double() * values[columns.long()]) * scale.double()[:, None]
    return values


def magnitude(values: Tensor, rowptr: Tensor, columns: Tensor, weights: Optional, scale: Tensor, hops: int) -> Tensor:
    """The operation on absolute values: the error of an average is the average of the errors, in each hop."""
    positive = None if weights is None else weights.abs()
    return hops * reference(values.abs(), rowptr, columns, positive, scale.abs(), hops)


def terms(values: Tensor, rowptr: Tensor, *rest: Any) -> int:
    return 1 + (int(rowptr.diff().max()) if len(values) else 0)


def cost(values: Tensor, rowptr: Tensor, columns: Tensor, weights: Optional, scale: Tensor, hops: int) -> Cost:
    """Every hop reads the values and the graph and writes the values; two FLOPs a feature of an edge."""
    graph = rowptr.nbytes + columns.nbytes + (0 if weights is None else weights.nbytes) + scale.nbytes
    return Cost(bytes=hops * (2 * values.nbytes + graph), flops=2 * hops * len(columns) * values.shape[1])


SPEC = Spec(
    schema="smooth_features(Tensor values, Tensor rowptr, Tensor columns, Tensor? weights, Tensor scale, int hops=1)"
    " -> Tensor",
    summary="averages over each point of a graph and its neighbours, several times",
    outputs={"output": Output(like="values", terms=terms, magnitude=magnitude)},
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("plain", {"n": 300, "width": 16, "degree": 8}, {"hops": 2}),
        Case("ragged", {"n": 77, "width": 11, "degree": 5}, {"hops": 3, "weighted": True}),
        Case("many_neighbours", {"n": 70, "width": 50, "degree": 12}, {"hops": 2, "weighted": True}),
        Case("wide", {"n": 20, "width": 200, "degree": 4}),
        Case("no_edges", {"n": 9, "width": 4, "degree": 0}),
        Case("one_element", {"n": 1, "width": 1, "degree": 1}),
        Case("empty", {"n": 0, "width": 4, "degree": 3}),
        Case("huge", {"n": 40, "width": 8, "degree": 3}, values="huge"),
        Case("strided", {"n": 40, "width": 8, "degree": 3}, {"weighted": True}, layout="strided"),
        Case("unaligned", {"n": 40, "width": 8, "degree": 3}, {"hops": 2}, layout="unaligned"),
    ),
    sizes=(
        Case("spatial", {"n": 1_000_000, "width": 16, "degree": 8}),
        Case("components", {"n": 1_000_000, "width": 50, "degree": 8}, {"hops": 2}),
        Case("ragged", {"n": 123_457, "width": 31, "degree": 12}),
    ),
    dtypes=DTYPES,
)
