"""All parameters in one launch in Triton: lists are tuples of tensors, and the blocks of a tensor are a range of ids.

A loop over a tuple is unrolled by the compiler (`tl.static_range`), so every tensor has its own copy of the step, and a
program runs the copy of its tensor. `firsts` has one element more than `ps`. A tuple has no fixed length, so a list of
another length is compiled again; Warpwise does not record launches with tuples, which it repeats in Python.
"""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def sgd(ps, gs, bs, sizes, firsts, lr, momentum, weight_decay, NESTEROV: tl.constexpr, BLOCK: tl.constexpr):
    """ps, gs, bs: tuples of tensors of `sizes` elements, bs None without momentum; tensor i has the programs from
    firsts[i] to firsts[i + 1], of BLOCK elements each. g += weight_decay p; b = momentum b + g; p -= lr b, or lr (g +
    momentum b).
    """
    program = tl.program_id(0)
    for i in tl.static_range(len(ps)):
        if (program >= firsts[i]) & (program < firsts[i + 1]):
            offsets = (program - firsts[i]) * BLOCK + tl.arange(0, BLOCK)
            inside = offsets < sizes[i]
            p = tl.load(ps[i] + offsets, mask=inside)
            step = tl.load(gs[i] + offsets, mask=inside) + weight_decay * p
            if bs is not None:
                b = momentum * tl.load(bs[i] + offsets, mask=inside) + step
                tl.store(bs[i] + offsets, b, mask=inside)
                step = step + momentum * b if NESTEROV else b
            tl.store(ps[i] + offsets, p - lr * step, mask=inside)
