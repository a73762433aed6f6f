"""RMS normalisation: a saved statistic, and a backward with kernels whose specification follows from the forward's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import Case, Cost, Gradient, Op, Output, Rung, Spec, backward_spec, check_tensor, draw, register

MODULE = cuda.load("""
// Sum over the block's 128 threads, in every thread.
__device__ float block_sum(float value) {
  __shared__ float partial[4];
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffff, value, lanes);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  const float sum = partial[0] + partial[1] + partial[2] + partial[3];
  __syncthreads();
  return sum;
}

// x, y: (rows, columns); weight: (columns); rstd: (rows). Grid: rows blocks of 128 threads.
__global__ void forward(const float* x, const float* weight, float* y, float* rstd, int columns, float eps) {
  x += (long long)blockIdx.x * columns;
  y += (long long)blockIdx.x * columns;
  float squares = 0;
  for (int i = threadIdx.x; i < columns; i += 128) squares += x[i] * x[i];
  const float r = rsqrtf(block_sum(squares) / columns + eps);
  for (int i = threadIdx.x; i < columns; i += 128) y[i] = x[i] * r * weight[i];
  if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

// dx = r * (g - x * r^2 * mean(g * x)) with g = dy * weight. Grid: rows blocks of 128 threads.
__global__ void grad_input(const float* dy, const float* x, const float* weight, const float* rstd, float* dx,
                           int columns) {
  const long long start = (long long)blockIdx.x * columns;
  const float r = rstd[blockIdx.x];
  float dot = 0;
  for (int i = threadIdx.x; i < columns; i += 128) dot += dy[start + i] * weight[i] * x[start + i];
  dot = block_sum(dot) / columns * r * r;
  for (int i = threadIdx.x; i < columns; i += 128) dx[start + i] = r * (dy[start + i] * weight[i] - x[start + i] * dot);
}

// dw = sum of dy * x * r over rows. One thread a column.
__global__ void grad_weight(const float* dy, const float* x, const float* rstd, float* dw, int rows, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= columns) return;
  float sum = 0;
  for (int row = 0; row < rows; ++row) {
    const long long at = (long long)row * columns + i;
    sum += dy[at] * x[at] * rstd[row];
  }
  dw[i] = sum;
}
""")


def check(input, weight, eps):
    check_tensor("rms_norm", "input", input, dims=(2,))
    check_tensor("rms_norm", "weight", weight, dims=(1,))


def inputs(case, dtype, device, seed):
    rows, columns = case.sizes["rows"], case.sizes["columns"]
    return {
        "input": draw((rows, columns), dtype, device, 2 * seed, case.values, power=3),
        "weight": draw((columns,), dtype, device, 2 * seed + 1),
    }


def reference(input, weight, eps):
    rstd = (input.double().square().mean(1) + eps).rsqrt()
    return input.double() * rstd[:, None] * weight.double(), rstd


def eager(input, weight, eps):
    rstd = (input.square().mean(1) + eps).rsqrt()
    return input * rstd[:, None] * weight, rstd


def launch(outputs, input, weight, eps):
    output, rstd = outputs
    rows, columns = input.shape
    if rows:
        MODULE["forward"][rows, 128](input, weight, cuda.out(output), cuda.out(rstd), columns, eps)


def launch_backward(outputs, grad_output, input, weight, eps, rstd):
    dx, dw = outputs
    rows, columns = input.shape
    if rows:
        MODULE["grad_input"][rows, 128](grad_output, input, weight, rstd, cuda.out(dx), columns)
    MODULE["grad_weight"][-(-columns // 128), 128](grad_output, input, rstd, cuda.out(dw), rows, columns)


def input_magnitude(dy, x, weight, eps, rstd):
    g, r = (dy.double() * weight.double()).abs(), rstd.double()[:, None]
    return r * (g + x.double().abs() * r.square() * (g * x.double().abs()).mean(1, keepdim=True))


SPEC = Spec(
    schema="tests::rms_norm(Tensor input, Tensor weight, float eps=1e-6) -> (Tensor output, Tensor rstd)",
    outputs={
        "output": Output(like="input", terms=lambda x, *rest: x.shape[1]),
        "rstd": Output(shape=lambda x, *rest: x.shape[:1], terms=lambda x, *rest: x.shape[1], saved=True),
    },
    reference=reference,
    inputs=inputs,
    check=check,
    eager=eager,
    cost=lambda x, *rest: Cost(bytes=2 * x.nbytes, flops=4 * x.numel()),
    cases=(
        Case("small", {"rows": 3, "columns": 5}),
        Case("ragged", {"rows": 21, "columns": 300}, {"eps": 1e-3}),
        Case("one_element", {"rows": 1, "columns": 1}),
        Case("empty", {"rows": 0, "columns": 9}),
        Case("huge", {"rows": 4, "columns": 40}, values="huge"),
        Case("strided", {"rows": 6, "columns": 33}, layouts={"input": "strided"}),
        Case("unaligned", {"rows": 6, "columns": 40}, layout="unaligned"),
    ),
    sizes=(Case("wide", {"rows": 4096, "columns": 4096}),),
)
BACKWARD_SPEC = backward_spec(
    SPEC,
    "tests::rms_norm_backward(Tensor grad_output, Tensor input, Tensor weight, float eps, Tensor rstd)"
    " -> (Tensor grad_input, Tensor grad_weight)",
    outputs={
        "grad_input": Output(like="input", terms=lambda dy, x, *rest: x.shape[1], magnitude=input_magnitude),
        "grad_weight": Output(
            like="weight",
            terms=lambda dy, x, *rest: x.shape[0] + 1,
            magnitude=lambda dy, x, w, eps, rstd: (dy.double() * x.double() * rstd.double()[:, None]).abs().sum(0),
        ),
    },
)


def rung(name, idea, function):
    return Rung(name, idea, "cuda", function, Path(__file__), dtypes=(torch.float32,))


def default(*args):
    """The rung for CUDA tensors; PyTorch computes where it is None."""
    return "k01_block_per_row" if args[0].dtype == torch.float32 else None


BACKWARD = register(Op(BACKWARD_SPEC, (rung("k01_block_per_row", "one block a row", launch_backward),), default))
OP = register(
    Op(
        replace(SPEC, gradient=Gradient(BACKWARD)),
        (rung("k01_block_per_row", "one block a row", launch),),
        default,
    )
)


def rms_norm(input: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, rung: str | None = None) -> torch.Tensor:
    """x * weight / sqrt(mean(x^2) + eps) of each row of ``input`` (rows, columns)."""
    return OP.call(input, weight, eps, rung=rung)
