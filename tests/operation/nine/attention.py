"""Attention: an optional mask, a bool and an optional scale as attributes, and a saved log-sum-exp for the backward."""

from __future__ import annotations

import math
from pathlib import Path

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import Case, Cost, Gradient, Op, Output, Rung, Spec, check_same, check_tensor, draw


@wt.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    mask_ptr,
    o_ptr,
    lse_ptr,
    queries,
    keys,
    scale,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # q, o: (heads, queries, D); k, v: (heads, keys, D); mask: (queries, keys). Grid: (queries, heads); BLOCK >= keys.
    row, head = tl.program_id(0), tl.program_id(1)
    d, j = tl.arange(0, D), tl.arange(0, BLOCK)
    inside = j < keys
    q = tl.load(q_ptr + (head * queries + row) * D + d)
    at = (head * keys + j[:, None]) * D + d[None, :]
    k = tl.load(k_ptr + at, mask=inside[:, None], other=0.0)
    v = tl.load(v_ptr + at, mask=inside[:, None], other=0.0)
    score = tl.sum(q[None, :] * k, axis=1) * scale
    if MASKED:
        score += tl.load(mask_ptr + row * keys + j, mask=inside, other=0.0)
    seen = inside & (j <= row) if CAUSAL else inside
    score = tl.where(seen, score, -float("inf"))
    largest = tl.max(score, axis=0)
    weight = tl.exp(score - largest)
    total = tl.sum(weight, axis=0)
    tl.store(o_ptr + (head * queries + row) * D + d, tl.sum(weight[:, None] * v, axis=0) / total)
    tl.store(lse_ptr + head * queries + row, largest + tl.log(total))


def inputs(case, dtype, device, seed):
    heads, queries, keys, d = (case.sizes[name] for name in ("heads", "queries", "keys", "d"))
    made = {"q": (heads, queries, d), "k": (heads, keys, d), "v": (heads, keys, d), "mask": (queries, keys)}
    drawn = {name: draw(shape, dtype, device, 4 * seed + at) for at, (name, shape) in enumerate(made.items())}
    return drawn if case.attributes.get("masked") else {**drawn, "mask": None}


def check(q, k, v, mask, causal, scale):
    for name, value in (("q", q), ("k", k), ("v", v)):
        check_tensor("attention", name, value, dims=(3,))
        check_same("attention", ("q", name), q, value)
    if k.shape != v.shape or q.shape[0] != k.shape[0] or q.shape[2] != k.shape[2]:
        raise ValueError(
            f"attention: expected k and v of one shape (heads, keys, d), got {tuple(k.shape)} and {tuple(v.shape)}"
        )


def scores(q, k, mask, causal, scale):
    made = (q @ k.mT) * (1 / math.sqrt(q.shape[2]) if scale is None else scale)
    made = made if mask is None else made + mask
    hidden = torch.ones(made.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return made.masked_fill(hidden, -math.inf) if causal else made


def attend(q, k, v, mask, causal, scale):
    made = scores(q, k, mask, causal, scale)
    return made.softmax(-1) @ v, made.logsumexp(-1)


def reference(q, k, v, mask, causal, scale):
    q, k, v, mask = (None if value is None else value.double() for value in (q, k, v, mask))
    return attend(q, k, v, mask, causal, scale)


def amplified(q, k, v, mask, causal, scale):
    """exp turns an absolute error of a score into a relative error of a weight, in proportion to the score."""
    q, k, v, mask = (None if value is None else value.double() for value in (q, k, v, mask))
    size = (q.abs() @ k.abs().mT).amax((-1, -2), keepdim=True) + (0 if mask is None else mask.abs().max())
    return (scores(q, k, mask, causal, scale).softmax(-1) @ v.abs()) * (1 + size), (1 + size).squeeze(-1).expand(
        q.shape[:2]
    )


def backward_reference(grad_output, q, k, v, mask, output, lse, causal, scale):
    dy, q, k, v, o, lse = (value.double() for value in (grad_output, q, k, v, output, lse))
    mask, factor = None if mask is None else mask.double(), 1 / math.sqrt(q.shape[2]) if scale is None else scale
    p = (scores(q, k, mask, causal, scale) - lse[..., None]).exp()
    ds = p * (dy @ v.mT - (dy * o).sum(-1, keepdim=True))
    return factor * ds @ k, factor * ds.mT @ q, p.mT @ dy, None if mask is None else ds.sum(0)


def backward_inputs(case, dtype, device, seed):
    made = inputs(case, dtype, device, seed)
    causal, scale = case.attributes.get("causal", False), case.attributes.get("scale")
    output, lse = reference(*made.values(), causal, scale)
    return {
        **made,
        "output": output.to(dtype),
        "lse": lse.to(dtype),
        "grad_output": draw(output.shape, dtype, device, 4 * seed + 9),
    }


def backward_in_torch(outputs, *args):
    for made, value in zip(outputs, backward_reference(*args), strict=True):
        if made is not None:
            made.copy_(value)


def launch(outputs, q, k, v, mask, causal, scale):
    output, lse = outputs
    (heads, queries, d), keys = q.shape, k.shape[1]
    attention_kernel[(queries, heads)](
        q,
        k,
        v,
        mask,
        output,
        lse,
        queries,
        keys,
        1 / math.sqrt(d) if scale is None else scale,
        D=d,
        CAUSAL=causal,
        MASKED=mask is not None,
        BLOCK=max(2, 1 << (keys - 1).bit_length()),
    )


CASES = (
    Case("plain", {"heads": 2, "queries": 5, "keys": 7, "d": 8}),
    Case("ragged", {"heads": 1, "queries": 9, "keys": 33, "d": 16}, {"masked": True, "scale": 0.3}),
    Case("causal", {"heads": 2, "queries": 12, "keys": 12, "d": 4}, {"causal": True}),
    Case("small", {"heads": 1, "queries": 1, "keys": 2, "d": 4}),
    Case("empty", {"heads": 0, "queries": 3, "keys": 3, "d": 4}),
    Case("strided", {"heads": 2, "queries": 4, "keys": 6, "d": 8}, layouts={"q": "strided", "v": "strided"}),
    Case("unaligned", {"heads": 1, "queries": 4, "keys": 6, "d": 8}, layout="unaligned"),
)
EXEMPT = {"huge": "scores overflow", "one element": "a sum over one key is v itself"}


def backward_magnitude(name):
    """The backward of absolute values, as far as scores are amplified by exp."""

    def magnitude(grad_output, q, k, v, mask, output, lse, causal, scale):
        exact = [None if value is None else value.double() for value in (q, k, mask)]
        p = (scores(*exact, causal, scale) - lse.double()[..., None]).exp()
        dy, q, k, v, o = (value.double().abs() for value in (grad_output, q, k, v, output))
        factor = 1 / math.sqrt(q.shape[2]) if scale is None else scale
        ds = p * (dy @ v.mT + (dy * o).sum(-1, keepdim=True)) * (1 + factor * (q @ k.mT))
        found = {
            "q": factor * ds @ k,
            "k": factor * ds.mT @ q,
            "v": (p * (1 + factor * (q @ k.mT))).mT @ dy,
            "mask": ds.sum(0),
        }
        return found[name]

    return magnitude


def summed(dy, q, k, *rest):
    return k.shape[1] + q.shape[1] + q.shape[2]


BACKWARD = Op(
    Spec(
        schema="nine::attention_backward(Tensor grad_output, Tensor q, Tensor k, Tensor v, Tensor? mask,"
        " Tensor output, Tensor lse, bool causal=False, float? scale=None)"
        " -> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_mask)",
        outputs={
            "grad_q": Output(like="q", terms=summed, magnitude=backward_magnitude("q")),
            "grad_k": Output(like="k", terms=summed, magnitude=backward_magnitude("k")),
            "grad_v": Output(like="v", terms=summed, magnitude=backward_magnitude("v")),
            "grad_mask": Output(
                like="mask",
                present=lambda dy, q, k, v, mask, *rest: mask is not None,
                terms=summed,
                magnitude=backward_magnitude("mask"),
            ),
        },
        reference=backward_reference,
        inputs=backward_inputs,
        cost=lambda dy, q, *rest: Cost(8 * q.nbytes),
        eager=lambda *args: tuple(None if g is None else g.to(args[1].dtype) for g in backward_reference(*args)),
        cases=CASES,
        exempt=EXEMPT,
        dtype_from="q",
    ),
    (Rung("k01_torch", "PyTorch's operators", "python", backward_in_torch, Path(__file__), devices=("cpu", "cuda")),),
)
OP = Op(
    Spec(
        schema="nine::attention(Tensor q, Tensor k, Tensor v, Tensor? mask=None, bool causal=False, float? scale=None)"
        " -> (Tensor output, Tensor lse)",
        outputs={
            "output": Output(
                like="q", terms=lambda q, k, *rest: k.shape[1] + q.shape[2], magnitude=lambda *args: amplified(*args)[0]
            ),
            "lse": Output(
                shape=lambda q, *rest: q.shape[:2],
                saved=True,
                terms=lambda q, k, *rest: k.shape[1] + q.shape[2],
                magnitude=lambda *args: amplified(*args)[1],
            ),
        },
        check=check,
        reference=reference,
        inputs=inputs,
        eager=attend,
        gradient=Gradient(BACKWARD),
        cost=lambda q, k, *rest: Cost(4 * q.nbytes, 4 * q.numel() * k.shape[1]),
        cases=CASES,
        exempt=EXEMPT,
    ),
    (Rung("k01_program_per_query", "one program a query", "triton", launch, Path(__file__)),),
)
