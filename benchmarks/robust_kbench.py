"""The MNIST tasks of robust-kbench, unchanged, computed by the operations of the library.

    git clone https://github.com/SakanaAI/robust-kbench
    python benchmarks/robust_kbench.py robust-kbench [--device cpu] [--json FILE]

A task is a folder with PyTorch's function, a model that calls it, and its inputs for several settings; a backward task
has an autograd.Function whose ``backward_fn`` a candidate sets. Each runs twice, with PyTorch's function and with ours,
from the same weights and inputs. Outputs, and for a backward all gradients, may differ by the benchmark's tolerance,
1e-3 relative and absolute. Then both are timed in turn, including the host's time: a forward, or a forward and its
backward.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import torch
from benchmarks.unseen_shapes import loops

from warpwise import ops
from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment
from warpwise.lab.timing.stats import ratio

TOLERANCE = 1e-3
SEED = 42


def conv_relu_pool(x: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor) -> torch.Tensor:
    """relu after the pooling: the same maxima, for a quarter of the values."""
    return torch.relu(ops.max_pool2d(ops.conv2d(x, weights, biases), 2))


def linear_relu(x: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor) -> torch.Tensor:
    return ops.linear(x, weights, biases, activation="relu")


def pulled(function: Callable[..., torch.Tensor], grad: torch.Tensor, *inputs: torch.Tensor) -> Any:
    """The gradients of the floating-point ``inputs``. The forward is computed again: a task passes its inputs only."""
    leaves = [value.detach().requires_grad_(value.is_floating_point()) for value in inputs]
    with torch.enable_grad():
        made = function(*leaves)
    found = torch.autograd.grad(made, [leaf for leaf in leaves if leaf.requires_grad], grad)
    return found if len(found) > 1 else found[0]


def linear_backward(grad: torch.Tensor, x: torch.Tensor, weights: torch.Tensor) -> Any:
    grad = grad.contiguous()
    return ops.matmul(grad, weights), ops.matmul(grad.t(), x), ops.reduce_sum(grad, 0)


FORWARD: Mapping[str, Callable[..., Any]] = {
    "mnist_conv_relu_pool": conv_relu_pool, "mnist_cross_entropy": ops.cross_entropy, "mnist_linear": ops.linear,
    "mnist_linear_relu": linear_relu, "mnist_pool": lambda x: ops.max_pool2d(x, 2),
}  # fmt: skip
BACKWARD: Mapping[str, Callable[..., Any]] = {  # in the order of arguments of each task's backward_fn
    "mnist_conv_relu_pool": lambda x, weights, biases, grad: pulled(conv_relu_pool, grad, x, weights, biases),
    "mnist_cross_entropy": lambda grad, predictions, targets: pulled(ops.cross_entropy, grad, predictions, targets),
    "mnist_linear": linear_backward,
    "mnist_linear_relu": lambda grad, x, weights, biases: pulled(linear_relu, grad, x, weights, biases),
    "mnist_pool": lambda saved, grad: pulled(FORWARD["mnist_pool"], grad, *saved),
}


def load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{file.parent.name}_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settings(file: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The arguments of ``get_inputs`` and of ``Model``, for each combination that the task lists."""
    listed = json.loads(file.read_text())
    names = ("multi_input_configs", "multi_init_configs", "multi_shared_configs")
    found = [
        (inputs | shared, init | shared) for inputs, init, shared in itertools.product(*(listed[n] for n in names))
    ]
    yield from (one for at, one in enumerate(found) if one not in found[:at])


def run(module: ModuleType, function: Callable[..., Any], given: Any, device: torch.device, backward: bool) -> Any:
    """A call of the task's model with ``function``, and with ``backward`` the gradients of weights and inputs."""
    inputs_of, init_of = given
    torch.manual_seed(SEED)
    inputs = [value.detach().to(device).requires_grad_(value.requires_grad) for value in module.get_inputs(**inputs_of)]
    torch.manual_seed(SEED)
    model = module.Model(**init_of).to(device)
    leaves = [value for value in (*inputs, *model.parameters()) if value.requires_grad]

    def call() -> tuple[torch.Tensor, ...]:
        if not backward:
            with torch.no_grad():
                return (model(*inputs, fn=function),)
        made = model(*inputs, fn=function)
        found = torch.autograd.grad(made, leaves, torch.ones_like(made), allow_unused=True)
        return (made.detach(), *(gradient for gradient in found if gradient is not None))

    return call


def fitting(module: ModuleType, name: str, both: tuple[dict[str, Any], dict[str, Any]]) -> Any:
    """The settings that ``get_inputs`` and ``Model`` know."""
    inputs, init = both
    known = [function.__code__.co_varnames for function in (module.get_inputs, module.Model.__init__)]
    return tuple(
        {key: value for key, value in one.items() if key in names}
        for one, names in zip((inputs, init), known, strict=True)
    )


def measured(folder: Path, name: str, backward: bool, device: torch.device, budget: float) -> Iterator[dict[str, Any]]:
    direction = "backward" if backward else "forward"
    module = load(folder / name / f"func_{direction}.py")
    ours = FORWARD[name]
    if backward:
        module.AutogradFunction.backward_fn = staticmethod(BACKWARD[name])
        ours = module.AutogradFunction.apply
    for both in settings(folder / name / f"config_{direction}.json"):
        given = fitting(module, name, both)
        calls = {"ours": run(module, ours, given, device, backward),
                 "theirs": run(module, module.forward_fn, given, device, backward)}  # fmt: skip
        pairs = list(zip(calls["ours"](), calls["theirs"](), strict=True))
        right = all(torch.allclose(left, other, rtol=TOLERANCE, atol=TOLERANCE) for left, other in pairs)
        point = {"task": name, "direction": direction, "settings": given, "right": right}
        point["worst"] = max(float((left - other).abs().max()) for left, other in pairs)
        if right:
            samples = loops(calls, device, budget)
            point["speed"] = ratio(samples["theirs"], samples["ours"]).median
        yield point


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a clone of robust-kbench")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds to time a setting")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.backends.cuda.matmul.fp32_precision = torch.backends.cudnn.conv.fp32_precision = "ieee"
    points = []
    for name, backward in itertools.product(FORWARD, (False, True)):
        for point in measured(options.folder / "tasks", name, backward, device, options.budget):
            points.append(point)
            shown = f"{point['speed']:.2f} × PyTorch" if point["right"] else "WRONG"
            inputs, init = point["settings"]
            print(f"{name} {point['direction']} {inputs | init}: {shown}, differs by {point['worst']:.1e}", flush=True)
    if options.json:
        atomic_write(options.json, json.dumps({"environment": environment(device), "points": points}, indent=1))
    return int(not all(point["right"] for point in points))


if __name__ == "__main__":
    sys.exit(main())
