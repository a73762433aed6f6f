"""Compare nn.Linear with torch.nn.Linear, forward and backward: layers of a transformer's MLP, with and without GELU.

    python benchmarks/linear.py [--layer up ...] [--dtype bf16 ...] [--budget S] [--limit S] [--json FILE]

A step is the layer, its activation, and the gradients of the input, the weight and the bias. At each point all four
results of both modules are checked against float64; then the forward pass and the step of both are timed in turn, in
random order, with L2 flushed and launches hidden (``lab.time``). ``ratio`` is our speed relative to torch.nn.Linear and
its GELU, with its 95 % interval. float32 is never rounded to TF32.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import torch

from warpwise import lab, nn
from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place
from warpwise.lab.timing.timing import duration, ratio

RESULTS = Path(__file__).parent / "results" / "h200" / "nn_linear.json"
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
NAMES = ("y", "dx", "dw", "db")


@dataclass(frozen=True)
class Layer:
    """Rows of the input, and the layer's features."""

    rows: int
    inputs: int
    outputs: int


# Of a model of 8 billion parameters in bfloat16; a quarter as wide in float32, whose GEMMs are 15 times slower.
LAYERS = {
    "bf16": {"up": Layer(4096, 4096, 14336), "down": Layer(4096, 14336, 4096)},
    "fp32": {"up": Layer(4096, 1024, 4096), "down": Layer(4096, 4096, 1024)},
}
ACTIVATIONS: dict[str, tuple[str | None, Callable[[], torch.nn.Module]]] = {
    "none": (None, torch.nn.Identity),
    "gelu": ("gelu", torch.nn.GELU),
    "gelu_tanh": ("gelu_tanh", lambda: torch.nn.GELU("tanh")),
}


def modules(layer: Layer, activation: str, device: torch.device, dtype: torch.dtype) -> dict[str, torch.nn.Module]:
    """Ours and PyTorch's, with the same parameters."""
    name, after = ACTIVATIONS[activation]
    ours = nn.Linear(layer.inputs, layer.outputs, activation=name, device=device, dtype=dtype)
    theirs = torch.nn.Linear(layer.inputs, layer.outputs, device=device, dtype=dtype)
    theirs.load_state_dict(ours.state_dict())
    return {"ours": ours, "theirs": torch.nn.Sequential(theirs, after())}


def step(module: torch.nn.Module, x: torch.Tensor, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """y and the gradients of the input, the weight and the bias."""
    y = module(x)
    return (y, *torch.autograd.grad(y, (x, *module.parameters()), gradient))


def truth(module: torch.nn.Module, x: torch.Tensor, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """``step`` in float64, of PyTorch's module."""
    exact = copy.deepcopy(module).double()
    y, *gradients = step(exact, x.detach().double().requires_grad_(), gradient.double())
    return (y.detach(), *gradients)


def errors(found: tuple[torch.Tensor, ...], exact: tuple[torch.Tensor, ...]) -> dict[str, float]:
    """|found - exact| / |exact| of each result, in the Frobenius norm."""
    pairs = zip(NAMES, found, exact, strict=True)
    return {name: float((mine.detach().double() - other).norm() / other.norm()) for name, mine, other in pairs}


def allowed(layer: Layer, dtype: torch.dtype) -> float:
    """The bound on ``errors``: up to three roundings to ``dtype``, and float32 sums."""
    longest = max(layer.rows, layer.inputs, layer.outputs)
    return 2 * torch.finfo(dtype).eps + math.sqrt(longest) * torch.finfo(torch.float32).eps


def measured(layer: Layer, activation: str, dtype: torch.dtype, device: torch.device, budget: float) -> dict[str, Any]:
    """Measure one point. Raises the errors of the kernels."""
    torch.manual_seed(0)
    x = torch.randn(layer.rows, layer.inputs, device=device, dtype=dtype, requires_grad=True)
    gradient = torch.randn(layer.rows, layer.outputs, device=device, dtype=dtype)
    both = modules(layer, activation, device, dtype)
    exact = truth(both["theirs"], x, gradient)
    point: dict[str, Any] = {"errors": {who: errors(step(module, x, gradient), exact) for who, module in both.items()}}
    del exact
    bound = allowed(layer, dtype)
    point |= {"allowed": bound, "right": all(error <= bound for error in point["errors"]["ours"].values())}
    if not point["right"]:
        return point

    def forward(module: torch.nn.Module) -> torch.Tensor:
        with torch.no_grad():
            return module(x)

    contestants: dict[str, Callable[[], Any]] = {}
    for who, module in both.items():
        contestants[f"{who} forward"] = functools.partial(forward, module)
        contestants[f"{who} step"] = functools.partial(step, module, x, gradient)
    timings = lab.time(contestants, device=device, budget_s=budget, precision=0.003)
    products = 2 * layer.rows * layer.inputs * layer.outputs
    for part, flops in (("forward", products), ("step", 3 * products)):
        ours, theirs = timings[f"ours {part}"], timings[f"theirs {part}"]
        faster = ratio(theirs, ours)
        point[part] = {
            "flops": flops,
            "ours": ours.to_json(),
            "theirs": theirs.to_json(),
            "ratio": [faster.median, faster.low, faster.high],
        }
    return point


def line(key: str, point: dict[str, Any]) -> str:
    """One line of text for a point."""
    if not point.get("right"):
        return f"{key:20} {point.get('note') or point['errors']['ours']}"
    parts = []
    for part in ("forward", "step"):
        it = point[part]
        faster, low, high = it["ratio"]
        ours, theirs = duration(it["ours"]["median_s"]), duration(it["theirs"]["median_s"])
        parts.append(f"{part} {ours}, theirs {theirs}, {faster:.3f} ({low:.3f}–{high:.3f}) ×")
    worst = {who: max(values.values()) for who, values in point["errors"].items()}
    return f"{key:20} {'; '.join(parts)}; error {worst['ours']:.1e}, theirs {worst['theirs']:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", action="append", choices=LAYERS["bf16"], help="layers; default: all")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="dtypes; default: all")
    parser.add_argument("--budget", type=float, default=1.2, help="seconds to time a point")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no further point is started")
    parser.add_argument("--json", type=Path, default=RESULTS, help="the file of the points")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device: emulated kernels are not timed")
    torch.set_float32_matmul_precision("highest")
    device, began = torch.device("cuda", torch.cuda.current_device()), time.perf_counter()
    points: dict[str, Any] = {}
    kept = {"place": place(device), "environment": environment(device), "points": points}
    for dtype in options.dtype or DTYPES:
        for activation in ACTIVATIONS:
            for name in options.layer or LAYERS[dtype]:
                if time.perf_counter() - began > options.limit:
                    sys.exit("the limit is reached")
                layer, key = LAYERS[dtype][name], f"{dtype} {name} {activation}"
                sizes = {"rows": layer.rows, "inputs": layer.inputs, "outputs": layer.outputs}
                try:
                    points[key] = sizes | measured(layer, activation, DTYPES[dtype], device, options.budget)
                except Exception as problem:  # noqa: BLE001 - a point that fails is recorded
                    points[key] = sizes | {"note": f"{type(problem).__name__}: {problem}".partition("\n")[0]}
                torch.cuda.empty_cache()
                options.json.parent.mkdir(parents=True, exist_ok=True)
                atomic_write(options.json, json.dumps(kept, indent=1) + "\n")
                print(line(key, points[key]), flush=True)


if __name__ == "__main__":
    main()
