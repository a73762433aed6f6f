"""Dropout by a counter-based generator: the backward makes the same mask from the same seed and offset."""

from __future__ import annotations

from pathlib import Path

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import Case, Cost, Gradient, Op, Output, Rung, Spec, draw

KEYS, MULTIPLIERS = (0x9E3779B9, 0xBB67AE85), (0xD2511F53, 0xCD9E8D57)
WORD = 0xFFFFFFFF


@wt.jit(do_not_specialize=["seed", "offset"])
def dropout_kernel(x_ptr, y_ptr, p, seed, offset, n, BLOCK: tl.constexpr):
    # x, y: (n,). Element i is kept if Philox (seed, offset + i) gives a uniform number of at least p.
    # Grid: ceil(n / BLOCK).
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside)
    keep = tl.rand(seed, index + offset) >= p
    tl.store(y_ptr + index, tl.where(keep, x / (1 - p), 0.0), mask=inside)


def philox(seed, counter):
    """The first word of Philox 4x32-10 (Salmon et al., 2011) for each counter, in int64."""
    words = [counter & WORD, torch.zeros_like(counter), torch.zeros_like(counter), torch.zeros_like(counter)]
    keys = [seed & WORD, (seed >> 32) & WORD]
    for _ in range(10):
        low, high = zip(
            *(_product(m, word) for m, word in zip(MULTIPLIERS, (words[0], words[2]), strict=True)), strict=True
        )
        words = [high[1] ^ words[1] ^ keys[0], low[1], high[0] ^ words[3] ^ keys[1], low[0]]
        keys = [(key + step) & WORD for key, step in zip(keys, KEYS, strict=True)]
    return words[0]


def _product(multiplier, word):
    """The low and high 32 bits of a product of 32-bit numbers; by halves, since int64 would overflow."""
    low, high = multiplier * (word & 0xFFFF), multiplier * (word >> 16)
    total = low + ((high & 0xFFFF) << 16)
    return total & WORD, (high >> 16) + (total >> 32)


def kept(shape, device, p, seed, offset):
    """The mask, as Triton's ``rand`` turns the word into a uniform number."""
    counter = torch.arange(shape.numel(), device=device) + offset
    word = philox(seed, counter)
    signed = torch.where(word >= 1 << 31, word - (1 << 32), word)
    positive = torch.where(signed < 0, -signed - 1, signed).float()
    return (positive * 4.6566127342e-10 >= torch.tensor(p, dtype=torch.float32)).view(shape)


def reference(input, p, seed, offset):
    mask = kept(input.shape, input.device, p, seed, offset)
    return torch.where(mask, input.double() / (1 - p), 0.0)


def eager(input, p, seed, offset):
    return torch.where(kept(input.shape, input.device, p, seed, offset), input / (1 - p), 0.0)


def launch(out, x, p, seed, offset):
    dropout_kernel[(-(-x.numel() // 256),)](x, out, p, seed, offset, x.numel(), BLOCK=256)


def operation(name, argument, result, gradient):
    spec = Spec(
        schema=f"nine::{name}(Tensor {argument}, float p, int seed, int offset=0) -> (Tensor {result})",
        outputs={result: Output(like=argument, terms=2)},
        reference=reference,
        eager=eager,
        varying=("p", "seed", "offset"),
        gradient=gradient,
        inputs=lambda case, dtype, device, seed: {
            argument: draw((case.sizes["n"],), dtype, device, seed, case.values, 2),
            "p": 0.25,
            "seed": 1234 + seed,
        },
        cost=lambda x, *rest: Cost(2 * x.nbytes),
        cases=(
            Case("block", {"n": 512}),
            Case("ragged", {"n": 1037}, {"offset": 77}),
            Case("one_element", {"n": 1}),
            Case("empty", {"n": 0}),
            Case("huge", {"n": 333}, values="huge"),
            Case("strided", {"n": 300}, layout="strided"),
            Case("unaligned", {"n": 300}, layout="unaligned"),
        ),
    )
    return Op(spec, (Rung("k01_philox", "one counter an element", "triton", launch, Path(__file__)),))


BACKWARD = operation("dropout_backward", "grad_output", "grad_input", None)
OP = operation("dropout", "input", "output", Gradient(BACKWARD))
