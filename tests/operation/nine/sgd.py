"""One step of SGD with momentum over a list of parameters, in place; the learning rate changes at each call."""

from __future__ import annotations

from pathlib import Path

from warpwise import cuda
from warpwise.operation import Case, Cost, Op, Output, Rung, Spec, check_same_shape, draw

MODULE = cuda.load("""
// v = momentum * v + g; p -= lr * v. All (n,). One thread an element.
__global__ void sgd(float* p, const float* g, float* v, float lr, float momentum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float velocity = momentum * v[i] + g[i];
  v[i] = velocity;
  p[i] -= lr * velocity;
}
""")


def inputs(case, dtype, device, seed):
    shapes = [(case.sizes["n"],)] * case.attributes.get("count", 2)
    made = {
        name: [
            draw(shape, dtype, device, 30 * seed + 10 * at + number, case.values, 2)
            for number, shape in enumerate(shapes)
        ]
        for at, name in enumerate(("params", "grads", "velocities"))
    }
    return {**made, "lr": 0.3}


def check(params, grads, velocities, lr, momentum):
    if not len(params) == len(grads) == len(velocities):
        raise ValueError(
            f"sgd: expected as many grads and velocities as params, {len(params)}, got {len(grads)} and "
            f"{len(velocities)}"
        )
    for number, three in enumerate(zip(params, grads, velocities, strict=True)):
        check_same_shape("sgd", [f"{name}[{number}]" for name in ("params", "grads", "velocities")], three)


def reference(params, grads, velocities, lr, momentum):
    new = [momentum * v.double() + g.double() for v, g in zip(velocities, grads, strict=True)]
    return [p.double() - lr * v for p, v in zip(params, new, strict=True)], new


def eager(params, grads, velocities, lr, momentum):
    for p, g, v in zip(params, grads, velocities, strict=True):
        v.mul_(momentum).add_(g)
        p.sub_(v, alpha=lr)


def launch(outputs, params, grads, velocities, lr, momentum):
    for p, g, v in zip(params, grads, velocities, strict=True):
        if p.numel():
            MODULE["sgd"][-(-p.numel() // 128), 128](p, g, v, lr, momentum, p.numel())


def scales(params, grads, velocities, lr, momentum):
    """The absolute values of the terms of each parameter and of each velocity, added up."""
    sizes = [[value.double().abs() for value in values] for values in (params, grads, velocities)]
    new = [momentum * v + g for g, v in zip(*sizes[1:], strict=True)]
    return [p + lr * v for p, v in zip(sizes[0], new, strict=True)], new


OP = Op(
    Spec(
        schema="nine::sgd(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] velocities, float lr, float momentum=0.9)"
        " -> ()",
        outputs={
            "params": Output(terms=4, magnitude=lambda *args: scales(*args)[0]),
            "velocities": Output(terms=3, magnitude=lambda *args: scales(*args)[1]),
        },
        check=check,
        reference=reference,
        inputs=inputs,
        eager=eager,
        varying=("lr",),
        cost=lambda params, *rest: Cost(5 * sum(p.nbytes for p in params)),
        cases=(
            Case("two", {"n": 130}),
            Case("ragged", {"n": 333}, {"momentum": 0.5}),
            Case("three", {"n": 40}, {"count": 3}),
            Case("one_element", {"n": 1}),
            Case("empty", {"n": 0}),
            Case("huge", {"n": 70}, values="huge"),
            Case("strided", {"n": 50}, layouts={"params": "strided"}),
            Case("unaligned", {"n": 64}, layout="unaligned"),
        ),
    ),
    (Rung("k01_launch_per_parameter", "one launch a parameter", "cuda", launch, Path(__file__)),),
)
