"""The specification of potts_em_step: an iteration of mean-field EM of a spatial mixture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, cdiv, check_shapes, check_tensor, draw
from warpwise.ops._graphs import check_bounds, check_graph
from warpwise.ops.potts_em_step import magnitudes
from warpwise.ops.potts_em_step.reference import domains_of, q_of, reference

DTYPES = (torch.float32,)
OP = "potts_em_step"
Optional = torch.Tensor | None
Bounds = Sequence[int]


def rounds(stored: torch.Tensor, beta: torch.Tensor) -> bool:
    """True if ``stored``, q or features, is bfloat16 and ``beta`` is float32."""
    return stored.dtype == torch.bfloat16 and beta.dtype == torch.float32


def check(
    q: torch.Tensor, features: torch.Tensor, linear: Optional, constant: Optional, rowptr: torch.Tensor,
    columns: torch.Tensor, weights: Optional, beta: torch.Tensor, external: torch.Tensor, interaction: Optional,
    bounds: Bounds, *rest: Any,
) -> None:  # fmt: skip
    check_tensor(OP, "q", q, FLOATS, dims=(3,))
    check_tensor(OP, "beta", beta, dims=(1,))
    n, restarts, width_of_q = q.shape
    check_graph(OP, rowptr, columns, "q", q)
    check_tensor(OP, "external", external, dims=(3,))
    if (linear is None) != (constant is None):
        raise ValueError(f"{OP}: expected both linear and constant, or neither")
    check_tensor(OP, "features", features, dims=(3 if linear is None else 2,))
    if linear is not None:
        check_tensor(OP, "linear", linear, dims=(3,))
    domains, width = domains_of(features, linear), features.shape[1]
    if width_of_q < domains:
        name = "features" if linear is None else "linear"
        got = tuple(q.shape)
        raise ValueError(f"{OP}: expected q with a column for each of the {domains} domains of {name}, got {got}")
    name_of_like, like = ("beta", beta) if rounds(q, beta) else ("q", q)
    rounded = linear is not None and rounds(q, beta) and rounds(features, beta)
    if rounded and len(features) != n:
        raise ValueError(f"{OP}: expected features {(n, width)}, got {tuple(features.shape)}")
    wanted: dict[str, tuple[Optional, tuple[int, ...]]] = {
        "features": (None if rounded else features, (n, restarts, domains) if linear is None else (n, width)),
        "linear": (linear, (restarts, domains, width)),
        "constant": (constant, (restarts, domains)),
        "weights": (weights, tuple(columns.shape)),
        "beta": (beta, (restarts,)),
        "interaction": (interaction, (domains, domains)),
        "external": (external, (n if len(external) != 1 else 1, restarts if external.shape[1] != 1 else 1, domains)),
    }
    check_shapes(OP, name_of_like, like, wanted)
    if features.device != q.device:
        raise ValueError(f"{OP}: expected features on q's device {q.device}, got {features.device}")
    check_bounds(OP, bounds, n)


def pitch_for(domains: int) -> int:
    """The elements from row to row of ``empty_rows``, of as many ``domains`` or features: 4, or a multiple of 8."""
    return 4 if domains <= 4 else cdiv(domains, 8) * 8


def empty_rows(n: int, restarts: int, domains: int, device: torch.device | None = None) -> torch.Tensor:
    """(n, restarts, domains) of bfloat16 for q, or with one restart for features (``[:, 0]``), whose rows are padded to
    ``pitch_for(domains)`` elements by zeros. Only the padding is initialised."""
    whole = torch.empty(n, restarts, pitch_for(domains), dtype=torch.bfloat16, device=device)
    whole[..., domains:] = 0
    return whole[..., :domains]


def rows_of(q: torch.Tensor) -> torch.Tensor | None:
    """The memory of ``q`` (N, R, K) with the padding of its rows, (N, R, pitch) and contiguous: the row of a point and
    restart begins ``pitch`` elements after that of the restart before. None if the rows are not adjacent like that."""
    n, restarts, domains = q.shape
    pitch = q.stride(0) // restarts if n > 1 and restarts else q.stride(1) if restarts > 1 else domains
    whole = n, restarts, pitch
    sizes = zip(q.shape, q.stride(), (restarts * pitch, pitch, 1), strict=True)
    if pitch < domains or any(size > 1 and stride != wanted for size, stride, wanted in sizes):
        return None
    room = q.untyped_storage().nbytes() // q.element_size() - q.storage_offset()
    return q.as_strided(whole, (restarts * pitch, pitch, 1)) if n * restarts * pitch <= room else None


def padded(values: torch.Tensor) -> torch.Tensor:
    """The same values in rows that are padded as those of ``empty_rows``, by numbers that must not count."""
    whole = values.new_full((*values.shape[:-1], pitch_for(values.shape[-1])), 0.5)
    return whole[..., : values.shape[-1]].copy_(values)


def ring(n: int, degree: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """(rowptr, columns, bounds) of a graph of two colours, the points below and from n / 2: each point of one has up to
    ``degree`` neighbours in the other, the last point none."""
    half = n // 2
    rows = []
    for i in range(n):
        at, first, size = (i, half, n - 1 - half) if i < half else (i - half, 0, half)
        near = {first + (at + step) % size for step in range(degree)} if size > 0 and i < n - 1 else set()
        rows.append(sorted(near))
    rowptr = torch.tensor([0, *(len(row) for row in rows)]).cumsum(0).int()
    columns = torch.tensor([j for row in rows for j in row], dtype=torch.int32)
    return rowptr.to(device), columns.to(device), [0, half, n]


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """Scores of order 1, and beta times the degree at most 1, so that rounding errors of one colour do not grow in the
    next. The attributes select the optional arguments that are given."""
    n, domains, width, restarts = (case.sizes[name] for name in ("n", "domains", "width", "restarts"))
    on, degree = case.attributes, case.attributes.get("degree", 4)
    made = [
        draw(shape, dtype, device, 9 * seed + at)
        for at, shape in enumerate([
            (n, restarts, domains), (restarts, domains, width), (restarts, domains), (domains, domains),
            (n if on.get("field") else 1, restarts if on.get("field") else 1, domains),
        ])
    ]  # fmt: skip
    logits, linear, constant, interaction, external = made
    scored = on.get("scored", False)
    huge = 2.0**100 if case.values == "huge" else 1.0
    features = draw((n, restarts, domains) if scored else (n, width), dtype, device, 9 * seed + 7) * huge
    if device.type == "meta" or n > 10_000:
        rowptr = torch.arange(n + 1, dtype=torch.int32, device=device) * 8
        columns = torch.empty(8 * n, dtype=torch.int32, device=device)
        if device.type != "meta":
            columns.copy_(_lattice(n, device))
        bounds, degree = [n * part // 4 for part in range(5)], 8
    else:
        rowptr, columns, bounds = ring(n, degree, device)
    weights = torch.ones_like(columns, dtype=dtype).mul_(0.75) if on.get("weighted") else None
    q = torch.softmax(logits, 2)
    if on.get("zero_columns"):
        q = torch.nn.functional.pad(q, (0, pitch_for(domains) - domains))
    return {
        "q": q.bfloat16() if on.get("bfloat16") and dtype == torch.float32 else q,
        "features": features.bfloat16() if on.get("bfloat16_features") and dtype == torch.float32 else features,
        "linear": None if scored else linear / (huge * max(1, width) ** 0.5),
        "constant": None if scored else constant,
        "rowptr": rowptr,
        "columns": columns,
        "weights": weights,
        "beta": torch.linspace(0.5, 1, restarts, dtype=dtype, device=device) / degree,
        "external": external,
        "interaction": interaction / domains**0.5 / 4 if on.get("interaction") else None,
        "bounds": tuple(on.get("bounds", bounds)),
    }


def _lattice(n: int, device: torch.device) -> torch.Tensor:
    """(8 n,): neighbours near the same place in each of the three other colours of about n / 4 points."""
    points, parts = torch.arange(n, device=device)[:, None], torch.arange(5, device=device)
    bounds, steps = n * parts // 4, torch.arange(8, device=device)
    colours = (points >= bounds[1:4]).sum(1, keepdim=True)
    others = (colours + 1 + steps % 3) % 4
    places = (points - bounds[colours] + steps // 3) % (n // 4)
    return (bounds[others] + places).flatten().int()


def neighbour_sum(
    rowptr: torch.Tensor, columns: torch.Tensor, weights: Optional, values: torch.Tensor, begin: int, end: int
) -> torch.Tensor:
    """(end - begin, F): the weighted sum of ``values`` (N, F) over the neighbours of points ``begin`` to ``end``."""
    rowptr = rowptr[begin : end + 1]
    low, high = int(rowptr[0]), int(rowptr[-1])
    if low == high:
        return values.new_zeros(rowptr.numel() - 1, values.shape[1])
    return torch.nn.functional.embedding_bag(
        columns[low:high],
        values,
        rowptr - low,
        mode="sum",
        per_sample_weights=None if weights is None else weights[low:high].to(values.dtype),
        include_last_offset=True,
    )


def softmax(logits: torch.Tensor) -> torch.Tensor:
    """The softmax of (N, R, K) over K. With a short last axis it is about six times as fast as torch.softmax."""
    powers = (logits - logits.amax(2, keepdim=True)).exp_()
    sums = powers.reshape(-1, powers.shape[2]) @ powers.new_ones(powers.shape[2], 1)
    return powers.div_(sums.view(*powers.shape[:2], 1))


def derivatives(q: torch.Tensor, near: torch.Tensor, beta: torch.Tensor, external: torch.Tensor) -> torch.Tensor:
    """(2, R): sum_i (q_i - p_i) · near_i and sum_i Var_p(near_i), p = softmax(beta * near + external)."""
    prior = softmax(beta[:, None] * near + external)
    expected = (prior * near).sum(2)
    gradient = (q - prior).mul_(near).sum((0, 2))  # the difference of the sums would lose digits
    curvature = ((prior * near.square()).sum(2) - expected.square()).sum(0)
    return torch.stack([gradient, curvature])


def eager(
    q: torch.Tensor, features: torch.Tensor, linear: Optional, constant: Optional, rowptr: torch.Tensor,
    columns: torch.Tensor, weights: Optional, beta: torch.Tensor, external: torch.Tensor, interaction: Optional,
    bounds: Bounds, temper: float, return_derivatives: bool, return_near: bool,
) -> Any:  # fmt: skip
    """Scores by a product, neighbours by embedding_bag, a softmax; on a GPU each colour synchronises."""
    q = q_of(q, features, linear)
    _, restarts, domains = q.shape
    held = q.to(beta.dtype)  # what neighbours read
    start, stop = bounds[0], bounds[-1]
    scores, points = features, features[start:stop].to(beta.dtype)
    if linear is not None and constant is not None:
        scores = torch.addmm(constant.flatten(), points, linear.flatten(0, 1).T)
    scores = scores.view(-1, restarts, domains) if linear is not None else points
    found = held.new_empty(stop - start, restarts, domains) if return_derivatives or return_near else None
    updated = held[start:stop] if held is q else torch.empty_like(held[start:stop])  # before it is rounded
    for begin, end in pairwise(bounds):
        near = neighbour_sum(rowptr, columns, weights, held.flatten(1), begin, end).view(-1, restarts, domains)
        if interaction is not None:
            near = near @ interaction
        if found is not None:
            found[begin - start : end - start] = near
        field = external if external.shape[0] == 1 else external[begin:end]
        own = slice(begin - start, end - start)
        updated[own] = softmax(temper * scores[own] + beta[:, None] * near + field)
        if held is not q:
            q[begin:end] = updated[own]
            held[begin:end] = q[begin:end]
    counts = sums = None
    if linear is not None:
        counts = updated.sum(0)
        sums = (updated.flatten(1).T @ points).view(restarts, domains, -1)
    slopes = None
    if return_derivatives and found is not None:
        slopes = derivatives(updated, found, beta, external if external.shape[0] == 1 else external[start:stop])
    return counts, sums, slopes, found if return_near else None


def cost(q: torch.Tensor, features: torch.Tensor, linear: Optional, *rest: Any) -> Cost:
    """Features and graph read, q read and written, without the padding of rows; the products of the scores and of the
    moments."""
    q = q_of(q, features, linear)
    graph = sum(tensor.nbytes for tensor in (*rest[1:3], rest[3]) if tensor is not None)
    width = 0 if linear is None else features.shape[1]
    return Cost(bytes=features.nbytes + 2 * q.nbytes + graph, flops=4 * q.numel() * width)


def updated(*args: Any) -> int:
    return args[10][-1] - args[10][0]


SPEC = Spec(
    schema="potts_em_step(Tensor(a!) q, Tensor features, Tensor? linear, Tensor? constant, Tensor rowptr,"
    " Tensor columns, Tensor? weights, Tensor beta, Tensor external, Tensor? interaction, int[] bounds,"
    " float temper=1.0, bool return_derivatives=False, bool return_near=False)"
    " -> (Tensor counts, Tensor sums, Tensor derivatives, Tensor near)",
    summary="an iteration of mean-field EM of a mixture with a Potts prior on a graph, in place",
    outputs={
        "counts": Output(
            shape=lambda q, features, linear, *rest: (q.shape[1], domains_of(features, linear)),
            dtype="beta",
            present=lambda q, features, linear, *rest: linear is not None,
            terms=magnitudes.points,
            magnitude=magnitudes.of_counts,
        ),
        "sums": Output(
            shape=lambda q, features, linear, *rest: (q.shape[1], domains_of(features, linear), features.shape[1]),
            dtype="beta",
            present=lambda q, features, linear, *rest: linear is not None,
            terms=magnitudes.points,
            magnitude=magnitudes.of_sums,
        ),
        "derivatives": Output(
            shape=lambda q, *rest: (2, q.shape[1]),
            dtype="beta",
            present=lambda *args: args[12],
            terms=magnitudes.points,
            magnitude=magnitudes.of_derivatives,
        ),
        "near": Output(
            shape=lambda *args: (updated(*args), args[0].shape[1], domains_of(*args[1:3])),
            dtype="beta",
            present=lambda *args: args[13],
            terms=magnitudes.terms,
            magnitude=magnitudes.of_near,
        ),
        "q": Output(terms=magnitudes.terms, magnitude=magnitudes.of_q),
    },
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("plain", {"n": 300, "domains": 8, "width": 16, "restarts": 2}, {"return_derivatives": True}),
        Case("ragged", {"n": 77, "domains": 7, "width": 11, "restarts": 3},
             {"return_derivatives": True, "return_near": True, "weighted": True, "field": True, "interaction": True,
              "temper": 0.7}),
        Case("several_tiles", {"n": 450, "domains": 100, "width": 24, "restarts": 1}),
        Case("scores", {"n": 90, "domains": 12, "width": 1, "restarts": 2},
             {"scored": True, "return_derivatives": True, "return_near": True}),
        Case("few_points", {"n": 12, "domains": 4, "width": 1, "restarts": 16},  # whose tolerance is below float16's
             {"scored": True, "return_derivatives": True}),
        Case("some_points", {"n": 30, "domains": 3, "width": 4, "restarts": 1},
             {"bounds": (5, 15, 15, 22), "return_near": True}),
        Case("one_element", {"n": 1, "domains": 1, "width": 1, "restarts": 1}, {"return_derivatives": True}),
        Case("empty", {"n": 0, "domains": 3, "width": 4, "restarts": 1}, {"return_derivatives": True}),
        Case("huge", {"n": 40, "domains": 4, "width": 8, "restarts": 1}, values="huge"),
        Case("strided", {"n": 40, "domains": 4, "width": 8, "restarts": 1}, {"weighted": True}, layout="strided"),
        Case("unaligned", {"n": 40, "domains": 4, "width": 8, "restarts": 1}, layout="unaligned"),
        Case("padded", {"n": 77, "domains": 7, "width": 11, "restarts": 2}, layouts={"q": "padded"}),
        Case("bfloat16", {"n": 300, "domains": 8, "width": 16, "restarts": 2},
             {"bfloat16": True, "return_derivatives": True}),
        Case("bfloat16_padded", {"n": 77, "domains": 5, "width": 11, "restarts": 3},
             {"bfloat16": True, "return_derivatives": True, "return_near": True, "weighted": True, "field": True,
              "temper": 0.7}, layouts={"q": "padded"}),
        Case("bfloat16_few_domains", {"n": 90, "domains": 3, "width": 2, "restarts": 1},
             {"bfloat16": True, "return_derivatives": True}, layouts={"q": "padded"}),
        Case("bfloat16_tiles", {"n": 450, "domains": 77, "width": 24, "restarts": 1},
             {"bfloat16": True, "return_derivatives": True}, layouts={"q": "padded"}),
        Case("bfloat16_features", {"n": 300, "domains": 8, "width": 16, "restarts": 2},
             {"bfloat16": True, "bfloat16_features": True, "return_derivatives": True}),
        Case("bfloat16_features_padded", {"n": 150, "domains": 33, "width": 11, "restarts": 2},
             {"bfloat16": True, "bfloat16_features": True, "return_derivatives": True, "return_near": True,
              "weighted": True, "field": True, "temper": 0.7}, layouts={"q": "padded", "features": "padded"}),
        Case("bfloat16_features_few_domains", {"n": 150, "domains": 7, "width": 11, "restarts": 2},
             {"bfloat16": True, "bfloat16_features": True, "return_derivatives": True, "return_near": True,
              "weighted": True, "field": True, "temper": 0.7}, layouts={"q": "padded", "features": "padded"}),
        Case("bfloat16_zero_columns", {"n": 150, "domains": 59, "width": 11, "restarts": 2},
             {"bfloat16": True, "bfloat16_features": True, "return_derivatives": True, "zero_columns": True},
             layouts={"features": "padded"}),
        Case("bfloat16_zero_columns_of_few", {"n": 150, "domains": 5, "width": 11, "restarts": 2},
             {"bfloat16": True, "bfloat16_features": True, "return_derivatives": True, "zero_columns": True},
             layouts={"features": "padded"}),
        Case("bfloat16_unaligned", {"n": 40, "domains": 9, "width": 8, "restarts": 2},
             {"bfloat16": True, "return_near": True}, layout="unaligned"),
    ),
    sizes=(
        Case("spatial", {"n": 1_000_000, "domains": 8, "width": 16, "restarts": 1}, {"return_derivatives": True}),
        Case("restarts", {"n": 1_000_000, "domains": 8, "width": 16, "restarts": 4}),
        Case("components", {"n": 1_000_000, "domains": 32, "width": 50, "restarts": 1}, {"return_derivatives": True}),
        Case("bfloat16_components", {"n": 1_000_000, "domains": 32, "width": 56, "restarts": 1},
             {"bfloat16": True, "bfloat16_features": True, "return_derivatives": True}),
        Case("bfloat16", {"n": 1_000_000, "domains": 8, "width": 16, "restarts": 1},
             {"bfloat16": True, "return_derivatives": True}),
        Case("large", {"n": 10_000_000, "domains": 8, "width": 16, "restarts": 1}, {"return_derivatives": True}),
        Case("ragged", {"n": 123_457, "domains": 19, "width": 31, "restarts": 2}, {"return_derivatives": True}),
    ),
    dtypes=DTYPES,
    dtype_from="beta",
    layouts={"padded": padded},
)  # fmt: skip
