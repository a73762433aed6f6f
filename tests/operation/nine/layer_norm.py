"""Layer normalisation: two saved outputs, an optional weight and bias, and a linked backward with optional outputs."""

from __future__ import annotations

from pathlib import Path

from torch.nn import functional

from warpwise import cuda
from warpwise.operation import Case, Cost, Gradient, Op, Output, Rung, Spec, check_tensor, draw

MODULE = cuda.load("""
#include <math.h>

// Sum over the block's 128 threads, in every thread.
__device__ float block_sum(float value) {
  __shared__ float partial[128];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  const float sum = partial[0];
  __syncthreads();
  return sum;
}

// x, y: (rows, columns); weight, bias: (columns,) or null; mean, rstd: (rows,). Grid: rows blocks of 128 threads.
__global__ void forward(const float* x, const float* weight, const float* bias, float* y, float* mean, float* rstd,
                        int columns, float eps) {
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < columns; i += 128) sum += x[i];
  const float m = block_sum(sum) / columns;
  for (int i = threadIdx.x; i < columns; i += 128) squares += (x[i] - m) * (x[i] - m);
  const float r = 1 / sqrtf(block_sum(squares) / columns + eps);
  for (int i = threadIdx.x; i < columns; i += 128)
    y[i] = (x[i] - m) * r * (weight ? weight[i] : 1.f) + (bias ? bias[i] : 0.f);
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = m;
    rstd[blockIdx.x] = r;
  }
}

// dx = rstd * (g - mean(g) - h * mean(g * h)) with g = dy * weight and h = (x - mean) * rstd. Grid: rows blocks.
__global__ void backward(const float* dy, const float* x, const float* weight, const float* mean, const float* rstd,
                         float* dx, int columns) {
  const size_t row = blockIdx.x;
  dy += row * columns;
  x += row * columns;
  float sum = 0, dot = 0;
  for (int i = threadIdx.x; i < columns; i += 128) {
    const float g = dy[i] * (weight ? weight[i] : 1.f);
    sum += g;
    dot += g * (x[i] - mean[row]) * rstd[row];
  }
  sum = block_sum(sum) / columns;
  dot = block_sum(dot) / columns;
  for (int i = threadIdx.x; i < columns; i += 128)
    dx[row * columns + i] =
        rstd[row] * (dy[i] * (weight ? weight[i] : 1.f) - sum - (x[i] - mean[row]) * rstd[row] * dot);
}

// dweight = sum of dy * h over rows, dbias = sum of dy; either may be null. One thread a column.
__global__ void columns_backward(const float* dy, const float* x, const float* mean, const float* rstd, float* dweight,
                                 float* dbias, int rows, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= columns) return;
  float products = 0, sum = 0;
  for (int row = 0; row < rows; ++row) {
    const float g = dy[row * columns + i];
    products += g * (x[row * columns + i] - mean[row]) * rstd[row];
    sum += g;
  }
  if (dweight) dweight[i] = products;
  if (dbias) dbias[i] = sum;
}
""")
CASES = (
    Case("small", {"rows": 3, "columns": 5}),
    Case("ragged", {"rows": 77, "columns": 130}, {"eps": 1e-3}),
    Case("no_affine", {"rows": 4, "columns": 40}, {"affine": False}),
    Case("one_element", {"rows": 1, "columns": 1}),
    Case("empty", {"rows": 0, "columns": 9}),
    Case("strided", {"rows": 6, "columns": 33}, layouts={"input": "strided"}),
    Case("unaligned", {"rows": 6, "columns": 40}, layout="unaligned"),
)


def inputs(case, dtype, device, seed):
    rows, columns = case.sizes["rows"], case.sizes["columns"]
    affine = case.attributes.get("affine", True)
    drawn = [
        draw(shape, dtype, device, 3 * seed + at) for at, shape in enumerate([(rows, columns), (columns,), (columns,)])
    ]
    return {"input": drawn[0], "weight": drawn[1] if affine else None, "bias": drawn[2] if affine else None}


def check(input, weight, bias, eps):
    check_tensor("layer_norm", "input", input, dims=(2,))


def normalised(input, eps):
    mean = input.mean(1)
    rstd = ((input - mean[:, None]).square().mean(1) + eps).rsqrt()
    return mean, rstd, (input - mean[:, None]) * rstd[:, None]


def reference(input, weight, bias, eps):
    mean, rstd, h = normalised(input.double(), eps)
    output = h if weight is None else h * weight.double()
    return output if bias is None else output + bias.double(), mean, rstd


def magnitude(input, weight, bias, eps):
    """Subtracting the mean cancels: an error of x or of the mean is amplified by rstd."""
    x = input.double()
    _, rstd, _ = normalised(x, eps)
    size = (x.abs() + x.abs().mean(1, keepdim=True)) * rstd[:, None] * (1 if weight is None else weight.double().abs())
    return 2 * size if bias is None else 2 * size + bias.double().abs()


def eager(input, weight, bias, eps):
    mean, rstd, _ = normalised(input, eps)
    return functional.layer_norm(input, input.shape[1:], weight, bias, eps), mean, rstd


def backward_reference(grad_output, input, weight, mean, rstd):
    dy, x, m, r = grad_output.double(), input.double(), mean.double()[:, None], rstd.double()[:, None]
    h, g = (x - m) * r, dy if weight is None else dy * weight.double()
    dx = r * (g - g.mean(1, keepdim=True) - h * (g * h).mean(1, keepdim=True))
    return dx, None if weight is None else (dy * h).sum(0), None if weight is None else dy.sum(0)


def backward_inputs(case, dtype, device, seed):
    made = inputs(case, dtype, device, seed)
    mean, rstd, _ = normalised(made["input"].double(), 1e-5)
    grad = draw(made["input"].shape, dtype, device, 3 * seed + 7)
    return {
        "grad_output": grad,
        "input": made["input"],
        "weight": made["weight"],
        "mean": mean.to(dtype),
        "rstd": rstd.to(dtype),
    }


def backward_magnitude(grad_output, input, weight, mean, rstd):
    g = grad_output.double().abs() * (1 if weight is None else weight.double().abs())
    r, h = rstd.double()[:, None], (input.double().abs() + mean.double().abs()[:, None]) * rstd.double()[:, None]
    return r * (g + g.mean(1, keepdim=True) + h * (g * h).mean(1, keepdim=True)) * 2


def columns_magnitude(grad_output, input, weight, mean, rstd):
    h = (input.double().abs() + mean.double().abs()[:, None]) * rstd.double()[:, None]
    return (grad_output.double().abs() * h).sum(0)


def launch(outputs, input, weight, bias, eps):
    output, mean, rstd = outputs
    rows, columns = input.shape
    MODULE["forward"][rows, 128](input, weight, bias, cuda.out(output), cuda.out(mean), cuda.out(rstd), columns, eps)


def launch_backward(outputs, grad_output, input, weight, mean, rstd):
    dx, dweight, dbias = outputs
    rows, columns = input.shape
    if rows:
        MODULE["backward"][rows, 128](grad_output, input, weight, mean, rstd, cuda.out(dx), columns)
    if dweight is not None:
        written = cuda.out(dweight), cuda.out(dbias)
        MODULE["columns_backward"][-(-columns // 128), 128](grad_output, input, mean, rstd, *written, rows, columns)


def rows_of(input, *rest):
    return input.shape[:1]


BACKWARD = Op(
    Spec(
        schema="nine::layer_norm_backward(Tensor grad_output, Tensor input, Tensor? weight, Tensor mean, Tensor rstd)"
        " -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
        outputs={
            "grad_input": Output(like="input", terms=lambda dy, x, *rest: x.shape[1] + 4, magnitude=backward_magnitude),
            "grad_weight": Output(
                like="weight",
                present=lambda dy, x, weight, *rest: weight is not None,
                terms=lambda dy, x, *rest: x.shape[0] + 2,
                magnitude=columns_magnitude,
            ),
            "grad_bias": Output(
                like="weight",
                present=lambda dy, x, weight, *rest: weight is not None,
                terms=lambda dy, x, *rest: x.shape[0],
                magnitude=lambda dy, *rest: dy.double().abs().sum(0),
            ),
        },
        reference=backward_reference,
        inputs=backward_inputs,
        cost=lambda dy, x, *rest: Cost(3 * x.nbytes),
        eager=lambda *args: tuple(None if g is None else g.to(args[1].dtype) for g in backward_reference(*args)),
        cases=CASES,
        exempt={"huge": "their squares overflow"},
    ),
    (Rung("k01_block_per_row", "one block a row", "cuda", launch_backward, Path(__file__)),),
)
OP = Op(
    Spec(
        schema="nine::layer_norm(Tensor input, Tensor? weight=None, Tensor? bias=None, float eps=1e-5)"
        " -> (Tensor output, Tensor mean, Tensor rstd)",
        outputs={
            "output": Output(like="input", terms=lambda x, *rest: x.shape[1] + 4, magnitude=magnitude),
            "mean": Output(
                shape=rows_of,
                saved=True,
                terms=lambda x, *rest: x.shape[1],
                magnitude=lambda x, *rest: x.double().abs().mean(1),
            ),
            "rstd": Output(shape=rows_of, saved=True, terms=lambda x, *rest: x.shape[1] + 4),
        },
        check=check,
        reference=reference,
        inputs=inputs,
        eager=eager,
        cost=lambda x, *rest: Cost(2 * x.nbytes),
        gradient=Gradient(BACKWARD),
        cases=CASES,
        exempt={"huge": "their squares overflow"},
    ),
    (Rung("k01_block_per_row", "one block a row", "cuda", launch, Path(__file__)),),
)
