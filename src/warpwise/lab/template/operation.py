"""NAME: an operation, its gradient and a ladder of kernels for it, in one file.

    warpwise climb NAME.py                            # verify every rung; on a GPU also time it
    warpwise climb NAME.py --rung k01 --size n=1000   # one rung, at a size of your own

The example is softplus, log(1 + e^x), element by element: first the specification, then the rungs. OP(x) computes it.
"""

from pathlib import Path

import torch
import triton.language as tl

from warpwise import cuda
from warpwise import triton as wt
from warpwise.operation import Case, Cost, Gradient, Op, Output, Rung, Spec, draw, register

DTYPES = (torch.float32, torch.float16, torch.bfloat16)  # of the kernels, which compute in float32

# The specification, which is independent of kernels. All functions except `inputs` take the arguments of the schema.


def inputs(case, dtype, device, seed):
    """x: (n,). A "huge" case has values near the largest of the dtype. The lab then applies the case's layout."""
    return {"x": draw((case.sizes["n"],), dtype, device, seed, case.values)}


def check(x):
    """Raise an error for arguments that the operation does not support."""
    if not x.dtype.is_floating_point:
        raise TypeError(f"NAME: expected x of a floating-point dtype, got {x.dtype}")


def reference(x):
    """log(e^x + e^0) in float64, without overflow."""
    x = x.double()
    return torch.logaddexp(x, torch.zeros_like(x))


def magnitude(x):
    """The scale of rounding errors. The error of e^-|x| grows with |x|, like that of x * log2(e)."""
    x = x.double()
    return x.clamp(min=0) + (1 + x.abs()) * torch.log1p(torch.exp(-x.abs()))


def backward(saved, grad):
    """The gradient, in differentiable operators: d/dx log(1 + e^x) = sigmoid(x)."""
    return {"x": grad * torch.sigmoid(saved.x)}


SPEC = Spec(
    schema="NAME(Tensor x) -> Tensor",  # in torch.library's syntax; in your own package "mypackage::NAME(...)"
    summary="log(1 + e^x), element by element",
    inputs=inputs,
    check=check,
    outputs={"output": Output(like="x", magnitude=magnitude)},
    reference=reference,
    eager=torch.nn.functional.softplus,  # PyTorch's function: runs on CPU tensors, and is timed as an opponent
    gradient=Gradient(backward, saves=("x",)),  # if the backward is an operation with kernels: Gradient(ITS_OP)
    cost=lambda x: Cost(bytes=2 * x.numel() * x.element_size(), flops=4 * x.numel()),  # x is read, the output written
    cases=(  # for verification: small sizes, and each kind of input on which kernels often fail
        Case("even", {"n": 1024}),
        Case("ragged", {"n": 1037}),
        Case("one_element", {"n": 1}),
        Case("empty", {"n": 0}),
        Case("huge", {"n": 1037}, values="huge"),
        Case("strided", {"n": 333}, layout="strided"),
        Case("unaligned", {"n": 520}, layout="unaligned"),
    ),
    sizes=(Case("large", {"n": 1 << 26}), Case("ragged", {"n": (1 << 24) + 7})),  # for timing on a GPU
    dtypes=DTYPES,
)

# The rungs, the slowest first; each is a kernel with its launcher. A kernel can be in a separate file, which is then
# the source of the rung: cuda.load(Path(__file__).with_name("kernel.cu")).

CUDA = cuda.load(r"""
#include <warpwise/core/pack.cuh>

// log(1 + e^x) in float32.
__device__ float value_of(float x) { return fmaxf(x, 0.f) + log1pf(expf(-fabsf(x))); }

// x, out: (n,). Grid: ceil(n / blockDim.x).
template <typename T>
__global__ void thread_per_element(const T* x, T* out, long long n) {
  const long long i = warpwise::global_thread();
  if (i < n) out[i] = static_cast<T>(value_of(static_cast<float>(x[i])));
}

// x, out: (n,). 16-byte accesses; the remainder, or all elements if a pointer is not 16-byte aligned, one by one.
template <typename T>
__global__ void vectorised(const T* x, T* out, long long n) {
  using Pack = warpwise::Pack<T>;
  const long long thread = warpwise::global_thread(), threads = warpwise::global_threads();
  const long long packs = warpwise::aligned(x, out) ? n / Pack::size : 0;
  for (long long i = thread; i < packs; i += threads) {
    Pack pack = warpwise::packs(x)[i];
#pragma unroll
    for (int k = 0; k < Pack::size; ++k) pack.at[k] = static_cast<T>(value_of(static_cast<float>(pack.at[k])));
    warpwise::packs(out)[i] = pack;
  }
  for (long long i = packs * Pack::size + thread; i < n; i += threads)
    out[i] = static_cast<T>(value_of(static_cast<float>(x[i])));
}
""")
BLOCK = 256


def thread_per_element(out, x):
    kernel = CUDA[f"thread_per_element<{cuda.ctype(x.dtype)}>"]
    kernel[-(-x.numel() // BLOCK), BLOCK](x, cuda.out(out), x.numel())


def vectorised(out, x):
    kernel = CUDA[f"vectorised<{cuda.ctype(x.dtype)}>"]
    kernel[-(-x.numel() * x.element_size() // (16 * BLOCK)), BLOCK](x, cuda.out(out), x.numel())


@wt.jit
def triton_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # x, out: (n,). Grid: ceil(n / BLOCK).
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside).to(tl.float32)
    small = tl.exp(-tl.abs(x))
    whole = 1 + small  # rounded; log(whole) * small / (whole - 1) is log(1 + small) without the rounding error (Kahan)
    lost = whole == 1
    value = tl.where(lost, small, tl.log(whole) * small / tl.where(lost, 1.0, whole - 1)) + tl.maximum(x, 0.0)
    tl.store(out_ptr + offsets, value, mask=inside)


def in_triton(out, x):
    block = 1024
    triton_kernel[(-(-x.numel() // block),)](x, out, x.numel(), BLOCK=block, num_warps=4)


RUNGS = (
    Rung("k01_thread_per_element", "one thread per element", "cuda", thread_per_element, Path(__file__), DTYPES),
    Rung("k02_vectorised", "16-byte loads and stores", "cuda", vectorised, Path(__file__), DTYPES),
    Rung("k03_triton", "the same in Triton", "triton", in_triton, Path(__file__), DTYPES),
)


def default(x):
    """The rung that OP(x) runs on CUDA tensors; None for PyTorch."""
    return "k02_vectorised" if x.dtype in DTYPES else None


OP = register(Op(SPEC, RUNGS, default))
