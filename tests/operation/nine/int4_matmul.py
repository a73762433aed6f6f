"""float16 times 4-bit weights in groups with a scale each: mixed dtypes, and a packing that is exact bit by bit."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import Case, Cost, Gradient, Op, Output, Rung, Spec, check_tensor, draw

GROUP = 8
MODULE = cuda.load("""
#include <cuda_fp16.h>

// values: (n, k) of -8 to 7, packed: (n, k / 2): the even column in the low half of each byte. One thread a byte.
__global__ void pack(const signed char* values, unsigned char* packed, int bytes) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < bytes) packed[i] = (values[2 * i] & 15) | (values[2 * i + 1] & 15) << 4;
}

// a: (m, k), packed: (n, k / 2), scales: (n, k / 8), out: (m, n) = a times the transpose of the weights.
__global__ void matmul(const half* a, const unsigned char* packed, const float* scales, half* out, int m, int n,
                       int k) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) {
    const int byte = packed[column * (k / 2) + i / 2], nibble = i % 2 ? byte >> 4 : byte & 15;
    sum += __half2float(a[row * k + i]) * scales[column * (k / 8) + i / 8] * (nibble < 8 ? nibble : nibble - 16);
  }
  out[row * n + column] = __float2half(sum);
}
""")


def packed(values):
    return (values[:, ::2].to(torch.uint8) & 15) | ((values[:, 1::2].to(torch.uint8) & 15) << 4)


def unpacked(packed, scales):
    low, high = (packed & 15).to(torch.int8), (packed >> 4).to(torch.int8)
    values = torch.stack([low, high], 2).flatten(1).to(scales.dtype)
    return torch.where(values < 8, values, values - 16) * scales.repeat_interleave(GROUP, 1)


def int4(case, device, seed):
    shape = case.sizes["n"], case.sizes.get("groups", 1) * GROUP
    return torch.randint(-8, 8, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int8).to(device)


def inputs(case, dtype, device, seed):
    m, n, groups = (case.sizes[name] for name in ("m", "n", "groups"))
    return {
        "a": draw((m, groups * GROUP), dtype, device, 2 * seed),
        "packed": packed(int4(case, device, seed)),
        "scales": draw((n, groups), torch.float32, device, 2 * seed + 1).abs(),
    }


def check(a, packed, scales):
    check_tensor("int4_matmul", "a", a, (torch.float16, torch.float64), dims=(2,))
    check_tensor("int4_matmul", "packed", packed, (torch.uint8,), dims=(2,))
    if 2 * packed.shape[1] != a.shape[1] or a.shape[1] != GROUP * scales.shape[1]:
        raise ValueError(
            f"int4_matmul: expected packed (n, {a.shape[1] // 2}) and scales (n, {a.shape[1] // GROUP}), "
            f"got {tuple(packed.shape)} and {tuple(scales.shape)}"
        )


def backward(saved, grad):
    """dA = dC W; a scale's gradient is that of each weight of its group, times the weight without its scale."""
    weights = unpacked(saved.packed, saved.scales).to(grad.dtype)
    groups = (grad.mT @ saved.a).to(saved.scales.dtype) * unpacked(saved.packed, torch.ones_like(saved.scales))
    return {"a": grad @ weights, "scales": groups.unflatten(1, (-1, GROUP)).sum(2)}


def launch(out, a, packed, scales):
    (m, k), n = a.shape, packed.shape[0]
    MODULE["matmul"][(-(-n // 64), m), 64](a, packed, scales, cuda.out(out), m, n, k)


def launch_pack(out, values):
    if out.numel():
        MODULE["pack"][-(-out.numel() // 64), 64](values, cuda.out(out), out.numel())


LAYOUTS = (
    Case("strided", {"m": 3, "n": 4, "groups": 2}, layout="strided"),
    Case("unaligned", {"m": 3, "n": 4, "groups": 2}, layout="unaligned"),
)
EXEMPT = {"huge": "products of float16 overflow", "one element": "a group is 8 elements"}
PACK = Op(
    Spec(
        schema="nine::pack_int4(Tensor values) -> (Tensor packed)",
        outputs={"packed": Output(shape=lambda values: (values.shape[0], values.shape[1] // 2), dtype=torch.uint8)},
        reference=packed,
        eager=packed,
        inputs=lambda case, dtype, device, seed: {"values": int4(case, device, seed)},
        cost=lambda values: Cost(values.nbytes),
        dtypes=(torch.int8,),
        exempt=EXEMPT,
        cases=(
            Case("even", {"n": 6, "groups": 2}),
            Case("ragged", {"n": 33, "groups": 3}),
            Case("empty", {"n": 0, "groups": 1}),
            *LAYOUTS,
        ),
    ),
    (Rung("k01_thread_per_byte", "one thread a byte", "cuda", launch_pack, Path(__file__)),),
)
OP = Op(
    Spec(
        schema="nine::int4_matmul(Tensor a, Tensor packed, Tensor scales) -> Tensor",
        outputs={
            "output": Output(
                shape=lambda a, packed, scales: (a.shape[0], packed.shape[0]),
                terms=lambda a, *rest: a.shape[1],
                magnitude=lambda a, packed, scales: a.double().abs() @ unpacked(packed, scales.double()).abs().mT,
            )
        },
        check=check,
        inputs=inputs,
        dtypes=(torch.float16,),
        exempt=EXEMPT,
        reference=lambda a, packed, scales: a.double() @ unpacked(packed, scales.double()).mT,
        eager=lambda a, packed, scales: (
            a.to(torch.float32 if a.dtype == torch.float16 else a.dtype)
            @ unpacked(packed, scales).to(torch.float32 if a.dtype == torch.float16 else a.dtype).mT
        ).to(a.dtype),
        gradient=Gradient(backward, saves=("a", "packed", "scales")),
        cost=lambda a, packed, scales: Cost(a.nbytes + packed.nbytes, 2 * a.numel() * packed.shape[0]),
        cases=(
            Case("plain", {"m": 4, "n": 6, "groups": 2}),
            Case("ragged", {"m": 9, "n": 33, "groups": 3}),
            Case("empty", {"m": 0, "n": 4, "groups": 1}),
            Case("empty_sum", {"m": 3, "n": 4, "groups": 0}),
            *LAYOUTS,
        ),
    ),
    (Rung("k01_thread_per_element", "one thread an element", "cuda", launch, Path(__file__)),),
)
