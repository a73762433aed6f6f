"""The specification of connected_components: the regions of equal labels on a graph."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.operation import Case, Cost, Output, Spec, check_tensor
from warpwise.ops._graphs import check_graph

DTYPES = (torch.int32,)
OP = "connected_components"
Tensor = torch.Tensor


def check(labels: Tensor, rowptr: Tensor, columns: Tensor) -> None:
    check_tensor(OP, "labels", labels, DTYPES, dims=(1,))
    check_graph(OP, rowptr, columns, "labels", labels)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """A path of points in a random order, or a grid, with ``domains`` labels; all edges in both directions.

    On a path of one label the number of a point says nothing about its neighbours: chains of roots are long.
    """
    n, domains = case.sizes["n"], case.sizes["domains"]
    generator = torch.Generator().manual_seed(seed)
    if device.type == "meta" or n > 10_000:
        side = int(n**0.5)
        labels = torch.randint(domains, (side // 8 + 1, side // 8 + 1), generator=generator, dtype=dtype).to(
            "cpu" if device.type == "meta" else device
        )
        labels = labels.repeat_interleave(8, 0).repeat_interleave(8, 1)[:side, :side].flatten()  # squares
        labels = torch.cat([labels, labels.new_zeros(n - len(labels))]).to(device)
        rowptr, columns = _grid(side, n, device)
    elif case.attributes.get("path"):
        order = torch.randperm(n, generator=generator)
        pairs = torch.stack([order[:-1], order[1:]])
        rows, columns = torch.cat([pairs, pairs.flip(0)], 1)
        columns = columns[torch.argsort(rows, stable=True)].int().to(device)
        rowptr = torch.cat([rows.new_zeros(1), torch.bincount(rows, minlength=n).cumsum(0)]).int().to(device)
        labels = (torch.arange(n, device=device) * domains // max(n, 1)).to(dtype)[order.to(device).argsort()]
    else:
        rowptr, columns = _grid(int(n**0.5), n, device)
        labels = torch.randint(domains, (n,), generator=generator, dtype=dtype).to(device)
    return {"labels": labels, "rowptr": rowptr, "columns": columns}


def _grid(side: int, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The four neighbours of each point of a side x side grid that wraps around; further points have none."""
    places = torch.arange(side * side, dtype=torch.int32, device=device).view(side, side)
    near = [places.roll(step, axis) for axis in (0, 1) for step in (1, -1)]
    rowptr = (torch.arange(n + 1, dtype=torch.int32, device=device) * 4).clamp(max=4 * side * side)
    return rowptr, torch.stack(near, 2).flatten()


def _inner(labels: Tensor, rowptr: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """The entries that join points of equal labels: their rows and columns."""
    rows = torch.repeat_interleave(torch.arange(len(labels), device=labels.device), rowptr.long().diff())
    columns = columns.long()
    same = labels[rows] == labels[columns]
    return rows[same], columns[same]


def reference(labels: Tensor, rowptr: Tensor, columns: Tensor) -> Tensor:
    """Each point takes the smallest number of itself and its neighbours until none changes."""
    rows, columns = _inner(labels, rowptr, columns)
    root = torch.arange(len(labels), device=labels.device)
    while True:
        new = root.scatter_reduce(0, rows, root[columns], "amin")
        new = torch.minimum(new, new[new])
        if torch.equal(new, root):
            return root.int()
        root = new


def eager(labels: Tensor, rowptr: Tensor, columns: Tensor) -> Tensor:
    """Each round links every root to the smallest adjacent root and shortens all paths to length one."""
    rows, columns = _inner(labels, rowptr, columns)
    root = torch.arange(len(labels), device=labels.device)
    while rows.numel():
        start, end = root[rows], root[columns]
        different = start != end
        if not bool(different.any()):
            break
        rows, columns, start, end = rows[different], columns[different], start[different], end[different]
        root.scatter_reduce_(0, torch.cat([start, end]), torch.cat([end, start]), "amin")
        while True:
            shorter = root[root]
            if torch.equal(shorter, root):
                break
            root = shorter
    return root.int()


def cost(labels: Tensor, rowptr: Tensor, columns: Tensor) -> Cost:
    """Labels and graph read, numbers written."""
    return Cost(bytes=2 * labels.nbytes + rowptr.nbytes + columns.nbytes, flops=0)


SPEC = Spec(
    schema="connected_components(Tensor labels, Tensor rowptr, Tensor columns) -> Tensor",
    summary="for each point of a graph, the smallest index of a point in its region of equal labels",
    outputs={"output": Output(shape=lambda labels, *rest: labels.shape, dtype=torch.int32)},
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("plain", {"n": 300, "domains": 2}),
        Case("ragged", {"n": 213, "domains": 3}, {"path": True}),
        Case("one_region", {"n": 700, "domains": 1}, {"path": True}),
        Case("long_regions", {"n": 500, "domains": 4}, {"path": True}),
        Case("one_element", {"n": 1, "domains": 1}),
        Case("empty", {"n": 0, "domains": 1}),
        Case("strided", {"n": 60, "domains": 2}, layout="strided"),
        Case("unaligned", {"n": 60, "domains": 2}, layout="unaligned"),
    ),
    sizes=(
        Case("spatial", {"n": 1_000_000, "domains": 8}),
        Case("large", {"n": 10_000_000, "domains": 8}),
    ),
    dtypes=DTYPES,
    exempt={"huge": "labels are integers"},
)
