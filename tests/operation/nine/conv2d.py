"""A 2-D convolution in NHWC: tuples as attributes, and a memory format of the output that follows the input's."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn import functional

from warpwise import cuda
from warpwise.operation import Case, Cost, Gradient, Op, Output, Rung, Spec, check_same, check_tensor, draw

MODULE = cuda.load("""
// x: (n, h, w, c) and y: (n, oh, ow, k) by strides; f: (k, c, r, s). One thread an output element.
__global__ void conv2d(const float* x, const float* f, const float* bias, float* y, int c, int h, int w, int k, int r,
                       int s, int oh, int ow, int stride_h, int stride_w, int pad_h, int pad_w, long long xn,
                       long long xc, long long xh, long long xw, long long yn, long long yc, long long yh,
                       long long yw, int total) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const int channel = i % k, column = i / k % ow, row = i / k / ow % oh, image = i / k / ow / oh;
  float sum = bias ? bias[channel] : 0.f;
  for (int dy = 0; dy < r; ++dy)
    for (int dx = 0; dx < s; ++dx) {
      const int at_h = row * stride_h - pad_h + dy, at_w = column * stride_w - pad_w + dx;
      if (at_h < 0 || at_h >= h || at_w < 0 || at_w >= w) continue;
      for (int j = 0; j < c; ++j)
        sum += x[image * xn + j * xc + at_h * xh + at_w * xw] * f[((channel * c + j) * r + dy) * s + dx];
    }
  y[image * yn + channel * yc + row * yh + column * yw] = sum;
}
""")


def inputs(case, dtype, device, seed):
    n, c, h, k = (case.sizes[name] for name in ("n", "c", "h", "k"))
    bias = draw((k,), dtype, device, 3 * seed + 2) if case.attributes.get("biased") else None
    return {
        "input": draw((n, c, h, h + 1), dtype, device, 3 * seed, case.values, 3),
        "weight": draw((k, c, 3, 2), dtype, device, 3 * seed + 1, case.values, 3),
        "bias": bias,
    }


def check(input, weight, bias, stride, padding):
    check_tensor("conv2d", "input", input, dims=(4,))
    check_tensor("conv2d", "weight", weight, dims=(4,))
    check_same("conv2d", ("input", "weight"), input, weight)
    if input.shape[1] != weight.shape[1]:
        raise ValueError(f"conv2d: expected weight with {input.shape[1]} input channels, got {weight.shape[1]}")
    if min(shape(input, weight, bias, stride, padding)[2:]) < 1:
        raise ValueError(
            f"conv2d: expected an input larger than the filter, got {tuple(input.shape)} and {tuple(weight.shape)}"
        )


def shape(input, weight, bias, stride, padding):
    sizes = [(input.shape[2 + at] + 2 * padding[at] - weight.shape[2 + at]) // stride[at] + 1 for at in (0, 1)]
    return input.shape[0], weight.shape[0], *sizes


def exact(function):
    return lambda input, weight, bias, stride, padding: functional.conv2d(
        *(None if value is None else function(value.double()) for value in (input, weight, bias)), stride, padding
    )


def backward(saved, grad):
    dx = torch.nn.grad.conv2d_input(saved.input.shape, saved.weight, grad, saved.stride, saved.padding)
    dw = torch.nn.grad.conv2d_weight(saved.input, saved.weight.shape, grad, saved.stride, saved.padding)
    return {"input": dx, "weight": dw, "bias": grad.sum((0, 2, 3)) if saved.wants("bias") else None}


def channels_last(input, *rest):
    nhwc = input.is_contiguous(memory_format=torch.channels_last) and not input.is_contiguous()
    return torch.channels_last if nhwc else torch.contiguous_format


def launch(out, input, weight, bias, stride, padding):
    (_, c, h, w), (k, _, r, s), (_, _, oh, ow) = input.shape, weight.shape, out.shape
    weight = weight.contiguous()
    MODULE["conv2d"][-(-out.numel() // 128), 128](
        cuda.strided(input),
        weight,
        bias,
        cuda.strided(out),
        c,
        h,
        w,
        k,
        r,
        s,
        oh,
        ow,
        *stride,
        *padding,
        *input.stride(),
        *out.stride(),
        out.numel(),
    )


OP = Op(
    Spec(
        schema="nine::conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0)"
        " -> Tensor",
        outputs={
            "output": Output(
                shape=shape,
                memory_format=channels_last,
                terms=lambda x, f, *rest: f[0].numel() + 1,
                magnitude=exact(torch.abs),
            )
        },
        check=check,
        reference=exact(lambda value: value),
        inputs=inputs,
        eager=functional.conv2d,
        gradient=Gradient(backward, saves=("input", "weight", "stride", "padding")),
        cost=lambda x, f, *rest: Cost(x.nbytes + f.nbytes),
        cases=(
            Case("plain", {"n": 2, "c": 3, "h": 6, "k": 4}, {"biased": True}),
            Case("ragged", {"n": 1, "c": 5, "h": 11, "k": 3}, {"stride": (2, 1), "padding": (1, 0)}),
            Case("nhwc", {"n": 2, "c": 4, "h": 5, "k": 6}, {"padding": (1, 1)}, layouts={"input": "channels_last"}),
            Case("one_element", {"n": 1, "c": 1, "h": 1, "k": 1}, {"padding": (1, 0)}),
            Case("empty", {"n": 0, "c": 2, "h": 4, "k": 2}),
            Case("huge", {"n": 1, "c": 2, "h": 4, "k": 2}, values="huge"),
            Case("strided", {"n": 1, "c": 2, "h": 4, "k": 2}, layout="strided"),
            Case("unaligned", {"n": 1, "c": 2, "h": 4, "k": 2}, layout="unaligned"),
        ),
    ),
    (Rung("k01_thread_per_output", "one thread an output element", "cuda", launch, Path(__file__), strided=True),),
)
